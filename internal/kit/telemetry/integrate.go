package telemetry

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"time"
)

// points are the readings of one series, those that are missing left out.
type points struct {
	at []int64 // ns, rising
	v  []float64
}

// integral is what a stretch of time adds up to.
type integral struct {
	value    float64
	off      float64 // the value may be off by about so much, see below
	used     int     // readings it rests on, those just outside included
	gap      int64   // ns, the longest between two of them
	coverage float64 // share of the stretch that lies between readings
	nearest  int64   // ns from an edge to the reading next to it, the larger of both
	edge     int64   // ns between the readings around an edge, the larger of both
}

// held is the share of a stretch that may lie outside the readings: there the
// nearest one is taken to hold.
const held = 0.01

var errNoReadings = errors.New("no readings")

// around finds the readings that a stretch rests on: the last one at or before
// its beginning, all within, the first one at or after its end.
func (p points) around(from, to int64) (lo, hi int) {
	lo = sort.Search(len(p.at), func(i int) bool { return p.at[i] > from }) - 1
	hi = sort.Search(len(p.at), func(i int) bool { return p.at[i] >= to })
	return max(lo, 0), min(hi, len(p.at)-1)
}

// span fills in what does not depend on the values, for the readings lo to hi.
func (p points) span(from, to int64, lo, hi int) (integral, error) {
	if len(p.at) == 0 || to <= from {
		return integral{}, errNoReadings
	}
	first, last := p.at[lo], p.at[hi]
	covered := min(to, last) - max(from, first)
	out := integral{used: hi - lo + 1, coverage: max(0, float64(covered)/float64(to-from))}
	for i := lo + 1; i <= hi; i++ {
		out.gap = max(out.gap, p.at[i]-p.at[i-1])
	}
	out.gap = max(out.gap, first-from, to-last)
	for _, e := range []int64{from, to} {
		i := sort.Search(len(p.at), func(i int) bool { return p.at[i] >= e })
		near, around := int64(math.MaxInt64), int64(0)
		if i < len(p.at) {
			near = p.at[i] - e
		}
		if i > 0 {
			near = min(near, e-p.at[i-1])
			if i < len(p.at) {
				around = p.at[i] - p.at[i-1]
			}
		}
		out.nearest, out.edge = max(out.nearest, near), max(out.edge, around)
	}
	if out.coverage < 1-held {
		return out, fmt.Errorf("the readings cover %.0f %% of the window", 100*out.coverage)
	}
	return out, nil
}

// value interpolates at a time; beyond the readings the nearest holds.
func (p points) value(t int64) float64 {
	i := sort.Search(len(p.at), func(i int) bool { return p.at[i] >= t })
	switch {
	case i == len(p.at):
		return p.v[i-1]
	case i == 0 || p.at[i] == t:
		return p.v[i]
	}
	f := float64(t-p.at[i-1]) / float64(p.at[i]-p.at[i-1])
	return p.v[i-1] + f*(p.v[i]-p.v[i-1])
}

// trapezoid integrates readings of a rate, such as watts, over time: straight
// lines between them, cut at the edges. means is the time over which each reading
// is itself a mean.
//
// How far it may be off: between readings, two standard deviations of a sum of
// looks at a load that is as uneven as each reading is against the two beside it;
// at each edge, half of the step that the readings around it show, over the time
// between them, and three quarters where readings are means and lag behind.
func (p points) trapezoid(from, to int64, means time.Duration) (integral, error) {
	lo, hi := p.around(from, to)
	out, err := p.span(from, to, lo, hi)
	if err != nil {
		return out, err
	}
	t, v := from, p.value(from)
	for i := lo; i <= hi+1; i++ {
		next, w := to, p.value(to)
		if i <= hi {
			if p.at[i] <= from || p.at[i] >= to {
				continue
			}
			next, w = p.at[i], p.v[i]
		}
		dt := float64(next-t) / 1e9
		out.value += dt * (v + w) / 2
		t, v = next, w
	}
	edge := 0.5
	if means > 0 {
		edge = 0.75
	}
	out.off = 2 * p.uneven(from, to)
	for _, e := range []int64{from, to} {
		out.off += edge * p.step(e) * float64(max(out.edge, int64(means))) / 1e9
	}
	return out, nil
}

