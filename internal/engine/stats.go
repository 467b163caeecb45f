package engine

import "assay/internal/engine/reuse"

// Stats are what an Engine did since it was loaded, and is doing now.
type Stats struct {
	Running int // requests in a slot
	Waiting int // requests that wait for one

	Rounds         int64 // passes, prompts' included
	RoundSequences int64 // sequences that they took, summed
	RoundTokens    int64 // tokens that they computed: of prompts, drawn ones, and drafts
	Experts        int64 // experts that they computed, each once a layer and pass

	Reuse *reuse.Stats // nil: nothing is kept
}

// Stats are the Engine's counters.
func (e *Engine) Stats() Stats {
	c := e.rounds.counted()
	s := Stats{
		Running: e.options.Slots - len(e.slots), Waiting: int(e.waiting.Load()),
		Rounds: c.rounds, RoundSequences: c.sequences, RoundTokens: c.tokens, Experts: e.experts.Load(),
	}
	if e.reuse != nil {
		r := e.reuse.Stats()
		s.Reuse = &r
	}
	return s
}
