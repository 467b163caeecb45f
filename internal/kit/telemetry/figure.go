package telemetry

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// Figure is one number that samples give, with what a reader must know before
// using it.
type Figure struct {
	Value       *float64 `json:"value"` // nil: because of Why
	Unit        string   `json:"unit"`
	Source      string   `json:"source"`
	Samples     int      `json:"samples"`       // readings it rests on, the one before and the one after included
	LongestGapS float64  `json:"longest_gap_s"` // between two of them
	Coverage    float64  `json:"coverage"`      // share of the window that lies between readings
	Off         *float64 `json:"off,omitempty"` // an integral may be off by about so much
	Why         string   `json:"why,omitempty"`
	Note        string   `json:"note,omitempty"`
}

// Window is the stretch that figures are about, in Unix nanoseconds. Its ends
// are taken from the monotonic clock: T0 plus what passed since.
type Window struct {
	T0     int64 `json:"t0"`      // before the request
	T1     int64 `json:"t1"`      // the body ended
	TFirst int64 `json:"t_first"` // end of the first burst of tokens; 0: not known
	TLast  int64 `json:"t_last"`  // last token frame; 0: not known
}

// Seconds is the window's length.
func (w Window) Seconds() float64 { return float64(w.T1-w.T0) / 1e9 }

// column is one series of a record with its track.
type column struct {
	track  *Track
	series *Series
}

// points are the readings that are there.
func (c column) points() points {
	var out points
	for i, v := range c.series.V {
		if !math.IsNaN(v) {
			out.at, out.v = append(out.at, c.track.At[i]), append(out.v, v)
		}
	}
	return out
}

// why is the reason for what is missing of it.
func (c column) why() string {
	switch {
	case c.track.Ended != "":
		return c.track.Ended
	case c.series.Why != "":
		return c.series.Why
	}
	return unread
}

const unread = "it was not read in the window"

// columns finds all series of a metric; want chooses by what they are of.
func (r *Record) columns(m Metric, want func(of string) bool) []column {
	var out []column
	if r == nil {
		return nil
	}
	for i := range r.Tracks {
		t := &r.Tracks[i]
		for k := range t.Series {
			if s := &t.Series[k]; s.Metric == m && (want == nil || want(s.Of)) {
				out = append(out, column{t, s})
			}
		}
	}
	return out
}

// is chooses the series of one thing.
func is(of string) func(string) bool { return func(s string) bool { return s == of } }

// sheet works out the figures of one record.
type sheet struct {
	rec      *Record
	why      string // why there is no record
	from, to int64  // the window, in the record's time
}

// missing says why none of the columns has a value.
func (s *sheet) missing(cols []column) string {
	if s.rec == nil {
		return s.why
	}
	var whys []string
	for _, c := range cols {
		if w := c.why(); !slices.Contains(whys, w) {
			whys = append(whys, w)
		}
	}
	if len(whys) == 0 {
		return "no source of it was recorded"
	}
	return strings.Join(whys, "; ")
}

// figure reduces the columns of a metric that have readings to one number.
func (s *sheet) figure(unit string, cols []column, reduce func([]points) float64) Figure {
	f := Figure{Unit: unit}
	var all []points
	var sources []string
	for _, c := range cols {
		p := c.points()
		if len(p.at) == 0 {
			continue
		}
		all = append(all, p)
		if !slices.Contains(sources, c.track.Source) {
			sources = append(sources, c.track.Source)
		}
		lo, hi := p.around(s.from, s.to)
		in, _ := p.span(s.from, s.to, lo, hi) // the gaps are told, whatever is covered
		if len(all) == 1 || in.coverage < f.Coverage {
			f.Samples, f.Coverage = in.used, in.coverage
		}
		f.LongestGapS = max(f.LongestGapS, float64(in.gap)/1e9)
	}
	f.Source = strings.Join(sources, ", ")
	if len(all) == 0 {
		f.Why = s.missing(cols)
		return f
	}
	v := reduce(all)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		f.Why = "there are too few readings around the window, or a counter went back"
		return f
	}
	f.Value = &v
	return f
}

// highest and lowest take the readings in the window and the one on each side.
func (s *sheet) highest(all []points) float64 {
	out := math.Inf(-1)
	for _, p := range all {
		lo, hi := p.around(s.from, s.to)
		out = max(out, slices.Max(p.v[lo:hi+1]))
	}
	return out
}

