package display

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"assay/internal/kit/plan"
	"assay/internal/kit/row"
	"assay/internal/kit/runner"
)

// step is an event in words; empty where there is nothing to say. kept says that it
// should not be lost when the next one comes.
func step(e runner.Event) (text string, kept bool) {
	several := len(e.Plan.Arms) > 1
	of := ""
	if several && e.Arm != "" {
		of = " of " + e.Arm
	}
	switch e.Kind {
	case runner.TargetStarts:
		return "waiting for the target" + of, false
	case runner.TargetReady:
		id := e.Target.Identity
		text := fmt.Sprintf("measuring %s at %s, model %s", id.Engine, e.Target.URL, id.Model)
		if p := e.Target.Process; p != nil {
			text += fmt.Sprintf(", loaded in %.1f s", p.LoadTime.Seconds())
		}
		if several {
			text = e.Arm + ": " + text
		}
		return text, true
	case runner.Idles:
		return fmt.Sprintf("watching the idle power for %v", e.Wait), false
	case runner.Cools:
		return fmt.Sprintf("cooling down, %v at most", e.Wait), false
	case runner.RunEnded:
		return fmt.Sprintf("%d/%d  %s: %s", e.N, e.Of, name(e.Plan, e.Run), outcome(e.Row)), e.Row.Status != row.OK
	case runner.TargetFails:
		return fmt.Sprintf("the target%s does not start: %v", of, e.Err), true
	case runner.TargetEnds:
		return e.Err.Error(), true
	case runner.TargetStops:
		return "stopping the target" + of, false
	}
	return "", false
}

// name says which run it is: "512 run 2", with several arms "a 512 run 2".
func name(p *plan.Plan, r plan.Run) string {
	what := fmt.Sprintf("run %d", r.Repeat+1)
	if r.Warmup {
		what = "warm-up"
	}
	if p.Turns > 1 {
		what += fmt.Sprintf(" turn %d", r.Turn+1)
	}
	if r.Attempt > 1 {
		what += fmt.Sprintf(" attempt %d", r.Attempt)
	}
	if len(p.Arms) > 1 {
		return r.Arm + " " + r.Label() + " " + what
	}
	return r.Label() + " " + what
}

// duration is one as one would say it: "40s", "4m10s", "2h5m".
func duration(d time.Duration) string {
	unit := time.Second
	if d > 10*time.Minute {
		unit = time.Minute
	}
	s := d.Round(unit).String()
	if unit == time.Minute {
		s = strings.TrimSuffix(s, "0s")
	}
	return s
}

func outcome(r *row.Row) string {
	if r.Status != row.OK {
		return failure(r)
	}
	parts := []string{value("TTFT", r.TTFTMS, "ms"), value("prompt", r.PromptTokSClient, "tok/s"), value("decode", r.DecodeTokS, "tok/s")}
	text := strings.Join(parts, ", ")
	if codes := codes(r); codes != "" {
		text += " (" + codes + ")"
	}
	return text
}

func failure(r *row.Row) string {
	if r.Error == nil {
		return string(r.Status)
	}
	return fmt.Sprintf("%s: %s", r.Status, *r.Error)
}

func value(name string, v *float64, unit string) string {
	if v == nil {
		return name + " withheld"
	}
	return fmt.Sprintf("%s %.1f %s", name, *v, unit)
}

// codes are why figures of a row are withheld, each once.
func codes(r *row.Row) string {
	var out []string
	for _, w := range r.Withheld {
		for _, c := range w.Codes {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return strings.Join(out, ", ")
}
