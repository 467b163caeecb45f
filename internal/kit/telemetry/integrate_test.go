package telemetry

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const second = int64(time.Second)

// load is power over time in seconds, with its exact integral.
type load struct {
	name  string
	watts func(t float64) float64
	// joules from 0 to t
	joules func(t float64) float64
}

const (
	idleW = 30.0
	loadW = 300.0
)

// step is idle before 0 and after end, and loaded in between: a run.
func step(end float64) load {
	return load{
		"step",
		func(t float64) float64 {
			if t >= 0 && t < end {
				return loadW
			}
			return idleW
		},
		func(t float64) float64 {
			on := min(max(t, 0), end)
			return idleW*(t-on) + loadW*on
		},
	}
}

// ramp rises from idle by 20 W a second.
func ramp() load {
	return load{
		"ramp",
		func(t float64) float64 { return idleW + 20*max(t, 0) },
		func(t float64) float64 { return idleW*t + 10*max(t, 0)*max(t, 0) },
	}
}

// bursts of 50 ms, one every 370 ms.
func bursts() load {
	const period, on = 0.37, 0.05
	return load{
		"bursts",
		func(t float64) float64 {
			if t-period*math.Floor(t/period) < on {
				return loadW
			}
			return idleW
		},
		func(t float64) float64 {
			n := math.Floor(t / period)
			return idleW*t + (loadW-idleW)*(n*on+min(on, t-n*period))
		},
	}
}

// instant is a sensor that shows the moment, mean one that shows the mean of the
// last period; both are read each period, the first time at phase.
func (l load) instant(from, to, period, phase float64) points {
	var p points
	for t := from - 2*period + phase; t < to+2*period; t += period {
		p.at, p.v = append(p.at, int64(t*1e9)), append(p.v, l.watts(t))
	}
	return p
}

func (l load) mean(from, to, period, phase float64) points {
	p := l.instant(from, to, period, phase)
	for i, at := range p.at {
		t := float64(at) / 1e9
		p.v[i] = (l.joules(t) - l.joules(t-period)) / period
	}
	return p
}

// counter is one that is brought up to date every 100 ms, and read every 100 ms
// at another phase.
func (l load) counter(from, to, phase float64) points {
	p := l.instant(from, to, 0.1, phase)
	for i, at := range p.at {
		t := math.Floor(float64(at)/1e9/0.1) * 0.1
		p.v[i] = 1000 + l.joules(t)
	}
	return p
}

// phases are the moments, as shares of a period, at which sampling may begin.
const phases = 50

// Loads of known integral, through the code that the figures use. Error and
// coverage are as the figure states: off bounds the error, for nearly all phases
// of sampling against load.
func TestLoads(t *testing.T) {
	for _, c := range []struct {
		load      load
		window    float64
		instant1  float64 // largest error at 1 Hz, as a share, over all phases
		instant10 float64
		counter   float64
	}{
		// A trapezoid draws the step half a period too early or too late.
		{step(20), 20, 0.025, 0.0025, 0.005},
		{step(5), 5, 0.09, 0.009, 0.02},
		{ramp(), 20, 0.0004, 0.000005, 0.009},
		{bursts(), 20, 0.27, 0.025, 0.005}, // at 1 Hz 20 looks at what lasts 14 % of the time
		{bursts(), 60, 0.2, 0.006, 0.004},
	} {
		exact := c.load.joules(c.window)
		to := int64(c.window * 1e9)
		for _, s := range []struct {
			name  string
			most  float64
			means time.Duration
			read  func(phase float64) points
		}{
			{"1 Hz", c.instant1, 0, func(ph float64) points { return c.load.instant(0, c.window, 1, ph) }},
			{"10 Hz", c.instant10, 0, func(ph float64) points { return c.load.instant(0, c.window, 0.1, ph/10) }},
			{"counter", c.counter, -1, func(ph float64) points { return c.load.counter(0, c.window, ph/10) }},
		} {
			t.Run(fmt.Sprintf("%s %gs %s", c.load.name, c.window, s.name), func(t *testing.T) {
				worst, stated, outside := 0.0, 0.0, 0
				for i := range phases {
					p := s.read((float64(i) + 0.5) / phases)
					in, err := integral{}, error(nil)
					if s.means < 0 {
						in, err = p.fresh().counted(0, to, refreshNVIDIA)
					} else {
						in, err = p.trapezoid(0, to, s.means)
					}
					if err != nil {
						t.Fatal(err)
					}
					if in.coverage != 1 {
						t.Errorf("coverage %g", in.coverage)
					}
					e := math.Abs(in.value - exact)
					worst, stated = max(worst, e/exact), max(stated, in.off/exact)
					if e > in.off {
						outside++
					}
				}
				t.Logf("largest error %.3f %%, stated up to %.3f %%, %d of %d beyond it", 100*worst, 100*stated, outside, phases)
				if worst > s.most {
					t.Errorf("error %.2f %%, want at most %.2f %%", 100*worst, 100*s.most)
				}
				if worst < s.most/3 {
					t.Errorf("error %.2f %% is far below the %.2f %% expected: is the load what it should be?", 100*worst, 100*s.most)
				}
				if outside > phases/20 {
					t.Errorf("the error is larger than stated for %d of %d phases", outside, phases)
				}
			})
		}
	}
}

