package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"assay/internal/engine/spec"
)

// What drafts are worth: tokens a second against none, by how often the true
// continuation is guessed, each token by itself. All arms take turns within each
// iteration, so that what else the machine does meets them alike. It reports the
// median of the ratios of neighbours: "x@0.8" is the rate with drafts of which 8 in
// 10 are right over the rate without, "drafts@0.8" how many were made a round, at
// most replayMost; "x@suffix" is of drafts of what followed before, and "x@mtp" of
// those of the built-in model's own block. ASSAY_BENCH_MODEL names a model's file, ASSAY_BENCH_TOKENS how
// many tokens an arm generates (256).
func BenchmarkReplay(b *testing.B) {
	const replayMost = 8
	o := Options{Threads: 2, Context: 1024}
	if os.Getenv("ASSAY_BENCH_MODEL") == "" {
		o.Drafts, o.Head = 1, openGGUF(b, "seedling-15m-mtp-q8_0.gguf")
	}
	e, err := loadBench(o)
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	n := 256
	if v, err := strconv.Atoi(os.Getenv("ASSAY_BENCH_TOKENS")); err == nil {
		n = v
	}
	q := Request{Prompt: []int32{42, 43, 44, 45, 46, 47, 48}, MaxTokens: n, Sampling: greedy(), IgnoreEOS: true, Logprobs: -1}
	run := func(text *[]int32) (float64, Timings) {
		r, err := e.Generate(context.Background(), q, func(tok Token) error {
			if text != nil {
				*text = append(*text, tok.ID)
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		return float64(r.Timings.Predicted-1) / r.Timings.DecodeTime.Seconds(), r.Timings
	}
	var text []int32
	run(&text)
	r := rand.New(rand.NewPCG(1, 2))
	type arm struct {
		name    string
		drafter spec.Drafter
	}
	var arms []arm
	for _, right := range []float64{0, 0.5, 0.8, 1} {
		arms = append(arms, arm{fmt.Sprint(right), &replay{prompt: len(q.Prompt), text: text, right: right, r: r}})
	}
	arms = append(arms, arm{"suffix", spec.NewSuffix(e.options.Context)})
	if e.head != nil {
		arms = append(arms, arm{"mtp", e.newDrafter()})
	}
	ratios, drafts := make([][]float64, len(arms)), make([][]float64, len(arms))
	var off []float64
	for b.Loop() {
		noDrafts(e)
		before, _ := run(nil)
		off = append(off, before)
		for i, a := range arms {
			draftWith(e, a.drafter, replayMost)
			rate, t := run(nil)
			noDrafts(e)
			after, _ := run(nil)
			ratios[i] = append(ratios[i], 2*rate/(before+after))
			drafts[i] = append(drafts[i], float64(t.Offered)/float64(t.Rounds))
			before, off = after, append(off, after)
		}
	}
	b.ReportMetric(middle(off), "tok/s-off")
	for i, a := range arms {
		b.ReportMetric(middle(ratios[i]), "x@"+a.name)
		b.ReportMetric(middle(drafts[i]), "drafts@"+a.name)
	}
}

// noDrafts makes the engine's only slot draft nothing.
func noDrafts(e *Engine) {
	s := <-e.slots
	s.ahead = nil
	e.slots <- s
}

func middle(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}
