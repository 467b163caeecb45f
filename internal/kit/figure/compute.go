package figure

import (
	"fmt"
	"math"
	"slices"

	"assay/internal/kit/count"
	"assay/internal/kit/stream"
)

const mismatch = count.Mismatch

// shortShare: a run with fewer of the asked tokens is short.
const shortShare = 0.9

// run is the work of one Compute.
type run struct {
	in     *Inputs
	figs   *Figures
	span   span
	clumps clumps
	lagMS  *float64 // p99 of the client's lag

	firstBurst int // token frames in the first burst
}

// Read fills in what a completion says of the prompt and the engine; the caller
// adds what only it knows.
func Read(c *stream.Completion) Inputs {
	in := Inputs{Completion: c}
	if u := c.Usage; u != nil {
		in.PromptTokens, in.CachedTokens = u.Prompt, u.Cached
	}
	t := c.Timings
	if t == nil {
		return in
	}
	// A cached token that only one of them tells of was cached all the same.
	if in.CachedTokens == nil || (t.CacheN != nil && *t.CacheN > *in.CachedTokens) {
		in.CachedTokens = t.CacheN
	}
	if in.PromptTokens == nil && t.PromptN != nil {
		n := *t.PromptN
		if t.CacheN != nil {
			n += *t.CacheN
		}
		in.PromptTokens = &n
	}
	in.Engine = Engine{
		Source: "timings", Generated: t.PredictedN, DecodeMS: t.PredictedMS, ReportedRate: t.PredictedPerSecond,
		PromptN: t.PromptN, PromptMS: t.PromptMS, DraftN: t.DraftN, DraftAccepted: t.DraftAccepted,
	}
	return in
}

// Compute gives the figures of one run, with the checks applied.
func Compute(in Inputs) *Figures {
	if in.Completion == nil {
		in.Completion = stream.Decode(nil)
	}
	r := &run{in: &in, figs: &Figures{Rule: Rule}}
	r.lagMS = LagP99(in.Completion)
	if r.lagMS == nil {
		r.lagMS = in.Checks.LagP99MS
	}
	r.window()
	r.times()
	r.decode()
	r.prompt()
	r.gaps()
	r.engine()
	r.rounds()
	if n := in.Count.Completion; n != nil && in.Asked > 0 {
		r.figs.Short = float64(*n) < shortShare*float64(in.Asked)
		r.figs.LeaveOut = r.figs.Short && !in.NaturalStop
	}
	for _, n := range in.Extra {
		n.Figure = ptr(*n.Figure)
		n.Figure.Codes = slices.Clone(n.Figure.Codes)
		r.figs.Extra = append(r.figs.Extra, n)
	}
	r.figs.Withheld, r.figs.Failed = r.withhold(r.figs.All())
	return r.figs
}

// All lists the figures under their names in rows, the extra ones last.
func (f *Figures) All() []Named {
	return append([]Named{
		{"ttft_ms", []Group{TTFTs}, &f.TTFT, nil},
		{"ttfv_ms", []Group{TTFTs}, &f.TTFV, nil},
		{"decode_tok_s", []Group{Decodes}, &f.Decode, nil},
		{"decode_tok_s_simple", []Group{Decodes}, &f.DecodeSimple, nil},
		{"prompt_tok_s_client", []Group{PromptRates}, &f.PromptClient, nil},
		{"decode_tok_s_server", []Group{EngineDecode}, &f.DecodeServer, nil},
		{"prompt_tok_s_server", []Group{EnginePrompt}, &f.PromptServer, nil},
		{"gap_ms_median", []Group{Gaps}, &f.GapMedian, nil},
		{"gap_ms_p90", []Group{Gaps}, &f.GapP90, nil},
		{"gap_ms_p99", []Group{Gaps}, &f.GapP99, nil},
		{"gap_ms_max", []Group{Gaps}, &f.GapMax, nil},
		{"tokens_per_round", []Group{Drafts}, &f.TokensPerRound, nil},
		{"rounds_per_s", []Group{Decodes}, &f.RoundsPerS, nil},
	}, f.Extra...)
}

func shown(v float64, unit, source string) Figure {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return missing(unit, source, "the numbers behind it are out of range")
	}
	return Figure{Value: &v, Unit: unit, Source: source}
}

