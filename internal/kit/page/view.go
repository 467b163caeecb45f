package page

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/internal/kit/report"
	"assay/internal/kit/row"
)

// view is what the template shows: text that is ready, and charts.
type view struct {
	Title    string
	About    []string // what was measured, when and on what
	Lead     []string
	Checks   []check
	Arms     []armView
	Table    []tableGroup
	Further  []furtherView // every other figure that cells have
	Compared []comparedView
	Compare  string // what a comparison is missing
	Metric   string
	Ratio    *chart
	Panels   []panelView
	MoreCtx  int      // contexts without charts
	Drawn    bool     // some panel has a chart of its evidence
	Silent   []string // why none has
	Machine  []machineView
	Gone     []goneView
	Failed   []failedView
	MoreGone int // failed runs that are not listed
	Left     string
	Differ   []differView
	Facts    []factsView
	Runs     runsView
	Commands []string
	Rules    []string
	Version  string
	Live     bool
	Query    string
}

type armView struct {
	Name  string
	Style style
}

type panelView struct {
	ID, Name  string
	Strips    []*chart
	Tokens    *chart
	TokenKeys []legend
	Gaps      *chart
	GapKeys   []legend
	From      []source
	Verify    []string // the commands that check them, each once
	None      []string // why an arm shows no evidence
}

// source is the evidence that a chart was drawn from.
type source struct {
	Text   string
	Link   string
	Folder string
	Verify string // the command that checks it
}

type machineView struct {
	Arm    string
	Style  style
	Run    string
	From   source
	Charts []machineChart
	Silent []silence
}

type machineChart struct {
	Chart *chart
	Keys  []legend
}

type goneView struct{ Cell, Word, Runs, Figures, Codes, Why, Link string }

type failedView struct{ Row, Arm, Ctx, Phase, Status, Kind, Error, Link string }

type differView struct {
	Arm, Base string
	Items     []report.Difference
}

type factsView struct {
	Title string
	Items []fact
}

type fact struct {
	Name, Value string
	Mono        bool
}

func (p *Page) makeView() view {
	v := view{
		Title: p.title(), About: p.about(), Lead: p.lead(), Checks: p.checks(), Ratio: p.ratios(),
		Metric: p.metric().Label, Gone: p.gone(), Left: p.leftOut(), Facts: p.facts(), Runs: p.runTable(),
		Commands: p.commands(), Rules: p.rules(), Version: p.options.Version, Live: p.options.Live, Query: p.options.Query,
	}
	for _, a := range p.arms {
		v.Arms = append(v.Arms, armView{clean(a.label), a.style})
	}
	p.table(&v)
	p.further(&v)
	p.compared(&v)
	p.panelViews(&v)
	p.machine(&v)
	p.failed(&v)
	if p.compare != nil {
		base := clean(p.compare.Arms[0].Label)
		for _, a := range p.compare.Arms[1:] {
			v.Differ = append(v.Differ, differView{clean(a.Label), base, a.Differences})
		}
	}
	return v
}

func (p *Page) title() string {
	var names []string
	for _, a := range p.arms {
		names = append(names, short(clean(a.label), 40))
	}
	switch n := len(names); {
	case n == 0:
		return "Assay report"
	case n > 4:
		return fmt.Sprintf("%d arms against %s", n-1, names[0])
	case n > 1:
		return list(names[1:]) + " against " + names[0]
	}
	return names[0]
}

// about tells what was measured, when and on what.
func (p *Page) about() []string {
	var out []string
	cpus, engines := map[string]bool{}, map[string]bool{}
	first, last := math.Inf(1), math.Inf(-1)
	for _, e := range p.entries {
		if s := textOf(e.row.Host.CPUModel); s != "" {
			cpus[s] = true
		}
		if e.row.Engine != "" {
			engines[e.row.Engine] = true
		}
		if t := e.row.Telemetry.Window.T0; t != nil {
			first, last = min(first, *t), max(last, *t)
		}
	}
	if len(engines) > 0 {
		out = append(out, keys(engines))
	}
	if len(cpus) > 0 {
		out = append(out, keys(cpus))
	}
	if day := dayOf(first); day != "" {
		if to := dayOf(last); to != day {
			day += " to " + to
		}
		out = append(out, day)
	}
	return append(out, plural(p.summary.Rows, "row"))
}

