// Package figure turns evidence into figures by the rule timing-1 and decides
// which of them may be shown. Everything here is a pure function of Inputs: the
// run and a later check call the same code.
package figure

import (
	"assay/internal/kit/count"
	"assay/internal/kit/stream"
)

// Rule is the version of the timing rule that Compute follows.
const Rule = "timing-1"

// Figure is one number, with what a reader must know before using it.
type Figure struct {
	Value    *float64 `json:"value"` // nil: not known, or withheld
	Unit     string   `json:"unit"`
	Source   string   `json:"source"`             // how it was obtained
	Why      string   `json:"why,omitempty"`      // why Value is nil
	Note     string   `json:"note,omitempty"`     // what marks a value that is shown
	Withheld *float64 `json:"withheld,omitempty"` // the value that a failed check keeps from being shown
	Codes    []Code   `json:"codes,omitempty"`    // of the checks that failed
	Samples  int      `json:"samples,omitempty"`  // values behind it, where it is a statistic
}

// Inputs is all that the figures of one run depend on. Pointers are nil where
// nothing is known. In JSON it is everything but what the stream itself tells,
// so that evidence can hold both.
type Inputs struct {
	Completion *stream.Completion `json:"-"`
	StreamErr  string             `json:"stream_err,omitempty"` // why the request failed, before or in the stream; empty: it did not
	Count      count.Result       `json:"count"`
	TokenEnds  []int              `json:"-"` // from count.Ends on Completion.Joined: byte offset at which each of its tokens ends; nil: not tokenised

	Asked           int   `json:"asked"`             // tokens asked for, 0: no number was asked for
	NaturalStop     bool  `json:"natural_stop"`      // the run allowed the model to stop by itself
	EndTokenCounted *bool `json:"end_token_counted"` // the engine counts the end token, by its adapter

	PromptTokens *int `json:"prompt_tokens"` // the server's count, cached ones included
	CachedTokens *int `json:"cached_tokens"`
	BeforeNonce  *int `json:"before_nonce"`         // tokens of the rendered prompt before the nonce
	WarmCache    bool `json:"warm_cache,omitempty"` // the plan repeats prompts, so that a cache can answer: its time to the first token is what is measured

	DraftWindow int    `json:"draft_window"` // tokens drafted a round at most, 0: no drafts
	Engine      Engine `json:"engine"`       // the engine's own account

	Checks Checks  `json:"checks"`
	Extra  []Named `json:"-"` // figures computed elsewhere (energy) that the same checks apply to; not changed
}

// Basis is what an engine's decode rate divides.
type Basis string

// The bases. The time of the first runs from the first token to the last, so n
// tokens are n-1 intervals; an engine that divides n by it reports too much.
const (
	BasisIntervals Basis = "n-1"            // (n-1)/time
	BasisTokens    Basis = "n"              // n/time
	BasisPrefill   Basis = "n with prefill" // n/time, the time including the prompt
	BasisUnknown   Basis = "unknown"
)

// Engine is the engine's own account of the run.
type Engine struct {
	Source        string   `json:"source"`    // where it was read: "timings"
	Generated     *int     `json:"generated"` // tokens
	DecodeMS      *float64 `json:"decode_ms"`
	ReportedRate  *float64 `json:"reported_rate"` // tokens a second, as the engine says it
	Basis         Basis    `json:"basis"`         // documented by the adapter; empty: found by comparing ReportedRate
	PromptN       *int     `json:"prompt_n"`      // tokens it computed, cached ones left out
	PromptMS      *float64 `json:"prompt_ms"`
	DraftN        *int     `json:"draft_n"`
	DraftAccepted *int     `json:"draft_n_accepted"`
}

// Checks are readings that other parts of the kit took during the run. Each is
// optional and takes effect when given.
type Checks struct {
	LagP99MS        *float64 `json:"lag_p99_ms"`                 // lateness of a ticker of the client; used where the kernel gave no receive times
	EngineRestarted string   `json:"engine_restarted,omitempty"` // how it was noticed; empty: it did not restart
	PromptCut       string   `json:"prompt_cut,omitempty"`       // how it was noticed; empty: it was not
	ModelLoad       string   `json:"model_load,omitempty"`       // how it was noticed; empty: the model was there
	ClockStep       string   `json:"clock_step,omitempty"`       // how it was noticed; empty: none
	Energy          *Energy  `json:"energy"`
}

// Energy describes how well a run's energy was sampled.
type Energy struct {
	Seconds        float64  `json:"seconds"`          // the window
	Hz             float64  `json:"hz"`               // samples a second
	CounterAtEdges bool     `json:"counter_at_edges"` // a counter was read at t0, t_first and t_last
	LongestGapS    float64  `json:"longest_gap_s"`    // between samples
	Joules         *float64 `json:"joules"`           // by the source that the figures use
	OtherJoules    *float64 `json:"other_joules"`     // by a second source
}

// Figures is what one run shows.
type Figures struct {
	Rule string `json:"rule"`

	TTFT           Figure `json:"ttft_ms"`
	TTFV           Figure `json:"ttfv_ms"`
	Decode         Figure `json:"decode_tok_s"`
	DecodeSimple   Figure `json:"decode_tok_s_simple"`
	PromptClient   Figure `json:"prompt_tok_s_client"`
	DecodeServer   Figure `json:"decode_tok_s_server"`
	PromptServer   Figure `json:"prompt_tok_s_server"`
	GapMedian      Figure `json:"gap_ms_median"`
	GapP90         Figure `json:"gap_ms_p90"`
	GapP99         Figure `json:"gap_ms_p99"`
	GapMax         Figure `json:"gap_ms_max"`
	TokensPerRound Figure `json:"tokens_per_round"`
	RoundsPerS     Figure `json:"rounds_per_s"`

	Extra []Named `json:"-"` // those of Inputs, after the checks

	DecodeBasis Basis `json:"decode_basis,omitempty"` // of DecodeServer

	Window   Window   `json:"window"`
	Withheld []Reason `json:"withheld"` // checks that failed, in the table's order
	Short    bool     `json:"short_completion"`
	// LeaveOut: the row takes no part in summaries, for it is short and no natural
	// stop was allowed.
	LeaveOut bool `json:"leave_out,omitempty"`
	Failed   bool `json:"failed"` // a check failed that makes the run's status failed
}

// Window is the stretch over which decode_tok_s was taken.
type Window struct {
	TFirstNS  *int64   `json:"t_first_ns"` // end of the first burst
	TLastNS   *int64   `json:"t_last_ns"`  // last token frame
	NFirst    *float64 `json:"n_first"`    // tokens produced by TFirst; the middle when only bounds are known
	NLast     *float64 `json:"n_last"`     // tokens produced by TLast
	NLow      *float64 `json:"n_low"`      // bounds of NLast - NFirst
	NHigh     *float64 `json:"n_high"`
	NSource   string   `json:"n_source"` // where the tokens' positions come from
	Bursts    int      `json:"bursts"`
	Intervals int      `json:"intervals"`    // between bursts: Bursts - 1
	MedianMS  *float64 `json:"burst_gap_ms"` // the middle gap between arrivals, by which bursts were told apart
}

// Named is a figure under the name that rows give it, with the groups by which
// checks withhold it.
type Named struct {
	Name   string
	Groups []Group
	Figure *Figure
	Energy *Energy // how well the energy behind this figure was sampled; nil: as Checks.Energy says
}
