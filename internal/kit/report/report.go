// Package report sums rows up and prints the result: one line a cell with the
// number of runs, the median and the range of what matters most, and below the
// table everything that a reader must know before using the numbers.
//
// What is withheld is never mixed in, warm-ups and failed runs are left out,
// and rows are pooled only when they are runs of the same thing, timed by the
// same rule.
package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"assay/internal/kit/row"
	"assay/internal/kit/stats"
)

// Schema names the form of a Report's JSON.
const Schema = "assay-summary-1"

// Report is the summary of a set of rows.
type Report struct {
	Schema  string    `json:"schema"`
	Rows    int       `json:"rows"` // all that were read
	Warmups int       `json:"warmups"`
	Cells   []*Cell   `json:"cells"`
	Failed  []Failure `json:"failed"` // failed and stopped runs, warm-ups among them
}

// Cell is one arm at one context, as far as its rows are runs of the same
// thing.
type Cell struct {
	Arm      string            `json:"arm"`
	Ctx      string            `json:"ctx"`
	Variant  string            `json:"variant,omitempty"` // tells cells of one arm and context apart
	Settings map[string]string `json:"settings"`          // what all of its rows have in common

	Rule       string `json:"rule"`        // the timing rule, "own" for rows of tools that name none
	DecodeRule string `json:"decode_rule"` // in words

	Runs       int `json:"runs"` // rows that are summed up
	FailedRuns int `json:"failed_runs"`
	Short      int `json:"short"`  // left out: too few tokens
	Starts     int `json:"starts"` // launches of the target, 0 when the rows don't say

	TTFT   *Stat `json:"ttft_ms"` // null when no run has the figure
	Prompt *Stat `json:"prompt_tok_s_client"`
	Decode *Stat `json:"decode_tok_s"`

	Withheld []Gone         `json:"withheld"` // figures computed and not shown
	Missing  []Gone         `json:"missing"`  // figures of the table that could not be computed
	Verdicts map[string]int `json:"verdicts"` // of the token count
	Cached   Cached         `json:"cached"`
}

// Stat describes one figure over the runs of a cell.
type Stat struct {
	Unit string `json:"unit"`
	stats.Summary
}

// Gone is a figure that some runs do not show.
type Gone struct {
	Figure string   `json:"figure"`
	Runs   int      `json:"runs"`
	Codes  []string `json:"codes,omitempty"`
	Why    string   `json:"why"` // in the first of the runs
}

// Cached says how far the runs' prompt rates are of prompts computed anew.
type Cached struct {
	None    int `json:"none"`    // the engine says that nothing came from a cache
	Some    int `json:"some"`    // a little did, and is left out of the rate
	Unknown int `json:"unknown"` // the nonce alone speaks for it
}

// Failure is a run that did not end well.
type Failure struct {
	RowID  string     `json:"row_id"`
	Arm    string     `json:"arm"`
	Ctx    string     `json:"ctx"`
	Phase  row.Phase  `json:"phase"`
	Status row.Status `json:"status"`
	Kind   string     `json:"fail_kind"`
	Error  string     `json:"error"`
}

// shownFigures are the columns of the table.
var shownFigures = []struct {
	path, label, unit string
	value             func(r *row.Row) *float64
	stat              func(c *Cell) **Stat
}{
	{"ttft_ms", "TTFT", "ms", func(r *row.Row) *float64 { return r.TTFTMS }, func(c *Cell) **Stat { return &c.TTFT }},
	{"prompt_tok_s_client", "prompt", "tok/s", func(r *row.Row) *float64 { return r.PromptTokSClient }, func(c *Cell) **Stat { return &c.Prompt }},
	{"decode_tok_s", "decode", "tok/s", func(r *row.Row) *float64 { return r.DecodeTokS }, func(c *Cell) **Stat { return &c.Decode }},
}

