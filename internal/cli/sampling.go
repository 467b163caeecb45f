package cli

import (
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/spf13/cobra"

	"assay/internal/engine"
	"assay/internal/engine/sample"
)

// samplingFlags say how tokens are drawn, in the commands that generate.
type samplingFlags struct {
	params    sample.Params
	seed      int64
	maxTokens int
	ignoreEOS bool
}

func (o *samplingFlags) register(cmd *cobra.Command, maxTokens int) {
	d := sample.Defaults()
	o.params = d
	f, p := cmd.Flags(), &o.params
	f.IntVarP(&o.maxTokens, "max-tokens", "n", maxTokens, "tokens to generate at most (-1: as many as fit)")
	f.Int64VarP(&o.seed, "seed", "s", -1, "seed of the draws (-1: a new one each time)")
	f.Float32Var(&p.Temperature, "temperature", d.Temperature, "0 takes the best token each time")
	f.IntVar(&p.TopK, "top-k", d.TopK, "draw from the k best (0: from all)")
	f.Float32Var(&p.TopP, "top-p", d.TopP, "draw from the best that together have this probability (1: from all)")
	f.Float32Var(&p.MinP, "min-p", d.MinP, "drop those below this share of the best one's probability (0: none)")
	f.Float32Var(&p.RepeatPenalty, "repeat-penalty", d.RepeatPenalty, "divides the logits of recent tokens (1: none)")
	f.IntVar(&p.RepeatLastN, "repeat-last-n", d.RepeatLastN, "recent tokens that penalties look at (-1: the context, 0: none)")
	f.Float32Var(&p.PresencePenalty, "presence-penalty", d.PresencePenalty, "taken off recent tokens' logits (0: none)")
	f.Float32Var(&p.FrequencyPenalty, "frequency-penalty", d.FrequencyPenalty, "taken off once for each time a recent token came (0: none)")
	f.BoolVar(&o.ignoreEOS, "ignore-eos", false, "never draw an end token")
}

func (o *samplingFlags) check() error {
	if o.maxTokens < -1 || o.maxTokens == 0 {
		return usagef("--max-tokens: %d is not a number of tokens (want at least 1, or -1 for as many as fit)", o.maxTokens)
	}
	if err := o.params.Validate(); err != nil {
		return usagef("%w", err)
	}
	return nil
}

// request is what to ask the engine for; without a seed one is drawn.
func (o *samplingFlags) request(prompt []int32) engine.Request {
	p := o.params
	p.Seed = uint64(o.seed)
	if o.seed == -1 {
		p.Seed = rand.Uint64()
	}
	return engine.Request{Prompt: prompt, MaxTokens: o.maxTokens, Sampling: p, IgnoreEOS: o.ignoreEOS, Logprobs: -1}
}

// printTimings says what a request cost, in one line. Rates are over n-1 tokens,
// since the first one's time belongs to the prompt.
func printTimings(w io.Writer, t engine.Timings, finish string) {
	drafts := ""
	if t.Offered > 0 {
		drafts = fmt.Sprintf(", drafts accepted %d of %d in %d rounds", t.Accepted, t.Offered, t.Rounds)
	}
	reused := ""
	if t.Cached > 0 {
		reused = fmt.Sprintf(" (and %d reused)", t.Cached)
	}
	fmt.Fprintf(w, "prompt %d tokens%s in %.2f s (%s tok/s), %d generated in %.2f s (%s tok/s)%s, finish %s\n",
		t.Prompt, reused, t.PromptTime.Seconds(), rate(t.Prompt, t.PromptTime.Seconds()),
		t.Predicted, t.DecodeTime.Seconds(), rate(t.Predicted-1, t.DecodeTime.Seconds()), drafts, finish)
}

// rate is n per second, or a dash where there is nothing to divide.
func rate(n int, seconds float64) string {
	if n <= 0 || seconds <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(n)/seconds)
}
