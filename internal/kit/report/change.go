package report

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"assay/internal/kit/row"
	"assay/internal/kit/stats"
)

// Pairs of units, for Change.Over.
const (
	OverStartPairs = "pairs of starts"
	OverRunPairs   = "pairs of runs"
)

// unit is one independent value of a figure: a run, or the median of a start.
type unit struct {
	log   float64  // of the value
	at    *float64 // Unix seconds
	slice string
	order int
}

// changeOf says how a figure differs between the runs of two arms.
//
// What the interval is over decides what it can mean. Runs of one start share
// what that start got (memory layout, clocks, neighbours), so starts are the
// units where there are enough of them for a difference to show. Below that the
// runs are, and the change is labelled so. Units that were made in turns, one of
// each arm and next to each other, are pairs.
//
// tests is how many changes are tested as one family, this one among them; 0: it is
// not tested. It decides, before any value is seen, which test can show a difference
// at all: six pairs can't among two tests, while 6 + 6 values can.
func changeOf(f Figure, base, other []*row.Row, tests int) *Change {
	c := &Change{Figure: f.Path, Label: f.Label, Unit: f.Unit, tests: tests}
	a, b := take(f, base, &c.Base), take(f, other, &c.Other)
	if len(a.runs) == 0 || len(b.runs) == 0 {
		c.Why = fmt.Sprintf("no run of %s has it", pick(len(a.runs) == 0, "the base", "the other"))
		return c
	}
	if a.bad || b.bad {
		c.Why = "a value is not above zero, or beyond all measure: there is no ratio"
		return c
	}
	c.Ratio = new(*c.Other.Median / *c.Base.Median)
	units(f, a, b, c)
	if c.Interval != nil && !c.Interval.Contains(*c.Ratio) {
		c.Note = join(c.Note, "the ratio of the medians lies outside of its interval: the starts or slices differ more than the runs")
	}
	return c
}

