// Package stats describes small samples of one figure, and says how far two of
// them differ: medians, ranges, intervals and tests that go by ranks alone.
//
// The caller's runs are few (three, six, ten), their distribution is skewed and
// a single one may be far off, so the package gives medians and ranges, never
// means and standard deviations, assumes no form of a distribution, counts all
// arrangements of the very values where it can, and refuses a percentile or an
// interval that the sample is too small to carry.
//
// golang.org/x/perf/benchmath has the median's interval and the Mann-Whitney
// test, but no paired test, no interval of a difference and no correction for
// several tests, and beyond 25 values it counts no ties exactly. All figures here
// are held against scipy's; see tools/stats.
package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Summary describes a sample, in the unit of its values.
type Summary struct {
	N      int     `json:"n"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Summarize describes values, in any order. It reports false when there are
// none.
func Summarize(values []float64) (Summary, bool) {
	if len(values) == 0 {
		return Summary{}, false
	}
	v := slices.Sorted(slices.Values(values))
	return Summary{N: len(v), Median: middle(v), Min: v[0], Max: v[len(v)-1]}, true
}

// middle is the median of sorted values: the middle one, or halfway between
// the two in the middle.
func middle(v []float64) float64 {
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return v[n/2-1] + (v[n/2]-v[n/2-1])/2
}

// ErrTooFew is why Quantile gives no value.
var ErrTooFew = errors.New("too few values")

// Quantile is the smallest of values that at least the share p of them do not
// exceed (nearest rank), 0 < p < 1. It wraps ErrTooFew when the sample has
// fewer values than SamplesFor(p).
func Quantile(values []float64, p float64) (float64, error) {
	if !(p > 0 && p < 1) {
		return 0, fmt.Errorf("quantile %v is not between 0 and 1", p)
	}
	if need := SamplesFor(p); len(values) < need {
		return 0, fmt.Errorf("%w: %d, and p%s needs %d", ErrTooFew, len(values), percent(p), need)
	}
	v := slices.Sorted(slices.Values(values))
	// The product may come out a hair above a whole number.
	rank := int(math.Ceil(p*float64(len(v)) - 1e-9))
	return v[min(max(rank, 1), len(v))-1], nil
}

func percent(p float64) string { return fmt.Sprintf("%.6g", 100*p) }

// SamplesFor is the smallest sample that carries the quantile p: with it, two
// values or more lie beyond the true quantile with 99 % confidence. These are
// the smallest samples of MLPerf Inference's early stopping: 64 for p90, 662
// for p99.
func SamplesFor(p float64) int {
	tail := min(p, 1-p)
	const doubt = 0.01
	// P(at most one of n lies in the tail), which falls as n grows.
	few := func(n int) float64 {
		return math.Pow(1-tail, float64(n)) + float64(n)*tail*math.Pow(1-tail, float64(n-1))
	}
	low, high := 1, 2
	for few(high) > doubt {
		low, high = high, 2*high
		if high > math.MaxInt/4 {
			return math.MaxInt
		}
	}
	for low+1 < high {
		if mid := low + (high-low)/2; few(mid) > doubt {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}
