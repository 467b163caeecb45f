package stats

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSummarize(t *testing.T) {
	tests := map[string]struct {
		values []float64
		want   Summary
		ok     bool
	}{
		"none":         {nil, Summary{}, false},
		"one":          {[]float64{3}, Summary{1, 3, 3, 3}, true},
		"two":          {[]float64{4, 1}, Summary{2, 2.5, 1, 4}, true},
		"three":        {[]float64{202.136, 212.961, 205.263}, Summary{3, 205.263, 202.136, 212.961}, true},
		"one far off":  {[]float64{10, 11, 12, 9, 1000, 10}, Summary{6, 10.5, 9, 1000}, true},
		"large values": {[]float64{math.MaxFloat64, math.MaxFloat64}, Summary{2, math.MaxFloat64, math.MaxFloat64, math.MaxFloat64}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(tt.values)
			got, ok := Summarize(tt.values)
			if got != tt.want || ok != tt.ok {
				t.Errorf("%v, %v, want %v, %v", got, ok, tt.want, tt.ok)
			}
			if !slices.Equal(before, tt.values) {
				t.Error("the caller's values were moved")
			}
		})
	}
}

// Half of the values lie on either side of a median, whatever their order, and
// it moves and scales with them.
func TestMedianProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 50).Draw(t, "values")
		s, _ := Summarize(v)
		below, above := 0, 0
		for _, x := range v {
			if x < s.Median {
				below++
			}
			if x > s.Median {
				above++
			}
		}
		if 2*below > len(v) || 2*above > len(v) || s.Min > s.Median || s.Median > s.Max {
			t.Fatalf("%+v: %d below, %d above of %d", s, below, above, len(v))
		}
		shuffled := rapid.Permutation(v).Draw(t, "shuffled")
		if got, _ := Summarize(shuffled); got != s {
			t.Fatalf("another order gives %+v, not %+v", got, s)
		}
		moved := make([]float64, len(v))
		for i, x := range v {
			moved[i] = 2*x + 8
		}
		if got, _ := Summarize(moved); math.Abs(got.Median-(2*s.Median+8)) > 1e-6 {
			t.Fatalf("moved: %v, want %v", got.Median, 2*s.Median+8)
		}
	})
}

// MLPerf Inference publishes the numbers for p90 and p99.
func TestSamplesFor(t *testing.T) {
	for p, want := range map[float64]int{0.9: 64, 0.99: 662, 0.1: 64, 0.5: 11, 0.999: 6636} {
		if got := SamplesFor(p); got != want {
			t.Errorf("SamplesFor(%v) = %d, want %d", p, got, want)
		}
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[99-i] = float64(i + 1)
	}
	for p, want := range map[float64]float64{0.9: 90, 0.5: 50, 0.1: 10, 0.55: 55, 0.905: 91} {
		if got, err := Quantile(hundred, p); err != nil || got != want {
			t.Errorf("p = %v: %v, %v, want %v", p, got, err, want)
		}
	}
	for p, want := range map[float64]string{
		0.99: "too few values: 100, and p99 needs 662",
		0:    "quantile 0 is not between 0 and 1",
		1:    "quantile 1 is not between 0 and 1",
	} {
		if _, err := Quantile(hundred, p); err == nil || err.Error() != want {
			t.Errorf("p = %v: error %v, want %q", p, err, want)
		}
	}
	if _, err := Quantile([]float64{1, 2, 3}, 0.99); !errors.Is(err, ErrTooFew) {
		t.Errorf("p99 of three: %v", err)
	}
	if _, err := Quantile(hundred, math.NaN()); err == nil || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("NaN: %v", err)
	}
}

// At least the asked share lies at or below a quantile, and less than it below.
func TestQuantileProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := float64(rapid.IntRange(1, 95).Draw(t, "percent")) / 100
		v := rapid.SliceOfN(rapid.Float64Range(0, 10), SamplesFor(p), SamplesFor(p)+40).Draw(t, "values")
		q, err := Quantile(v, p)
		if err != nil {
			t.Fatal(err)
		}
		at, below := 0, 0
		for _, x := range v {
			if x <= q {
				at++
			}
			if x < q {
				below++
			}
		}
		n := float64(len(v))
		if float64(at) < p*n-1e-6 || float64(below) >= p*n {
			t.Fatalf("p = %v, q = %v: %d at or below, %d below of %v", p, q, at, below, n)
		}
	})
}
