// Package plan says what is to be measured, and in which order: cells of one
// context size each, a warm-up or more, then the repeats.
package plan

import (
	"fmt"
	"regexp"
	"time"

	"assay/internal/kit/prompt"
)

// Plan is one arm to be measured.
type Plan struct {
	Arm         string   // name of engine + model + settings, in row ids and folders; empty until the target is known
	Contexts    []int    // sizes of the prompts' slices, in tokens
	Warmups     int      // runs before the repeats of a cell, of the same shape, marked and never summarised
	Repeats     int      // measured runs of a cell
	MaxTokens   int      // tokens to generate
	Temperature *float64 // nil: the server's default
	Seed        *int64   // nil: the server's default
	NaturalStop bool     // the model may end before MaxTokens
	// RunLimit ends a run that takes longer, as failed.
	RunLimit time.Duration
}

// Run is one request of a plan.
type Run struct {
	Number  int    // from 1 within the plan
	Cell    string // arm and context
	Ctx     int    // tokens of the slice
	Warmup  bool
	Repeat  int // from 0 within the cell, warm-ups and repeats apart
	Attempt int // from 1
	Slice   int // index of the slice
}

// ID is the run's row id: arm/phase/attempt/run.
func (r Run) ID(arm string) string {
	phase := "measure"
	if r.Warmup {
		phase = "warmup"
	}
	return fmt.Sprintf("%s/%s/a%d/run-%03d", arm, phase, r.Attempt, r.Number)
}

// Label is the context as rows and tables show it: "512", "2K".
func (r Run) Label() string { return prompt.FormatCount(r.Ctx) }

// Repeats of a cell read the same slice behind fresh nonces, so that they differ
// in nothing else. Warm-ups read another one: what is warm afterwards is the
// engine, not the text.
const (
	measuredSlice = 0
	warmupSlice   = 1
)

// Runs lists the plan's requests in order, cell by cell.
func (p *Plan) Runs() []Run {
	var runs []Run
	add := func(r Run) {
		r.Number, r.Attempt = len(runs)+1, 1
		r.Cell = p.Arm + "/" + r.Label()
		runs = append(runs, r)
	}
	for _, ctx := range p.Contexts {
		for i := range p.Warmups {
			add(Run{Ctx: ctx, Warmup: true, Repeat: i, Slice: warmupSlice})
		}
		for i := range p.Repeats {
			add(Run{Ctx: ctx, Repeat: i, Slice: measuredSlice})
		}
	}
	return runs
}

var armName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// Check names the first thing in the plan that can't be run.
func (p *Plan) Check() error {
	switch {
	case p.Arm != "" && !armName.MatchString(p.Arm):
		return fmt.Errorf("arm: %q can't name files (want letters, digits, '.', '_' and '-', at most 100)", p.Arm)
	case len(p.Contexts) == 0:
		return fmt.Errorf("contexts: none given (want 512, 4K, 128K)")
	case p.Repeats < 1 || p.Repeats > 10000:
		return fmt.Errorf("repeats: %d (want 1 to 10000)", p.Repeats)
	case p.Warmups < 0 || p.Warmups > 1000:
		return fmt.Errorf("warm-ups: %d (want 0 to 1000)", p.Warmups)
	case p.MaxTokens < 1 || p.MaxTokens > prompt.MaxCount:
		return fmt.Errorf("max tokens: %d (want at least 1)", p.MaxTokens)
	case p.Temperature != nil && !(*p.Temperature >= 0 && *p.Temperature <= 100):
		return fmt.Errorf("temperature: %v (want 0 for the likeliest token, or up to 100)", *p.Temperature)
	case p.RunLimit <= 0:
		return fmt.Errorf("run limit: %v (want a time such as 30m)", p.RunLimit)
	}
	seen := map[int]bool{}
	for _, n := range p.Contexts {
		if n < 1 || n > prompt.MaxCount {
			return fmt.Errorf("contexts: %d tokens (want 1 to %d)", n, prompt.MaxCount)
		}
		if seen[n] {
			return fmt.Errorf("contexts: %s is there twice", prompt.FormatCount(n))
		}
		seen[n] = true
	}
	return nil
}
