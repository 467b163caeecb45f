package report

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/kit/row"
	"assay/internal/kit/stats"
)

// CompareSchema names the form of a Comparison's JSON.
const CompareSchema = "assay-compare-1"

// ArmRows are the rows of one arm, under the label that tells it from the
// others.
type ArmRows struct {
	Label string
	From  string // where the rows were read
	Rows  []*row.Row
}

// CompareOptions say what is compared, and how.
type CompareOptions struct {
	Metric     string      // the declared figure, by name or path; empty: decode
	Allow      []string    // Mismatch.Kind values that are passed over
	Conditions []Condition // of --fail-if
}

// Comparison holds arms against the first of them.
type Comparison struct {
	Schema     string        `json:"schema"`
	Metric     string        `json:"metric"` // path of the declared figure: it alone is tested
	Confidence float64       `json:"confidence"`
	Arms       []ComparedArm `json:"arms"`  // the first is the base
	Pairs      []*Pair       `json:"pairs"` // an arm and the base in one cell each
	Conditions []Outcome     `json:"conditions"`
}

// ComparedArm is one side of a comparison.
type ComparedArm struct {
	Label       string       `json:"label"`
	Arm         string       `json:"arm"`
	From        string       `json:"from"`
	Runs        int          `json:"runs"` // rows that take part
	Starts      int          `json:"starts"`
	LeftOut     []Left       `json:"left_out"`
	Differences []Difference `json:"differences"` // from the base; empty for the base
}

// Left counts rows that take no part, for one reason.
type Left struct {
	Runs int    `json:"runs"`
	Why  string `json:"why"`
}

// Pair is an arm held against the base in one cell.
type Pair struct {
	Arm     string     `json:"arm"`
	Base    string     `json:"base"`
	Ctx     string     `json:"ctx"`
	Part    string     `json:"part,omitempty"`
	Refused []Mismatch `json:"refused"` // why the two can't be compared; Changes is empty then
	Allowed []Mismatch `json:"allowed"` // the same, passed over since it was asked for
	Changes []*Change  `json:"changes"` // the declared figure first
}

// Change is how one figure differs.
type Change struct {
	Figure string `json:"figure"`
	Label  string `json:"label"`
	Unit   string `json:"unit"`
	Base   Side   `json:"base"`
	Other  Side   `json:"other"`

	Ratio    *float64        `json:"ratio"`    // of the medians, other over base
	Interval *stats.Interval `json:"interval"` // of the ratio, by Hodges and Lehmann over the logarithms
	Over     string          `json:"over"`     // what the interval and the test are over: OverRuns, OverStarts, or pairs of them
	Units    [2]int          `json:"units"`    // how many of them, of base and other
	Note     string          `json:"note,omitempty"`
	Why      string          `json:"why,omitempty"` // why the ratio or the interval is null

	// Only of the declared figure: the test, its p among all tests of this
	// comparison (Holm), and what follows.
	Test      *stats.Test `json:"test"`
	PAdjusted *float64    `json:"p_adjusted"`
	Verdict   Verdict     `json:"verdict,omitempty"`
	Words     string      `json:"words,omitempty"`

	tests int // how many are tested together, this one among them; 0: it is not
}

// Side is one arm's part of a change.
type Side struct {
	N        int      `json:"n"` // runs that have the figure
	Starts   int      `json:"starts"`
	Median   *float64 `json:"median"`
	Withheld int      `json:"withheld"` // runs that withhold it
}

// Verdict is what a comparison comes to.
type Verdict string

// The verdicts.
const (
	Faster  Verdict = "faster"
	Slower  Verdict = "slower"
	Less    Verdict = "less" // of figures that are no speed
	More    Verdict = "more"
	Same    Verdict = "same within noise" // no difference could be shown
	Unknown Verdict = "can't tell"        // too few runs, or none with the figure
)

// ErrNothing is returned when no cell has runs of two arms.
var ErrNothing = errors.New("no context has runs of both arms")

// Compare holds every arm against the first.
func Compare(arms []ArmRows, o CompareOptions) (*Comparison, error) {
	metric, ok := FigureOf(cmp.Or(o.Metric, decodePath))
	switch {
	case !ok:
		return nil, fmt.Errorf("metric: %q is not known (want %s)", o.Metric, figureNames())
	case len(arms) < 2:
		return nil, fmt.Errorf("a comparison needs two arms, not %d", len(arms))
	}
	if err := checkAllow(o.Allow); err != nil {
		return nil, err
	}
	out := &Comparison{Schema: CompareSchema, Metric: metric.Path, Confidence: Confidence, Pairs: []*Pair{}, Conditions: []Outcome{}}
	sides := make([]*side, len(arms))
	for i, a := range arms {
		sides[i] = newSide(a)
		armed := sides[i].summary()
		if i > 0 {
			armed.Differences = differences(sides[0].all, sides[i].all)
		}
		out.Arms = append(out.Arms, armed)
	}
	var comparable []func(tests int)
	for _, other := range sides[1:] {
		for _, cell := range other.order {
			base := sides[0].cells[cell]
			if len(base) == 0 {
				continue
			}
			p := pair(sides[0], other, cell, o)
			if out.Pairs = append(out.Pairs, p); len(p.Refused) == 0 {
				comparable = append(comparable, func(tests int) { p.change(base, other.cells[cell], metric, tests) })
			}
		}
	}
	for _, change := range comparable {
		change(len(comparable))
	}
	if len(out.Pairs) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNothing, contexts(sides))
	}
	slices.SortStableFunc(out.Pairs, func(a, b *Pair) int {
		return cmp.Or(compareCtx(a.Ctx, b.Ctx), cmp.Compare(a.Part, b.Part))
	})
	out.judge(metric)
	for _, c := range o.Conditions {
		out.Conditions = append(out.Conditions, out.try(c)...)
	}
	return out, nil
}

