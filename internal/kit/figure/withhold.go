package figure

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Code names a check that keeps figures from being shown.
type Code string

// The codes, in the table's order.
const (
	CountMismatch   Code = "count-mismatch"
	NFirstUnknown   Code = "n-first-unknown"
	CachedPrompt    Code = "cached-prompt"
	Clumped         Code = "clumped"
	Short           Code = "short"
	StreamError     Code = "stream-error"
	Truncated       Code = "truncated"
	EngineRestarted Code = "engine-restarted"
	PromptCut       Code = "prompt-cut"
	ModelLoad       Code = "model-load"
	ClientLag       Code = "client-lag"
	EnergyShort     Code = "energy-short"
	EnergyGap       Code = "energy-gap"
	EnergyDisagree  Code = "energy-disagree"
	ClockStep       Code = "clock-step"
)

// Group is a set of figures that a check withholds together.
type Group string

// The groups.
const (
	TTFTs        Group = "ttft"          // times to first tokens
	PromptRates  Group = "prompt rate"   // by our clock
	Decodes      Group = "decode"        // by our clock
	Gaps         Group = "gaps"          // between frames
	EngineDecode Group = "engine decode" // the engine's own
	EnginePrompt Group = "engine prompt" // the engine's own
	Drafts       Group = "drafts"        // tokens a round
	Joules       Group = "joules"        // energy of a window
	// JPerToken is energy over tokens. What is divided by the tokens of the decode
	// window belongs to Decodes as well, what is divided by prompt tokens to
	// PromptRates: it is no better known than they are.
	JPerToken Group = "J/token"
)

var (
	everyGroup = []Group{TTFTs, PromptRates, Decodes, Gaps, EngineDecode, EnginePrompt, Drafts, Joules, JPerToken}
	timedGroup = []Group{TTFTs, PromptRates, Decodes, Gaps, EngineDecode, EnginePrompt, Joules, JPerToken}
)

// Check is one line of the table.
type Check struct {
	Code      Code
	Means     string  // when it fails
	Withholds []Group // what is then not shown
	Fails     bool    // the run's status is then failed
	// reason says why the check fails for a figure, or nothing.
	reason func(r *run, fig *Named) string
}

// Reason is a check that failed.
type Reason struct {
	Code    Code     `json:"code"`
	Why     string   `json:"why"`     // of the first of them
	Figures []string `json:"figures"` // those that had a value and lost it
	// WhyOf says it of each, for what a check holds a figure against may differ.
	WhyOf map[string]string `json:"-"`
}

// Table is everything that is ever withheld, and when.
var Table = []Check{
	{
		CountMismatch, "the sources of the token count do not agree",
		[]Group{Decodes, Drafts, EngineDecode, EnginePrompt, JPerToken},
		false, countMismatch,
	},
	{
		NFirstUnknown, "the tokens in the first burst are not known, and their bounds lie more than 1 % apart",
		[]Group{Decodes},
		false, nFirstUnknown,
	},
	{
		CachedPrompt, "more than 1 % of the prompt, or more than what precedes the nonce, came from a cache (TTFT is shown where the plan asked for a warm cache)",
		[]Group{TTFTs, PromptRates, EnginePrompt},
		false, cachedPrompt,
	},
	{
		Clumped, "one read holds more than max(16, 3 x draft window) tokens and 10 % of all; or our window is more than 5 % shorter than the engine's for the same tokens; or there are fewer than 16 intervals; for TTFT and the prompt rate also: more than that limit of tokens had been generated when the first text came; for gaps also: reads above that limit hold over half of all tokens",
		[]Group{TTFTs, PromptRates, Decodes, Gaps},
		false, clumped,
	},
	{
		Short, "fewer than 90 % of the asked tokens, and fewer than 32 intervals",
		[]Group{Decodes},
		false, short,
	},
	{
		StreamError, "the request failed, the stream holds an error or ended in one, or no frame carries text",
		everyGroup, true, streamError,
	},
	{
		Truncated, "the stream ended with neither a finish_reason nor [DONE]",
		everyGroup, true, truncated,
	},
	{
		EngineRestarted, "the engine started anew during the run",
		everyGroup, true, func(r *run, _ *Named) string { return r.in.Checks.EngineRestarted },
	},
	{
		PromptCut, "the server read less of the prompt than it was sent",
		everyGroup, false, func(r *run, _ *Named) string { return r.in.Checks.PromptCut },
	},
	{
		ModelLoad, "the engine loaded its model while the run waited for the first token",
		[]Group{TTFTs, PromptRates, Joules},
		false, func(r *run, _ *Named) string { return r.in.Checks.ModelLoad },
	},
	{
		ClientLag, "the client's own lag (p99, or at an edge of the figure's time) is more than 1 % of that time",
		[]Group{TTFTs, PromptRates, Decodes},
		false, clientLag,
	},
	{
		EnergyShort, "the window is shorter than 10 s at 1 Hz or 2 s at 10 Hz, and no counter was read at its edges",
		[]Group{Joules, JPerToken},
		false, energyShort,
	},
	{
		EnergyGap, "a gap between samples is longer than 20 % of the window",
		[]Group{Joules, JPerToken},
		false, energyGap,
	},
	{
		EnergyDisagree, "two sources of energy differ by more than 5 % over 10 s and more",
		[]Group{Joules, JPerToken},
		false, energyDisagree,
	},
	{
		ClockStep, "the wall clock was set during the run",
		timedGroup, false, func(r *run, _ *Named) string { return r.in.Checks.ClockStep },
	},
}

