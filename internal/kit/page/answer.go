package page

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/internal/kit/count"
	"assay/internal/kit/report"
	"assay/internal/kit/row"
)

// mostLeads is how many arms get a sentence of their own.
const mostLeads = 4

// lead is the answer in one sentence, or one a further arm.
func (p *Page) lead() []string {
	switch {
	case len(p.entries) == 0:
		return []string{"There are no rows yet."}
	case p.compare == nil:
		out := []string{}
		for _, a := range p.arms {
			out = append(out, p.alone(a))
		}
		if len(p.arms) > 1 {
			out = append(out, "Nothing is compared: "+said(p.why)+".")
		}
		return out
	}
	var out []string
	for i, a := range p.compare.Arms[1:] {
		if i == mostLeads {
			out = append(out, fmt.Sprintf("The other %d arms are in the table below.", len(p.compare.Arms)-1-i))
			break
		}
		out = append(out, p.against(a.Label))
	}
	return out
}

// alone says how fast one arm is.
func (p *Page) alone(a *arm) string {
	f := p.metric()
	var parts []string
	for _, x := range p.panels {
		for _, c := range x.cells {
			s := c.Stat(f.Path)
			if c.Arm != a.label || s == nil {
				continue
			}
			part := fmt.Sprintf("%s %s at %s", number(s.Median), f.Unit, x.name())
			if c.Variant != "" {
				part += " " + c.Variant
			}
			parts = append(parts, part)
		}
	}
	name := short(clean(a.label), 60)
	if parts == nil {
		return fmt.Sprintf("%s: no run shows its %s.", name, f.Label)
	}
	if len(parts) > 4 {
		parts = []string{parts[0], fmt.Sprintf("%d more", len(parts)-2), parts[len(parts)-1]}
	}
	return fmt.Sprintf("%s: %s %s.", name, f.Label, list(parts))
}

// against says how an arm does against the base, contexts of one verdict
// together.
func (p *Page) against(label string) string {
	f := p.metric()
	base := short(clean(p.compare.Arms[0].Label), 60)
	name := short(clean(label), 60)
	type clause struct {
		verdict report.Verdict
		at      []string
		ratio   scale
		bounds  scale
		why     string
	}
	var clauses []*clause
	pairs := 0
	for _, pair := range p.compare.Pairs {
		if pair.Arm != label {
			continue
		}
		pairs++
		v, why := report.Unknown, ""
		ch := pair.Change(f.Path)
		switch {
		case len(pair.Refused) > 0:
			why = "their runs differ in " + refusedWords(pair.Refused)
		case ch != nil && (ch.Base.N == 0 || ch.Other.N == 0):
			why = noneShown(ch, base, name)
		case ch != nil:
			v, why = ch.Verdict, ch.Why
		}
		i := slices.IndexFunc(clauses, func(c *clause) bool { return c.verdict == v && c.why == why })
		if i < 0 {
			i = len(clauses)
			clauses = append(clauses, &clause{verdict: v, why: why, ratio: scale{math.Inf(1), math.Inf(-1)}, bounds: scale{math.Inf(1), math.Inf(-1)}})
		}
		c := clauses[i]
		c.at = append(c.at, strings.TrimSpace(clean(pair.Ctx)+" "+clean(pair.Part)))
		if ch != nil && ch.Ratio != nil && ch.Interval != nil {
			c.ratio = scale{min(c.ratio.low, *ch.Ratio), max(c.ratio.high, *ch.Ratio)}
			c.bounds = scale{min(c.bounds.low, ch.Interval.Low), max(c.bounds.high, ch.Interval.High)}
		}
	}
	if pairs == 0 {
		return fmt.Sprintf("%s and %s have no context in common.", name, base)
	}
	var out, unknown []string
	for _, c := range clauses {
		at := " at " + list(c.at)
		switch {
		case len(clauses) == 1 && pairs == 2:
			at = " at both contexts"
		case len(clauses) == 1 && pairs > 2:
			at = fmt.Sprintf(" at all %d contexts", pairs)
		}
		who := name
		if len(out) > 0 {
			who = "it"
		}
		switch c.verdict {
		case report.Unknown:
			why := ""
			if c.why != "" {
				why = " (" + said(c.why) + ")"
			}
			unknown = append(unknown, strings.TrimPrefix(at, " ")+why)
		case report.Same:
			out = append(out, fmt.Sprintf("%s and %s are the same within noise%s (%s; between %s and %s can't be ruled out)",
				who, base, at, f.Label, against(c.bounds.low), against(c.bounds.high)))
		default:
			out = append(out, fmt.Sprintf("%s is %s than %s%s: %s is %s (95 %% interval %s)",
				who, comparative(c.verdict), base, at, f.Label, rangeOf(c.ratio), intervalOf(c.bounds, len(c.at))))
		}
	}
	if unknown != nil {
		whether := fmt.Sprintf("Whether %s differs from %s can't be told ", name, base)
		if len(out) > 0 {
			whether = "whether they differ can't be told "
		}
		out = append(out, whether+list(unknown))
	}
	return strings.Join(out, "; ") + "."
}

