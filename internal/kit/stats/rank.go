package stats

import (
	"cmp"
	"errors"
	"math"
	"slices"
)

// Method says how a p was found.
type Method string

// The methods of a test.
const (
	Exact  Method = "exact"  // all arrangements of these very values were counted, ties and all
	Normal Method = "normal" // the normal approximation, with continuity and ties corrected for
)

// Test is the outcome of a test of two samples being alike.
type Test struct {
	Statistic float64 `json:"statistic"` // U of the first sample, or the sum of the ranks of the positive differences
	P         float64 `json:"p"`         // two-sided: twice the smaller tail, at most 1
	Method    Method  `json:"method"`
	N         [2]int  `json:"n"` // values of each sample; pairs that differ, and all pairs, in a paired test
}

const (
	mostExactBoth  = 100 // values of both samples together that are counted exactly
	mostExactPairs = 200
	mostPairs      = 4 << 20 // differences that an interval is picked from
)

// ErrNoValues is returned for an empty sample.
var ErrNoValues = errors.New("no values")

// MannWhitney tests whether two samples come from the same distribution, with
// no assumption about its form, against one lying above the other.
func MannWhitney(x, y []float64) (Test, error) {
	if len(x) == 0 || len(y) == 0 {
		return Test{}, ErrNoValues
	}
	if len(x)+len(y) > mostExactBoth {
		return mannWhitneyNormal(x, y), nil
	}
	return mannWhitneyExact(x, y), nil
}

func mannWhitneyExact(x, y []float64) Test {
	ranks, ties := doubledRanks(slices.Concat(x, y))
	n, sum := len(x), 0
	for _, r := range ranks[:n] {
		sum += r
	}
	t := Test{Statistic: float64(sum)/2 - float64(n*(n+1))/2, Method: Exact, N: [2]int{n, len(y)}}
	// Every choice of n of the ranks is as likely as any other.
	if ties == 0 {
		t.P = twoSided(ofRankSums(n, len(y)), sum/2)
	} else {
		t.P = twoSided(subsets(ranks, n), sum)
	}
	return t
}

func mannWhitneyNormal(x, y []float64) Test {
	n, m := float64(len(x)), float64(len(y))
	ranks, ties := doubledRanks(slices.Concat(x, y))
	sum := 0
	for _, r := range ranks[:len(x)] {
		sum += r
	}
	u := float64(sum)/2 - n*(n+1)/2
	all := n + m
	sigma := math.Sqrt(n * m / 12 * (all + 1 - ties/(all*(all-1))))
	t := Test{Statistic: u, P: 1, Method: Normal, N: [2]int{len(x), len(y)}}
	if sigma > 0 {
		z := (math.Max(u, n*m-u) - n*m/2 - 0.5) / sigma
		t.P = min(1, 2*upper(z))
	}
	return t
}

// SignedRank tests whether the differences of pairs lie around zero. Pairs
// without a difference tell nothing and are left out, as Wilcoxon did.
func SignedRank(differences []float64) (Test, error) {
	if len(differences) == 0 {
		return Test{}, ErrNoValues
	}
	d := slices.DeleteFunc(slices.Clone(differences), func(v float64) bool { return v == 0 })
	away := make([]float64, len(d))
	for i, v := range d {
		away[i] = math.Abs(v)
	}
	ranks, ties := doubledRanks(away)
	sum := 0
	for i, v := range d {
		if v > 0 {
			sum += ranks[i]
		}
	}
	t := Test{Statistic: float64(sum) / 2, P: 1, Method: Exact, N: [2]int{len(d), len(differences)}}
	switch n := float64(len(d)); {
	case n == 0:
	case n <= mostExactPairs:
		t.P = twoSided(signs(ranks), sum)
	default:
		t.Method = Normal
		sigma := math.Sqrt(n*(n+1)*(2*n+1)/24 - ties/48)
		z := (math.Abs(t.Statistic-n*(n+1)/4) - 0.5) / sigma
		t.P = min(1, 2*upper(z))
	}
	return t, nil
}

// doubledRanks gives the ranks of values, counted from 2 in steps of 2 so that
// the middle rank of tied values is whole, and the sum of t^3 - t over the
// numbers t of values that share one.
func doubledRanks(values []float64) ([]int, float64) {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	ranks, ties := make([]int, len(values)), 0.0
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && values[order[to]] == values[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			ranks[i] = from + 1 + to
		}
		t := float64(to - from)
		ties += t*t*t - t
		from = to
	}
	return ranks, ties
}

// subsets counts, by their sum, the ways to choose size of the weights.
func subsets(weights []int, size int) []float64 {
	total := 0
	for _, w := range weights {
		total += w
	}
	ways := make([][]float64, size+1) // by how many are chosen, and their sum
	for i := range ways {
		ways[i] = make([]float64, total+1)
	}
	ways[0][0] = 1
	seen := 0
	for i, w := range weights {
		for k := min(i+1, size); k > 0; k-- {
			for s := seen; s >= 0; s-- {
				if v := ways[k-1][s]; v != 0 {
					ways[k][s+w] += v
				}
			}
		}
		seen += w
	}
	return ways[size]
}

// signs counts, by the sum of what is positive, the ways to give each weight a
// sign.
func signs(weights []int) []float64 {
	total := 0
	for _, w := range weights {
		total += w
	}
	ways := make([]float64, total+1)
	ways[0] = 1
	seen := 0
	for _, w := range weights {
		seen += w
		for s := seen; s >= w; s-- {
			ways[s] += ways[s-w]
		}
	}
	return ways
}

// twoSided is twice the smaller of the shares of ways at and below sum, and at
// and above it.
func twoSided(ways []float64, sum int) float64 {
	low, high := 0.0, 0.0
	for s, w := range ways {
		if s <= sum {
			low += w
		}
		if s >= sum {
			high += w
		}
	}
	all := low + high - ways[sum]
	return min(1, 2*min(low, high)/all)
}

// Holm adjusts the p of several tests so that the chance of any false alarm
// among all of them stays what it would be for one.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	out, largest := make([]float64, len(p)), 0.0
	for place, i := range order {
		largest = max(largest, min(1, p[i]*float64(len(p)-place)))
		out[i] = largest
	}
	return out
}
