package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"assay/internal/kit/report"
)

// Heights of a strip chart, in pixels.
const (
	laneLabel = 18 // the line that says whose lane it is
	laneDots  = 34
	laneGap   = 8
	axisRoom  = 22
)

// strips is one figure in one context: a lane an arm, every run a mark, the
// interval of the median as a bar. nil when no run has the figure.
func (p *Page) strips(id string, x *panel, f report.Figure) *chart {
	var all []float64
	for _, c := range x.cells {
		for _, r := range c.Measured {
			if v := r.Values[f.Path]; v != nil {
				all = append(all, *v)
			}
		}
		if s := c.Figures[f.Path]; s != nil && s.Interval != nil {
			all = append(all, s.Interval.Low, s.Interval.High)
		}
	}
	if len(all) == 0 {
		return nil
	}
	sc := around(all)
	c := &chart{
		ID: id, Title: fmt.Sprintf("%s at %s, %s", f.Label, x.name(), f.Unit),
		Desc: "Every run is a mark; the bar is the 95 % interval of the median, the stroke in it the median.",
	}
	y := 0
	for _, cell := range x.cells {
		y = p.lane(c, cell, f, sc, y)
	}
	c.axis(sc, 4, laneLabel, y)
	c.Height = y + axisRoom
	return c
}

// lane draws one cell from y down and returns where it ends.
func (p *Page) lane(c *chart, cell *report.Cell, f report.Figure, sc scale, y int) int {
	a := p.arm(cell.Arm)
	class := fmt.Sprintf("a%d", a.style.Colour)
	name := cellName(cell)
	label := y + 13
	middle := y + laneLabel + laneDots/2
	c.Marks = append(c.Marks, mark{X: "0%", Y: px(float64(label) - 4.5), Style: a.style, Class: class + " key", Title: name})
	c.Texts = append(c.Texts, text{"0%", strconv.Itoa(label), "name", short(name, 22)})
	s := cell.Figures[f.Path]
	told := "no run shows it"
	if s != nil {
		told = number(s.Median) + " " + f.Unit
		if s.Interval != nil {
			d := decimals(s.Median)
			told = fmt.Sprintf("%s [%s, %s]", number(s.Median), fixed(s.Interval.Low, d), fixed(s.Interval.High, d))
		}
		c.Desc += fmt.Sprintf(" %s: median %s of %s, from %s to %s.", name, told, plural(s.N, "run"), number(s.Min), number(s.Max))
	} else if hasWithheld(cell, f.Path) {
		told = "withheld"
	}
	c.Texts = append(c.Texts, text{"100%", strconv.Itoa(label), "value end", told})
	c.Lines = append(c.Lines, line{"0%", strconv.Itoa(middle), "100%", strconv.Itoa(middle), "lane"})
	if s != nil {
		p.runs(c, cell, f, sc, middle, a.style, class)
		top, bottom := px(float64(middle-11)), px(float64(middle+11))
		if in := s.Interval; in != nil {
			c.Rects = append(c.Rects, rect{percent(sc.share(in.Low)), top, percent(sc.share(in.High) - sc.share(in.Low)), "22", class + " interval"})
		}
		m := percent(sc.share(s.Median))
		c.Lines = append(c.Lines, line{m, top, m, bottom, class + " median"})
	}
	return y + laneLabel + laneDots + laneGap
}

// runs puts a mark for every run; those that would lie on each other are moved
// apart, up and down.
func (p *Page) runs(c *chart, cell *report.Cell, f report.Figure, sc scale, middle int, st style, class string) {
	type dot struct {
		x, v float64
		run  *report.Run
	}
	var dots []dot
	for i := range cell.Measured {
		if v := cell.Measured[i].Values[f.Path]; v != nil {
			dots = append(dots, dot{sc.share(*v), *v, &cell.Measured[i]})
		}
	}
	slices.SortStableFunc(dots, func(a, b dot) int {
		switch {
		case a.x < b.x:
			return -1
		case a.x > b.x:
			return 1
		}
		return 0
	})
	const apart = 0.016 // of the width: a mark's own
	rows := []float64{0, -6, 6, -12, 12}
	last := []float64{-1, -1, -1, -1, -1}
	crowded := ""
	if len(dots) > 40 {
		crowded = " crowded"
	}
	for i, d := range dots {
		at := i % len(rows)
		for k := range rows {
			if d.x-last[k] >= apart {
				at = k
				break
			}
		}
		last[at] = d.x
		c.Marks = append(c.Marks, mark{
			X: percent(d.x), Y: px(float64(middle) + rows[at]), Style: st, Class: class + crowded,
			Title: fmt.Sprintf("%s, run %d: %s %s", cellName(cell), d.run.Repeat+1, number(d.v), f.Unit),
		})
	}
}

