package cli

import (
	"math"
	"slices"
	"testing"
	"time"

	"assay/internal/engine"
)

// The lists multiply out in an order that loads a model once a number of
// threads, and fills a depth once.
func TestSpeedTests(t *testing.T) {
	o := speedOptions{prompts: []int{512, 0}, gens: []int{128}, drafts: []int{0}, depths: []int{0, 4096}, threads: []int{1, 2}, repetitions: 1, keyType: cacheType, valueType: cacheType}
	tests, err := o.tests()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range tests[:4] {
		if x.threads != 1 {
			t.Errorf("%+v comes before the second number of threads", x)
		}
		got = append(got, x.name())
	}
	if want := []string{"pp512", "tg128", "pp512 @ d4096", "tg128 @ d4096"}; len(tests) != 8 || !slices.Equal(got, want) {
		t.Errorf("%d tests, first %v, want 8 and %v", len(tests), got, want)
	}
}

// Figures follow from the samples: 100 tokens in 2 s, read from a memory of 10
// GB/s and computed at a peak of 1000 Gop/s.
func TestSpeedJudge(t *testing.T) {
	read, peak := 10.0, 1000.0
	demand := engine.Demand{Weights: 1000e6, Memory: 1250e6, PerToken: 100e6, Operations: 4e9, KVPosition: 1e5}
	r := &speedResult{Gen: 100, Read: &read, Peak: &peak}
	r.sample(2 * time.Second)
	r.sample(3 * time.Second)
	r.sample(time.Second)
	r.judge(speedTest{gen: 100, depth: 200}, demand)
	near := func(what string, got *float64, want float64) {
		t.Helper()
		if got == nil || math.Abs(*got-want) > 1e-9*want {
			t.Errorf("%s: %v, want %g", what, got, want)
		}
	}
	bytes := 125e6 + 249.5*1e5
	near("tok/s", &r.Summary.Median, 50)
	near("bytes a token", r.Bytes, bytes)
	near("GB/s", r.GBs, bytes*50/1e9)
	near("share of memory's rate", r.Share, bytes*50/1e10)
	near("Gop/s", &r.Gops, 200)
	near("share of the peak", r.OfPeak, 0.2)

	// A prompt's tokens share what they read; and without a machine's figure
	// there is no share.
	r = &speedResult{Prompt: 100, Read: &read}
	r.sample(time.Second)
	r.judge(speedTest{prompt: 100}, demand)
	if r.Bytes != nil || r.GBs != nil || r.Share != nil || r.OfPeak != nil {
		t.Errorf("%+v", r)
	}
}

func TestMeanAndDeviation(t *testing.T) {
	if m, d := meanAndDeviation([]float64{1, 2, 3, 4}); m != 2.5 || math.Abs(d-math.Sqrt(5.0/3)) > 1e-12 {
		t.Errorf("%g, %g", m, d)
	}
	if m, d := meanAndDeviation([]float64{7}); m != 7 || d != 0 {
		t.Errorf("%g, %g", m, d)
	}
}
