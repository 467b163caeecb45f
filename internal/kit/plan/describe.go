package plan

import (
	"fmt"
	"strings"
	"time"
)

// Estimate is how long a plan takes, as far as that can be known beforehand.
type Estimate struct {
	// AtLeast counts what the plan itself asks for: min_seconds, cool-downs, idle.
	// 0 when nothing is known.
	AtLeast time.Duration `json:"at_least"`
	// AtMost is when the limits have ended everything.
	AtMost time.Duration `json:"at_most"`
	// Left is what AtLeast leaves out, in words.
	Left string `json:"left"`
}

// defaultStartLimit is the target package's own, which applies where the plan
// has none.
const defaultStartLimit = 10 * time.Minute

// Estimate says how long a schedule of the plan takes.
func (p *Plan) Estimate(s Schedule) Estimate {
	e := Estimate{Left: "loading and reading prompts"}
	startLimit := p.StartLimit
	if startLimit == 0 {
		startLimit = defaultStartLimit
	}
	long := time.Duration(p.MinSeconds * float64(time.Second))
	wait := time.Duration(p.CoolDown.Seconds * float64(time.Second))
	for _, step := range s.Steps {
		switch step.Kind {
		case Start:
			if a, ok := p.ArmNamed(step.Arm); !ok || a.Kind() != Attached {
				e.AtMost += startLimit
			}
		case Watch:
			e.AtLeast += p.Idle
			e.AtMost += p.Idle
		case Do:
			// A warm-up is what the rate is first measured by, so it may be shorter.
			if !step.Run.Warmup {
				e.AtLeast += long
			}
			if step.Run.Cool {
				e.AtLeast += wait
				e.AtMost += p.CoolDown.Longest()
			}
			e.AtMost += p.RunLimit
		}
	}
	if p.MinSeconds == 0 {
		e.Left = "loading, reading prompts and generating, whose rate is not known (min_seconds would set it)"
	}
	return e
}

// String is the estimate in words.
func (e Estimate) String() string {
	most := fmt.Sprintf("the limits end everything after %s", shortDuration(roundUp(e.AtMost)))
	if e.AtLeast == 0 {
		return "not known: " + e.Left + "; " + most
	}
	return fmt.Sprintf("at least %s, not counting %s; %s", shortDuration(roundUp(e.AtLeast)), e.Left, most)
}

func roundUp(d time.Duration) time.Duration {
	unit := time.Second
	if d > time.Hour {
		unit = time.Minute
	}
	return (d + unit - 1).Truncate(unit)
}

// Describe is what assay run --dry-run prints: what a schedule of the plan does,
// its arms first, and for how long. command is the command line of an arm that is
// started by its engine's name; nil: it is told in words.
func (p *Plan) Describe(s Schedule, command func(*Arm, Launch) []string) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	if p.Name != "" {
		line("plan", "%s", p.Name)
	}
	for _, a := range p.Arms {
		line("arm", "%s: %s", a.Name, a.inWords(Launch{Context: p.ContextFor(p.Longest())}, command))
	}
	for _, c := range p.cells() {
		size := "all of " + c.prompt
		if c.prompt == "" {
			size = label(c.ctx) + " tokens"
		}
		line("cell", "%s read, %s generated: %s", size, p.answer(), p.perCell())
	}
	line("order", "%s", p.orderInWords())
	for _, text := range p.conditions() {
		line(text[0], "%s", text[1])
	}
	for _, l := range p.Guard {
		line("guard", "%s: stop the run, then %s", l, map[Then]string{Next: "go on with the next start", End: "end the plan"}[l.Then])
	}
	measured, warm := 0, 0
	for _, r := range s.Runs() {
		if r.Warmup {
			warm++
		} else {
			measured++
		}
	}
	line("runs", "%d measured, %d to warm up, in %s", measured, warm, count(s.Starts(), "start"))
	line("time", "%s", p.Estimate(s))
	return b.String()
}