// Builder sums rows up, one after the other, and keeps none of them.
type Builder struct {
	report Report
	failed []*row.Row // of failed and stopped runs, what their cells are found by
	groups map[string]*group
	order  []*group
	arms   map[string]int // name to the order of its first row
}

// group is a cell in the making.
type group struct {
	cell   Cell
	values [][]float64 // by shownFigures
	starts map[string]bool
}

// NewBuilder gives a Builder without rows.
func NewBuilder() *Builder {
	return &Builder{groups: map[string]*group{}, arms: map[string]int{}}
}

// Add takes one row.
func (b *Builder) Add(r *row.Row) {
	b.report.Rows++
	if r.Status != row.OK {
		b.report.Failed = append(b.report.Failed, Failure{r.RowID, r.Arm, r.Ctx, r.Phase, r.Status, textOf(r.FailKind), textOf(r.Error)})
	}
	if r.Phase == row.Warmup {
		b.report.Warmups++
		return
	}
	if r.Status != row.OK {
		b.failed = append(b.failed, &row.Row{Arm: r.Arm, Ctx: r.Ctx, Engine: r.Engine, TimingRule: r.TimingRule, DecodeRule: r.DecodeRule})
		return
	}
	g := b.group(r)
	c := &g.cell
	if leftOut(r) {
		c.Short++
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
		c.Withheld = gone(c.Withheld, w)
	}
	for i, f := range shownFigures {
		isWithheld := slices.ContainsFunc(withheld, func(w Gone) bool { return w.Figure == f.path })
		switch v := f.value(r); {
		case isWithheld: // even if the row shows it as well
		case v != nil:
			g.values[i] = append(g.values[i], *v)
		default:
			c.Missing = gone(c.Missing, Gone{Figure: f.path, Why: whyOf(r, f.path)})
		}
	}
}

// gone counts one more run in which a figure is gone.
func gone(list []Gone, g Gone) []Gone {
	for i := range list {
		if list[i].Figure == g.Figure && slices.Equal(list[i].Codes, g.Codes) {
			list[i].Runs++
			return list
		}
	}
	g.Runs = 1
	return append(list, g)
}

// withheldOf lists what a row withholds. Rows of other tools keep a withheld
// decode rate in a field of its own, with the count's verdict as the reason.
func withheldOf(r *row.Row) []Gone {
	var out []Gone
	for _, w := range r.Withheld {
		out = append(out, Gone{Figure: w.Figure, Codes: w.Codes, Why: w.Why})
	}
	if r.Schema == "" {
		for _, f := range []struct {
			path  string
			value *float64
		}{{"decode_tok_s", r.DecodeTokSWithheld}, {"decode_tok_s_server", r.DecodeTokSServerWithheld}} {
			if f.value != nil {
				out = append(out, Gone{Figure: f.path, Codes: []string{verdictOf(r)}, Why: "its own rule: " + textOf(r.CountCheck.Rule)})
			}
		}
	}
	return out
}

func verdictOf(r *row.Row) string {
	if r.CountCheck.Verdict == nil {
		return "unchecked"
	}
	return *r.CountCheck.Verdict
}

// leftOut says whether a row is too short to be summed up.
func leftOut(r *row.Row) bool {
	if r.Schema != "" {
		return slices.Contains(r.Flags, row.FlagLeftOut)
	}
	return r.ShortCompletion != nil && *r.ShortCompletion
}

