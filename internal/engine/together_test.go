package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// What several sequences write together, against what one writes: as times of it, and
// as a share of the bound by the experts that a round reads. A round of n sequences
// reads the dense weights once and each expert once, however many of them chose it; at
// the rate at which one sequence's rounds read theirs, n sequences would write
//
//	bound = n * bytes of a round of one / bytes of a round of n
//
// times as much. Rounds of one are measured between those of n, on the same seconds.
//
//	ASSAY_BENCH_MODEL=FILE go test ./internal/engine -run '^$' -bench Together -benchtime 10x
func BenchmarkTogether(b *testing.B) {
	f, err := benchFile()
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	d, err := DemandOf(f, Options{})
	if err != nil {
		b.Fatal(err)
	}
	const most, tokens = 8, 96
	e, err := Load(context.Background(), f, Options{Threads: 2, Context: 512, Slots: most}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	// write returns the tokens a second of n sequences, their prompts left out, and the
	// experts of a round.
	write := func(n int) (rate, experts float64) {
		var wg, ready sync.WaitGroup
		ready.Add(n)
		start := make(chan struct{})
		for i := range n {
			wg.Go(func() {
				q := Request{Prompt: []int32{int32(42 + 13*i), int32(300 + 7*i), int32(500 + i)}, MaxTokens: tokens + 1, Sampling: greedy(), IgnoreEOS: true, Logprobs: -1}
				first := true
				if _, err := e.Generate(context.Background(), q, func(Token) error {
					if first {
						first = false
						ready.Done()
						<-start
					}
					return nil
				}); err != nil {
					b.Error(err)
				}
			})
		}
		ready.Wait()
		before := e.Stats()
		began := time.Now()
		close(start)
		wg.Wait()
		took, after := time.Since(began), e.Stats()
		return float64(n*tokens) / took.Seconds(), float64(after.Experts-before.Experts) / float64(after.Rounds-before.Rounds)
	}
	for _, n := range []int{2, 4, 8} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var ratios []float64
			var rate, one, many float64
			for b.Loop() {
				alone, used := write(1)
				var together float64
				together, many = write(n)
				again, _ := write(1)
				one = used
				ratios = append(ratios, together/((alone+again)/2))
				rate = max(rate, together)
			}
			slices.Sort(ratios)
			times := ratios[len(ratios)/2]
			bound := float64(n) * d.RoundReads(one) / d.RoundReads(many)
			b.ReportMetric(rate, "tok/s")
			b.ReportMetric(times, "times")
			b.ReportMetric(bound, "bound")
			b.ReportMetric(times/bound, "of-bound")
			b.ReportMetric(many, "experts/round")
		})
	}
}
