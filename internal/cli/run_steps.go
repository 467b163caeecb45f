package cli

import (
	"fmt"
	"io"
	"strings"

	"assay/internal/kit/row"
	"assay/internal/kit/runner"
)

// steps shows how a run goes, on stderr: one line that is drawn over and over on
// a terminal, or a line a step.
type steps struct {
	to     io.Writer // nil: show nothing
	redraw bool
	drawn  bool
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
	switch e.Kind {
	case runner.TargetStarts:
		s.line("waiting for the target", false)
	case runner.TargetReady:
		id := e.Start.Identity
		text := fmt.Sprintf("measuring %s at %s, model %s", id.Engine, e.Start.URL, id.Model)
		if p := e.Start.Process; p != nil {
			text += fmt.Sprintf(", loaded in %.1f s", p.LoadTime.Seconds())
		}
		s.line(text, true)
	case runner.RunBegins:
		if s.redraw {
			s.line(fmt.Sprintf("%s ...", head(e)), false)
		}
	case runner.RunEnded:
		s.line(head(e)+": "+outcome(e.Row), !s.redraw || e.Row.Status != row.OK)
	case runner.TargetStops:
		s.line("stopping the target", false)
	}
}

// head says which run it is: "3/14  512 run 2".
func head(e runner.Event) string {
	what := fmt.Sprintf("run %d", e.Run.Repeat+1)
	if e.Run.Warmup {
		what = "warm-up"
	}
	return fmt.Sprintf("%d/%d  %s %s", e.Run.Number, e.Runs, e.Run.Label(), what)
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
	if s.drawn {
		fmt.Fprint(s.to, "\r\x1b[K")
	}
}
