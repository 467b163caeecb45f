package engine

import (
	"context"
	"testing"

	"assay/internal/engine/sample"
)

// A token of an answer allocates nothing, whatever is asked of it: neither the
// pass nor the sampler nor what hands it on. (A page of the cache does, once in
// 256 tokens.)
func TestTokensAllocateNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("under the race detector a sync.Pool forgets at random")
	}
	e := load(t, Options{Threads: 2, Context: 512})
	for name, p := range map[string]sample.Params{"greedy": greedy(), "sampled": sample.Defaults()} {
		cost := func(n int) float64 {
			r := Request{Prompt: []int32{42}, MaxTokens: n, Sampling: p, IgnoreEOS: true, Logprobs: -1}
			return testing.AllocsPerRun(5, func() {
				if _, err := e.Generate(context.Background(), r, func(Token) error { return nil }); err != nil {
					t.Fatal(err)
				}
			})
		}
		if few, many := cost(2), cost(102); many > few+1 {
			t.Errorf("%s: 100 tokens more make %.0f allocations more", name, many-few)
		}
	}
}
