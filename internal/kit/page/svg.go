package page

import (
	"math"
	"strconv"
	"strings"
)

// chart is an SVG as wide as its place. X are in percent of it, y in pixels.
type chart struct {
	ID     string
	Title  string
	Desc   string // what is to be seen, in words
	Height int
	Rects  []rect
	Lines  []line
	Paths  []path
	Marks  []mark
	Texts  []text
}

type rect struct{ X, Y, W, H, Class string }

type line struct{ X1, Y1, X2, Y2, Class string }

// path is drawn in a frame of its own, 1000 wide whatever its width on the page.
type path struct{ D, Class string }

// mark is a run.
type mark struct {
	X, Y  string
	Style style
	Class string
	Title string
}

type text struct{ X, Y, Class, S string }

func percent(share float64) string { return px(100*share) + "%" }

// px writes a length as short as a tenth of it allows.
func px(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

// scale maps values to shares of the width or height.
type scale struct{ low, high float64 }

func (s scale) share(v float64) float64 { return (v - s.low) / (s.high - s.low) }

// around makes a scale that holds all values with room at both ends.
func around(values []float64) scale {
	s := scale{math.Inf(1), math.Inf(-1)}
	for _, v := range values {
		s.low, s.high = min(s.low, v), max(s.high, v)
	}
	switch {
	case len(values) == 0:
		return scale{0, 1}
	case s.low == s.high:
		room := max(math.Abs(s.low)*0.05, 1e-9)
		return scale{s.low - room, s.high + room}
	}
	room := (s.high - s.low) * 0.06
	low := s.low - room
	if s.low >= 0 {
		low = max(low, 0)
	}
	return scale{low, s.high + room}
}

// fromZero makes a scale from zero to a round number above all values.
func fromZero(values ...float64) scale {
	high := 0.0
	for _, v := range values {
		high = max(high, v)
	}
	if high <= 0 {
		return scale{0, 1}
	}
	step := step(high, 4)
	return scale{0, math.Ceil(high/step-1e-9) * step}
}

// step is a round distance of about n ticks over a length.
func step(length float64, n int) float64 {
	if !(length > 0) || math.IsInf(length, 0) {
		return 1
	}
	raw := length / float64(n)
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if m*unit >= raw*(1-1e-9) {
			return m * unit
		}
	}
	return 10 * unit
}

// tick is a place on an axis.
type tick struct {
	at    float64
	label string
}

// ticks are about n round places on a scale.
func (s scale) ticks(n int) []tick {
	d := step(s.high-s.low, n)
	digits := 0
	for x := d; digits < 9 && math.Abs(x-math.Round(x)) > 1e-6*x; digits++ {
		x *= 10
	}
	var out []tick
	for i := math.Ceil(s.low/d - 1e-9); i*d <= s.high*(1+1e-12)+d*1e-9 && len(out) < 4*n; i++ {
		out = append(out, tick{i * d, fixed(i*d, digits)})
	}
	return out
}

// axis draws vertical grid lines from top to bottom with their numbers below.
func (c *chart) axis(s scale, n, top, bottom int) {
	for _, t := range s.ticks(n) {
		x := percent(s.share(t.at))
		c.Lines = append(c.Lines, line{x, strconv.Itoa(top), x, strconv.Itoa(bottom), "grid"})
		c.Texts = append(c.Texts, text{x, strconv.Itoa(bottom + 15), "tick mid", t.label})
	}
}

// levels draws horizontal grid lines with their numbers on them, at the left.
func (c *chart) levels(s scale, n, top, bottom int) { c.levelsAt("0%", "tick", s, n, top, bottom) }

func (c *chart) levelsAt(x, numbers string, s scale, n, top, bottom int) {
	for i, t := range s.ticks(n) {
		y := float64(bottom) - s.share(t.at)*float64(bottom-top)
		class := "grid"
		if i == 0 && t.at == 0 {
			class = "zero"
		}
		c.Lines = append(c.Lines, line{"0%", px(y), "100%", px(y), class})
		if t.at != 0 {
			c.Texts = append(c.Texts, text{x, px(y - 4), numbers, t.label})
		}
	}
}

// point is a place in a chart's data.
type point struct{ x, y float64 }

// curve draws points as a line of straight pieces, or of steps.
func (c *chart) curve(points []point, xs, ys scale, top, bottom int, steps bool, class string) {
	if len(points) == 0 {
		return
	}
	var b strings.Builder
	for i, p := range points {
		x := px(1000 * xs.share(p.x))
		y := px(float64(bottom) - ys.share(p.y)*float64(bottom-top))
		switch {
		case i == 0:
			b.WriteString("M" + x + " " + y)
		case steps:
			b.WriteString("H" + x + "V" + y)
		default:
			b.WriteString("L" + x + " " + y)
		}
	}
	c.Paths = append(c.Paths, path{b.String(), class})
}

// thin keeps the ends of points and, of each of so many stretches, the lowest
// and the highest, so that no peak is lost.
func thin(points []point, stretches int) []point {
	if len(points) <= 2*stretches+2 {
		return points
	}
	out := []point{points[0]}
	inner := points[1 : len(points)-1]
	for i := range stretches {
		part := inner[i*len(inner)/stretches : (i+1)*len(inner)/stretches]
		if len(part) == 0 {
			continue
		}
		lo, hi := 0, 0
		for k := range part {
			if part[k].y < part[lo].y {
				lo = k
			}
			if part[k].y > part[hi].y {
				hi = k
			}
		}
		out = append(out, part[min(lo, hi)])
		if lo != hi {
			out = append(out, part[max(lo, hi)])
		}
	}
	return append(out, points[len(points)-1])
}