// uneven is the standard deviation of the integral, by the second differences of
// the readings within: they are 0 where power changes steadily, and have six times
// the variance of readings that have nothing to do with each other.
func (p points) uneven(from, to int64) float64 {
	sum := 0.0
	for i := 1; i < len(p.at)-1; i++ {
		if p.at[i-1] < from || p.at[i+1] > to {
			continue
		}
		d := p.v[i-1] - 2*p.v[i] + p.v[i+1]
		dt := float64(p.at[i+1]-p.at[i-1]) / 2e9
		sum += d * d / 6 * dt * dt
	}
	return math.Sqrt(sum)
}

// step is the range of the four readings around a time.
func (p points) step(t int64) float64 {
	i := sort.Search(len(p.at), func(i int) bool { return p.at[i] >= t })
	lo, hi := math.Inf(1), math.Inf(-1)
	for k := max(0, i-2); k < min(len(p.v), i+2); k++ {
		lo, hi = min(lo, p.v[k]), max(hi, p.v[k])
	}
	return max(0, hi-lo)
}

// counted takes the difference of a counter over a stretch, interpolated to its
// edges. The counter must have been unwrapped; it is brought up to date every
// refresh. How far it may be off: at each edge, what is counted between the
// nearer of the readings around it and the edge, at twice the rate between those
// readings or the next two, whichever is higher; and what a refresh may hold back.
func (p points) counted(from, to int64, refresh time.Duration) (integral, error) {
	lo, hi := p.around(from, to)
	out, err := p.span(from, to, lo, hi)
	if err != nil {
		return out, err
	}
	out.value = p.value(to) - p.value(from)
	for _, e := range []int64{from, to} {
		i := sort.Search(len(p.at), func(i int) bool { return p.at[i] >= e })
		most := 0.0
		for k := max(1, i-1); k < min(len(p.v), i+2); k++ {
			most = max(most, p.v[k]-p.v[k-1])
		}
		share := 1.0
		if i > 0 && i < len(p.at) {
			span := float64(p.at[i] - p.at[i-1])
			near := min(float64(p.at[i]-e), float64(e-p.at[i-1]))
			share = min(1, (2*near+float64(refresh))/span)
		}
		out.off += share * most
	}
	return out, nil
}

// How often energy counters are brought up to date, at worst.
const (
	refreshNVIDIA = 100 * time.Millisecond
	refreshOther  = 2 * time.Millisecond // RAPL: 1 ms
)

// stale is how long a reading that repeats may be due to that.
const stale = 150 * time.Millisecond

// fresh leaves out the readings of an energy counter that repeat the one before
// because it has not been brought up to date yet. A counter that stands still for
// longer has nothing to count, and its readings stay.
func (p points) fresh() points {
	var out points
	since := int64(0) // when the value was seen first
	for i := range p.v {
		switch {
		case i == 0 || p.v[i] != p.v[i-1]:
			since = p.at[i]
		case p.at[i]-since < int64(stale) && i < len(p.v)-1:
			continue
		}
		out.at, out.v = append(out.at, p.at[i]), append(out.v, p.v[i])
	}
	return out
}

// mostW is more than any device of one counter draws. It tells when a counter may
// have gone round more than once between two readings.
const mostW = 1000.0

// unwrapped turns a counter that starts anew at wraps into one that only grows.
// wraps is 0 where it never does; then a counter that goes back was reset.
func (p points) unwrapped(wraps float64) (points, error) {
	out := points{at: p.at, v: make([]float64, len(p.v))}
	add := 0.0
	for i, v := range p.v {
		if i > 0 {
			back := v < p.v[i-1]
			switch {
			case back && wraps <= 0:
				return points{}, fmt.Errorf("the counter went back from %g to %g: it was reset", p.v[i-1], v)
			case wraps > 0 && float64(p.at[i]-p.at[i-1])/1e9*mostW > wraps:
				return points{}, fmt.Errorf("%.0f s between two readings: the counter may have started anew more than once", float64(p.at[i]-p.at[i-1])/1e9)
			case back:
				add += wraps
			}
		}
		out.v[i] = v + add
	}
	return out, nil
}

// within are the readings that lie in a stretch, and those just outside where
// there are none.
func (p points) within(from, to int64) []float64 {
	i := sort.Search(len(p.at), func(i int) bool { return p.at[i] >= from })
	k := sort.Search(len(p.at), func(i int) bool { return p.at[i] > to })
	if i < k {
		return p.v[i:k]
	}
	lo, hi := p.around(from, to)
	if len(p.v) == 0 {
		return nil
	}
	return p.v[lo : hi+1]
}
