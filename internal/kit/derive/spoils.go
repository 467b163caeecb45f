package derive

import (
	"fmt"

	"assay/internal/kit/figure"
)

// spoils looks for what makes the run another one than was asked for: by the
// engine's own signs, which its adapter knows, and by our count of the prompt.
func (s *source) spoils(in *figure.Inputs) {
	found := s.adapter.Spoils(s.engineSide())
	in.Checks.PromptCut, in.Checks.ModelLoad = found.PromptCut, found.ModelLoad
	if in.Checks.PromptCut == "" {
		in.Checks.PromptCut = s.promptCut(in)
	}
}

// templateRoom is how many tokens a chat template may add to a prompt. The server
// may have another template than the model's file.
const templateRoom = 256

// promptCut holds the server's count of the prompt against ours. Whatever the
// template, the text of the prompt is all in it.
func (s *source) promptCut(in *figure.Inputs) string {
	p, plan := &s.facts.Prompt, &s.facts.Plan
	if in.PromptTokens == nil || p.Total == nil || in.WarmCache {
		return "" // a count may leave out what came from a cache
	}
	least := *p.Total - templateRoom
	if plan.Ctx > 0 && plan.Turn == 0 {
		least = min(*p.Total, plan.Ctx)
	}
	if *in.PromptTokens >= least {
		return ""
	}
	return fmt.Sprintf("the server counts %d tokens of a prompt that has %d by our count: it cut the prompt, took the rest from a cache without a word, or has another tokenizer", *in.PromptTokens, *p.Total)
}