func pick(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// taken are the values of one arm.
type taken struct {
	runs   []unit
	starts []unit
	bad    bool // one is not above zero, or no figure of this world
}

// Values outside of these have no ratio that a number can hold.
const least, most = 1e-100, 1e100

func take(f Figure, rows []*row.Row, side *Side) taken {
	var t taken
	var values []float64
	byStart := map[string][]float64{}
	first := map[string]*float64{}
	var order []string
	for _, r := range rows {
		if withholds(withheldOf(r), f.Path) {
			side.Withheld++
			continue
		}
		v := f.value(r)
		if v == nil {
			continue
		}
		start, at := textOf(r.StartID), r.Telemetry.Window.T0
		if f.PerStart && byStart[start] != nil {
			continue
		}
		if byStart[start] == nil {
			order = append(order, start)
			first[start] = at
		} else if at == nil || first[start] == nil || *at < *first[start] {
			first[start] = at
		}
		byStart[start] = append(byStart[start], *v)
		values = append(values, *v)
		t.bad = t.bad || !(*v > least && *v < most)
		t.runs = append(t.runs, unit{math.Log(*v), at, textOf(r.SliceSHA256), len(t.runs)})
	}
	for i, start := range order {
		s, _ := stats.Summarize(byStart[start])
		t.starts = append(t.starts, unit{math.Log(s.Median), first[start], "", i})
	}
	side.N, side.Starts = len(values), len(order)
	if s, ok := stats.Summarize(values); ok {
		side.Median = &s.Median
	}
	return t
}

// units chooses what the interval is over, and makes it and the test.
func units(f Figure, a, b taken, c *Change) {
	several := len(a.starts) > 1 || len(b.starts) > 1
	if several || f.PerStart {
		c.Over, c.Units = OverStarts, [2]int{len(a.starts), len(b.starts)}
		if d, ok := inTurns(a.starts, b.starts); ok && c.pairs(len(d), len(a.starts)) {
			c.Over = OverStartPairs
			c.paired(d)
			return
		}
		if stats.CanShift(len(a.starts), len(b.starts), Confidence) {
			c.unpaired(a.starts, b.starts)
			return
		}
		if f.PerStart {
			c.Why = fmt.Sprintf("%d and %d starts: an interval needs %d of each", len(a.starts), len(b.starts), stats.ShiftNeeds(Confidence))
			return
		}
		c.Note = fmt.Sprintf("over the runs of %d and %d starts, which are too few (%d of each are needed): another start may differ by more", len(a.starts), len(b.starts), stats.ShiftNeeds(Confidence))
	} else {
		c.Note = "a single start of each arm: another start may differ by more"
	}
	c.Over, c.Units = OverRuns, [2]int{len(a.runs), len(b.runs)}
	if slicesIn(a.runs) > 1 || slicesIn(b.runs) > 1 {
		d := bySlice(a.runs, b.runs)
		c.Over, c.Units = OverRunPairs, [2]int{len(d), len(d)}
		c.Note = join(c.Note, "runs are paired by slice")
		c.paired(d)
		return
	}
	if d, ok := inTurns(a.runs, b.runs); ok && c.pairs(len(d), len(a.runs)) {
		c.Over, c.Units = OverRunPairs, [2]int{len(d), len(d)}
		c.paired(d)
		return
	}
	c.unpaired(a.runs, b.runs)
}

// inTurns gives the differences of units that were made one of each arm at a
// time, next to each other: A B B A A B. It reports false for any other order,
// and where times are not known.
func inTurns(a, b []unit) ([]float64, bool) {
	if len(a) != len(b) {
		return nil, false
	}
	type placed struct {
		unit
		other bool
	}
	var all []placed
	for i := range a {
		if a[i].at == nil || b[i].at == nil {
			return nil, false
		}
		all = append(all, placed{a[i], false}, placed{b[i], true})
	}
	slices.SortStableFunc(all, func(x, y placed) int { return cmp.Compare(*x.at, *y.at) })
	var d []float64
	for i := 0; i < len(all); i += 2 {
		x, y := all[i], all[i+1]
		switch {
		case x.other == y.other || *x.at == *y.at:
			return nil, false
		case x.other:
			x, y = y, x
		}
		d = append(d, y.log-x.log)
	}
	return d, true
}

func slicesIn(units []unit) int {
	seen := map[string]bool{}
	for _, u := range units {
		seen[u.slice] = true
	}
	return len(seen)
}

// bySlice pairs the n-th run of a slice with the other arm's n-th run of it. A
// run without a partner takes no part.
func bySlice(a, b []unit) []float64 {
	waiting := map[string][]unit{}
	for _, u := range a {
		waiting[u.slice] = append(waiting[u.slice], u)
	}
	var d []float64
	for _, u := range b {
		if w := waiting[u.slice]; len(w) > 0 {
			d = append(d, u.log-w[0].log)
			waiting[u.slice] = w[1:]
		}
	}
	return d
}

// within is the confidence that a single test needs for the whole family to have
// that of every interval.
func (c *Change) within() float64 { return 1 - (1-Confidence)/float64(max(c.tests, 1)) }

// pairs says whether n pairs are to be taken as pairs: where they can show a
// difference, or where the same values without their pairing can't either.
func (c *Change) pairs(n, each int) bool {
	if n >= stats.PairsNeeds(c.within()) {
		return true
	}
	return n >= stats.PairsNeeds(Confidence) && !stats.CanShift(each, each, c.within())
}

func (c *Change) paired(differences []float64) {
	n := len(differences)
	c.Units = [2]int{n, n}
	s, err := stats.ShiftOfPairs(differences, Confidence)
	switch need := stats.PairsNeeds(c.within()); {
	case errors.Is(err, stats.ErrTooFew):
		c.Why = fmt.Sprintf("only %d %s, and %d are needed", n, c.Over, stats.PairsNeeds(Confidence))
		return
	case err != nil:
		c.Why = err.Error()
		return
	case c.tests > 0 && n < need:
		c.Why = fmt.Sprintf("%d %s can't decide %d comparisons at once, %d can", n, c.Over, c.tests, need)
	case c.tests > 0:
		if t, err := stats.SignedRank(differences); err == nil {
			c.Test = &t
		}
	}
	c.Interval = ratioOf(s)
}

func (c *Change) unpaired(a, b []unit) {
	x, y := logs(a), logs(b)
	s, err := stats.ShiftBetween(x, y, Confidence)
	switch {
	case errors.Is(err, stats.ErrTooFew):
		c.Why = fmt.Sprintf("only %d and %d %s show it, and %d of each are needed", len(a), len(b), c.Over, stats.ShiftNeeds(Confidence))
		return
	case err != nil:
		c.Why = err.Error()
		return
	case c.tests > 0 && !stats.CanShift(len(a), len(b), c.within()):
		c.Why = fmt.Sprintf("%d + %d %s can't decide %d comparisons at once, %d of each can", len(a), len(b), c.Over, c.tests, stats.ShiftNeeds(c.within()))
	case c.tests > 0:
		if t, err := stats.MannWhitney(x, y); err == nil {
			c.Test = &t
		}
	}
	c.Interval = ratioOf(s)
}

func logs(units []unit) []float64 {
	out := make([]float64, len(units))
	for i, u := range units {
		out[i] = u.log
	}
	return out
}

func ratioOf(s stats.Shift) *stats.Interval {
	return &stats.Interval{Low: math.Exp(s.Low), High: math.Exp(s.High), Confidence: s.Confidence}
}
