package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/internal/kit/stats"
)

// maxText is the longest text of a row, in characters, that a note repeats.
const maxText = 240

// maxRule is the same for the words of a timing rule.
const maxRule = 400

// notes are the lines below the table, the gravest first. With all of them comes
// why figures are missing that the short table has no column for.
func (r *Report) notes(all bool) []string {
	var out []string
	out = append(out, r.failureNotes()...)
	out = append(out, r.shortNotes()...)
	for _, c := range r.Cells {
		out = append(out, c.goneNotes(all)...)
	}
	out = append(out, r.leftOutNotes()...)
	out = append(out, r.variantNotes()...)
	out = append(out, r.countNotes()...)
	out = append(out, r.outlierNotes(all)...)
	out = append(out, r.startNotes()...)
	out = append(out, r.warmupNotes()...)
	out = append(out, r.armNotes()...)
	out = append(out, "n: runs summed up; each figure is the median of them, their range (min–max)"+r.intervalWords()+" TTFT: ms from the first request byte to the first token, by the client's clock.")
	out = append(out, r.promptNotes()...)
	out = append(out, r.ruleNotes()...)
	return out
}

func (r *Report) failureNotes() []string {
	const most = 20
	var out []string
	for i, f := range r.Failed {
		if i == most {
			out = append(out, fmt.Sprintf("and %d more failed or stopped runs.", len(r.Failed)-most))
			break
		}
		phase := ""
		if f.Phase != "" && f.Phase != "measure" {
			phase = " (" + clean(string(f.Phase)) + ")"
		}
		out = append(out, fmt.Sprintf("%s: %s%s: %s: %s", clean(string(f.Status)), clean(f.RowID), phase, orUnknown(f.Kind), short(orUnknown(f.Error), maxText)))
	}
	return out
}

// shortNotes list the runs that ended early.
func (r *Report) shortNotes() []string {
	const most = 20
	var out []string
	n := 0
	for _, c := range r.Cells {
		for _, s := range c.ShortRuns {
			if n++; n <= most {
				out = append(out, fmt.Sprintf("short: %s: %s, left out", clean(s.RowID), s.words()))
			}
		}
	}
	if n > most {
		out = append(out, fmt.Sprintf("and %d more short runs.", n-most))
	}
	return out
}

// words say how short it is.
func (s ShortRun) words() string {
	if s.Tokens == nil || s.Asked == nil {
		return "under 90 % of the asked tokens"
	}
	return fmt.Sprintf("%d of %d asked tokens", *s.Tokens, *s.Asked)
}

func orUnknown(s string) string {
	if s == "" {
		return "no reason given"
	}
	return clean(s)
}

// goneNotes says what the cell does not show. Figures that are gone for one
// reason in as many runs share a note.
func (c *Cell) goneNotes(all bool) []string {
	var out []string
	add := func(word string, list []Gone) {
		for len(list) > 0 {
			first := list[0]
			var figures []string
			rest := list[:0:0]
			for _, g := range list {
				if g.Runs == first.Runs && g.Why == first.Why && slices.Equal(g.Codes, first.Codes) {
					figures = append(figures, Label(g.Figure))
				} else {
					rest = append(rest, g)
				}
			}
			why := short(orUnknown(first.Why), maxText)
			if len(first.Codes) > 0 {
				why = clean(strings.Join(first.Codes, ", ")) + ": " + why
			}
			out = append(out, fmt.Sprintf("%s %s: %s %d of %d %s (%s)", c.name(), c.where(), word, first.Runs, c.Runs, strings.Join(figures, ", "), why))
			list = rest
		}
	}
	add("withheld:", c.Withheld)
	add("no value:", slices.DeleteFunc(slices.Clone(c.Missing), func(g Gone) bool {
		return !all && !slices.ContainsFunc(Figures[:mainFigures], func(f Figure) bool { return f.Path == g.Figure })
	}))
	return out
}