// withhold applies the table to figs.
func (r *run) withhold(figs []Named) (reasons []Reason, failed bool) {
	for i := range Table {
		c := &Table[i]
		var out *Reason
		for k := range figs {
			f := &figs[k]
			if !slices.ContainsFunc(f.Groups, func(g Group) bool { return slices.Contains(c.Withholds, g) }) {
				continue
			}
			why := c.reason(r, f)
			if why == "" {
				continue
			}
			if out == nil {
				out = &Reason{Code: c.Code, Why: why, Figures: []string{}, WhyOf: map[string]string{}}
			}
			if f.Figure.withhold(c.Code) {
				out.WhyOf[f.Name] = why
				out.Figures = append(out.Figures, f.Name)
			}
		}
		if out != nil {
			reasons = append(reasons, *out)
			failed = failed || c.Fails
		}
	}
	return reasons, failed
}

// withhold keeps the value aside. It says whether there was one, here or kept
// aside before.
func (f *Figure) withhold(code Code) bool {
	if f.Value == nil && f.Withheld == nil {
		return false
	}
	if f.Value != nil {
		f.Withheld, f.Value = f.Value, nil
	}
	f.Codes = append(f.Codes, code)
	f.Why = "withheld: " + joinCodes(f.Codes)
	return true
}

// known is the value, shown or kept aside.
func (f *Figure) known() *float64 {
	if f.Value != nil {
		return f.Value
	}
	return f.Withheld
}

func joinCodes(codes []Code) string {
	s := make([]string, len(codes))
	for i, c := range codes {
		s[i] = string(c)
	}
	return strings.Join(s, ", ")
}

func countMismatch(r *run, _ *Named) string {
	if r.in.Count.Verdict != mismatch {
		return ""
	}
	return r.in.Count.Why
}

func nFirstUnknown(r *run, _ *Named) string {
	s := &r.span
	switch {
	case len(r.in.Completion.Tokens) == 0 || s.exactEnough():
		return ""
	case s.why != "":
		return s.why
	case s.high <= 0:
		return "no token is known to have come after the first burst"
	}
	return fmt.Sprintf("between %.0f and %.0f tokens came after the first burst (%s)", s.low, s.high, s.source)
}

func cachedPrompt(r *run, fig *Named) string {
	cached, prompt, before := r.in.CachedTokens, r.in.PromptTokens, r.in.BeforeNonce
	switch {
	case r.in.WarmCache && slices.Contains(fig.Groups, TTFTs):
		return "" // its note says how much of the prompt came from the cache
	case cached == nil || *cached == 0:
		return ""
	case before != nil && *cached > *before:
		return fmt.Sprintf("%d tokens came from a cache, but only %d precede the nonce", *cached, *before)
	case prompt == nil:
		return fmt.Sprintf("%d tokens came from a cache, of a prompt of unknown length", *cached)
	case float64(*cached) > 0.01*float64(*prompt):
		return fmt.Sprintf("%d of %d prompt tokens came from a cache", *cached, *prompt)
	}
	return ""
}

