package figure

import (
	"fmt"
	"math"
)

// engine recomputes the engine's own rates from its count and time, since each
// engine divides something else.
func (r *run) engine() {
	f, e := r.figs, &r.in.Engine
	switch {
	case e.Generated == nil || e.DecodeMS == nil || *e.DecodeMS <= 0:
		f.DecodeServer = missing("tok/s", "the engine's count/its time", "the engine gives no count and time of its own")
	case *e.Generated < 2:
		// llama-server then gives a time of 0.001 ms.
		f.DecodeServer = missing("tok/s", "the engine's count/its time", fmt.Sprintf("the engine counts %d tokens: there is no interval to measure", *e.Generated))
	default:
		basis := e.basis()
		f.DecodeBasis = basis
		n := float64(*e.Generated)
		if basis == BasisIntervals {
			n--
		}
		f.DecodeServer = shown(n/(*e.DecodeMS)*1e3, "tok/s", fmt.Sprintf("%s: its count/its time, basis %s", e.Source, basis))
		if e.ReportedRate != nil && basis == BasisUnknown {
			f.DecodeServer.Note = fmt.Sprintf("divided n/time; the engine itself says %.3f, which is neither that nor (n-1)/time", *e.ReportedRate)
		}
	}
	switch {
	case e.PromptN == nil || e.PromptMS == nil || *e.PromptMS <= 0:
		f.PromptServer = missing("tok/s", "the engine's count/its time", "the engine gives no count and time of its own")
		return
	case *e.PromptN == 0:
		f.PromptServer = missing("tok/s", "the engine's count/its time", "the engine computed no prompt token, or does not say how many")
		return
	}
	f.PromptServer = shown(float64(*e.PromptN)/(*e.PromptMS)*1e3, "tok/s", e.Source+": prompt tokens/its time")
	f.PromptServer.Note = r.cacheNote()
}

// basis finds what the engine's rate divides: what its adapter says, else
// whichever of n and n-1 gives the rate that it reports, within the rounding of
// a printed rate.
func (e *Engine) basis() Basis {
	if e.Basis != "" {
		return e.Basis
	}
	if e.ReportedRate == nil {
		return BasisTokens
	}
	n := float64(*e.Generated)
	off := func(count float64) float64 {
		return math.Abs(count/(*e.DecodeMS)*1e3-*e.ReportedRate) / max(*e.ReportedRate, 1e-9)
	}
	best, basis := off(n), BasisTokens
	if o := off(n - 1); o < best {
		best, basis = o, BasisIntervals
	}
	if best > 0.002 {
		return BasisUnknown
	}
	return basis
}

// engineWindowMS is the time that the engine needed for the tokens of our
// window by its own clock, 0 when that is not known. Where its time may include
// the first token the shorter answer is given, so that a check against it does
// not fail by mistake.
func (r *run) engineWindowMS() float64 {
	e := &r.in.Engine
	if e.Generated == nil || e.DecodeMS == nil || *e.Generated < 2 || r.span.why != "" {
		return 0
	}
	n := float64(*e.Generated)
	switch e.basis() {
	case BasisPrefill:
		return 0
	case BasisIntervals:
		n--
	}
	return *e.DecodeMS * r.span.low / n
}

// rounds tells the speed of passes where drafts are known: each pass gives the
// drafts that it accepted and one token more.
func (r *run) rounds() {
	const perRound, perSecond = "tokens/(tokens - accepted drafts)", "decode_tok_s/tokens_per_round"
	f, e := r.figs, &r.in.Engine
	n := e.Generated
	if n == nil {
		n = r.in.Count.Completion
	}
	why := ""
	switch {
	case e.DraftAccepted == nil:
		why = "no drafts are reported"
	case n == nil:
		why = "the number of tokens is not known"
	case *e.DraftAccepted >= *n:
		why = fmt.Sprintf("%d accepted drafts of %d tokens", *e.DraftAccepted, *n)
	}
	if why != "" {
		f.TokensPerRound, f.RoundsPerS = missing("tokens", perRound, why), missing("1/s", perSecond, why)
		return
	}
	tpr := float64(*n) / float64(*n-*e.DraftAccepted)
	f.TokensPerRound = shown(tpr, "tokens", perRound)
	if f.Decode.Value == nil {
		f.RoundsPerS = missing("1/s", perSecond, f.Decode.Why)
		return
	}
	f.RoundsPerS = shown(*f.Decode.Value/tpr, "1/s", perSecond)
}