func cellName(c *report.Cell) string {
	if c.Variant == "" {
		return clean(c.Arm)
	}
	return clean(c.Arm) + " " + c.Variant
}

func hasWithheld(c *report.Cell, path string) bool {
	return slices.ContainsFunc(c.Withheld, func(g report.Gone) bool { return g.Figure == path })
}

// ratios is a figure of all pairs against the base: a lane a pair.
func (p *Page) ratios() *chart {
	if p.compare == nil {
		return nil
	}
	f := p.metric()
	type shown struct {
		pair *report.Pair
		ch   *report.Change
	}
	var all []shown
	values := []float64{1}
	for _, pair := range p.compare.Pairs {
		ch := pair.Change(f.Path)
		if ch == nil || ch.Ratio == nil {
			continue
		}
		all = append(all, shown{pair, ch})
		values = append(values, *ch.Ratio)
		if ch.Interval != nil {
			values = append(values, ch.Interval.Low, ch.Interval.High)
		}
	}
	if len(all) == 0 {
		return nil
	}
	base := short(clean(p.compare.Arms[0].Label), 40)
	sc := around(values)
	c := &chart{
		ID: "ratio", Title: fmt.Sprintf("%s, as a multiple of that of %s", f.Label, base),
		Desc: "The mark is the ratio of the medians, the bar its 95 % interval. The stroke at 1 means no difference.",
	}
	const lane = 44
	for i, s := range all {
		y := i * lane
		a := p.arm(s.pair.Arm)
		class := fmt.Sprintf("a%d", a.style.Colour)
		at := strings.TrimSpace(clean(s.pair.Ctx) + " " + clean(s.pair.Part))
		told := fixed(*s.ch.Ratio, 3)
		middle := y + laneLabel + 12
		c.Lines = append(c.Lines, line{"0%", strconv.Itoa(middle), "100%", strconv.Itoa(middle), "lane"})
		if in := s.ch.Interval; in != nil {
			told = fmt.Sprintf("%s [%s, %s]", told, fixed(in.Low, 3), fixed(in.High, 3))
			c.Rects = append(c.Rects, rect{percent(sc.share(in.Low)), px(float64(middle - 5)), percent(sc.share(in.High) - sc.share(in.Low)), "10", class + " interval"})
		} else {
			told += ", no interval"
		}
		label := fmt.Sprintf("%s, %s", at, short(clean(s.pair.Arm), 18))
		c.Desc += fmt.Sprintf(" %s: %s.", label, told)
		c.Texts = append(c.Texts, text{"0%", strconv.Itoa(y + 13), "plain", label}, text{"100%", strconv.Itoa(y + 13), "value end", told})
		c.Marks = append(c.Marks, mark{X: percent(sc.share(*s.ch.Ratio)), Y: strconv.Itoa(middle), Style: a.style, Class: class + " big", Title: label + ": " + told})
	}
	bottom := len(all) * lane
	one := percent(sc.share(1))
	c.axis(sc, 4, laneLabel, bottom)
	c.Lines = append(c.Lines, line{one, strconv.Itoa(laneLabel), one, strconv.Itoa(bottom), "one"})
	c.Height = bottom + axisRoom
	return c
}

// legend is one line of a chart in words.
type legend struct {
	Style style
	Line  string // class of the line; empty: the arm's mark
	Text  string
}

// overTime is the text as it came: tokens so far, a line an arm.
func (p *Page) overTime(id string, x *panel) (*chart, []legend) {
	var xs, ys []float64
	for _, c := range x.cells {
		if t := x.traced[c]; t.run != nil {
			for _, pt := range t.trace.tokens {
				xs, ys = append(xs, pt.x), append(ys, pt.y)
			}
		}
	}
	if len(xs) == 0 {
		return nil, nil
	}
	sx, sy := fromZero(xs...), fromZero(ys...)
	sx.high = slices.Max(xs) * 1.02
	c := &chart{
		ID: id, Title: "Tokens over time at " + x.name(), Height: 190 + axisRoom,
		Desc: "Tokens so far, over seconds since the request, of the middle run of each arm.",
	}
	c.axis(sx, 5, 0, 190)
	c.levels(sy, 4, 12, 190)
	var keys []legend
	for _, cell := range x.cells {
		t := x.traced[cell]
		if t.run == nil || len(t.trace.tokens) == 0 {
			continue
		}
		a := p.arm(cell.Arm)
		c.curve(t.trace.tokens, sx, sy, 12, 190, true, fmt.Sprintf("a%d l%d", a.style.Colour, a.style.Shape))
		last := t.trace.tokens[len(t.trace.tokens)-1]
		unit := "tokens"
		if t.trace.inText {
			unit = "frames (nothing tells the tokens in each)"
		}
		said := fmt.Sprintf("%s: first token after %s s, %.0f %s by %s s", cellName(cell), number(t.trace.window.first), last.y, unit, number(last.x))
		c.Desc += " " + said + "."
		keys = append(keys, legend{a.style, fmt.Sprintf("a%d l%d", a.style.Colour, a.style.Shape), said})
	}
	return c, keys
}

