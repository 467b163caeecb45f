package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Options say how a report is printed.
type Options struct {
	Width    int  // columns of the terminal, 0: as wide as it gets
	Markdown bool // for issues and documents
	Wide     bool // every figure, a line each
}

// line is one row of the table: text and, where there are some, the range and
// the interval that belong to it.
type line struct {
	names  []string // arm, ctx, n
	values []value
}

type value struct{ median, spread, interval string }

const (
	spreadTitle   = "min–max"
	intervalTitle = "95 %"
)

// titles are the heads of the table's columns.
type titles struct {
	names    []string
	values   []string
	interval bool // some cell has one
}

// lines are the table.
func (r *Report) lines() (titles, []line) {
	head := titles{names: []string{"arm", "ctx", "n"}}
	starts := slices.ContainsFunc(r.Cells, func(c *Cell) bool { return c.Starts > 1 })
	if starts {
		head.names = append(head.names, "starts")
	}
	for _, f := range Figures[:mainFigures] {
		head.values = append(head.values, f.Label+" "+f.Unit)
	}
	out := make([]line, len(r.Cells))
	for i, c := range r.Cells {
		out[i].names = []string{c.name(), c.where(), strconv.Itoa(c.Runs)}
		if starts {
			out[i].names = append(out[i].names, strconv.Itoa(c.Starts))
		}
		for _, f := range Figures[:mainFigures] {
			v := c.value(f, c.Figures[f.Path])
			head.interval = head.interval || c.hasInterval(f)
			out[i].values = append(out[i].values, v)
		}
	}
	return head, out
}

func (c *Cell) hasInterval(f Figure) bool {
	s := c.Figures[f.Path]
	return s != nil && s.Interval != nil
}

// Print writes the table and its notes.
func (r *Report) Print(w io.Writer, o Options) error {
	head, lines := r.lines()
	var b strings.Builder
	notes := r.notes(o.Wide)
	switch {
	case o.Markdown && o.Wide:
		markdownTable(&b, r.everything(), 3)
	case o.Markdown:
		markdownTable(&b, cells(head, lines), 2)
	case o.Wide:
		printAligned(&b, r.everything(), 3)
	default:
		table := wide(head, lines)
		if o.Width > 0 && widthOf(table) > o.Width {
			table = stacked(head, lines)
		}
		printAligned(&b, table, 2)
	}
	b.WriteByte('\n')
	printNotes(&b, notes, o)
	_, err := io.WriteString(w, b.String())
	return err
}

func printNotes(b *strings.Builder, notes []string, o Options) {
	for _, n := range notes {
		if o.Markdown {
			b.WriteString("- " + escape(n) + "\n")
		} else {
			wrap(b, n, o.Width)
		}
	}
}

// value is what the table shows for a figure.
func (c *Cell) value(f Figure, s *Stat) value {
	if s == nil {
		if withholds(c.Withheld, f.Path) {
			return value{median: "withheld"}
		}
		return value{median: "none"}
	}
	digits := decimals(s.Median)
	v := value{median: number(s.Median, digits), spread: span(s.Min, s.Max, digits), interval: "too few"}
	if s.Interval != nil {
		v.interval = span(s.Interval.Low, s.Interval.High, digits)
	}
	if s.N != c.Runs && !f.PerStart {
		v.median += fmt.Sprintf(" (%d of %d)", s.N, c.Runs)
	}
	return v
}

func span(low, high float64, digits int) string {
	return number(low, digits) + "–" + number(high, digits)
}

// everything is a table of a line a figure: all that the cells have.
func (r *Report) everything() [][]string {
	out := [][]string{{"arm", "ctx", "figure", "n", "starts", "median", "unit", spreadTitle, intervalTitle, "over", "far off"}}
	for _, c := range r.Cells {
		first := true
		for _, f := range Figures {
			s := c.Figures[f.Path]
			if s == nil && !withholds(c.Withheld, f.Path) {
				continue
			}
			name, where := c.name(), c.where()
			if !first {
				name, where = "", ""
			}
			first = false
			if s == nil {
				out = append(out, []string{name, where, f.Label, "0", strconv.Itoa(c.Starts), "withheld", "", "", "", "", ""})
				continue
			}
			v := c.value(f, s)
			median := number(s.Median, decimals(s.Median))
			far := ""
			if len(s.Outliers) > 0 {
				far = strconv.Itoa(len(s.Outliers))
			}
			out = append(out, []string{name, where, f.Label, strconv.Itoa(s.N), strconv.Itoa(c.Starts), median, f.Unit, v.spread, v.interval, s.IntervalOver, far})
		}
		if w := c.WarmUps; w.Runs > 0 {
			for _, f := range Figures[:mainFigures] {
				if s := w.Figures[f.Path]; s != nil {
					out = append(out, []string{"", "", "warm-up: " + f.Label, strconv.Itoa(s.N), strconv.Itoa(c.Starts), number(s.Median, decimals(s.Median)), f.Unit, span(s.Min, s.Max, decimals(s.Median)), "", "", ""})
				}
			}
		}
	}
	return out
}

