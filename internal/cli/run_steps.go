package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"assay/internal/kit/row"
	"assay/internal/kit/runner"
)

// steps shows how a run goes, on stderr: one line that is drawn over and over on
// a terminal, or a line a step.
type steps struct {
	to     io.Writer // nil: show nothing
	redraw bool

	mu    sync.Mutex // an interrupt is told of while a run is shown
	drawn bool
}

// progressHelp says what --progress takes.
const progressHelp = "auto (on a terminal only), plain (a line a step) or none"

func newSteps(env *Env, mode string) (*steps, error) {
	switch {
	case mode == "plain":
		return &steps{to: env.Stderr}, nil
	case mode == "auto" && env.StderrIsTerminal:
		return &steps{to: env.Stderr, redraw: true}, nil
	case mode == "auto" || mode == "none":
		return &steps{}, nil
	}
	return nil, usagef("--progress: %q is none of auto, plain, none", mode)
}

// show tells of one step of a run.
func (s *steps) show(e runner.Event) {
	several := len(e.Plan.Arms) > 1
	of := ""
	if several && e.Arm != "" {
		of = " of " + e.Arm
	}
	switch e.Kind {
	case runner.TargetStarts:
		s.line("waiting for the target"+of, false)
	case runner.TargetReady:
		id := e.Target.Identity
		text := fmt.Sprintf("measuring %s at %s, model %s", id.Engine, e.Target.URL, id.Model)
		if p := e.Target.Process; p != nil {
			text += fmt.Sprintf(", loaded in %.1f s", p.LoadTime.Seconds())
		}
		if several {
			text = e.Arm + ": " + text
		}
		s.line(text, true)
	case runner.Idles:
		s.line(fmt.Sprintf("watching the idle power for %v", e.Wait), false)
	case runner.Cools:
		s.line(fmt.Sprintf("cooling down, %v at most", e.Wait), false)
	case runner.RunBegins:
		if s.redraw {
			s.line(head(e)+" ..."+left(e.Left), false)
		}
	case runner.RunEnded:
		s.line(head(e)+": "+outcome(e.Row), !s.redraw || e.Row.Status != row.OK)
	case runner.TargetFails:
		s.line(fmt.Sprintf("the target%s does not start: %v", of, e.Err), true)
	case runner.TargetEnds:
		s.line(e.Err.Error(), true)
	case runner.TargetStops:
		s.line("stopping the target"+of, false)
	}
}

// note tells of something that is no step.
func (s *steps) note(text string) { s.line(text, true) }

// head says which run it is: "3/14  512 run 2", with several arms "3/14  a 512 run 2".
func head(e runner.Event) string {
	what := fmt.Sprintf("run %d", e.Run.Repeat+1)
	if e.Run.Warmup {
		what = "warm-up"
	}
	if e.Plan.Turns > 1 {
		what += fmt.Sprintf(" turn %d", e.Run.Turn+1)
	}
	if e.Run.Attempt > 1 {
		what += fmt.Sprintf(" attempt %d", e.Run.Attempt)
	}
	size := e.Run.Label()
	if len(e.Plan.Arms) > 1 {
		size = e.Run.Arm + " " + size
	}
	return fmt.Sprintf("%d/%d  %s %s", e.N, e.Of, size, what)
}

// left says about how long the rest takes.
func left(d *time.Duration) string {
	if d == nil {
		return ""
	}
	unit := time.Second
	if *d > 10*time.Minute {
		unit = time.Minute
	}
	return fmt.Sprintf(" about %s left", strings.Replace(d.Round(unit).String(), "m0s", "m", 1))
}

func outcome(r *row.Row) string {
	if r.Status != row.OK {
		return fmt.Sprintf("%s: %s", r.Status, *r.Error)
	}
	parts := []string{value("TTFT", r.TTFTMS, "ms"), value("prompt", r.PromptTokSClient, "tok/s"), value("decode", r.DecodeTokS, "tok/s")}
	return strings.Join(parts, ", ")
}

func value(name string, v *float64, unit string) string {
	if v == nil {
		return name + " withheld"
	}
	return fmt.Sprintf("%s %.1f %s", name, *v, unit)
}

// line shows a text; one that stays is not drawn over.
func (s *steps) line(text string, stays bool) {
	if s.to == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.redraw {
		fmt.Fprintf(s.to, "assay: %s\n", text)
		return
	}
	fmt.Fprintf(s.to, "\r\x1b[K%s", text)
	s.drawn = !stays
	if stays {
		fmt.Fprintln(s.to)
	}
}

// clear takes away the line that was drawn last.
func (s *steps) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drawn {
		fmt.Fprint(s.to, "\r\x1b[K")
		s.drawn = false
	}
}