func keys(set map[string]bool) string {
	var out []string
	for s := range set {
		out = append(out, short(clean(s), 60))
	}
	slices.Sort(out)
	if len(out) > 3 {
		out = append(out[:2], fmt.Sprintf("%d more", len(out)-2))
	}
	return list(out)
}

func dayOf(unix float64) string {
	if !(unix > 0 && unix < 1e11) {
		return ""
	}
	return time.Unix(int64(unix), 0).UTC().Format("2 January 2006")
}

// mostPanels is how many contexts get charts.
const mostPanels = 24

func (p *Page) panelViews(v *view) {
	for i, x := range p.panels {
		if i == mostPanels {
			v.MoreCtx = len(p.panels) - i
			break
		}
		id := "c" + strconv.Itoa(i)
		pv := panelView{ID: id, Name: x.name()}
		for _, name := range []string{"decode", "ttft"} {
			f, _ := report.FigureOf(name)
			if c := p.strips(id+name, x, f); c != nil {
				pv.Strips = append(pv.Strips, c)
			}
		}
		pv.Tokens, pv.TokenKeys = p.overTime(id+"t", x)
		pv.Gaps, pv.GapKeys = p.gapsOf(id+"g", x)
		for _, c := range x.cells {
			if t := x.traced[c]; t.run != nil {
				s := p.source(t.run)
				if pv.From = append(pv.From, s); s.Verify != "" && !slices.Contains(pv.Verify, s.Verify) {
					pv.Verify = append(pv.Verify, s.Verify)
				}
			} else {
				pv.None = append(pv.None, fmt.Sprintf("%s: %s", short(cellName(c), 40), t.why))
				if why := clean(c.Arm) + ": " + t.why; !slices.Contains(v.Silent, why) && len(v.Silent) < 8 {
					v.Silent = append(v.Silent, why)
				}
			}
		}
		v.Drawn = v.Drawn || len(pv.From) > 0
		v.Panels = append(v.Panels, pv)
	}
}

// source says where the evidence of a run is and how it is checked.
func (p *Page) source(r *report.Run) source { return p.sourceOf(r.RowID, r.StartID) }

func (p *Page) sourceOf(id string, start *string) source {
	i := slices.IndexFunc(p.entries, func(e entry) bool {
		return e.row.RowID == id && textOf(e.row.StartID) == textOf(start)
	})
	if i < 0 {
		return source{Text: clean(id)}
	}
	return sourceOf(p.entries[i])
}

func sourceOf(e entry) source {
	s := source{Text: clean(e.row.RowID), Folder: clean(e.folder.Name)}
	if e.row.Evidence.Dir == nil || e.folder.Path == "" {
		return s
	}
	s.Verify = "assay verify " + shell(e.folder.Name)
	if _, err := filepath.Localize(*e.row.Evidence.Dir); err == nil && e.folder.Link != "" {
		s.Link = e.folder.Link + "/" + urlPath(*e.row.Evidence.Dir) + "/"
	}
	return s
}

