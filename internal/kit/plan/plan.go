// Package plan says what is to be measured, and in which order. A plan is a YAML
// file (see docs/plans.md and the examples in plans/), or the few flags of a
// command line; both give a Plan. Its Schedule is a pure function of it: every
// start of a target, every run with its slice, repeat and block, under a key that
// stays the same when the plan is taken up again.
//
// What is wrong in a file is told with file, line and column, all at once, and a
// misspelt word with the one that was probably meant.
package plan

import (
	"time"

	"assay/internal/kit/prompt"
)

// Plan is what to measure. The zero value of a field is its default where the
// comment names one.
type Plan struct {
	Name  string `json:"name,omitempty"`  // of the plan, for people
	About string `json:"about,omitempty"` // what it is for, for people

	Arms []Arm `json:"arms,omitempty"`

	Contexts []int    `json:"contexts,omitempty"` // sizes of the prompts' slices, in tokens
	Prompts  []string `json:"prompts,omitempty"`  // files that are read whole, instead of slices: a cell each
	Text     string   `json:"text,omitempty"`     // file that slices are cut from; empty: the built-in books

	Warmups int   `json:"warm_ups"`         // runs before the repeats of a cell, in every block, of the same shape; marked and never summarised
	Repeats int   `json:"repeats"`          // measured runs of a cell, all blocks together
	Blocks  int   `json:"blocks,omitempty"` // starts of each arm, over which the repeats are spread; 0: see Rounds
	Order   Order `json:"order,omitempty"`  // empty: see Rounds
	Slices  int   `json:"slices,omitempty"` // texts that the repeats of a cell take in turn; 0: see SliceCount

	MaxTokens    int     `json:"max_tokens"`               // tokens to generate
	MinSeconds   float64 `json:"min_seconds,omitempty"`    // generating must take this long: MaxTokens is raised to make it so, see TokensFor
	TokensAtMost int     `json:"tokens_at_most,omitempty"` // as far as this
	NaturalStop  bool    `json:"natural_stop"`             // the model may end before MaxTokens

	// Sampling; nil is the server's default.
	Temperature      *float64 `json:"temperature"`
	Seed             *int64   `json:"seed,omitempty"`
	TopK             *int     `json:"top_k,omitempty"`
	TopP             *float64 `json:"top_p,omitempty"`
	MinP             *float64 `json:"min_p,omitempty"`
	RepeatPenalty    *float64 `json:"repeat_penalty,omitempty"`
	PresencePenalty  *float64 `json:"presence_penalty,omitempty"`
	FrequencyPenalty *float64 `json:"frequency_penalty,omitempty"`

	Reasoning  string `json:"reasoning,omitempty"`   // on, off, low, medium, high; empty: left to the model
	Cache      Cache  `json:"cache,omitempty"`       // empty: Cold
	Turns      int    `json:"turns,omitempty"`       // requests of one conversation, each with all that was said before; 0 and 1: no conversation
	TurnTokens int    `json:"turn_tokens,omitempty"` // size of the slice that each turn after the first adds

	CoolDown CoolDown      `json:"cool_down,omitzero"`
	Idle     time.Duration `json:"idle,omitempty"` // how long a started target is watched doing nothing, for its idle power; 0: not

	// RunLimit ends a run that takes longer, as failed. Where the guard has a limit
	// on RunTime, this is a little longer: the guard's is the one that stops runs.
	RunLimit time.Duration `json:"run_limit"`
	// StartLimit is how long a target may take until it is ready; 0: the target
	// package's own.
	StartLimit time.Duration `json:"start_limit,omitempty"`

	Guard     []Limit   `json:"guard,omitempty"`
	Noise     Noise     `json:"noise,omitzero"`
	Require   []string  `json:"require,omitempty"` // figures without which the plan is not worth running: Requirements
	WallMeter WallMeter `json:"wall_meter,omitzero"`
	WhenUnfit WhenUnfit `json:"when_unfit,omitempty"` // empty: Refuse

	source *source // of a plan from a file
}

// Order is how the runs of several arms follow each other.
type Order string

// The orders.
const (
	// Interleaved: all arms are up at once and take turns, run by run.
	Interleaved Order = "interleaved"
	// InBlocks: one arm is up at a time: start, warm-up, some runs, stop. The
	// order of the arms is turned around in every second round (A B, B A), so that
	// a machine that drifts steadily favours none.
	InBlocks Order = "blocks"
)

// Cache is what the plan wants of the engine's prompt cache.
type Cache string

// The states of the cache.
const (
	// Cold: every prompt begins with a fresh nonce, and the engine's cache is off
	// where it has a switch.
	Cold Cache = "cold"
	// Warm: the runs of a cell repeat the prompt of its warm-up within a start, so
	// that the cache can answer.
	Warm Cache = "warm"
)

// WhenUnfit is what to do on a machine that is not fit for the plan.
type WhenUnfit string

// What to do there.
const (
	Refuse  WhenUnfit = "refuse"  // start nothing
	Measure WhenUnfit = "measure" // say so, and go on
)

// CoolDown is what to wait for before a run. The zero value waits for nothing.
type CoolDown struct {
	Seconds float64       `json:"seconds,omitempty"` // time to wait
	BelowC  float64       `json:"below_c,omitempty"` // wait until Sensor is below this, in °C; 0: no such wait
	Sensor  string        `json:"sensor,omitempty"`  // gpu, cpu or ssd: the hottest of its kind
	AtMost  time.Duration `json:"at_most,omitempty"` // with BelowC: go on after this, and say so
	Before  string        `json:"before,omitempty"`  // run: each measured run; block: the first run after a start
}

