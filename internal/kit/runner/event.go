package runner

import (
	"sync/atomic"
	"time"

	"assay/internal/kit/plan"
	"assay/internal/kit/row"
	"assay/internal/kit/target"
	"assay/internal/kit/telemetry"
)

// Event is a step that a user may want to see.
type Event struct {
	Kind  Kind
	Plan  *plan.Plan     // what is carried out; not to be changed
	Todo  *plan.Schedule // what of it this try has to do; not to be changed
	Arm   string         // whose target or run it is; empty: all that are up
	Block int

	Run  plan.Run       // of RunBegins, RunEnded and Cools
	N    int            // of RunBegins and RunEnded: which run of this try, from 1
	Of   int            // how many this try has
	Left *time.Duration // about how long the rest takes; nil: not known yet
	// Reads grows by one with each read of the run's stream, about one a token
	// where a server sends token by token. Of RunBegins.
	Reads *atomic.Int64
	// Last is a metric's newest readings on this machine, at no cost to it, while
	// that run lasts; nil: nobody reads, or they say nothing of the target. Of
	// RunBegins.
	Last func(telemetry.Metric) []telemetry.Reading

	Row    *row.Row       // of RunEnded
	Target *target.Target // of TargetReady
	Wait   time.Duration  // of Idles and Cools: how long, at most
	Err    error          // of TargetFails and TargetEnds
}

// Kind is what happened.
type Kind int

// The kinds of event.
const (
	TargetStarts Kind = iota
	TargetReady
	RunBegins
	RunEnded
	TargetStops
	TargetFails // a start did not come about: its runs become failed rows
	TargetEnds  // a target ended, or was stopped by the guard: what its start had left is not run
	Idles       // what is up stands idle, for its idle power
	Cools       // the machine cools down before a run
)

func (s *session) tell(e Event) {
	e.Plan, e.Todo, e.Of = &s.Plan, &s.todo, s.runs
	if s.made > 0 {
		each := time.Since(s.began) / time.Duration(s.made)
		e.Left = new(each * time.Duration(s.runs-s.made))
	}
	s.Progress(e)
}
