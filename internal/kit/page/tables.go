package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"assay/internal/kit/report"
)

type tableGroup struct {
	Name   string
	Tokens bool // the name is a number of tokens
	Rows   []tableRow
}

type tableRow struct {
	Arm    string
	Style  style
	N      string // runs and starts
	Values []valueView
}

// valueView is a median with what belongs to it.
type valueView struct{ Median, Interval, Range, Of string }

// furtherView is a figure beside those of the table.
type furtherView struct {
	Where, Figure, Unit string
	Style               style
	Value               valueView
}

type comparedView struct {
	Where, Arm, Base string
	Style            style
	Ratio, Interval  string
	Verdict          string
	Words            string
	TTFT, TTFTIn     string
}

// mainPaths are the figures of the table, in its order.
var mainPaths = []string{"decode_tok_s", "ttft_ms", "prompt_tok_s_client"}

func (p *Page) table(v *view) {
	for _, x := range p.panels {
		g := tableGroup{Name: x.name(), Tokens: x.part == ""}
		for _, c := range x.cells {
			r := tableRow{Arm: cellName(c), Style: p.arm(c.Arm).style, N: plural(c.Runs, "run")}
			if c.Starts > 0 {
				r.N += ", " + plural(c.Starts, "start")
			}
			for _, path := range mainPaths {
				r.Values = append(r.Values, valueOf(c, path))
			}
			g.Rows = append(g.Rows, r)
		}
		v.Table = append(v.Table, g)
	}
}

// mostOpen is how many further figures are shown without being asked for.
const mostOpen = 16

// OpenFurther says whether they are few enough for that.
func (v view) OpenFurther() bool { return len(v.Further) <= mostOpen }

func (p *Page) further(v *view) {
	for _, x := range p.panels {
		for _, c := range x.cells {
			for _, f := range report.Figures {
				if slices.Contains(mainPaths, f.Path) || c.Figures[f.Path] == nil && !hasWithheld(c, f.Path) {
					continue
				}
				v.Further = append(v.Further, furtherView{where(c), f.Label, f.Unit, p.arm(c.Arm).style, valueOf(c, f.Path)})
			}
		}
	}
}

func valueOf(c *report.Cell, path string) valueView {
	s := c.Figures[path]
	switch {
	case s == nil && hasWithheld(c, path):
		return valueView{Median: "withheld"}
	case s == nil:
		return valueView{Median: "none"}
	}
	d := decimals(s.Median)
	out := valueView{Median: fixed(s.Median, d), Range: fixed(s.Min, d) + " – " + fixed(s.Max, d)}
	if s.Min == s.Max {
		out.Range = ""
	}
	if in := s.Interval; in != nil {
		out.Interval = "[" + fixed(in.Low, d) + ", " + fixed(in.High, d) + "]"
		if in.Low == s.Min && in.High == s.Max {
			out.Range = ""
		}
	}
	if f, _ := report.FigureOf(path); f.PerStart {
		out.Of = plural(s.N, "start")
	} else if s.N != c.Runs {
		out.Of = fmt.Sprintf("%d of %d runs", s.N, c.Runs)
	}
	return out
}

func (p *Page) compared(v *view) {
	if p.compare == nil {
		if len(p.arms) > 1 {
			v.Compare = said(p.why)
		}
		return
	}
	f := p.metric()
	for _, pair := range p.compare.Pairs {
		row := comparedView{
			Where: strings.TrimSpace(clean(pair.Ctx) + " " + clean(pair.Part)), Arm: clean(pair.Arm), Base: clean(pair.Base),
			Style: p.arm(pair.Arm).style, Ratio: "none", TTFT: "none",
		}
		if len(pair.Refused) > 0 {
			row.Verdict = "not comparable"
			row.Words = "The runs differ in " + said(refusedWords(pair.Refused)) + "."
			v.Compared = append(v.Compared, row)
			continue
		}
		if len(pair.Allowed) > 0 {
			row.Words = "Passed over: " + said(refusedWords(pair.Allowed)) + ". "
		}
		if ch := pair.Change(f.Path); ch != nil {
			row.Ratio, row.Interval = ratioOf(ch)
			row.Verdict = string(cmp.Or(ch.Verdict, report.Unknown))
			row.Words += clean(ch.Words)
			if ch.Note != "" {
				row.Words += " Note: " + clean(ch.Note) + "."
			}
		}
		if ch := pair.Change("ttft_ms"); ch != nil {
			row.TTFT, row.TTFTIn = ratioOf(ch)
		}
		v.Compared = append(v.Compared, row)
	}
}

func ratioOf(ch *report.Change) (ratio, interval string) {
	if ch.Ratio == nil {
		return "none", ""
	}
	if in := ch.Interval; in != nil {
		interval = "[" + fixed(in.Low, 3) + ", " + fixed(in.High, 3) + "]"
	}
	return fixed(*ch.Ratio, 3), interval
}