// inWords is how an arm's target comes to be.
func (a *Arm) inWords(l Launch, command func(*Arm, Launch) []string) string {
	switch {
	case a.Kind() == Attached:
		return "attach to " + a.URL
	case a.Kind() == Started:
		return strings.Join(a.Argv(l), " ")
	case command != nil:
		return strings.Join(command(a, l), " ")
	}
	words := fmt.Sprintf("start %s with %s, a context of %d", a.Target, a.Model, l.Context)
	if a.Model == "" {
		words = fmt.Sprintf("start %s with a context of %d", a.Target, l.Context)
	}
	if a.Threads != nil {
		words += ", " + count(*a.Threads, "thread")
	}
	if a.GPULayers != nil {
		words += ", " + count(*a.GPULayers, "GPU layer")
	}
	if more := a.Argv(l); len(more) > 0 {
		words += ", and " + strings.Join(more, " ")
	}
	return words
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (p *Plan) answer() string {
	if p.MinSeconds > 0 {
		return fmt.Sprintf("%d or as many as take %s s, at most %d,", p.MaxTokens, trimFloat(p.MinSeconds), p.most())
	}
	return itoa(p.MaxTokens)
}

func (p *Plan) perCell() string {
	s := fmt.Sprintf("%s and %s", count(p.Warmups*p.Rounds(), "warm-up"), count(p.Repeats, "repeat"))
	if n := p.SliceCount(); n > 1 && len(p.Prompts) == 0 {
		s += fmt.Sprintf(" over %d texts", n)
	}
	if p.turns() > 1 {
		s += fmt.Sprintf(", each a conversation of %d turns", p.Turns)
	}
	return s
}

func (p *Plan) orderInWords() string {
	arms, rounds := len(p.Arms), p.Rounds()
	switch {
	case p.InOrder() == Interleaved && arms > 1:
		return fmt.Sprintf("interleaved: all %d arms are up at once and take turns, %s of each", arms, count(rounds, "start"))
	case arms > 1 && rounds > 1:
		return fmt.Sprintf("blocks, one arm up at a time, turned around every second round: %s", p.letters())
	case arms > 1:
		return "blocks, one arm up at a time, each once"
	case rounds > 1:
		return fmt.Sprintf("%d starts of the one arm", rounds)
	}
	return "one start"
}

// letters shows the order of the blocks: "A B B A".
func (p *Plan) letters() string {
	const shown = 12
	var out []string
	for _, step := range p.Schedule().Steps {
		if step.Kind != Start {
			continue
		}
		if len(out) == shown {
			out = append(out, "...")
			break
		}
		for i, a := range p.Arms {
			if a.Name == step.Arm {
				out = append(out, letter(i))
			}
		}
	}
	return strings.Join(out, " ")
}

func letter(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return itoa(i + 1)
}

// conditions are the settings beyond the usual, a name and a text each.
func (p *Plan) conditions() [][2]string {
	var out [][2]string
	add := func(given bool, name, format string, args ...any) {
		if given {
			out = append(out, [2]string{name, fmt.Sprintf(format, args...)})
		}
	}
	add(p.Cache == Warm, "cache", "warm: measured runs repeat the prompts of the warm-ups")
	add(p.Reasoning != "", "reasoning", "%s", p.Reasoning)
	add(p.Text != "", "text", "prompts are cut from %s", p.Text)
	c := p.CoolDown
	before := map[string]string{beforeRun: "each measured run", beforeBlock: "the first run after a start"}[c.Before]
	add(c.Seconds > 0, "cool down", "%s s before %s", trimFloat(c.Seconds), before)
	add(c.BelowC != 0, "cool down", "until the hottest %s is below %s °C, at most %s, before %s", c.Sensor, trimFloat(c.BelowC), shortDuration(c.AtMost), before)
	add(p.Idle > 0, "idle", "watched for %s after each start", shortDuration(p.Idle))
	add(p.WallMeter.Given(), "meter", "%s", strings.Join(append(p.WallMeter.Command, p.WallMeter.File), " "))
	add(len(p.Require) > 0, "require", "%s", join(p.Require, "and"))
	add(p.WhenUnfit == Measure, "unfit", "measured all the same, with a warning")
	return out
}

// String lists the steps, a line each.
func (s Schedule) String() string {
	var b strings.Builder
	for _, step := range s.Steps {
		switch step.Kind {
		case Do:
			r := step.Run
			what := "measure"
			if r.Warmup {
				what = "warm up"
			}
			fmt.Fprintf(&b, "%5d  %-7s  %s  slice %d", r.Number, what, r.Key(), r.Slice)
			if r.Attempt > 1 {
				fmt.Fprintf(&b, "  attempt %d", r.Attempt)
			}
			if r.Cool {
				b.WriteString("  after cooling down")
			}
			b.WriteString("\n")
		case Watch:
			fmt.Fprintf(&b, "watch  %s\n", strings.TrimSpace(step.Arm+" idle"))
		default:
			fmt.Fprintf(&b, "%-5s  %s  block %d\n", step.Kind, step.Arm, step.Block)
		}
	}
	return b.String()
}
