package runner

import (
	"context"
	"time"

	"assay/internal/kit/derive"
	"assay/internal/kit/plan"
	"assay/internal/kit/telemetry"
)

// look again after so long whether the machine is cool enough.
const coolStep = time.Second

// coolDown waits as the plan says before a run. A machine that does not get cool
// enough in time is measured all the same, and its rows say so.
func (s *session) coolDown(run plan.Run) (*derive.Cool, error) {
	c := s.Plan.CoolDown
	s.tell(Event{Kind: Cools, Arm: run.Arm, Block: run.Block, Run: run, Wait: c.Longest()})
	began := time.Now()
	if err := pause(s.soft, time.Duration(c.Seconds*float64(time.Second))); err != nil {
		return nil, err
	}
	out := &derive.Cool{}
	for c.BelowC != 0 {
		t, err := s.hottest(c.Sensor)
		if err != nil {
			out.C, out.Why, out.Late = nil, err.Error(), true
			break // a sensor that can't be read now will not be in a minute
		}
		if out.C = &t; t < c.BelowC {
			break
		}
		left := c.AtMost - time.Since(began)
		if left <= 0 {
			out.Late = true
			break
		}
		if err := pause(s.soft, min(left, coolStep)); err != nil {
			return nil, err
		}
	}
	out.Seconds = time.Since(began).Seconds()
	return out, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// idle lets what is up stand idle for as long as the plan says, and keeps what the
// machine draws meanwhile for the net energy of the runs that follow.
func (s *session) idle(step plan.Step) error {
	var up []*live
	for name, l := range s.up {
		if (step.Arm == "" || step.Arm == name) && l.failed == nil && l.watched {
			up = append(up, l)
		}
	}
	if len(up) == 0 {
		return nil
	}
	s.tell(Event{Kind: Idles, Arm: step.Arm, Block: step.Block, Wait: s.Plan.Idle})
	r := s.look(up[0])
	r.Begin()
	w := telemetry.Window{T0: time.Now().UnixNano()}
	if err := pause(s.soft, s.Plan.Idle); err != nil {
		return err
	}
	w.T1 = time.Now().UnixNano()
	idle := telemetry.IdleOf(r.End(), w)
	for _, l := range up {
		l.idle = idle
	}
	return nil
}
