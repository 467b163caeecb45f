package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Print writes the comparison: what the declared figure comes to, in a table
// and in words, the other figures beside it, and what must be known with them.
func (c *Comparison) Print(w io.Writer, o Options) error {
	var b strings.Builder
	f, _ := FigureOf(c.Metric)
	names := 2
	title := fmt.Sprintf("%s %s, against %s", f.Label, f.Unit, clean(c.Arms[0].Label))
	if o.Markdown {
		b.WriteString("**" + escape(title) + "**\n\n")
		markdownTable(&b, c.table(), names)
	} else {
		b.WriteString(title + "\n\n")
		printAligned(&b, c.table(), names)
	}
	b.WriteByte('\n')
	printNotes(&b, c.answers(), o)
	if beside := c.beside(); len(beside) > 1 {
		b.WriteString("\nbeside it, not tested:\n\n")
		if o.Markdown {
			markdownTable(&b, beside, 3)
		} else {
			printAligned(&b, beside, 3)
		}
	}
	if notes := c.notes(); len(notes) > 0 {
		b.WriteByte('\n')
		printNotes(&b, notes, o)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// table is a line a pair: the declared figure.
func (c *Comparison) table() [][]string {
	out := [][]string{{"arm", "ctx", "n", "base", "this", "ratio", intervalTitle, ""}}
	for _, p := range c.Pairs {
		names := []string{clean(p.Arm), p.where()}
		if len(p.Refused) > 0 {
			out = append(out, append(names, "", "", "", "", "", "not comparable"))
			continue
		}
		ch := p.Change(c.Metric)
		out = append(out, append(names, append(ch.columns(), string(ch.Verdict))...))
	}
	return out
}

func (p *Pair) where() string { return strings.TrimSpace(clean(p.Ctx) + " " + clean(p.Part)) }

// columns are n, both medians, the ratio and its interval.
func (c *Change) columns() []string {
	out := []string{fmt.Sprintf("%d+%d", c.Base.N, c.Other.N), median(c.Base), median(c.Other), "none", "none"}
	if c.Ratio != nil {
		out[3] = ratio(*c.Ratio)
	}
	if c.Interval != nil {
		out[4] = ratio(c.Interval.Low) + "–" + ratio(c.Interval.High)
	}
	return out
}

func median(s Side) string {
	switch {
	case s.Median != nil:
		return number(*s.Median, decimals(*s.Median))
	case s.Withheld > 0:
		return "withheld"
	}
	return "none"
}

// beside is a line for each main figure that is not the declared one.
func (c *Comparison) beside() [][]string {
	out := [][]string{{"arm", "ctx", "figure", "n", "base", "this", "ratio", intervalTitle}}
	for _, p := range c.Pairs {
		for _, ch := range p.Changes {
			if ch.Figure == c.Metric || !slices.ContainsFunc(Figures[:mainFigures], func(f Figure) bool { return f.Path == ch.Figure }) {
				continue
			}
			out = append(out, append([]string{clean(p.Arm), p.where(), ch.Label + " " + ch.Unit}, ch.columns()...))
		}
	}
	return out
}

// answers are the sentences below the table, and what conditions came to.
func (c *Comparison) answers() []string {
	var out []string
	for _, p := range c.Pairs {
		if len(p.Refused) > 0 {
			out = append(out, fmt.Sprintf("%s: %s and %s are not comparable: they differ in %s; %s.", p.where(), clean(p.Arm), clean(p.Base), clean(refusals(p.Refused)), advice(p.Refused)))
			continue
		}
		out = append(out, clean(p.Change(c.Metric).Words))
	}
	for _, o := range c.Conditions {
		out = append(out, fmt.Sprintf("fail-if %s: %s %s: %s: %s.", clean(o.Text), clean(o.Arm), clean(o.At), o.State, clean(o.Why)))
	}
	return out
}

// notes are what must be known with the figures.
func (c *Comparison) notes() []string {
	var out []string
	add := func(note string) {
		if !slices.Contains(out, note) {
			out = append(out, note)
		}
	}
	for _, p := range c.Pairs {
		if len(p.Allowed) > 0 {
			add(fmt.Sprintf("%s: compared though %s and %s differ in %s.", p.where(), clean(p.Arm), clean(p.Base), clean(refusals(p.Allowed))))
		}
		if ch := p.Change(c.Metric); ch != nil && ch.Note != "" {
			add(fmt.Sprintf("%s %s: %s.", clean(p.Arm), p.where(), ch.Note))
		}
		if ch := p.Change(c.Metric); ch != nil && ch.Base.Withheld+ch.Other.Withheld > 0 {
			add(fmt.Sprintf("%s %s: %s is withheld in %d runs of the base and %d of this arm, which take no part in it.", clean(p.Arm), p.where(), ch.Label, ch.Base.Withheld, ch.Other.Withheld))
		}
	}
	for _, a := range c.Arms {
		var parts []string
		for _, l := range a.LeftOut {
			parts = append(parts, strconv.Itoa(l.Runs)+" "+clean(l.Why))
		}
		if parts != nil {
			add(fmt.Sprintf("left out of %s: %s.", clean(a.Label), strings.Join(parts, ", ")))
		}
	}
	for _, a := range c.Arms[1:] {
		if len(a.Differences) == 0 {
			add(fmt.Sprintf("nothing that rows tell differs between %s and %s.", clean(a.Label), clean(c.Arms[0].Label)))
		}
		for _, d := range a.Differences {
			add(fmt.Sprintf("%s differs from %s in %s: %s, not %s.", clean(a.Label), clean(c.Arms[0].Label), d.What, clean(d.Other), clean(d.Base)))
		}
	}
	return append(out, "ratio: median of this arm over that of the base; 95 %: its interval by Hodges and Lehmann. Only the declared figure is tested, over all contexts as one family (Holm).")
}
