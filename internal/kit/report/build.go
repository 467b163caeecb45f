package report

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"assay/internal/kit/row"
	"assay/internal/kit/stats"
)

// Builder sums rows up, one after the other. Of a row it keeps the figures, not
// the row.
type Builder struct {
	report  Report
	failed  []*row.Row // of failed and stopped runs, what their cells are found by
	warmups []warmup
	groups  map[string]*group
	order   []*group
	arms    map[string]int // name to the order of its first row
}

// group is a cell in the making.
type group struct {
	cell   Cell
	starts map[string]bool
	warm   []Run
}

// warmup is a warm-up whose cell is found when all are there.
type warmup struct {
	key, arm, ctx, part string
	run                 Run
}

// NewBuilder gives a Builder without rows.
func NewBuilder() *Builder {
	return &Builder{groups: map[string]*group{}, arms: map[string]int{}}
}

// Add takes one row.
func (b *Builder) Add(r *row.Row) {
	b.report.Rows++
	if r.Status != row.OK {
		b.report.Failed = append(b.report.Failed, Failure{r.RowID, r.Arm, r.Ctx, r.Phase, r.Status, textOf(r.FailKind), textOf(r.Error), r.StartID})
	}
	if r.Phase == row.Warmup {
		b.report.Warmups++
		if r.Status == row.OK {
			b.warmups = append(b.warmups, warmup{keyOf(r), r.Arm, r.Ctx, partOf(r), runOf(r)})
		}
		return
	}
	if r.Status != row.OK {
		b.failed = append(b.failed, &row.Row{Arm: r.Arm, Ctx: r.Ctx, Cell: r.Cell, Engine: r.Engine, TimingRule: r.TimingRule, DecodeRule: r.DecodeRule})
		return
	}
	g := b.group(r)
	c := &g.cell
	if leftOut(r) {
		c.Short++
		c.ShortRuns = append(c.ShortRuns, ShortRun{r.RowID, r.CompletionTokens, r.Requested.MaxTokens})
		return
	}
	c.Runs++
	if r.StartID != nil {
		g.starts[*r.StartID] = true
	}
	c.Verdicts[verdictOf(r)]++
	switch {
	case r.PromptTokSClient == nil:
	case r.CachedTokens == nil:
		c.Cached.Unknown++
	case *r.CachedTokens == 0:
		c.Cached.None++
	default:
		c.Cached.Some++
	}
	withheld := withheldOf(r)
	for _, w := range withheld {
		w.RowID, w.StartID = r.RowID, r.StartID
		c.Withheld = gone(c.Withheld, w)
	}
	for _, f := range Figures {
		if f.value(r) == nil && !withholds(withheld, f.Path) {
			c.Missing = gone(c.Missing, Gone{Figure: f.Path, Why: whyOf(r, f.Path), RowID: r.RowID, StartID: r.StartID})
		}
	}
	c.Measured = append(c.Measured, runOf(r))
}

func withholds(list []Gone, path string) bool {
	return slices.ContainsFunc(list, func(g Gone) bool { return g.Figure == path })
}

// runOf takes what is kept of a row.
func runOf(r *row.Row) Run {
	out := Run{
		RowID: r.RowID, StartID: r.StartID, Block: r.Block, Repeat: r.Repeat, At: r.Telemetry.Window.T0,
		SliceSHA256: r.SliceSHA256, PromptTokens: r.PromptTokens, Tokens: r.CompletionTokens, EvidenceDir: r.Evidence.Dir,
		Values: make(map[string]*float64, len(Figures)),
	}
	withheld := withheldOf(r)
	for _, f := range Figures {
		out.Values[f.Path] = nil
		if !withholds(withheld, f.Path) { // a withheld one counts as such even if the row shows it as well
			out.Values[f.Path] = f.value(r)
		}
	}
	return out
}

// partOf is what a row's cell is beyond its arm and context.
func partOf(r *row.Row) string {
	_, part, _ := strings.Cut(strings.TrimPrefix(r.Cell, r.Arm+"/"), "/")
	return part
}

// keyOf names the cell that a row belongs to.
func keyOf(r *row.Row) string {
	settings := settingsOf(r)
	parts := []string{r.Arm, r.Ctx, partOf(r), ruleOf(r), r.DecodeRule}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		parts = append(parts, name, settings[name])
	}
	return strings.Join(parts, "\x00")
}

// group finds the cell that a row belongs to.
func (b *Builder) group(r *row.Row) *group {
	key := keyOf(r)
	if g, ok := b.groups[key]; ok {
		return g
	}
	if _, ok := b.arms[r.Arm]; !ok {
		b.arms[r.Arm] = len(b.arms)
	}
	g := &group{
		cell: Cell{
			Arm: r.Arm, Ctx: r.Ctx, Part: partOf(r), Settings: settingsOf(r), Rule: ruleOf(r), DecodeRule: r.DecodeRule,
			Withheld: []Gone{}, Missing: []Gone{}, Verdicts: map[string]int{}, ShortRuns: []ShortRun{}, Measured: []Run{},
		},
		starts: map[string]bool{},
	}
	b.groups[key] = g
	b.order = append(b.order, g)
	return g
}

// ownRule stands for the timing rule of a tool that names none.
const ownRule = "own"

func ruleOf(r *row.Row) string {
	if r.TimingRule != "" {
		return r.TimingRule
	}
	return ownRule
}

