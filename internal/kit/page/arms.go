package page

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/kit/report"
	"assay/internal/kit/row"
)

// arm is one of the things that are compared.
type arm struct {
	label string
	style style
	rows  []*row.Row
	from  []*Folder
}

// style tells arms apart: by colour and, for who can't see it and for print, by
// the shape of the marks.
type style struct {
	Colour int // class a0 to a3
	Shape  int // symbol m0 to m5
}

const (
	colours = 4
	shapes  = 6
)

func styleOf(i int) style { return style{i % colours, (i + i/colours) % shapes} }

// label gives every row the label of its arm. Arms of one name are one arm,
// however many folders they come from, unless their rows are not runs of the
// same thing: then each folder's is an arm of its own.
func (p *Page) label(entries []entry) {
	from := map[string][]*Folder{} // by arm
	for _, e := range entries {
		if !slices.Contains(p.folders, e.folder) {
			p.folders = append(p.folders, e.folder)
		}
		if !slices.Contains(from[e.row.Arm], e.folder) {
			from[e.row.Arm] = append(from[e.row.Arm], e.folder)
		}
	}
	split := p.splitArms(entries, from)
	names := shortNames(p.folders)
	armOf := map[string]*arm{}
	for _, e := range entries {
		r := *e.row
		if split[r.Arm] {
			label := r.Arm + " (" + names[e.folder] + ")"
			if rest, ok := strings.CutPrefix(r.Cell, r.Arm); ok {
				r.Cell = label + rest
			}
			r.Arm = label
		}
		a := armOf[r.Arm]
		if a == nil {
			a = &arm{label: r.Arm}
			armOf[r.Arm] = a
			p.arms = append(p.arms, a)
		}
		a.rows = append(a.rows, &r)
		if !slices.Contains(a.from, e.folder) {
			a.from = append(a.from, e.folder)
		}
		p.entries = append(p.entries, entry{&r, e.folder})
	}
	if i := slices.IndexFunc(p.arms, func(a *arm) bool { return a.label == p.options.Base }); i > 0 {
		base := p.arms[i]
		p.arms = slices.Insert(slices.Delete(p.arms, i, i+1), 0, base)
	}
	for i, a := range p.arms {
		a.style = styleOf(i)
	}
}

// splitArms are the arms of which each folder's rows stand for themselves.
func (p *Page) splitArms(entries []entry, from map[string][]*Folder) map[string]bool {
	out := map[string]bool{}
	several := false
	for name, folders := range from {
		out[name] = p.options.Split && len(folders) > 1
		several = several || len(folders) > 1
	}
	if !several || p.options.Split {
		return out
	}
	all := report.NewBuilder()
	for _, e := range entries {
		all.Add(e.row)
	}
	for _, c := range all.Report().Cells {
		if c.Variant != "" && len(from[c.Arm]) > 1 {
			out[c.Arm] = true
		}
	}
	return out
}

// shortNames are the last parts of the folders' names, as many as tell them
// apart.
func shortNames(folders []*Folder) map[*Folder]string {
	out := map[*Folder]string{}
	for depth := 1; depth < 16; depth++ {
		seen := map[string]int{}
		for _, f := range folders {
			parts := strings.Split(filepath.ToSlash(filepath.Clean(f.Name)), "/")
			out[f] = strings.Join(parts[max(0, len(parts)-depth):], "/")
			seen[out[f]]++
		}
		if len(seen) == len(folders) {
			break
		}
	}
	return out
}

// arm finds an arm by its label.
func (p *Page) arm(label string) *arm {
	i := slices.IndexFunc(p.arms, func(a *arm) bool { return a.label == label })
	return p.arms[i] // every cell is of an arm that has rows
}

func (p *Page) summarise() {
	b := report.NewBuilder()
	for _, a := range p.arms {
		for _, r := range a.rows {
			b.Add(r)
		}
	}
	p.summary = b.Report()
}

// hold holds the arms against the first of them.
func (p *Page) hold() {
	if len(p.arms) < 2 {
		p.why = "there is one arm, so nothing is compared"
		return
	}
	var arms []report.ArmRows
	for _, a := range p.arms {
		arms = append(arms, report.ArmRows{Label: a.label, From: a.from[0].Name, Rows: a.rows})
	}
	c, err := report.Compare(arms, report.CompareOptions{Metric: p.options.Metric, Allow: p.options.Allow})
	switch {
	case errors.Is(err, report.ErrNothing):
		p.why = err.Error()
	case err != nil:
		p.why = "the arms can't be compared: " + err.Error()
	default:
		p.compare = c
	}
}

// panel is one context and load: what is held side by side.
type panel struct {
	ctx, part string
	cells     []*report.Cell
	traced    map[*report.Cell]*cellTrace
}

func (p *panel) name() string { return strings.TrimSpace(clean(p.ctx) + " " + clean(p.part)) }

// sort puts the cells of one context side by side, in the order of the arms.
func (p *Page) sort() {
	for _, c := range p.summary.Cells {
		i := slices.IndexFunc(p.panels, func(x *panel) bool { return x.ctx == c.Ctx && x.part == c.Part })
		if i < 0 {
			i = len(p.panels)
			p.panels = append(p.panels, &panel{ctx: c.Ctx, part: c.Part, traced: map[*report.Cell]*cellTrace{}})
		}
		p.panels[i].cells = append(p.panels[i].cells, c)
	}
	order := map[string]int{}
	for i, a := range p.arms {
		order[a.label] = i
	}
	for _, x := range p.panels {
		slices.SortStableFunc(x.cells, func(a, b *report.Cell) int { return cmp.Compare(order[a.Arm], order[b.Arm]) })
	}
	slices.SortStableFunc(p.panels, func(a, b *panel) int {
		return cmp.Or(cmp.Compare(a.size(), b.size()), cmp.Compare(a.part, b.part))
	})
}

// size is the prompt's in tokens, of the smallest run; 0 where no run tells it.
func (p *panel) size() int {
	least := 0
	for _, c := range p.cells {
		for _, r := range c.Measured {
			if n := r.PromptTokens; n != nil && (least == 0 || *n < least) {
				least = *n
			}
		}
	}
	return least
}

// metric is the figure that is tested.
func (p *Page) metric() report.Figure {
	f, ok := report.FigureOf(cmp.Or(p.options.Metric, "decode"))
	if !ok {
		f, _ = report.FigureOf("decode")
	}
	return f
}
