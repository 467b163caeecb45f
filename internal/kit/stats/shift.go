package stats

import (
	"fmt"
	"math"
	"slices"
)

// Shift is how far one sample lies above another, by Hodges and Lehmann: the
// middle of all differences, and the interval of those shifts that the rank
// test of the same samples would not refuse.
type Shift struct {
	Middle float64 `json:"middle"`
	Interval
}

// ShiftBetween says how far y lies above x. It wraps ErrTooFew when no
// difference could be shown with so few values, however far they lie apart: for
// 0.95 it needs four of each.
func ShiftBetween(x, y []float64, confidence float64) (Shift, error) {
	if err := checkConfidence(confidence); err != nil {
		return Shift{}, err
	}
	n, m := len(x), len(y)
	if n == 0 || m == 0 {
		return Shift{}, ErrNoValues
	}
	if n > mostPairs/m {
		return Shift{}, fmt.Errorf("%d and %d values are more than an interval is made of (%d differences)", n, m, mostPairs)
	}
	var below func(k int) float64 // P(U < k)
	if n+m <= mostExactBoth {
		below = tail(ofRankSums(n, m)[n*(n+1)/2:]) // of U: the rank sum less its least
	} else {
		mean, sigma := float64(n)*float64(m)/2, math.Sqrt(float64(n)*float64(m)*float64(n+m+1)/12)
		below = func(k int) float64 { return upper((mean - float64(k) + 0.5) / sigma) }
	}
	differences := make([]float64, 0, n*m)
	for _, b := range y {
		for _, a := range x {
			differences = append(differences, b-a)
		}
	}
	s, ok := pick(differences, below, confidence)
	if !ok {
		return s, fmt.Errorf("%w: %d and %d, and an interval of their difference needs %d of each", ErrTooFew, n, m, ShiftNeeds(confidence))
	}
	return s, nil
}

// ShiftOfPairs says how far the differences of pairs lie above zero. It wraps
// ErrTooFew as ShiftBetween does: for 0.95 it needs six pairs.
func ShiftOfPairs(differences []float64, confidence float64) (Shift, error) {
	if err := checkConfidence(confidence); err != nil {
		return Shift{}, err
	}
	n := len(differences)
	if n == 0 {
		return Shift{}, ErrNoValues
	}
	if n > mostPairs/n {
		return Shift{}, fmt.Errorf("%d pairs are more than an interval is made of (%d averages)", n, mostPairs)
	}
	var below func(k int) float64 // P(W < k)
	if n <= mostExactPairs {
		below = tail(ofSignedRanks(n))
	} else {
		f := float64(n)
		mean, sigma := f*(f+1)/4, math.Sqrt(f*(f+1)*(2*f+1)/24)
		below = func(k int) float64 { return upper((mean - float64(k) + 0.5) / sigma) }
	}
	averages := make([]float64, 0, n*(n+1)/2)
	for i, a := range differences {
		for _, b := range differences[i:] {
			averages = append(averages, a/2+b/2)
		}
	}
	s, ok := pick(averages, below, confidence)
	if !ok {
		return s, fmt.Errorf("%w: %d pairs, and an interval of their difference needs %d", ErrTooFew, n, PairsNeeds(confidence))
	}
	return s, nil
}

// plainRanks are the ranks of n values without ties, from 1.
func plainRanks(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i + 1
	}
	return out
}

// tail gives P(fewer than k) of a distribution of counts.
func tail(ways []float64) func(k int) float64 {
	below := make([]float64, len(ways)+1)
	for i, w := range ways {
		below[i+1] = below[i] + w
	}
	all := below[len(ways)]
	return func(k int) float64 { return below[min(k, len(ways))] / all }
}

// pick takes the middle of all and, as ends, the k-th smallest and largest,
// with the largest k that keeps the confidence. It reports false when there is
// none.
func pick(all []float64, below func(k int) float64, confidence float64) (Shift, bool) {
	slices.Sort(all)
	k := 0
	for 2*(k+1) <= len(all)+1 && 2*below(k+1) <= 1-confidence+1e-12 {
		k++
	}
	s := Shift{Middle: middle(all)}
	if k == 0 {
		return s, false
	}
	s.Interval = Interval{all[k-1], all[len(all)-k], 1 - 2*below(k)}
	return s, true
}

// ShiftNeeds is the smallest size of two equal samples of which ShiftBetween
// gives an interval.
func ShiftNeeds(confidence float64) int {
	n, ways := 1, 2.0 // ways to choose n of 2n
	for 2/ways > 1-confidence+1e-12 {
		n++
		ways *= float64(2*(2*n-1)) / float64(n)
	}
	return n
}

// CanShift says whether samples of n and m values can give an interval.
func CanShift(n, m int, confidence float64) bool {
	if n == 0 || m == 0 {
		return false
	}
	ways := 1.0
	for i := 1; i <= n && ways < 1e18; i++ {
		ways *= float64(m+i) / float64(i)
	}
	return 2/ways <= 1-confidence+1e-12
}

// PairsNeeds is the smallest number of pairs of which ShiftOfPairs gives an
// interval.
func PairsNeeds(confidence float64) int { return MedianNeeds(confidence) }