// The mean errors that field/pitfalls.md gives for a run's step sampled by a
// sensor that shows means of a period: -26, -11, -5 and -1 % at 1 Hz, a tenth of
// it at 10 Hz.
func TestExpectedErrors(t *testing.T) {
	for _, c := range []struct{ seconds, hz1, hz10 float64 }{
		{2, -26, -2.7}, {5, -11, -1.1}, {10, -5, -0.5}, {60, -1, -0.1},
	} {
		for period, want := range map[float64]float64{1: c.hz1, 0.1: c.hz10} {
			l := step(c.seconds)
			sum := 0.0
			for i := range phases {
				p := l.mean(0, c.seconds, period, period*(float64(i)+0.5)/phases)
				in, err := p.trapezoid(0, int64(c.seconds*1e9), time.Duration(period*1e9))
				if err != nil {
					t.Fatal(err)
				}
				e := in.value - l.joules(c.seconds)
				if math.Abs(e) > in.off {
					t.Errorf("%g s every %g s: off by %.1f J, stated %.1f", c.seconds, period, e, in.off)
				}
				sum += e / l.joules(c.seconds)
			}
			if got := 100 * sum / phases; math.Abs(got-want) > map[float64]float64{1: 0.55, 0.1: 0.08}[period] { // the table is rounded
				t.Errorf("%g s every %g s: mean error %.2f %%, want %.1f %%", c.seconds, period, got, want)
			}
		}
	}
}

// Parts add up to the whole exactly, wherever the cuts are, by power and by
// counter.
func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 40).Draw(t, "n")
		var p, c points
		at, sum := int64(0), 0.0
		for range n {
			at += rapid.Int64Range(1, second).Draw(t, "step")
			v := rapid.Float64Range(0, 500).Draw(t, "watts")
			sum += v
			p.at, p.v = append(p.at, at), append(p.v, v)
			c.at, c.v = append(c.at, at), append(c.v, sum)
		}
		from, to := p.at[0], p.at[n-1]
		cut := rapid.Int64Range(from, to).Draw(t, "cut")
		if cut == from || cut == to {
			t.Skip("an empty part")
		}
		for name, take := range map[string]func(from, to int64) (integral, error){
			"power":   func(a, b int64) (integral, error) { return p.trapezoid(a, b, 0) },
			"counter": func(a, b int64) (integral, error) { return c.counted(a, b, 0) },
		} {
			whole, err := take(from, to)
			a, errA := take(from, cut)
			b, errB := take(cut, to)
			if err != nil || errA != nil || errB != nil {
				t.Fatalf("%s: %v, %v, %v", name, err, errA, errB)
			}
			if math.Abs(a.value+b.value-whole.value) > 1e-9*(1+whole.value) {
				t.Errorf("%s: %g + %g is not %g", name, a.value, b.value, whole.value)
			}
			if whole.coverage != 1 || whole.gap > second {
				t.Errorf("%s: %+v", name, whole)
			}
		}
	})
}

