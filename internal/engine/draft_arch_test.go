package engine

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/engine/sample"
	"assay/internal/engine/spec"
	"assay/internal/gguf"
)

// Every architecture takes drafts back exactly, those with recurrent layers too: with
// drafts of which all, some or none are right, with those of the suffix, and of the
// model's own block where it has one, which stays in memory where experts do not.
func TestDraftsOfOtherArchitectures(t *testing.T) {
	if testing.Short() {
		t.Skip("compares numbers, and shares nothing between goroutines")
	}
	tries := 2
	if os.Getenv("ASSAY_WIDE") != "" {
		tries = 12
	}
	files, err := filepath.Glob("../../../shared/models/arch/models/*.gguf")
	if err != nil || len(files) == 0 {
		t.Skip("the models of other architectures are not on this machine")
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := CanRun(f); err != nil {
				t.Skip(err)
			}
			e, err := Load(context.Background(), f, Options{Threads: 2, Context: 256}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			var heads []*Engine // that draft with the model's own block
			for _, experts := range []int64{0, 4 << 20} {
				h, err := Load(context.Background(), f, Options{Threads: 1, Context: 256, Drafts: 6, Drafter: spec.KindMTP, ExpertRAM: experts}, nil)
				if err != nil && strings.Contains(err.Error(), "has no block that drafts") {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				defer h.Close()
				heads = append(heads, h)
			}
			if len(heads) > 0 { // it is loaded where it is used
				_, without, _ := e.HugeBytes()
				if _, with, _ := heads[0].HugeBytes(); without >= with {
					t.Errorf("%d bytes of weights without the block that drafts, %d with it", without, with)
				}
			}
			r := rand.New(rand.NewPCG(3, 1))
			accepted, wrong := 0, 0
			for try := range tries {
				q := Request{MaxTokens: 40, Sampling: greedy(), IgnoreEOS: true, Logprobs: 1}
				if try%2 == 1 {
					q.Sampling = sample.Params{Seed: uint64(try), Temperature: 0.7, TopP: 1, RepeatPenalty: 1}
				}
				for range 1 + r.IntN(40) {
					q.Prompt = append(q.Prompt, r.Int32N(20))
				}
				noDrafts(e)
				want, _ := whole(t, e, q)
				ids := make([]int32, len(want))
				for i, tok := range want {
					ids[i] = tok.ID
				}
				check := func(how string, e *Engine) {
					trained(e)
					got, result := whole(t, e, q)
					if !slices.EqualFunc(got, want, sameToken) {
						t.Errorf("try %d, drafts by %s: another text", try, how)
					}
					accepted += result.Timings.Accepted
					wrong += result.Timings.Offered - result.Timings.Accepted
				}
				for _, right := range []float64{0, 0.5, 0.8, 1} {
					draftWith(e, &replay{prompt: len(q.Prompt), text: ids, right: right, r: r}, 1+r.IntN(spec.MaxDrafts))
					check("replay", e)
				}
				draftWith(e, spec.NewSuffix(256), 4)
				check("suffix", e)
				for _, h := range heads {
					check("the model's own block", h)
				}
			}
			if accepted == 0 || wrong == 0 {
				t.Errorf("%d drafts were right, %d wrong: the test proves nothing", accepted, wrong)
			}
			t.Logf("%d drafts right, %d wrong; %d engines with a block that drafts", accepted, wrong, len(heads))
		})
	}
}
