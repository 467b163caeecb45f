package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"assay/internal/kit/derive"
	"assay/internal/kit/guard"
	"assay/internal/kit/host"
	"assay/internal/kit/plan"
	"assay/internal/kit/prompt"
	"assay/internal/kit/row"
)

// session is one try of a plan.
type session struct {
	Config
	journal *row.Journal
	host    host.Host
	past    *history         // what has rows, of earlier tries and this one
	up      map[string]*live // the targets, by arm, from their start to their stop
	slices  map[sliceKey]prompt.Slice
	machine machine         // who reads this machine
	soft    context.Context // ends when the plan is to end after the run at hand
	trip    *guard.Trip     // of a limit that ends the plan; nil: none did
	trouble []error         // what is to be told at the end

	began time.Time
	todo  plan.Schedule // what this try has to do
	runs  int           // of this try
	made  int           // of these, behind us
	sum   Summary
}

// run walks what is left of the plan, and leaves nothing running.
func (s *session) run(ctx context.Context) error {
	todo := s.Plan.Remaining(s.past.done)
	s.todo, s.runs, s.began = todo, len(todo.Runs()), time.Now()
	defer s.machine.close()
	err := s.walk(ctx, todo)
	for _, step := range todo.Steps { // in a fixed order
		if step.Kind == plan.Stop {
			s.stop(step)
		}
	}
	return errors.Join(append([]error{err}, s.trouble...)...)
}

func (s *session) walk(ctx context.Context, todo plan.Schedule) error {
	for i, step := range todo.Steps {
		if s.soft.Err() != nil {
			return ErrInterrupted
		}
		var err error
		switch step.Kind {
		case plan.Start:
			err = s.start(step, todo.Steps[i:])
		case plan.Watch:
			err = s.idle(step)
		case plan.Do:
			err = s.do(ctx, step.Run)
		case plan.Stop:
			s.stop(step)
		}
		switch {
		case err != nil && s.soft.Err() != nil:
			return ErrInterrupted
		case err != nil:
			return err
		case s.trip != nil:
			return fmt.Errorf("%w: %s", ErrGuard, s.trip)
		}
	}
	return nil
}

// start brings an arm's target up. One that does not come up is a failed row for
// each run that it would have held, and the plan goes on; but where there is no
// other arm and no row yet there is nothing to go on with.
func (s *session) start(step plan.Step, rest []plan.Step) error {
	arm, ok := s.Plan.ArmNamed(step.Arm)
	if !ok {
		return fmt.Errorf("the plan has no arm %s", step.Arm)
	}
	l := s.newLive(arm, step.Block)
	s.up[arm.Name] = l
	s.tell(Event{Kind: TargetStarts, Arm: arm.Name, Block: step.Block})
	err := s.launch(l)
	if err == nil {
		err = s.prepare(l, runsUntilStop(step, rest))
	}
	if err == nil {
		s.tell(Event{Kind: TargetReady, Arm: arm.Name, Block: step.Block, Target: l.target})
		return nil
	}
	l.close()
	l.target = nil
	if s.soft.Err() != nil || len(s.Plan.Arms) == 1 && s.journal.Rows() == 0 {
		return err
	}
	l.failed = err
	s.tell(Event{Kind: TargetFails, Arm: arm.Name, Block: step.Block, Err: err})
	s.trouble = append(s.trouble, fmt.Errorf("arm %s, block %d: %w", arm.Name, step.Block, err))
	return nil
}

// runsUntilStop are the runs that a start will hold.
func runsUntilStop(start plan.Step, rest []plan.Step) []plan.Run {
	var out []plan.Run
	for _, step := range rest {
		switch {
		case step.Arm != start.Arm:
		case step.Kind == plan.Do:
			out = append(out, step.Run)
		case step.Kind == plan.Stop:
			return out
		}
	}
	return out
}

// do makes one run of the plan, or says why there is none.
func (s *session) do(ctx context.Context, run plan.Run) error {
	l := s.up[run.Arm]
	if run.Turn == 0 {
		l.talk = talk{}
	}
	if s.past.rows[run.ID(run.Arm)] {
		// The plan was another one when that row was made, and counted otherwise.
		run.Number += s.journal.Runs()
	}
	if l.over != nil {
		s.runs-- // left for another try
		return nil
	}
	var cool *derive.Cool
	if run.Cool && l.failed == nil {
		var err error
		if cool, err = s.coolDown(run); err != nil {
			return err
		}
	}
	e := Event{Kind: RunBegins, Arm: run.Arm, Block: run.Block, Run: run, N: s.made + 1}
	var r *row.Row
	var err error
	switch {
	case l.failed != nil:
		s.tell(e)
		r, err = s.notSent(l, run, "start-failed", "the target did not start: "+l.failed.Error())
	case l.talk.failed != "":
		s.tell(e)
		r, err = s.notSent(l, run, "turn-failed", "an earlier turn of the conversation failed: "+l.talk.failed)
	default:
		e.Reads = &l.reads
		l.reads.Store(0)
		if l.watched {
			e.Last = s.look(l).Last
		}
		s.tell(e)
		r, err = s.one(ctx, l, run, cool)
	}
	if err != nil {
		return err
	}
	s.made++
	s.tell(Event{Kind: RunEnded, Arm: run.Arm, Block: run.Block, Run: run, N: s.made, Row: r})
	if l.over != nil {
		s.tell(Event{Kind: TargetEnds, Arm: run.Arm, Block: run.Block, Err: l.over})
		s.trouble = append(s.trouble, l.over)
	}
	return nil
}

// stop ends an arm's target if it is up. One that was attached to is left alone.
func (s *session) stop(step plan.Step) {
	l := s.up[step.Arm]
	if l == nil {
		return
	}
	delete(s.up, step.Arm)
	if l.target == nil || l.target.Process == nil {
		return
	}
	s.tell(Event{Kind: TargetStops, Arm: step.Arm, Block: step.Block})
	if err := l.close(); err != nil && l.over == nil {
		s.trouble = append(s.trouble, err)
	}
}