func TestTrapezoidByHand(t *testing.T) {
	p := points{at: []int64{0, 2 * second, 3 * second, 7 * second}, v: []float64{100, 200, 200, 0}}
	for _, c := range []struct {
		from, to      float64
		value         float64
		used          int
		gap, coverage float64
		err           string
	}{
		{0, 7, 300 + 200 + 400, 4, 4, 1, ""},
		{1, 5, 175 + 200 + 300, 4, 4, 1, ""}, // 150 at 1, 100 at 5
		{2, 3, 200, 2, 1, 1, ""},
		{2.25, 2.75, 100, 2, 1, 1, ""},
		{0, 7.05, 900, 4, 4, 7 / 7.05, ""}, // what is missing is less than 1 %: 0 W held
		{-0.04, 7, 904, 4, 4, 7 / 7.04, ""},
		{0, 14, 0, 4, 7, 0.5, "the readings cover 50 % of the window"},
		{8, 9, 0, 1, 2, 0, "the readings cover 0 % of the window"},
		{3, 3, 0, 0, 0, 0, "no readings"},
	} {
		in, err := p.trapezoid(int64(c.from*1e9), int64(c.to*1e9), 0)
		if (err == nil) != (c.err == "") || (err != nil && err.Error() != c.err) {
			t.Errorf("%g to %g: %v, want %q", c.from, c.to, err, c.err)
		}
		if err == nil && math.Abs(in.value-c.value) > 1e-6 || in.used != c.used || float64(in.gap) != c.gap*1e9 || math.Abs(in.coverage-c.coverage) > 1e-12 {
			t.Errorf("%g to %g: %+v, want %+v", c.from, c.to, in, c)
		}
	}
	if _, err := (points{}).trapezoid(0, 1, 0); err == nil {
		t.Error("no readings, and no error")
	}
}

// Counters that start anew: at RAPL's range on a desktop, 65,532.610987 J.
func TestUnwrap(t *testing.T) {
	const wraps = 65532.610987
	p := points{at: []int64{0, second, 2 * second, 3 * second}, v: []float64{65400, 65530, 127.389013, 257.389013}}
	u, err := p.unwrapped(wraps)
	if err != nil {
		t.Fatal(err)
	}
	in, err := u.counted(0, 3*second, 0)
	if err != nil || math.Abs(in.value-390) > 1e-6 {
		t.Errorf("%g J, %v; want 390: 130 W for 3 s over the wrap", in.value, err)
	}
	for _, c := range []struct {
		name  string
		p     points
		wraps float64
		err   string
	}{
		{"reset", points{[]int64{0, second}, []float64{500, 3}}, 0, "the counter went back from 500 to 3: it was reset"},
		{"too long between readings", points{[]int64{0, 66 * second}, []float64{500, 600}}, wraps, "66 s between two readings: the counter may have started anew more than once"},
	} {
		if _, err := c.p.unwrapped(c.wraps); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
	}
}

// Whatever wraps a counter has gone through, its difference is what was counted
// and never negative.
func TestUnwrapAlways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wraps := rapid.Float64Range(2000, 3e5).Draw(t, "range")
		start := rapid.Float64Range(0, 1).Draw(t, "start") * wraps
		watts := rapid.SliceOfN(rapid.Float64Range(0, 900), 2, 60).Draw(t, "watts")
		var p points
		sum := 0.0
		for i, w := range watts {
			p.at, p.v = append(p.at, int64(i)*second), append(p.v, math.Mod(start+sum, wraps))
			sum += w
		}
		sum -= watts[len(watts)-1]
		u, err := p.unwrapped(wraps)
		if err != nil {
			t.Fatal(err)
		}
		in, err := u.counted(0, p.at[len(p.at)-1], 0)
		if err != nil || math.Abs(in.value-sum) > 1e-6*(1+sum) || in.value < 0 {
			t.Errorf("%g J, %v; want %g", in.value, err, sum)
		}
	})
}

// A counter of which only every third reading is new: the others are left out,
// unless it really stands still.
func TestFresh(t *testing.T) {
	ms := func(at ...int64) []int64 {
		for i := range at {
			at[i] *= int64(time.Millisecond)
		}
		return at
	}
	p := points{ms(0, 40, 80, 120, 160, 200, 240, 500, 800), []float64{1, 1, 1, 2, 2, 2, 3, 3, 3}}
	got := p.fresh()
	want := points{ms(0, 120, 240, 500, 800), []float64{1, 2, 3, 3, 3}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}