// gapsOf is a histogram of the times between frames, an outline an arm.
func (p *Page) gapsOf(id string, x *panel) (*chart, []legend) {
	var all []float64
	for _, c := range x.cells {
		all = append(all, x.traced[c].gaps...)
	}
	if len(all) < 16 {
		return nil, nil
	}
	slices.Sort(all)
	// The rare long gaps must not press all others into one bar.
	edge := all[min(len(all)-1, int(0.995*float64(len(all))))] * 1.05
	if !(edge > 0) {
		return nil, nil
	}
	const bins = 40
	sx := fromZero(edge)
	width := sx.high / bins
	counts := func(gaps []float64) []float64 {
		out := make([]float64, bins)
		for _, g := range gaps {
			out[min(bins-1, int(g/width))] += 100 / float64(len(gaps))
		}
		return out
	}
	highest := 0.0
	for _, c := range x.cells {
		if g := x.traced[c].gaps; len(g) > 0 {
			highest = max(highest, slices.Max(counts(g)))
		}
	}
	sy := fromZero(highest)
	c := &chart{
		ID: id, Title: "Gaps between frames at " + x.name(), Height: 190 + axisRoom,
		Desc: "How often gaps of a length come, in percent of all gaps, over milliseconds. A gap lies between two frames and is no time per token.",
	}
	c.axis(sx, 5, 0, 190)
	c.levelsAt("100%", "tick end", sy, 4, 12, 190) // short gaps are the many: the bars are at the left
	var keys []legend
	for _, cell := range x.cells {
		t := x.traced[cell]
		if len(t.gaps) == 0 {
			continue
		}
		a := p.arm(cell.Arm)
		points := []point{{0, 0}}
		for i, n := range counts(t.gaps) {
			points = append(points, point{float64(i) * width, n}, point{float64(i+1) * width, n})
		}
		points = append(points, point{sx.high, 0})
		class := fmt.Sprintf("a%d l%d", a.style.Colour, a.style.Shape)
		c.curve(points, sx, sy, 12, 190, false, class+" area")
		said := fmt.Sprintf("%s: %s of %s, the longest %s ms", cellName(cell), plural(len(t.gaps), "gap"), plural(t.gapsOf, "run"), number(slices.Max(t.gaps)))
		c.Desc += " " + said + "."
		keys = append(keys, legend{a.style, class, said})
	}
	if long := slices.Max(all); long > sx.high {
		c.Desc += " Longer gaps are in the last bar."
	}
	return c, keys
}

// timeline is one chart of readings of the machine around a run.
func timeline(id string, group string, lines []series, t *trace, sx, sy scale, colour int) *chart {
	c := &chart{ID: id, Title: group + ", " + lines[0].unit, Height: 104 + axisRoom}
	if w := t.window; w.end > 0 {
		from, to := sx.share(0), min(1, sx.share(w.end))
		c.Rects = append(c.Rects, rect{percent(from), "0", percent(to - from), "104", "window"})
		if !math.IsNaN(w.first) {
			x := percent(sx.share(w.first))
			c.Lines = append(c.Lines, line{x, "0", x, "104", "first"})
		}
	}
	c.axis(sx, 5, 0, 104)
	c.levels(sy, 2, 14, 104)
	c.Desc = "Over seconds since the request; the time of the run is shaded, the first token is the dashed stroke in it."
	for i, l := range lines {
		low, high := math.Inf(1), math.Inf(-1)
		for _, pt := range l.points {
			low, high = min(low, pt.y), max(high, pt.y)
		}
		c.Desc += fmt.Sprintf(" %s: from %s to %s %s in %s.", l.name, number(low), number(high), l.unit, plural(l.n, "reading"))
		c.curve(l.points, sx, sy, 14, 104, false, fmt.Sprintf("a%d t%d", colour, i%4))
	}
	return c
}
