package plan

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Step is one thing to do.
type Step struct {
	Kind  StepKind `json:"kind"`
	Arm   string   `json:"arm"`   // whose target; empty for Idle when several are up
	Block int      `json:"block"` // which round of starts, from 0
	Run   Run      `json:"run,omitzero"`
}

// StepKind is what a step does.
type StepKind string

// The kinds of step.
const (
	Start StepKind = "start" // start the arm's target and wait until it is ready, or attach to it
	Watch StepKind = "watch" // let what is up stand idle for the plan's Idle, and sample
	Do    StepKind = "run"   // make Run
	Stop  StepKind = "stop"  // stop the arm's target, or leave it
)

// Schedule is all that a plan does, in order.
type Schedule struct {
	Steps []Step `json:"steps"`
}

// Run is one request of a plan.
type Run struct {
	Number  int    `json:"number"` // from 1 within the plan
	Arm     string `json:"arm"`
	Cell    string `json:"cell"`             // arm, context and, in a conversation, turn
	Ctx     int    `json:"ctx,omitempty"`    // tokens of the slice; 0: the prompt is a file
	Prompt  string `json:"prompt,omitempty"` // that file
	Warmup  bool   `json:"warmup"`
	Block   int    `json:"block"`   // the round of starts that it belongs to, from 0
	Repeat  int    `json:"repeat"`  // from 0 within the cell, warm-ups and repeats apart
	Attempt int    `json:"attempt"` // from 1
	Slice   int    `json:"slice"`   // index of the slice
	Turn    int    `json:"turn"`    // of a conversation, from 0; each comes right after the one before
	Cool    bool   `json:"cool"`    // the plan's cool-down comes before it
}

// ID is the run's row id: arm/phase/attempt/run.
func (r Run) ID(arm string) string {
	return fmt.Sprintf("%s/%s/a%d/run-%03d", arm, r.phase(), r.Attempt, r.Number)
}

func (r Run) phase() string {
	if r.Warmup {
		return "warmup"
	}
	return "measure"
}

// Label is the context as rows and tables show it: "512", "2K", the name of a
// prompt file.
func (r Run) Label() string {
	if r.Prompt != "" {
		return promptName(r.Prompt)
	}
	return label(r.Ctx)
}

// Key names the run whatever else the plan holds and however often it is taken
// up again: cell, phase and repeat.
func (r Run) Key() string { return Key(r.Cell, r.Warmup, r.Repeat) }

// Key is a run's key, from what its row says.
func Key(cell string, warmup bool, repeat int) string {
	return fmt.Sprintf("%s/%s/r%d", cell, Run{Warmup: warmup}.phase(), repeat)
}

// conversation is the key that the turns of one conversation share.
func (r Run) conversation() string { return r.atTurn(0).Key() }

// atTurn is the run at another turn of its conversation.
func (r Run) atTurn(turn int) Run {
	if cell, ok := strings.CutSuffix(r.Cell, turnSuffix(r.Turn)); ok {
		r.Cell, r.Turn = cell+turnSuffix(turn), turn
	}
	return r
}

func turnSuffix(turn int) string { return fmt.Sprintf("/turn-%d", turn+1) }

// Runs lists the plan's requests in order.
func (p *Plan) Runs() []Run { return p.Schedule().Runs() }

// Runs lists the requests of the schedule in order.
func (s Schedule) Runs() []Run {
	var runs []Run
	for _, step := range s.Steps {
		if step.Kind == Do {
			runs = append(runs, step.Run)
		}
	}
	return runs
}

// Starts counts the steps that start a target or attach to one.
func (s Schedule) Starts() int {
	n := 0
	for _, step := range s.Steps {
		if step.Kind == Start {
			n++
		}
	}
	return n
}

// Schedule lists all that the plan does, in order. It depends on nothing but the
// plan.
func (p *Plan) Schedule() Schedule {
	b := builder{plan: p}
	for round := range p.Rounds() {
		arms := slices.Clone(p.Arms)
		if round%2 == 1 {
			slices.Reverse(arms)
		}
		if p.InOrder() == Interleaved {
			b.interleaved(arms, round)
			continue
		}
		for _, a := range arms {
			b.block(a, round)
		}
	}
	return Schedule{b.steps}
}

type builder struct {
	plan  *Plan
	steps []Step
	runs  int
	fresh map[string]bool // arms whose first run since their start is still to come
}

