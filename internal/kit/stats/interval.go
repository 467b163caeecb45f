package stats

import (
	"fmt"
	"math"
	"slices"
)

// Interval is where a figure lies, with the confidence that the method really
// has: few values allow only certain steps, so it is the asked one or more.
type Interval struct {
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"` // 0.95 is 95 %
}

// Contains says whether v lies within the interval, its ends included.
func (i Interval) Contains(v float64) bool { return i.Low <= v && v <= i.High }

// MedianInterval is an interval that holds the median of what the values were
// drawn from, from their order alone: the k-th smallest to the k-th largest,
// with the largest k that keeps the confidence. It wraps ErrTooFew when even
// the smallest and the largest don't: for 0.95 it needs six.
func MedianInterval(values []float64, confidence float64) (Interval, error) {
	if err := checkConfidence(confidence); err != nil {
		return Interval{}, err
	}
	n := len(values)
	v := slices.Sorted(slices.Values(values))
	// The number of values under the median is binomial with p = 1/2. term is
	// P(it is k), below P(it is under k).
	term, below, missed := math.Pow(0.5, float64(n)), 0.0, 0.0
	if n > 1000 { // the power is 0 then
		return bigMedianInterval(v, confidence), nil
	}
	k := 0
	for ; k < n/2; k++ {
		if 2*(below+term) > 1-confidence {
			break
		}
		below += term
		missed = 2 * below
		term *= float64(n-k) / float64(k+1)
	}
	if k == 0 {
		return Interval{}, fmt.Errorf("%w: %d, and an interval of the median needs %d", ErrTooFew, n, MedianNeeds(confidence))
	}
	return Interval{v[k-1], v[n-k], 1 - missed}, nil
}

// bigMedianInterval takes the binomial distribution of so many values for
// normal, which at this size moves the ends by one place at most.
func bigMedianInterval(sorted []float64, confidence float64) Interval {
	n := float64(len(sorted))
	k := int(math.Floor((n - zFor(confidence)*math.Sqrt(n)) / 2))
	return Interval{sorted[k-1], sorted[len(sorted)-k], confidence}
}

// MedianNeeds is the smallest sample of which MedianInterval gives an interval.
func MedianNeeds(confidence float64) int {
	n := 2
	for math.Pow(0.5, float64(n-1)) > 1-confidence {
		n++
	}
	return n
}

func checkConfidence(c float64) error {
	if !(c > 0 && c < 1) {
		return fmt.Errorf("confidence %v is not between 0 and 1", c)
	}
	return nil
}

// zFor is how many standard deviations on either side hold the share c of a
// normal distribution.
func zFor(c float64) float64 { return math.Sqrt2 * math.Erfinv(c) }

// upper is the probability of more than z standard deviations above the mean.
func upper(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }

// outlierLimit is how many robust standard deviations away a value is told of:
// Iglewicz and Hoaglin's 3.5.
const outlierLimit = 3.5

// Outliers gives the indices of values that lie far from the middle of all, by
// the median of the distances to it: a sample's few bad values can't hide
// themselves as they do in a standard deviation. Below five values there are
// none, nor where half of the values are equal.
func Outliers(values []float64) []int {
	if len(values) < 5 {
		return nil
	}
	center := middle(slices.Sorted(slices.Values(values)))
	away := make([]float64, len(values))
	for i, v := range values {
		away[i] = math.Abs(v - center)
	}
	// 1.4826 makes the median distance of a normal distribution its standard
	// deviation.
	limit := outlierLimit * 1.4826 * middle(slices.Sorted(slices.Values(away)))
	if limit == 0 {
		return nil
	}
	var out []int
	for i, d := range away {
		if d > limit {
			out = append(out, i)
		}
	}
	return out
}