// highestSince leaves out the reading before the window: it tells of the time
// before it.
func (s *sheet) highestSince(all []points) float64 {
	out := math.NaN()
	for _, p := range all {
		lo, hi := p.around(s.from, s.to)
		for i := lo; i <= hi; i++ {
			if p.at[i] > s.from && !(out >= p.v[i]) {
				out = p.v[i]
			}
		}
	}
	return out
}

func (s *sheet) lowest(all []points) float64 {
	out := math.Inf(1)
	for _, p := range all {
		lo, hi := p.around(s.from, s.to)
		out = min(out, slices.Min(p.v[lo:hi+1]))
	}
	return out
}

// highestSum is the highest of the sum of several things that are read at
// different moments, with straight lines between their readings.
func (s *sheet) highestSum(all []points) float64 {
	var moments []int64
	for _, p := range all {
		lo, hi := p.around(s.from, s.to)
		moments = append(moments, p.at[lo:hi+1]...)
	}
	out := math.Inf(-1)
	for _, t := range moments {
		sum := 0.0
		for _, p := range all {
			sum += p.value(t)
		}
		out = max(out, sum)
	}
	return out
}

// mean weighs by time.
func (s *sheet) mean(all []points) float64 {
	p := all[0]
	in, err := p.trapezoid(s.from, s.to, 0)
	if err != nil { // too few readings to weigh
		vs := p.within(s.from, s.to)
		sum := 0.0
		for _, v := range vs {
			sum += v
		}
		return sum / float64(len(vs))
	}
	return in.value / (float64(s.to-s.from) / 1e9)
}

// grown is how much counters grew from the reading before the window to the one
// after it, in whole counts.
func (s *sheet) grown(all []points) float64 {
	sum := 0.0
	for _, p := range all {
		lo, hi := p.around(s.from, s.to)
		if lo == hi || p.v[hi] < p.v[lo] {
			return math.NaN()
		}
		sum += p.v[hi] - p.v[lo]
	}
	return sum
}

// perSecond is how fast a counter grew in the window, in its unit a second.
func (s *sheet) perSecond(all []points) float64 {
	p, err := all[0].unwrapped(0)
	if err != nil {
		return math.NaN()
	}
	in, err := p.counted(s.from, s.to, 0)
	if err != nil {
		return math.NaN()
	}
	return in.value / (float64(s.to-s.from) / 1e9)
}

// fastest is how fast it grew between two readings at most.
func (s *sheet) fastest(all []points) float64 {
	p := all[0]
	out := math.NaN()
	lo, hi := p.around(s.from, s.to)
	for i := lo + 1; i <= hi; i++ {
		dt := float64(p.at[i]-p.at[i-1]) / 1e9
		// Two readings in quick succession, as at a window's edge, tell no rate.
		if d := p.v[i] - p.v[i-1]; d >= 0 && dt >= 0.25 && !(out >= d/dt) {
			out = d / dt
		}
	}
	if math.IsNaN(out) {
		return s.perSecond(all)
	}
	return out
}

// lag is the value below which 99 of 100 wake-ups were late. One that is late by
// several periods stands for those that it slept through, each late by a period
// less. Of fewer than 100 it is the largest.
func (s *sheet) lag(all []points) float64 {
	period := float64(lagEvery) / float64(time.Millisecond)
	var late []float64
	for _, v := range all[0].within(s.from, s.to) {
		for ; v > 0 && len(late) < 1<<20; v -= period {
			late = append(late, v)
		}
		if v == 0 {
			late = append(late, 0)
		}
	}
	if len(late) == 0 {
		return math.NaN()
	}
	slices.Sort(late)
	if len(late) < 100 {
		return late[len(late)-1]
	}
	return late[int(math.Ceil(0.99*float64(len(late))))-1]
}

// scaled gives a figure in another unit.
func (f Figure) scaled(by float64, unit string) Figure {
	f.Unit = unit
	if f.Value != nil {
		f.Value = new(*f.Value * by)
	}
	if f.Off != nil {
		f.Off = new(*f.Off * by)
	}
	return f.checked()
}

// checked turns a number that readings out of range lead to into a reason.
func (f Figure) checked() Figure {
	for _, v := range []*float64{f.Value, f.Off} {
		if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
			f.Value, f.Off, f.Why = nil, nil, "the readings are out of range"
			break
		}
	}
	return f
}

// without is a figure that has no value, for the reason given.
func without(unit, why string) Figure { return Figure{Unit: unit, Why: cmp.Or(why, "not recorded")} }