// cell is what runs of one arm share: a context, or a prompt file.
type cell struct {
	ctx    int
	prompt string
}

func (p *Plan) cells() []cell {
	var out []cell
	for _, ctx := range p.Contexts {
		out = append(out, cell{ctx: ctx})
	}
	for _, file := range p.Prompts {
		out = append(out, cell{prompt: filepath.Clean(file)})
	}
	return out
}

// share gives the repeats of a cell that a round makes. What does not divide
// goes to the first rounds.
func (p *Plan) share(round int) (from, to int) {
	n, rounds := p.Repeats, p.Rounds()
	each, more := n/rounds, n%rounds
	from = round*each + min(round, more)
	to = from + each
	if round < more {
		to++
	}
	return from, to
}

// block runs all cells of one arm within one start.
func (b *builder) block(a Arm, round int) {
	b.start(a.Name, round)
	b.watch(a.Name, round)
	from, to := b.plan.share(round)
	for _, c := range b.plan.cells() {
		b.warmups(a.Name, c, round)
		for i := from; i < to; i++ {
			b.measured(a.Name, c, round, i)
		}
	}
	b.add(Step{Kind: Stop, Arm: a.Name, Block: round})
}

// interleaved runs all cells of all arms, which are up together. The order of
// the arms is turned around with every repeat.
func (b *builder) interleaved(arms []Arm, round int) {
	for _, a := range arms {
		b.start(a.Name, round)
	}
	all := ""
	if len(arms) == 1 {
		all = arms[0].Name
	}
	b.watch(all, round)
	from, to := b.plan.share(round)
	for _, c := range b.plan.cells() {
		for _, a := range arms {
			b.warmups(a.Name, c, round)
		}
		turned := slices.Clone(arms)
		for i := from; i < to; i++ {
			for _, a := range turned {
				b.measured(a.Name, c, round, i)
			}
			slices.Reverse(turned)
		}
	}
	for _, a := range arms {
		b.add(Step{Kind: Stop, Arm: a.Name, Block: round})
	}
}

func (b *builder) start(arm string, round int) {
	b.add(Step{Kind: Start, Arm: arm, Block: round})
	if b.fresh == nil {
		b.fresh = map[string]bool{}
	}
	b.fresh[arm] = true
}

func (b *builder) watch(arm string, round int) {
	if b.plan.Idle > 0 {
		b.add(Step{Kind: Watch, Arm: arm, Block: round})
	}
}

func (b *builder) add(s Step) { b.steps = append(b.steps, s) }

// Repeats of a cell read the same slice behind fresh nonces, so that they differ
// in nothing else; or the same few slices in turn. Warm-ups read another one:
// what is warm afterwards is the engine, not the text. Only with cache: warm do
// they read the prompts that the measured runs repeat.
func (b *builder) warmups(arm string, c cell, round int) {
	n, texts := b.plan.Warmups, b.plan.SliceCount()
	for i := range n {
		slice := texts
		if b.plan.Cache == Warm {
			slice = i % texts
		}
		b.conversation(Run{Arm: arm, Ctx: c.ctx, Prompt: c.prompt, Warmup: true, Block: round, Repeat: round*n + i, Slice: slice})
	}
}

func (b *builder) measured(arm string, c cell, round, repeat int) {
	b.conversation(Run{Arm: arm, Ctx: c.ctx, Prompt: c.prompt, Block: round, Repeat: repeat, Slice: repeat % b.plan.SliceCount()})
}

// conversation adds the turns of a run; one, unless the plan has several.
func (b *builder) conversation(r Run) {
	turns := b.plan.turns()
	if r.Prompt != "" {
		r.Slice = 0
	}
	for turn := range turns {
		b.runs++
		r.Number, r.Attempt, r.Turn = b.runs, 1, turn
		r.Cell = r.Arm + "/" + r.Label()
		if turns > 1 {
			r.Cell += turnSuffix(turn)
		}
		r.Cool = false
		if c := b.plan.CoolDown; c.Given() && turn == 0 {
			if c.Before == beforeBlock {
				r.Cool = b.fresh[r.Arm]
			} else {
				r.Cool = !r.Warmup
			}
		}
		b.fresh[r.Arm] = false
		b.add(Step{Kind: Do, Arm: r.Arm, Block: r.Block, Run: r})
	}
}
