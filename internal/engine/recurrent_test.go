package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"assay/internal/engine/spec"
	"assay/internal/gguf"
)

// loadArch loads one of the tiny random models of other architectures. They are test
// data of this machine, not of the repository.
func loadArch(t *testing.T, name string, o Options) *Engine {
	t.Helper()
	f, err := gguf.Open(filepath.Join("../../../shared/models/arch/models", name+".gguf"))
	if err != nil {
		t.Skipf("the models of other architectures are not on this machine: %v", err)
	}
	defer f.Close()
	e, err := Load(context.Background(), f, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// Models whose layers remember what can't be cut short write the same, token for
// token and bit for bit of its probabilities, alone and beside others, with and without
// drafts, however often these are right, from a prompt that is read in whole, in
// chunks, or goes on where an earlier one ended or came by. ASSAY_WIDE=1 tries 200 ways
// each.
func TestRecurrentModelsWriteTheSame(t *testing.T) {
	tries, models := 12, []string{"qwen35moe", "qwen4exp", "lfm2moe"}
	switch {
	case testing.Short(): // for the race detector
		tries, models = 2, models[:1]
	case os.Getenv("ASSAY_WIDE") != "":
		tries = 200
	}
	for _, name := range models {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(30, 3))
			alone := loadArch(t, name, Options{Threads: 1, Context: 300})
			var engines []*Engine
			for i := range 4 {
				o := Options{
					Threads: 1 + i%3, Context: 300, Slots: []int{3, 1, 2, 4}[i], Batch: []int{512, 5, 64, 20}[i], Drafts: []int{4, 8, 0, spec.MaxDrafts}[i],
					ReuseBytes: 64 << 20,
				}
				if i == 3 {
					o.ReuseDir = t.TempDir()
				}
				if o.Drafts > 0 {
					o.Drafter = spec.KindSuffix
				}
				if name == "qwen35moe" && i == 0 {
					o.Drafter = spec.KindMTP
				}
				engines = append(engines, loadArch(t, name, o))
			}
			var offered, accepted, cached int
			var mu sync.Mutex
			for try := range tries {
				e := engines[try%len(engines)]
				var wg sync.WaitGroup
				base := randomRequest(r)
				for range 1 + r.IntN(4) {
					q := randomRequest(r)
					q.Prompt = slices.Concat(base.Prompt[:1+r.IntN(len(base.Prompt))], q.Prompt[:min(len(q.Prompt), 20)])
					want, wantResult := whole(t, alone, q)
					if len(e.all) == 1 && r.IntN(2) == 0 {
						ids := make([]int32, len(want))
						for i, tok := range want {
							ids[i] = tok.ID
						}
						draftWith(e, &replay{prompt: len(q.Prompt), text: ids, right: r.Float64(), r: rand.New(rand.NewPCG(1, 2))}, spec.MaxDrafts)
					}
					for _, s := range e.all { // each try drafts from the start
						if s.ahead != nil && len(e.all) == 1 {
							trainWindow(s.ahead)
						}
					}
					one := func() {
						got, result := whole(t, e, q)
						if result.Finish != wantResult.Finish || !slices.EqualFunc(got, want, sameToken) {
							t.Errorf("try %d, %+v: %+v: %d tokens and %q, alone %d and %q", try, e.options, q, len(got), result.Finish, len(want), wantResult.Finish)
						}
						mu.Lock()
						defer mu.Unlock()
						offered, accepted, cached = offered+result.Timings.Offered, accepted+result.Timings.Accepted, cached+result.Timings.Cached
					}
					if len(e.all) == 1 {
						one()
					} else {
						wg.Go(one)
					}
				}
				wg.Wait()
				if t.Failed() {
					return
				}
			}
			how := fmt.Sprintf("%d drafts, %d of them right, %d tokens reused", offered, accepted, cached)
			t.Log(how)
			if !testing.Short() && (accepted == 0 || offered == accepted || cached == 0) {
				t.Errorf("%s: the test proves nothing", how)
			}
		})
	}
}
