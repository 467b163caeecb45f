package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Options say how a report is printed.
type Options struct {
	Width    int  // columns of the terminal, 0: as wide as it gets
	Markdown bool // for issues and documents
}

// line is one row of the table: text and, where there is one, the range that
// belongs to it.
type line struct {
	names  []string // arm, ctx, n
	values []value
}

type value struct{ median, spread string }

var (
	nameTitles  = []string{"arm", "ctx", "n"}
	valueTitles = []string{"TTFT ms", "prompt tok/s", "decode tok/s"}
)

const spreadTitle = "min–max"

// Print writes the table and its notes.
func (r *Report) Print(w io.Writer, o Options) error {
	lines := make([]line, len(r.Cells))
	for i, c := range r.Cells {
		lines[i] = line{names: []string{c.name(), clean(c.Ctx), fmt.Sprint(c.Runs)}}
		for _, f := range shownFigures {
			lines[i].values = append(lines[i].values, c.value(f.path, *f.stat(c)))
		}
	}
	var b strings.Builder
	notes := r.notes()
	switch {
	case o.Markdown:
		markdown(&b, lines, notes)
	default:
		table := wide(lines)
		if o.Width > 0 && widthOf(table) > o.Width {
			table = narrow(lines)
		}
		printAligned(&b, table)
		b.WriteByte('\n')
		for _, n := range notes {
			wrap(&b, n, o.Width)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// name is the arm as the table shows it.
func (c *Cell) name() string {
	if c.Variant == "" {
		return clean(c.Arm)
	}
	return clean(c.Arm) + " " + c.Variant
}

// value is what the table shows for a figure.
func (c *Cell) value(path string, s *Stat) value {
	if s == nil {
		for _, g := range c.Withheld {
			if g.Figure == path {
				return value{"withheld", ""}
			}
		}
		return value{"none", ""}
	}
	digits := decimals(s.Median)
	v := value{number(s.Median, digits), number(s.Min, digits) + "–" + number(s.Max, digits)}
	if s.N != c.Runs {
		v.median += fmt.Sprintf(" (%d of %d)", s.N, c.Runs)
	}
	return v
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

// wide puts each cell on one line, narrow the ranges below their medians.
func wide(lines []line) [][]string {
	out := [][]string{nameTitles}
	for _, t := range valueTitles {
		out[0] = append(out[0][:len(out[0]):len(out[0])], t, spreadTitle)
	}
	for _, l := range lines {
		row := l.names
		for _, v := range l.values {
			row = append(row, v.median, v.spread)
		}
		out = append(out, row)
	}
	return out
}

func narrow(lines []line) [][]string {
	head := append(nameTitles[:len(nameTitles):len(nameTitles)], valueTitles...)
	below := make([]string, len(nameTitles))
	for range valueTitles {
		below = append(below, spreadTitle)
	}
	out := [][]string{head, below}
	for _, l := range lines {
		row, ranges := l.names, make([]string, len(l.names))
		for _, v := range l.values {
			row = append(row, v.median)
			ranges = append(ranges, v.spread)
		}
		out = append(out, row, ranges)
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

// printAligned prints names to the left and numbers to the right of their
// columns.
func printAligned(b *strings.Builder, table [][]string) {
	widths := columnWidths(table)
	for _, row := range table {
		var l strings.Builder
		for i, cell := range row {
			if i > 0 {
				l.WriteString(columnGap)
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < 2 {
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

func markdown(b *strings.Builder, lines []line, notes []string) {
	escape := func(s string) string {
		return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(s)
	}
	head := append(nameTitles[:len(nameTitles):len(nameTitles)], valueTitles...)
	b.WriteString("| " + strings.Join(head, " | ") + " |\n")
	b.WriteString("|---|---|" + strings.Repeat("---:|", len(head)-2) + "\n")
	for _, l := range lines {
		for _, n := range l.names {
			b.WriteString("| " + escape(n) + " ")
		}
		for _, v := range l.values {
			text := v.median
			if v.spread != "" {
				text += " (" + v.spread + ")"
			}
			b.WriteString("| " + escape(text) + " ")
		}
		b.WriteString("|\n")
	}
	b.WriteByte('\n')
	for _, n := range notes {
		b.WriteString("- " + escape(n) + "\n")
	}
}