// noneShown says which side has no run that shows the figure, and why.
func noneShown(ch *report.Change, base, name string) string {
	side, of := ch.Base, base
	if ch.Base.N > 0 {
		side, of = ch.Other, name
	}
	if side.Withheld > 0 {
		return fmt.Sprintf("%s is withheld in every run of %s", ch.Label, of)
	}
	return fmt.Sprintf("no run of %s shows its %s", of, ch.Label)
}

func comparative(v report.Verdict) string {
	if v == report.Less || v == report.More {
		return "at " + string(v)
	}
	return string(v)
}

// rangeOf puts the ratios of several contexts into words.
func rangeOf(r scale) string {
	low, high := percents(r.low), percents(r.high)
	if r.high < 1 {
		low, high = high, low
	}
	word := "higher"
	if r.high < 1 {
		word = "lower"
	}
	if (r.low < 1) != (r.high < 1) {
		return against(r.low) + " to " + against(r.high)
	}
	if low == high {
		return low + " % " + word
	}
	return low + " to " + high + " % " + word
}

func intervalOf(r scale, contexts int) string {
	s := rangeOf(r)
	if contexts > 1 {
		return "of each within " + s
	}
	return s
}

func refusedWords(ms []report.Mismatch) string {
	var parts []string
	for _, m := range ms {
		parts = append(parts, fmt.Sprintf("%s (%s against %s)", m.Kind, m.Base, m.Other))
	}
	return list(parts)
}

// check is one thing that a reader must know before believing the answer.
type check struct {
	Level string // good, note, bad: also told by its mark
	Mark  string
	Text  string
}

func good(format string, args ...any) check {
	return check{"good", "✓", fmt.Sprintf(format, args...)}
}

func note(format string, args ...any) check { return check{"note", "!", fmt.Sprintf(format, args...)} }

func bad(format string, args ...any) check { return check{"bad", "✕", fmt.Sprintf(format, args...)} }

// checks say whether the answer can be believed.
func (p *Page) checks() []check {
	if len(p.entries) == 0 {
		return nil
	}
	out := []check{p.countCheck(), p.withheldCheck(), p.failedCheck(), p.startCheck(), p.ruleCheck(), p.evidenceCheck()}
	out = append(out, p.noiseCheck())
	if p.broken > 0 {
		out = append(out, bad("%s can't be read and are left out; the first: %s.", fmt.Sprintf("%d lines of the rows", p.broken), said(p.firstBroken)))
	}
	return slices.DeleteFunc(out, func(c check) bool { return c.Text == "" })
}

func (p *Page) countCheck() check {
	verdicts, n := map[string]int{}, 0
	for _, c := range p.summary.Cells {
		for v, k := range c.Verdicts {
			verdicts[v] += k
			n += k
		}
	}
	if n == 0 {
		return bad("No run counts: there is nothing to believe.")
	}
	if k := verdicts[string(count.AgreeIndependent)]; k == n {
		return good("Token counts: confirmed by a second, independent source in all %d runs.", n)
	}
	var parts []string
	worst := note
	for _, v := range slices.Sorted(maps.Keys(verdicts)) {
		if v == string(count.Mismatch) {
			worst = bad
		}
		parts = append(parts, fmt.Sprintf("%s in %d", said(v), verdicts[v]))
	}
	return worst("Token counts, of %s: %s.", plural(n, "run"), list(parts))
}

