package guard

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"assay/internal/kit/plan"
)

const (
	mib = 1 << 20
	s   = time.Second
)

func series(q plan.Quantity, every time.Duration, values ...float64) []Reading {
	var out []Reading
	for i, v := range values {
		r := Reading{At: time.Duration(i) * every, Values: map[plan.Quantity]float64{}}
		if v >= 0 { // -1: could not be read
			r.Values[q] = v
		}
		out = append(out, r)
	}
	return out
}

// Each case was worked out by hand.
func TestFirst(t *testing.T) {
	memory := plan.Limit{Quantity: plan.MemoryAvailable, Value: 256 * mib, Then: plan.End}
	hot := plan.Limit{Quantity: plan.GPUTemperature, Value: 85, For: 3 * s, Then: plan.Next}
	for name, c := range map[string]struct {
		limits   []plan.Limit
		readings []Reading
		want     *Trip
		text     string
	}{
		"never beyond":     {[]plan.Limit{memory}, series(plan.MemoryAvailable, s, 300*mib, 257*mib, 256*mib), nil, ""}, // at it is not beyond it
		"no limits":        {nil, series(plan.MemoryAvailable, s, 0), nil, ""},
		"nothing read":     {[]plan.Limit{memory}, series(plan.MemoryAvailable, s, -1, -1), nil, ""},
		"at once":          {[]plan.Limit{memory}, series(plan.MemoryAvailable, s, 300*mib, 200*mib, 100*mib), &Trip{memory, 200 * mib, 200 * mib, s, s, 1}, "memory_available was 200MiB, under the limit of 256MiB"},
		"long enough":      {[]plan.Limit{hot}, series(plan.GPUTemperature, s, 80, 86, 90, 87, 88, 70), &Trip{hot, 88, 90, s, 4 * s, 4}, "gpu_temperature was 88 °C, over the limit of 85 °C; beyond it from 1s on, in 4 readings, 90 °C at worst"},
		"too short":        {[]plan.Limit{hot}, series(plan.GPUTemperature, s, 86, 90, 87, 85, 88, 89, 90), nil, ""},
		"a gap in between": {[]plan.Limit{hot}, series(plan.GPUTemperature, s, 86, -1, -1, 87), &Trip{hot, 87, 87, 0, 3 * s, 2}, "gpu_temperature was 87 °C, over the limit of 85 °C; beyond it from 0s on, in 2 readings, 87 °C at worst"},
		"a gap at the end": {[]plan.Limit{hot}, series(plan.GPUTemperature, s, 86, 87, -1, -1, -1), nil, ""},
		"the time is one":  {[]plan.Limit{{Quantity: plan.RunTime, Value: 2.5, Then: plan.Next}}, series(plan.DiskFree, s, 1, 1, 1, 1), &Trip{plan.Limit{Quantity: plan.RunTime, Value: 2.5, Then: plan.Next}, 3, 3, 3 * s, 3 * s, 1}, "the run took 3s, over the limit of 2.5s"},
		"the end goes first": {
			[]plan.Limit{{Quantity: plan.RunTime, Value: 1, Then: plan.Next}, memory},
			series(plan.MemoryAvailable, 2*s, 300*mib, 100*mib), &Trip{memory, 100 * mib, 100 * mib, 2 * s, 2 * s, 1}, "memory_available was 100MiB, under the limit of 256MiB",
		},
		"then the plan's order": {
			[]plan.Limit{{Quantity: plan.DiskFree, Value: 5, Then: plan.End}, {Quantity: plan.RunTime, Value: 1, Then: plan.End}},
			series(plan.DiskFree, 2*s, 9, 4), &Trip{plan.Limit{Quantity: plan.DiskFree, Value: 5, Then: plan.End}, 4, 4, 2 * s, 2 * s, 1}, "disk_free was 4B, under the limit of 5B",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := First(c.limits, c.readings)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			if got != nil && got.String() != c.text {
				t.Errorf("got  %s\nwant %s", got, c.text)
			}
		})
	}
}

// Against the definition: a limit is reached at the first reading that ends a
// row of readings beyond it, none of them within, that is long enough.
func TestFirstByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := plan.Limit{Quantity: plan.CPUTemperature, Value: 50, For: time.Duration(rapid.IntRange(0, 5).Draw(t, "for")) * s}
		values := rapid.SliceOfN(rapid.SampledFrom([]float64{-1, 49, 50, 51, 60}), 0, 12).Draw(t, "values")
		var want *time.Duration
	outer:
		for end, v := range values {
			if v <= 50 {
				continue
			}
			for begin := 0; begin <= end; begin++ {
				if values[begin] <= 50 {
					continue
				}
				whole := true
				for _, v := range values[begin : end+1] {
					whole = whole && (v < 0 || v > 50)
				}
				if whole && time.Duration(end-begin)*s >= l.For {
					at := time.Duration(end) * s
					want = &at
					break outer
				}
			}
		}
		got := First([]plan.Limit{l}, series(plan.CPUTemperature, s, values...))
		if (got == nil) != (want == nil) || got != nil && got.At != *want {
			t.Fatalf("%v: got %+v, want at %v", values, got, want)
		}
	})
}