// What a cool-down may come before.
const (
	beforeRun   = "run"
	beforeBlock = "block"
)

// Given says whether there is anything to wait for.
func (c CoolDown) Given() bool { return c.Seconds > 0 || c.BelowC != 0 }

// Longest is how long one wait may take.
func (c CoolDown) Longest() time.Duration {
	d := time.Duration(c.Seconds * float64(time.Second))
	if c.BelowC != 0 {
		return max(d, c.AtMost)
	}
	return d
}

// WallMeter is where the power at the wall is read: a command that prints
// watts, a reading a line, until it is stopped, or a file that holds the
// present reading. One of the two.
type WallMeter struct {
	Command []string `json:"command,omitempty"`
	File    string   `json:"file,omitempty"`
}

// Given says whether there is a meter.
func (w WallMeter) Given() bool { return len(w.Command) > 0 || w.File != "" }

// Defaults are the settings of a plan that names none, as the flags of assay run
// have them.
func Defaults() Plan {
	zero := 0.0
	return Plan{
		Contexts: []int{1000, 4000}, Warmups: 1, Repeats: 6, MaxTokens: 128, Temperature: &zero,
		RunLimit: 30 * time.Minute, Guard: DefaultGuard(),
	}
}

// ArmNamed finds an arm by its name.
func (p *Plan) ArmNamed(name string) (*Arm, bool) {
	for i := range p.Arms {
		if p.Arms[i].Name == name {
			return &p.Arms[i], true
		}
	}
	return nil, false
}

// InOrder is the order that the plan is run in. Where it names none, arms that
// are all running already take turns, and others, which may not fit into memory
// together, are run in blocks.
func (p *Plan) InOrder() Order {
	if p.Order != "" {
		return p.Order
	}
	for _, a := range p.Arms {
		if a.Kind() != Attached {
			return InBlocks
		}
	}
	if len(p.Arms) > 1 {
		return Interleaved
	}
	return InBlocks
}

// Rounds is how often each arm is started. Where the plan does not say: with
// several arms in blocks as often as a comparison over starts needs, if there are
// as many repeats, else once.
func (p *Plan) Rounds() int {
	switch {
	case p.Blocks > 0:
		return p.Blocks
	case len(p.Arms) > 1 && p.InOrder() == InBlocks:
		return max(1, min(p.Repeats, startsFor((len(p.Arms)-1)*len(p.cells())*max(p.Turns, 1))))
	}
	return 1
}

// startsFor is how many starts of each of two arms can show a difference when so
// many comparisons are made at once (arms beside the first, in each cell), at the
// usual 5 %. Of the C(2n, n) ways to share 2n starts out, two are the farthest
// apart: that is the smallest p there can be, and of several tests it is multiplied
// by their number.
func startsFor(tests int) int {
	n, ways := 4, 70.0
	for 2/ways*float64(tests) > 0.05 {
		n++
		ways *= float64(2*(2*n-1)) / float64(n)
	}
	return n
}

// minSlices is how many texts a cell takes where drafts are on: how many drafts
// are accepted depends on the text.
const minSlices = 3

// SliceCount is how many texts the repeats of a cell take in turn. Where the
// plan does not say: one, so that repeats differ in nothing but the nonce, or
// three when an arm drafts tokens. Arms that are compared read the same texts.
func (p *Plan) SliceCount() int {
	if p.Slices > 0 {
		return p.Slices
	}
	if p.drafts() && len(p.Prompts) == 0 {
		return minSlices
	}
	return 1
}

func (p *Plan) drafts() bool {
	for _, a := range p.Arms {
		if a.Drafts {
			return true
		}
	}
	return false
}

// turns is the number of requests of one conversation.
func (p *Plan) turns() int { return max(p.Turns, 1) }

// TokensFor is how many tokens to ask for so that generating takes MinSeconds
// at a rate in tokens a second: MaxTokens at least, TokensAtMost at most. The
// twentieth on top is for the rate's own spread.
func (p *Plan) TokensFor(rate float64) int {
	if p.MinSeconds <= 0 || !(rate > 0) {
		return p.MaxTokens
	}
	const step = 16
	want := rate * p.MinSeconds * 1.05
	if want >= float64(p.most()) {
		return p.most()
	}
	return min(max(p.MaxTokens, (int(want)+step)/step*step), p.most())
}

// most is the longest answer that a run may ask for.
func (p *Plan) most() int {
	if p.MinSeconds <= 0 {
		return p.MaxTokens
	}
	return max(p.MaxTokens, p.TokensAtMost)
}

// Longest is the largest context of the plan, 0 when all prompts are files.
func (p *Plan) Longest() int {
	longest := 0
	for _, n := range p.Contexts {
		longest = max(longest, n)
	}
	return longest
}

// ContextFor is the context that a target needs, in positions: the longest
// prompt, as Longest gives it or as it was counted, its answer, what the turns
// of a conversation add, and room for nonce and chat template, in whole pages.
func (p *Plan) ContextFor(longest int) int {
	const page, extra = 256, 256
	turns := p.turns()
	n := longest + turns*(p.most()+extra) + (turns-1)*p.TurnTokens
	return (n + page - 1) / page * page
}

// label is a context as rows and tables show it: "512", "2K".
func label(ctx int) string { return prompt.FormatCount(ctx) }