// whyOf is the reason for a null: the row's for the path, or for an object
// that holds it.
func whyOf(r *row.Row, path string) string {
	for p := path; p != ""; p = p[:max(strings.LastIndexByte(p, '.'), 0)] {
		if why := r.Why[p]; why != "" {
			return why
		}
	}
	return "the row gives no reason"
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// group finds the cell that a row belongs to.
func (b *Builder) group(r *row.Row) *group {
	rule, settings := ruleOf(r), settingsOf(r)
	parts := []string{r.Arm, r.Ctx, rule, r.DecodeRule}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		parts = append(parts, name, settings[name])
	}
	key := strings.Join(parts, "\x00")
	if g, ok := b.groups[key]; ok {
		return g
	}
	if _, ok := b.arms[r.Arm]; !ok {
		b.arms[r.Arm] = len(b.arms)
	}
	g := &group{
		cell: Cell{
			Arm: r.Arm, Ctx: r.Ctx, Settings: settings, Rule: rule, DecodeRule: r.DecodeRule,
			Withheld: []Gone{}, Missing: []Gone{}, Verdicts: map[string]int{},
		},
		values: make([][]float64, len(shownFigures)),
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
	if r.Requested.MaxTokens != nil {
		set("asked tokens", strconv.Itoa(*r.Requested.MaxTokens))
	}
	if len(r.FileSHA256) > 0 {
		var files []string
		for _, name := range slices.Sorted(maps.Keys(r.FileSHA256)) {
			files = append(files, r.FileSHA256[name])
		}
		set("model files", strings.Join(files, " "))
	}
	if s := r.Requested.Sampling; s != (row.Sampling{}) {
		// A seed changes with each run where runs are sampled.
		s.Seed = nil
		if text, err := json.Marshal(s); err == nil {
			set("sampling", string(text))
		}
	}
	return out
}

// placeFailed counts the runs that failed in a cell of their arm and context,
// in one of its own only where there is no other: a run that failed early does
// not know all of its settings.
func (b *Builder) placeFailed() {
	for _, r := range b.failed {
		i := slices.IndexFunc(b.order, func(g *group) bool { return g.cell.Arm == r.Arm && g.cell.Ctx == r.Ctx })
		if i >= 0 {
			b.order[i].cell.FailedRuns++
		} else {
			b.group(r).cell.FailedRuns++
		}
	}
	b.failed = nil
}

// Report is the summary of the rows that were added.
func (b *Builder) Report() *Report {
	b.placeFailed()
	out := b.report
	out.Schema = Schema
	out.Failed = append([]Failure{}, out.Failed...)
	out.Cells = []*Cell{}
	for _, g := range b.order {
		c := g.cell
		c.Starts = len(g.starts)
		for i, f := range shownFigures {
			if s, ok := stats.Summarize(g.values[i]); ok {
				*f.stat(&c) = &Stat{f.unit, s}
			}
		}
		out.Cells = append(out.Cells, &c)
	}
	slices.SortStableFunc(out.Cells, func(x, y *Cell) int {
		return cmp.Or(cmp.Compare(b.arms[x.Arm], b.arms[y.Arm]), cmp.Compare(tokensOf(x.Ctx), tokensOf(y.Ctx)), cmp.Compare(x.Ctx, y.Ctx))
	})
	nameVariants(out.Cells)
	return &out
}

// tokensOf reads a context such as "512", "4K" or "4Ki" for sorting; others
// come first.
func tokensOf(ctx string) float64 {
	scale := 1.0
	for _, suffix := range []struct {
		text  string
		scale float64
	}{{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"K", 1e3}, {"M", 1e6}} {
		if rest, ok := strings.CutSuffix(ctx, suffix.text); ok {
			ctx, scale = rest, suffix.scale
			break
		}
	}
	n, err := strconv.ParseFloat(ctx, 64)
	if err != nil {
		return -1
	}
	return n * scale
}

// nameVariants tells cells of one arm and context apart: [1], [2] ...
func nameVariants(cells []*Cell) {
	byName := map[string][]*Cell{}
	for _, c := range cells {
		name := c.Arm + "\x00" + c.Ctx
		byName[name] = append(byName[name], c)
	}
	for _, same := range byName {
		if len(same) < 2 {
			continue
		}
		for i, c := range same {
			c.Variant = fmt.Sprintf("[%d]", i+1)
		}
	}
}

// Clean says that no run failed and nothing is withheld.
func (r *Report) Clean() bool {
	for _, c := range r.Cells {
		if len(c.Withheld) > 0 {
			return false
		}
	}
	return len(r.Failed) == 0
}