func (p *Page) machine(v *view) {
	type shown struct {
		cell  *report.Cell
		trace *cellTrace
		at    string
	}
	var all []shown
	for _, a := range p.arms {
		// The last context is the longest: more of the machine is to be seen in it.
		for i := len(p.panels) - 1; i >= 0; i-- {
			x := p.panels[i]
			k := slices.IndexFunc(x.cells, func(c *report.Cell) bool { return c.Arm == a.label && x.traced[c].run != nil })
			if k >= 0 {
				all = append(all, shown{x.cells[k], x.traced[x.cells[k]], x.name()})
				break
			}
		}
		if len(all) == 4 {
			break
		}
	}
	ends := []float64{}
	for _, s := range all {
		for _, l := range s.trace.trace.lines {
			for _, pt := range l.points {
				ends = append(ends, pt.x)
			}
		}
	}
	if len(all) == 0 {
		return
	}
	sx := scale{0, 1}
	if len(ends) > 0 {
		sx = scale{slices.Min(ends), slices.Max(ends)}
	}
	if sx.high <= sx.low {
		sx.high = sx.low + 1
	}
	for i, s := range all {
		st := p.arm(s.cell.Arm).style
		m := machineView{
			Arm: cellName(s.cell), Style: st, Run: fmt.Sprintf("run %d at %s", s.trace.run.Repeat+1, s.at),
			From: p.source(s.trace.run), Silent: s.trace.trace.silent,
		}
		for k, group := range groupsOf(s.trace.trace.lines) {
			lines := linesOf(s.trace.trace.lines, group)
			highest := []float64{}
			for _, o := range all { // one scale for all arms
				for _, l := range linesOf(o.trace.trace.lines, group) {
					for _, pt := range l.points {
						highest = append(highest, pt.y)
					}
				}
			}
			c := machineChart{Chart: timeline(fmt.Sprintf("m%d-%d", i, k), group, lines, s.trace.trace, sx, fromZero(highest...), st.Colour)}
			for n, l := range lines {
				c.Keys = append(c.Keys, legend{st, fmt.Sprintf("a%d t%d", st.Colour, n%4), l.name})
			}
			m.Charts = append(m.Charts, c)
		}
		v.Machine = append(v.Machine, m)
	}
}

func groupsOf(lines []series) []string {
	var out []string
	for _, l := range lines {
		if !slices.Contains(out, l.group) {
			out = append(out, l.group)
		}
	}
	return out
}

func linesOf(lines []series, group string) []series {
	return slices.DeleteFunc(slices.Clone(lines), func(s series) bool { return s.group != group })
}

// gone lists what is withheld and, of what the table shows, what is missing.
func (p *Page) gone() []goneView {
	var out []goneView
	for _, c := range p.summary.Cells {
		add := func(word string, gone []report.Gone) {
			for _, g := range gone {
				i := slices.IndexFunc(out, func(o goneView) bool {
					return o.Cell == where(c) && o.Word == word && o.Runs == fmt.Sprintf("%d of %d", g.Runs, c.Runs) && o.Why == said(g.Why)
				})
				label := report.Label(g.Figure)
				if i >= 0 {
					out[i].Figures += ", " + label
					continue
				}
				out = append(out, goneView{where(c), word, fmt.Sprintf("%d of %d", g.Runs, c.Runs), label, said(codes(g.Codes)), said(g.Why), p.sourceOf(g.RowID, g.StartID).Link})
			}
		}
		add("withheld", c.Withheld)
		add("missing", slices.DeleteFunc(slices.Clone(c.Missing), func(g report.Gone) bool { return !slices.Contains(mainPaths, g.Figure) }))
	}
	return out
}

func codes(c []string) string {
	if len(c) == 0 {
		return "–"
	}
	return strings.Join(c, ", ")
}

func where(c *report.Cell) string {
	return strings.TrimSpace(cellName(c) + ", " + clean(c.Ctx) + " " + clean(c.Part))
}

// mostFailed is how many failed runs are listed.
const mostFailed = 100

func (p *Page) failed(v *view) {
	for i, f := range p.summary.Failed {
		if i == mostFailed {
			v.MoreGone = len(p.summary.Failed) - mostFailed
			break
		}
		phase := string(f.Phase)
		if f.Phase == row.Measure {
			phase = "measured"
		}
		v.Failed = append(v.Failed, failedView{clean(f.RowID), clean(f.Arm), clean(f.Ctx), clean(phase), clean(string(f.Status)), said(f.Kind), said(f.Error), p.sourceOf(f.RowID, f.StartID).Link})
	}
}

func (p *Page) leftOut() string {
	short, failed := 0, 0
	for _, c := range p.summary.Cells {
		short += c.Short
		failed += c.FailedRuns
	}
	var parts []string
	for _, x := range []struct {
		n    int
		what string
	}{{p.summary.Warmups, "warm-up"}, {failed, "failed or stopped run"}, {short, "short run (under 90 % of the asked tokens)"}} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d × %s", x.n, x.what))
		}
	}
	if parts == nil {
		return ""
	}
	return fmt.Sprintf("Left out of the figures, of %s: %s.", plural(p.summary.Rows, "row"), list(parts))
}