func (r *Report) leftOutNotes() []string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	short, failed := 0, 0
	for _, c := range r.Cells {
		short += c.Short
		failed += c.FailedRuns
	}
	add(r.Warmups, "warm-up")
	add(failed, "failed or stopped")
	add(short, "short (under 90 % of the asked tokens)")
	if parts == nil {
		return nil
	}
	return []string{fmt.Sprintf("left out of %d rows: %s.", r.Rows, strings.Join(parts, ", "))}
}

// variantNotes says why cells of one arm and context are not pooled.
func (r *Report) variantNotes() []string {
	var out []string
	for i, c := range r.Cells {
		if c.Variant != "[1]" {
			continue
		}
		same := []*Cell{c}
		for _, o := range r.Cells[i+1:] {
			if o.Arm == c.Arm && o.where() == c.where() {
				same = append(same, o)
			}
		}
		var differ []string
		names := map[string]bool{}
		for _, o := range same {
			for name := range o.Settings {
				names[name] = true
			}
		}
		if values := distinct(same, func(c *Cell) string { return c.Rule + "\x00" + c.DecodeRule }); values > 1 {
			differ = append(differ, "timing rule")
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if distinct(same, func(c *Cell) string { return c.Settings[name] }) > 1 {
				differ = append(differ, name)
			}
		}
		out = append(out, fmt.Sprintf("%s %s: [1] to [%d] are not pooled, for they differ in %s.", clean(c.Arm), c.where(), len(same), strings.Join(differ, ", ")))
	}
	return out
}

func distinct(cells []*Cell, of func(*Cell) string) int {
	seen := map[string]bool{}
	for _, c := range cells {
		seen[of(c)] = true
	}
	return len(seen)
}

// intervalWords says what the intervals are and what is missing for them.
func (r *Report) intervalWords() string {
	need := stats.MedianNeeds(Confidence)
	over := map[string]bool{}
	few := false
	for _, c := range r.Cells {
		for _, f := range Figures[:mainFigures] {
			switch s := c.Figures[f.Path]; {
			case s == nil:
			case s.Interval == nil:
				few = true
			default:
				over[s.IntervalOver] = true
			}
		}
	}
	words := strings.Join(slices.Sorted(maps.Keys(over)), " or ")
	switch {
	case words == "":
		return fmt.Sprintf("; a 95 %% interval of the median needs %d runs.", need)
	case few:
		return fmt.Sprintf(" and, over %s, the 95 %% interval of the median (needs %d).", words, need)
	}
	return fmt.Sprintf(" and, over %s, the 95 %% interval of the median.", words)
}

// outlierNotes tell of values far from the others, which no figure leaves out: of
// the main figures, or of all.
func (r *Report) outlierNotes(all bool) []string {
	figures := Figures[:mainFigures]
	if all {
		figures = Figures
	}
	var out []string
	for _, c := range r.Cells {
		var parts []string
		for _, f := range figures {
			s := c.Figures[f.Path]
			if s == nil || len(s.Outliers) == 0 {
				continue
			}
			parts = append(parts, s.farOff(f))
		}
		if parts != nil {
			out = append(out, fmt.Sprintf("%s %s: far from the rest, and kept: %s.", c.name(), c.where(), strings.Join(parts, "; ")))
		}
	}
	return out
}

// farOff names the outliers, the first three by their rows.
func (s *Stat) farOff(f Figure) string {
	const most = 3
	digits := decimals(s.Median)
	var values []string
	for i, o := range s.Outliers {
		if i == most {
			values = append(values, fmt.Sprintf("%d more", len(s.Outliers)-most))
			break
		}
		values = append(values, fmt.Sprintf("%s (%s)", number(o.Value, digits), clean(o.RowID)))
	}
	return fmt.Sprintf("%s %s %s", f.Label, f.Unit, strings.Join(values, ", "))
}

