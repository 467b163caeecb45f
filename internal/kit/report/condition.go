package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Condition is a limit on a ratio to the base, as --fail-if takes it:
//
//	METRIC [@ CONTEXT] < RATIO
//	METRIC [@ CONTEXT] > RATIO
//
// The ratio is that of the other arm to the base: 0.95, or 95 %.
type Condition struct {
	Text  string  `json:"condition"`
	Path  string  `json:"figure"`
	Ctx   string  `json:"ctx,omitempty"` // empty: in every one
	Below bool    `json:"below"`         // it holds under the limit, else above
	Limit float64 `json:"limit"`
}

// State is what a condition comes to.
type State string

// The states of a condition.
const (
	Held      State = "beyond the limit" // the whole interval is: the gate fails
	NotHeld   State = "not beyond the limit"
	Undecided State = "undecided" // there is no interval to go by
)

// Outcome is a condition in one pair.
type Outcome struct {
	Condition
	Arm   string `json:"arm"`
	At    string `json:"at"` // the cell
	State State  `json:"state"`
	Why   string `json:"why"`
}

const conditionForm = `want METRIC < RATIO or METRIC > RATIO, with the ratio to the base, such as "decode < 0.95", "ttft > 110 %" or "decode @ 2K < 0.9"`

// ParseCondition reads a condition.
func ParseCondition(text string) (Condition, error) {
	c := Condition{Text: strings.Join(strings.Fields(text), " ")}
	bad := func(format string, args ...any) (Condition, error) {
		return Condition{}, fmt.Errorf("%q: %s: %s", text, fmt.Sprintf(format, args...), conditionForm)
	}
	at := strings.IndexAny(c.Text, "<>")
	if at < 0 {
		return bad("there is neither < nor >")
	}
	left, right := c.Text[:at], strings.TrimSpace(c.Text[at+1:])
	c.Below = c.Text[at] == '<'
	if strings.ContainsAny(right, "<>=") {
		return bad("one < or > is the only comparison that is understood")
	}
	name, ctx, hasCtx := strings.Cut(left, "@")
	name, c.Ctx = strings.TrimSpace(name), strings.TrimSpace(ctx)
	f, ok := FigureOf(name)
	switch {
	case name == "":
		return bad("no metric stands before %q", c.Text[at:at+1])
	case !ok:
		return bad("metric %q is not known (known: %s)", name, figureNames())
	case hasCtx && c.Ctx == "":
		return bad("no context stands after @")
	}
	c.Path = f.Path
	number, percent := strings.CutSuffix(right, "%")
	limit, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	switch {
	case right == "":
		return bad("the ratio is missing")
	case err != nil:
		return bad("%q is not a number", right)
	}
	if percent {
		limit /= 100
	}
	if !(limit > 0) || math.IsInf(limit, 0) {
		return bad("the ratio %s is not above zero", right)
	}
	c.Limit = limit
	return c, nil
}

// try holds the pairs against a condition.
func (c *Comparison) try(cond Condition) []Outcome {
	var out []Outcome
	for _, p := range c.Pairs {
		if cond.Ctx != "" && cond.Ctx != p.Ctx {
			continue
		}
		o := Outcome{Condition: cond, Arm: p.Arm, At: strings.TrimSpace(p.Ctx + " " + p.Part)}
		o.State, o.Why = p.try(cond)
		out = append(out, o)
	}
	if out == nil {
		out = append(out, Outcome{Condition: cond, At: cond.Ctx, State: Undecided, Why: "no runs of both arms at this context"})
	}
	return out
}

func (p *Pair) try(cond Condition) (State, string) {
	if len(p.Refused) > 0 {
		return Undecided, "the runs are not comparable: " + refusals(p.Refused)
	}
	change := p.Change(cond.Path)
	switch {
	case change == nil:
		return Undecided, "not both arms have it"
	case change.Interval == nil:
		return Undecided, change.Why
	}
	in := change.Interval
	words := fmt.Sprintf("the ratio lies between %s and %s", ratio(in.Low), ratio(in.High))
	if cond.Below && in.High < cond.Limit || !cond.Below && in.Low > cond.Limit {
		return Held, words
	}
	return NotHeld, words
}

// Tripped says whether some condition holds.
func (c *Comparison) Tripped() bool { return c.has(Held) }

// Complete says that every pair could be compared and every condition decided. Of a
// pair that conditions hold only the interval is needed: they go by nothing else.
func (c *Comparison) Complete() bool {
	for _, p := range c.Pairs {
		if len(p.Refused) > 0 {
			return false
		}
		ch := p.Change(c.Metric)
		if ch.Verdict == Unknown && (len(c.Conditions) == 0 || ch.Interval == nil) {
			return false
		}
	}
	return !c.has(Undecided)
}

// Refused says that no pair at all could be compared.
func (c *Comparison) Refused() bool {
	for _, p := range c.Pairs {
		if len(p.Refused) == 0 {
			return false
		}
	}
	return true
}

func (c *Comparison) has(s State) bool {
	for _, o := range c.Conditions {
		if o.State == s {
			return true
		}
	}
	return false
}
