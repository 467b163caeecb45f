package engine

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"assay/internal/engine/grammar"
	"assay/internal/engine/sample"
	"assay/internal/tokenizer"
)

// A form is kept, and ends, within windows as without: its masks, its forced tokens
// and the room that it must be completed in are those of each token's own place.
func TestDraftsKeepToForms(t *testing.T) {
	plain := load(t, Options{Threads: 2, Context: 300})
	drafting := load(t, Options{Threads: 2, Context: 300, Drafts: 8})
	v := grammar.NewVocabulary(plain.Tokenizer())
	prompt := plain.Tokenizer().Encode("Alice and the Queen", tokenizer.Options{})
	r := rand.New(rand.NewPCG(5, 1))
	accepted, forced := 0, 0
	for i, schema := range []string{
		`{"type":"object","properties":{"name":{"type":"string","maxLength":12},"age":{"type":"integer"}},"required":["name","age"],"additionalProperties":false}`,
		`{"type":"array","items":{"enum":["yes","no","perhaps"]},"minItems":3,"maxItems":9}`,
		`{"type":"string","maxLength":60}`,
		`{}`,
	} {
		e, err := grammar.Schema(json.RawMessage(schema))
		if err != nil {
			t.Fatal(err)
		}
		g, err := grammar.Compile(e, v)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range 4 {
			if testing.Short() && seed > 0 {
				break
			}
			q := Request{Prompt: prompt, MaxTokens: 12 + 15*seed, Logprobs: 2, Sampling: greedy()}
			if seed > 0 {
				q.Sampling = sample.Params{Seed: uint64(seed), Temperature: 0.8, TopP: 1, RepeatPenalty: 1}
			}
			q.Constraint = g.Matcher()
			want, wantResult := whole(t, plain, q)
			ids := make([]int32, len(want))
			for k, tok := range want {
				ids[k] = tok.ID
			}
			for _, right := range []float64{0, 0.7, 1} {
				draftWith(drafting, &replay{prompt: len(q.Prompt), text: ids, right: right, r: r}, 8)
				trained(drafting)
				q.Constraint = g.Matcher()
				got, result := whole(t, drafting, q)
				if what := fmt.Sprintf("schema %d, seed %d, drafts right at %g", i, seed, right); result.Finish != wantResult.Finish || !slices.EqualFunc(got, want, sameToken) {
					t.Errorf("%s: %d tokens and %q, want %d and %q", what, len(got), result.Finish, len(want), wantResult.Finish)
				}
				accepted += result.Timings.Accepted
			}
			if wantResult.Timings.Predicted == q.MaxTokens {
				forced++
			}
		}
	}
	if accepted == 0 || forced == 0 && !testing.Short() {
		t.Errorf("%d drafts were accepted, %d forms were pressed for room: the test proves nothing", accepted, forced)
	}
}