func figureNames() string {
	var names []string
	for _, f := range Figures {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// cellKey is a cell without its arm.
type cellKey struct{ ctx, part string }

// side is an arm's rows, sorted into cells.
type side struct {
	rows  ArmRows
	all   []*row.Row // all that take part
	cells map[cellKey][]*row.Row
	order []cellKey
	left  []Left
}

func newSide(a ArmRows) *side {
	s := &side{rows: a, cells: map[cellKey][]*row.Row{}, left: []Left{}}
	for _, r := range a.Rows {
		if why := noPart(r); why != "" {
			s.leave(why)
			continue
		}
		key := cellKey{r.Ctx, partOf(r)}
		if s.cells[key] == nil {
			s.order = append(s.order, key)
		}
		s.cells[key] = append(s.cells[key], r)
		s.all = append(s.all, r)
	}
	return s
}

// noPart says why a row takes no part in comparisons.
func noPart(r *row.Row) string {
	switch {
	case r.Phase == row.Warmup:
		return "warm-up"
	case r.Status != row.OK:
		return string(r.Status) + ": " + orUnknown(textOf(r.FailKind))
	case leftOut(r):
		return "short (under 90 % of the asked tokens)"
	}
	return ""
}

func (s *side) leave(why string) {
	for i := range s.left {
		if s.left[i].Why == why {
			s.left[i].Runs++
			return
		}
	}
	s.left = append(s.left, Left{1, why})
}

func (s *side) summary() ComparedArm {
	arm := ""
	if len(s.rows.Rows) > 0 {
		arm = s.rows.Rows[0].Arm
	}
	return ComparedArm{
		Label: s.rows.Label, Arm: arm, From: s.rows.From, Runs: len(s.all), Starts: countStarts(s.all),
		LeftOut: s.left, Differences: []Difference{},
	}
}

func countStarts(rows []*row.Row) int {
	seen := map[string]bool{}
	for _, r := range rows {
		if r.StartID != nil {
			seen[*r.StartID] = true
		}
	}
	return len(seen)
}

// contexts says which cells each arm has.
func contexts(sides []*side) string {
	var parts []string
	for _, s := range sides {
		var names []string
		for _, c := range s.order {
			names = append(names, strings.TrimSpace(clean(c.ctx)+" "+clean(c.part)))
		}
		if names == nil {
			names = []string{"no run that counts"}
		}
		parts = append(parts, clean(s.rows.Label)+" has "+strings.Join(names, ", "))
	}
	return strings.Join(parts, "; ")
}

// pair holds two arms together in one cell, and says whether they are comparable.
func pair(base, other *side, cell cellKey, o CompareOptions) *Pair {
	p := &Pair{
		Arm: other.rows.Label, Base: base.rows.Label, Ctx: cell.ctx, Part: cell.part,
		Changes: []*Change{},
	}
	p.Refused, p.Allowed = mismatches(base.cells[cell], other.cells[cell], o.Allow)
	return p
}

// change says by how much they differ: the declared figure, which is one of so many
// tests, and all others that both have.
func (p *Pair) change(base, other []*row.Row, metric Figure, tests int) {
	p.Changes = append(p.Changes, changeOf(metric, base, other, tests))
	for _, f := range Figures {
		if f.Path == metric.Path {
			continue
		}
		if c := changeOf(f, base, other, 0); c.Base.N > 0 && c.Other.N > 0 {
			p.Changes = append(p.Changes, c)
		}
	}
}

// Change is the pair's change of that figure; nil when it has none.
func (p *Pair) Change(path string) *Change {
	for _, c := range p.Changes {
		if c.Figure == path {
			return c
		}
	}
	return nil
}

// judge tests the declared figure in all pairs as one family, and puts what
// comes of it into words.
func (c *Comparison) judge(metric Figure) {
	var ps []float64
	var tested []*Change
	for _, p := range c.Pairs {
		change := p.Change(metric.Path)
		if change == nil {
			continue
		}
		if change.Test != nil {
			tested, ps = append(tested, change), append(ps, change.Test.P)
		}
	}
	for i, p := range stats.Holm(ps) {
		tested[i].PAdjusted = new(p)
	}
	for _, p := range c.Pairs {
		if change := p.Change(metric.Path); change != nil {
			change.Verdict = verdict(metric, change)
			change.Words = sentence(metric, p, change, len(tested))
		}
	}
}

// verdict is what the test of a change comes to.
func verdict(f Figure, c *Change) Verdict {
	switch {
	case c.PAdjusted == nil || c.Ratio == nil:
		return Unknown
	case *c.PAdjusted > 1-Confidence+1e-12:
		return Same
	case c.direction() < 1:
		return Verdict(f.less)
	}
	return Verdict(f.more)
}

// direction is under 1 when the other arm has less: by the middle of the
// interval, which the test goes by.
func (c *Change) direction() float64 {
	if c.Interval != nil {
		return math.Sqrt(c.Interval.Low * c.Interval.High)
	}
	return *c.Ratio
}