// settingsOf lists what must be equal for rows to be runs of the same thing.
// What a row does not say is left out.
func settingsOf(r *row.Row) map[string]string {
	out := map[string]string{}
	set := func(name, value string) {
		if value != "" {
			out[name] = value
		}
	}
	set("engine", r.Engine)
	set("engine commit", textOf(r.EngineCommit))
	set("quant", textOf(r.Quant))
	set("processor", textOf(r.Host.CPUModel))
	set("reasoning", textOf(r.Requested.Reasoning))
	set("asked tokens", numberOf(r.Requested.MaxTokens))
	set("threads", threadsOf(r))
	set("model files", modelFiles(r))
	set("sampling", samplingOf(r))
	return out
}

func numberOf(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

// threadsOf is how many threads compute: the workers, and the one that feeds
// them where it is known to work too.
func threadsOf(r *row.Row) string {
	if r.Threads.Workers == nil {
		return ""
	}
	n := *r.Threads.Workers
	if r.Threads.HostThread != nil && *r.Threads.HostThread {
		n++
	}
	return strconv.Itoa(n)
}

// modelFiles is the hashes of the model's files.
func modelFiles(r *row.Row) string {
	var files []string
	for _, name := range slices.Sorted(maps.Keys(r.FileSHA256)) {
		files = append(files, r.FileSHA256[name])
	}
	return strings.Join(files, " ")
}

// samplingOf is the sampling as JSON, without the seed: that changes with each
// run where runs are sampled.
func samplingOf(r *row.Row) string {
	s := r.Requested.Sampling
	if s == (row.Sampling{}) {
		return ""
	}
	s.Seed = nil
	text, err := json.Marshal(s)
	if err != nil {
		return "unreadable"
	}
	return string(text)
}

// placeFailed counts the runs that failed in a cell of their arm and context,
// in one of its own only where there is no other: a run that failed early does
// not know all of its settings.
func (b *Builder) placeFailed() {
	for _, r := range b.failed {
		i := slices.IndexFunc(b.order, func(g *group) bool {
			return g.cell.Arm == r.Arm && g.cell.Ctx == r.Ctx && g.cell.Part == partOf(r)
		})
		if i >= 0 {
			b.order[i].cell.FailedRuns++
		} else {
			b.group(r).cell.FailedRuns++
		}
	}
	b.failed = nil
}

// placeWarmups gives the warm-ups to their cells. One whose cell has no other
// run is counted in the report alone.
func (b *Builder) placeWarmups() {
	for _, w := range b.warmups {
		g, ok := b.groups[w.key]
		if !ok {
			i := slices.IndexFunc(b.order, func(g *group) bool {
				return g.cell.Arm == w.arm && g.cell.Ctx == w.ctx && g.cell.Part == w.part
			})
			if i < 0 {
				continue
			}
			g = b.order[i]
		}
		g.warm = append(g.warm, w.run)
	}
	b.warmups = nil
}

// Report is the summary of the rows that were added.
func (b *Builder) Report() *Report {
	b.placeFailed()
	b.placeWarmups()
	out := b.report
	out.Schema = Schema
	out.Failed = append([]Failure{}, out.Failed...)
	out.Cells = []*Cell{}
	for _, g := range b.order {
		c := g.cell
		c.Starts = len(g.starts)
		c.Figures = statsOf(c.Measured)
		c.WarmUps = WarmUps{len(g.warm), statsOf(g.warm)}
		out.Cells = append(out.Cells, &c)
	}
	slices.SortStableFunc(out.Cells, func(x, y *Cell) int {
		return cmp.Or(cmp.Compare(b.arms[x.Arm], b.arms[y.Arm]), compareCtx(x.Ctx, y.Ctx), cmp.Compare(x.Part, y.Part))
	})
	nameVariants(out.Cells)
	return &out
}

func compareCtx(a, b string) int {
	return cmp.Or(cmp.Compare(tokensOf(a), tokensOf(b)), cmp.Compare(a, b))
}

// statsOf sums the figures of runs up.
func statsOf(runs []Run) map[string]*Stat {
	out := make(map[string]*Stat, len(Figures))
	for _, f := range Figures {
		out[f.Path] = statOf(f, runs)
	}
	return out
}

// statOf is nil when no run has the figure.
func statOf(f Figure, runs []Run) *Stat {
	var values []float64
	var of []Run // each value's run
	perStart := map[string][]float64{}
	for _, r := range runs {
		v := r.Values[f.Path]
		if v == nil {
			continue
		}
		start := textOf(r.StartID)
		if f.PerStart && perStart[start] != nil {
			continue
		}
		perStart[start] = append(perStart[start], *v)
		values, of = append(values, *v), append(of, r)
	}
	sum, ok := stats.Summarize(values)
	if !ok {
		return nil
	}
	s := &Stat{Unit: f.Unit, Summary: sum, Outliers: []Outlier{}}
	for _, i := range stats.Outliers(values) {
		s.Outliers = append(s.Outliers, Outlier{of[i].RowID, values[i]})
	}
	over := OverRuns
	if need := stats.MedianNeeds(Confidence); f.PerStart || len(perStart) >= need {
		over, values = OverStarts, medians(perStart)
	}
	in, err := stats.MedianInterval(values, Confidence)
	if err != nil {
		s.IntervalWhy = err.Error() + " " + over
		return s
	}
	s.Interval, s.IntervalOver = &in, over
	return s
}

func medians(groups map[string][]float64) []float64 {
	var out []float64
	for _, values := range groups {
		if s, ok := stats.Summarize(values); ok {
			out = append(out, s.Median)
		}
	}
	return out
}