func (p *Page) withheldCheck() check {
	figures, cells := 0, 0
	for _, c := range p.summary.Cells {
		if len(c.Withheld) > 0 {
			cells++
		}
		for _, w := range c.Withheld {
			figures += w.Runs
		}
	}
	if figures == 0 {
		if p.imported() {
			return note("No row withholds a figure; by what checks, its own tool knows.")
		}
		return good("Nothing is withheld: every figure that was computed passed its checks.")
	}
	return note("Withheld: %s, in %d of %s. They are in none of the figures; the reasons are below.", plural(figures, "figure"), cells, plural(len(p.summary.Cells), "cell"))
}

// imported says whether some rows are another tool's.
func (p *Page) imported() bool {
	return slices.ContainsFunc(p.entries, func(e entry) bool { return e.row.Schema == "" })
}

func (p *Page) failedCheck() check {
	short := 0
	for _, c := range p.summary.Cells {
		short += c.Short
	}
	var parts []string
	if n := len(p.summary.Failed); n > 0 {
		parts = append(parts, plural(n, "run")+" failed or stopped")
	}
	if short > 0 {
		parts = append(parts, plural(short, "run")+" ended short and left out")
	}
	if parts == nil {
		return good("No run failed, none was stopped, none ended short.")
	}
	return bad("Of %s: %s.", plural(p.summary.Rows, "row"), list(parts))
}

func (p *Page) startCheck() check {
	least, most := math.MaxInt, 0
	for _, c := range p.summary.Cells {
		if c.Runs > 0 {
			least, most = min(least, c.Starts), max(most, c.Starts)
		}
	}
	switch {
	case most == 0:
		return note("Starts of the target: not known. The ranges may not cover what differs between starts.")
	case least <= 1:
		which := "Every cell comes"
		if most > 1 {
			which = "Some cells come"
		}
		return note("%s from a single start of the target: another start may differ by more than the intervals say.", which)
	case least == most:
		return good("Every cell covers %d starts of its target.", least)
	}
	return good("Every cell covers %d to %d starts of its target.", least, most)
}

func (p *Page) ruleCheck() check {
	rules := map[string]bool{}
	for _, c := range p.summary.Cells {
		rules[c.Rule] = true
	}
	names := slices.Sorted(maps.Keys(rules))
	switch {
	case len(names) == 0:
		return check{}
	case len(names) > 1:
		return bad("Timed by several rules (%s): their figures are not of the same thing.", said(list(names)))
	case names[0] == "own":
		return note("Timed by the rows' own rule, not by ours: another tool wrote them.")
	}
	return good("All figures are timed by one rule, %s, on the client's clock.", said(names[0]))
}

func (p *Page) evidenceCheck() check {
	kept, all := 0, 0
	for _, e := range p.entries {
		all++
		if e.row.Evidence.Dir != nil {
			kept++
		}
	}
	switch kept {
	case all:
		return good("Evidence is kept for all %s: every figure can be computed again.", plural(all, "row"))
	case 0:
		return bad("No row keeps evidence: nothing here can be computed again.")
	}
	return note("Evidence is kept for %d of %s: the others can't be computed again.", kept, plural(all, "row"))
}

// noiseCheck tells of what else the machine did.
func (p *Page) noiseCheck() check {
	noisy, seen, most := 0, 0, 0
	for _, e := range p.entries {
		if e.row.Phase == row.Warmup || e.row.Telemetry.Load.NoiseProcsMax == nil {
			continue
		}
		seen++
		if n := *e.row.Telemetry.Load.NoiseProcsMax; n > 0 {
			noisy++
			most = max(most, n)
		}
	}
	switch {
	case seen == 0:
		return check{}
	case noisy == 0:
		return good("No other busy process ran meanwhile.")
	}
	return note("The machine was not quiet: other busy processes ran during %d of %s, up to %d at once.", noisy, plural(seen, "run"), most)
}