// warmupNotes give the warm-ups' figures, which are in nothing else.
func (r *Report) warmupNotes() []string {
	const most = 6
	var parts []string
	more := 0
	for _, c := range r.Cells {
		w := c.WarmUps
		var figures []string
		for _, f := range Figures[:mainFigures] {
			if s := w.Figures[f.Path]; s != nil {
				figures = append(figures, fmt.Sprintf("%s %s %s", f.Label, number(s.Median, decimals(s.Median)), f.Unit))
			}
		}
		if figures == nil {
			figures = []string{"no figure that may be shown"}
		}
		switch {
		case w.Runs == 0:
		case len(parts) == most:
			more++
		default:
			parts = append(parts, fmt.Sprintf("%s %s (%d): %s", c.name(), c.where(), w.Runs, strings.Join(figures, ", ")))
		}
	}
	if parts == nil {
		return nil
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("and those of %d more cells (--wide)", more))
	}
	return []string{"warm-ups, in none of the above: " + strings.Join(parts, "; ") + "."}
}

func (r *Report) countNotes() []string {
	total := map[string]int{}
	for _, c := range r.Cells {
		for v, n := range c.Verdicts {
			total[v] += n
		}
	}
	if len(total) == 0 {
		return nil
	}
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(total)) {
		parts = append(parts, fmt.Sprintf("%d %s", total[v], short(clean(v), maxText)))
	}
	return []string{"token count: " + strings.Join(parts, ", ") + "."}
}

// armNotes says what each arm is.
func (r *Report) armNotes() []string {
	var out []string
	for _, c := range r.Cells {
		if c.Runs == 0 {
			continue // failed runs may not know what they were to run on
		}
		var parts []string
		for _, name := range []string{"engine", "engine commit", "quant", "threads", "asked tokens", "processor"} {
			value := clean(c.Settings[name])
			switch {
			case value == "":
				continue
			case name == "engine commit":
				value = short(value, 12)
			}
			parts = append(parts, name+" "+value)
		}
		note := c.name() + ": " + strings.Join(parts, ", ")
		if parts != nil && !slices.Contains(out, note) {
			out = append(out, note)
		}
	}
	return out
}

// startNotes tells where the range says nothing of other starts.
func (r *Report) startNotes() []string {
	single, all := 0, 0
	for _, c := range r.Cells {
		if c.Runs > 0 {
			all++
		}
		if c.Starts == 1 {
			single++
		}
	}
	switch {
	case single == 0:
		return nil
	case single == all:
		return []string{"each cell is from a single start of the target: ranges and intervals don't cover differences between starts."}
	}
	return []string{fmt.Sprintf("%d of %d cells are from a single start of the target: their ranges and intervals don't cover differences between starts.", single, all)}
}

func (r *Report) promptNotes() []string {
	var sum Cached
	for _, c := range r.Cells {
		sum.None += c.Cached.None
		sum.Some += c.Cached.Some
		sum.Unknown += c.Cached.Unknown
	}
	var parts []string
	if sum.None > 0 {
		parts = append(parts, fmt.Sprintf("nothing came from a cache in %d runs", sum.None))
	}
	if sum.Some > 0 {
		parts = append(parts, fmt.Sprintf("a few cached tokens are left out in %d", sum.Some))
	}
	if sum.Unknown > 0 {
		parts = append(parts, fmt.Sprintf("nonce only in %d (the engine does not say what came from a cache)", sum.Unknown))
	}
	if parts == nil {
		return nil
	}
	return []string{"prompt tok/s: prompt tokens over TTFT, by the client's clock; " + strings.Join(parts, "; ") + "."}
}

// ruleNotes give each timing rule in words, with its cells where there are
// several rules.
func (r *Report) ruleNotes() []string {
	var rules []string
	cells := map[string][]string{}
	for _, c := range r.Cells {
		rule := short(orUnknown(c.DecodeRule), maxRule)
		if c.Rule == ownRule {
			rule = "the rows' own rule: " + rule
		}
		if !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
		cells[rule] = append(cells[rule], c.name()+" "+c.where())
	}
	var out []string
	for _, rule := range rules {
		where := ""
		if len(rules) > 1 {
			where = " of " + strings.Join(cells[rule], ", ")
		}
		out = append(out, "decode tok/s"+where+": "+rule)
	}
	return out
}