func missing(unit, source, why string) Figure {
	return Figure{Unit: unit, Source: source, Why: why}
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

func ptr[T any](v T) *T { return &v }

// window finds the bursts and the tokens between the first and the last frame.
func (r *run) window() {
	frames := r.in.Completion.Tokens
	if len(frames) == 0 {
		r.span.why = "no frame carries text"
		return
	}
	groups, middle := bursts(frames)
	next := groups[0].next
	r.firstBurst = next
	r.span = tokensBetween(r.in, next)
	r.clumps = r.readClumps()
	w := &r.figs.Window
	w.TFirstNS, w.TLastNS = ptr(frames[next-1].At), ptr(frames[len(frames)-1].At)
	w.Bursts, w.Intervals = len(groups), len(groups)-1
	if w.Intervals > 0 {
		w.MedianMS = ptr(ms(middle))
	}
	w.NSource = r.span.source
	if r.span.why != "" {
		w.NSource = "unknown: " + r.span.why
		return
	}
	w.NFirst, w.NLast = ptr(r.span.nFirst), ptr(r.span.nLast)
	w.NLow, w.NHigh = ptr(r.span.low), ptr(r.span.high)
}

// windowMS is the window's length, 0 when there is none.
func (r *run) windowMS() float64 {
	w := &r.figs.Window
	if w.TFirstNS == nil {
		return 0
	}
	return ms(*w.TLastNS - *w.TFirstNS)
}

func (r *run) times() {
	const (
		first   = "first token frame less t0"
		visible = "first token frame with visible text less t0"
	)
	f := r.figs
	f.TTFT = missing("ms", first, "no frame carries text")
	f.TTFV = missing("ms", visible, "no frame carries visible text")
	frames := r.in.Completion.Tokens
	if len(frames) > 0 {
		f.TTFT = shown(ms(frames[0].At), "ms", first)
		f.TTFT.Note = r.cacheNote()
	}
	for i := range frames {
		if frames[i].Content {
			f.TTFV = shown(ms(frames[i].At), "ms", visible)
			f.TTFV.Note = r.cacheNote()
			return
		}
	}
}

// cacheNote marks what depends on how much of the prompt was computed.
func (r *run) cacheNote() string {
	switch cached, prompt := r.in.CachedTokens, r.in.PromptTokens; {
	case cached == nil:
		return "nonce only: the engine does not say what it took from a cache"
	case *cached > 0 && prompt != nil:
		return fmt.Sprintf("%d of %d prompt tokens came from a cache", *cached, *prompt)
	case *cached > 0:
		return fmt.Sprintf("%d prompt tokens came from a cache", *cached)
	}
	return ""
}

func (r *run) decode() {
	f, s := r.figs, &r.span
	source := "(N_last - N_first)/(t_last - t_first), N by " + s.source
	switch {
	case s.why != "":
		f.Decode = missing("tok/s", "(N_last - N_first)/(t_last - t_first)", s.why)
	case r.windowMS() <= 0:
		f.Decode = missing("tok/s", source, "all text arrived at once: there is no window")
	case s.middle() <= 0:
		f.Decode = missing("tok/s", source, "no token came after the first burst")
	default:
		f.Decode = shown(s.middle()/r.windowMS()*1e3, "tok/s", source)
		if s.low < s.high {
			f.Decode.Note = fmt.Sprintf("the middle of bounds: %.0f to %.0f tokens in the window", s.low, s.high)
		}
	}
	if r.in.Count.Estimated && f.Decode.Value != nil {
		f.Decode.Note = joinNotes(f.Decode.Note, "tokens counted by us, in the text: the server gives no count")
	}
	f.DecodeSimple = r.simple()
}

func (r *run) simple() Figure {
	const source = "(completion_tokens - 1)/(t_finish - t_first)"
	c, n := r.in.Completion, r.in.Count.Completion
	switch {
	case len(c.Tokens) == 0:
		return missing("tok/s", source, "no frame carries text")
	case n == nil:
		return missing("tok/s", source, "the number of tokens is not known")
	case c.FinishAt < 0:
		return missing("tok/s", source, "no finish_reason came")
	case *n < 2 || c.FinishAt <= c.Tokens[0].At:
		return missing("tok/s", source, "there is no interval to measure")
	}
	return shown(float64(*n-1)/ms(c.FinishAt-c.Tokens[0].At)*1e3, "tok/s", source)
}

func joinNotes(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

func (r *run) prompt() {
	const source = "uncached prompt tokens/TTFT"
	f, in := r.figs, r.in
	switch {
	case in.PromptTokens == nil:
		f.PromptClient = missing("tok/s", source, "the number of prompt tokens is not known")
		return
	case f.TTFT.Value == nil:
		f.PromptClient = missing("tok/s", source, f.TTFT.Why)
		return
	case *f.TTFT.Value <= 0:
		f.PromptClient = missing("tok/s", source, "the first token came at t0")
		return
	}
	n, note := *in.PromptTokens, r.cacheNote()
	switch {
	case in.CachedTokens == nil:
	case *in.CachedTokens > n:
		f.PromptClient = missing("tok/s", source, fmt.Sprintf("%d cached tokens of %d", *in.CachedTokens, n))
		return
	case *in.CachedTokens > 0:
		note += " and are left out"
		n -= *in.CachedTokens
	}
	if n == 0 {
		f.PromptClient = missing("tok/s", source, "no prompt token was computed")
		return
	}
	f.PromptClient = shown(float64(n)/(*f.TTFT.Value)*1e3, "tok/s", source)
	f.PromptClient.Note = note
}