// decimals keeps four significant digits or all digits before the point.
func decimals(v float64) int {
	switch v = math.Abs(v); {
	case v >= 1000:
		return 0
	case v >= 100:
		return 1
	case v >= 10:
		return 2
	}
	return 3
}

func number(v float64, decimals int) string { return fmt.Sprintf("%.*f", decimals, v) }

// clean makes text from a row harmless for a terminal and a table: rows may
// come from strangers.
func clean(s string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, s)
}

// short cuts a long text.
func short(s string, runes int) string {
	if utf8.RuneCountInString(s) <= runes {
		return s
	}
	return string([]rune(s)[:runes-1]) + "…"
}

// wide puts each cell on one line, stacked the ranges and intervals below their
// medians.
func wide(head titles, lines []line) [][]string {
	top := slices.Clone(head.names)
	for _, t := range head.values {
		top = append(top, t, spreadTitle)
		if head.interval {
			top = append(top, intervalTitle)
		}
	}
	out := [][]string{top}
	for _, l := range lines {
		row := l.names
		for _, v := range l.values {
			row = append(row, v.median, v.spread)
			if head.interval {
				row = append(row, v.interval)
			}
		}
		out = append(out, row)
	}
	return out
}

func stacked(head titles, lines []line) [][]string {
	layer := func(names []string, n int, of func(i int) string) []string {
		row := slices.Clone(names)
		for i := range n {
			row = append(row, of(i))
		}
		return row
	}
	none, n := make([]string, len(head.names)), len(head.values)
	out := [][]string{
		layer(head.names, n, func(i int) string { return head.values[i] }),
		layer(none, n, func(int) string { return spreadTitle }),
	}
	if head.interval {
		out = append(out, layer(none, n, func(int) string { return intervalTitle }))
	}
	for _, l := range lines {
		out = append(out, layer(l.names, n, func(i int) string { return l.values[i].median }), layer(none, n, func(i int) string { return l.values[i].spread }))
		if head.interval {
			out = append(out, layer(none, n, func(i int) string { return l.values[i].interval }))
		}
	}
	return out
}

// cells is the table for Markdown: what belongs together in one place.
func cells(head titles, lines []line) [][]string {
	out := [][]string{append(slices.Clone(head.names), head.values...)}
	for _, l := range lines {
		row := l.names
		for _, v := range l.values {
			text := v.median
			if v.spread != "" {
				text += " (" + v.spread
				if head.interval {
					text += "; 95 %: " + v.interval
				}
				text += ")"
			}
			row = append(row, text)
		}
		out = append(out, row)
	}
	return out
}

const columnGap = "  "

func columnWidths(table [][]string) []int {
	var widths []int
	for _, row := range table {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

func widthOf(table [][]string) int {
	total := 0
	for i, w := range columnWidths(table) {
		if i > 0 {
			total += len(columnGap)
		}
		total += w
	}
	return total
}

// printAligned prints the first columns, which are names, to the left and the
// others to the right.
func printAligned(b *strings.Builder, table [][]string, names int) {
	widths := columnWidths(table)
	for _, row := range table {
		var l strings.Builder
		for i, cell := range row {
			if i > 0 {
				l.WriteString(columnGap)
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < names {
				l.WriteString(cell + pad)
			} else {
				l.WriteString(pad + cell)
			}
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
}

// wrap prints a note, broken at spaces and indented after its first line.
func wrap(b *strings.Builder, note string, width int) {
	const indent = "  "
	at := 0
	for i, word := range strings.Fields(note) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case width > 0 && at+1+n > width:
			b.WriteString("\n" + indent)
			at = len(indent)
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	b.WriteByte('\n')
}

// markdownTable writes a table for issues and documents; its first columns are
// names.
func markdownTable(b *strings.Builder, table [][]string, names int) {
	for i, row := range table {
		for _, cell := range row {
			b.WriteString("| " + escape(cell) + " ")
		}
		b.WriteString("|\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", min(names, len(row))) + strings.Repeat("|---:", max(len(row)-names, 0)) + "|\n")
		}
	}
}

// escape makes text harmless within a Markdown table.
func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(s)
}