func short(r *run, _ *Named) string {
	if n := r.figs.Window.Intervals; r.figs.Short && n < 32 {
		return fmt.Sprintf("%d of %d asked tokens, in %d intervals", *r.in.Count.Completion, r.in.Asked, n)
	}
	return ""
}

// gaveUp are reasons to finish that tell of a failure.
var gaveUp = []string{"error", "abort", "aborted", "cancelled", "canceled"}

func streamError(r *run, _ *Named) string {
	c := r.in.Completion
	switch {
	case r.in.StreamErr != "":
		return r.in.StreamErr
	case len(c.Errors) > 0:
		return strings.Join(c.Errors, "; ")
	case slices.Contains(gaveUp, c.FinishReason):
		return fmt.Sprintf("the server gives %q as the reason to finish", c.FinishReason)
	case c.FinishReason == "" && len(c.BadFrames) > 0:
		// Without a reason to finish this may be an error in the server's own form.
		return "no finish_reason came, but this: " + c.BadFrames[len(c.BadFrames)-1]
	case len(c.Tokens) == 0:
		return "no frame carries text"
	}
	return ""
}

func truncated(r *run, _ *Named) string {
	if c := r.in.Completion; c.FinishReason == "" && !c.Done {
		return "neither a finish_reason nor [DONE] came"
	}
	return ""
}

// clientLag holds the lag against the time that the figure measures: a time to
// a first token itself, a prompt rate that to the first of all. The lag is the
// run's p99 or, where that is larger, that of a read which bounds the figure:
// one late read in the middle moves nothing, at an edge it moves the figure.
func clientLag(r *run, f *Named) string {
	v := f.Figure.known()
	if r.lagMS == nil || v == nil {
		return ""
	}
	over := r.windowMS()
	first, last := r.firstBurst-1, len(r.in.Completion.Tokens)-1
	switch {
	case slices.Contains(f.Groups, TTFTs):
		over, first, last = *v, 0, 0
	case slices.Contains(f.Groups, PromptRates):
		over, first, last = *r.figs.TTFT.known(), 0, 0
	}
	lag, which := *r.lagMS, "p99"
	for _, edge := range []int{first, last} {
		if e := r.lagOf(edge); e > lag {
			lag, which = e, "at the edge of the figure's time"
		}
	}
	if lag <= 0.01*over {
		return ""
	}
	return fmt.Sprintf("the client's lag is %.3f ms (%s), more than 1 %% of %.3f ms", lag, which, over)
}

// lagOf is the lag of token frame i in ms, 0 where it is not known.
func (r *run) lagOf(i int) float64 {
	if i < 0 || i >= len(r.in.Completion.Tokens) || r.in.Completion.Tokens[i].Kernel < 0 {
		return 0
	}
	t := &r.in.Completion.Tokens[i]
	return ms(t.At - t.Kernel)
}

// energyOf says how well the energy behind a figure was sampled; nil: not known.
func (r *run) energyOf(f *Named) *Energy {
	if f.Energy != nil {
		return f.Energy
	}
	return r.in.Checks.Energy
}

func energyShort(r *run, f *Named) string {
	e := r.energyOf(f)
	if e == nil || e.CounterAtEdges {
		return ""
	}
	need := 10.0
	if e.Hz >= 10 {
		need = 2
	}
	if e.Seconds >= need {
		return ""
	}
	return fmt.Sprintf("%.1f s at %.3g Hz, at least %g s are needed", e.Seconds, e.Hz, need)
}

func energyGap(r *run, f *Named) string {
	e := r.energyOf(f)
	if e == nil || e.LongestGapS <= 0.2*e.Seconds {
		return ""
	}
	return fmt.Sprintf("%.1f s without a sample, in a window of %.1f s", e.LongestGapS, e.Seconds)
}

func energyDisagree(r *run, f *Named) string {
	e := r.energyOf(f)
	if e == nil || e.Joules == nil || e.OtherJoules == nil || e.Seconds < 10 {
		return ""
	}
	a, b := *e.Joules, *e.OtherJoules
	if math.Abs(a-b) <= 0.05*max(math.Abs(a), math.Abs(b)) {
		return ""
	}
	return fmt.Sprintf("%.1f J against %.1f J", a, b)
}
