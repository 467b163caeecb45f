package telemetry

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Energy is what one kind of meter says of a run: the GPU boards together, one
// processor package, the wall.
type Energy struct {
	Rule    string   `json:"rule"` // how the joules were obtained, in words
	Label   string   `json:"label,omitempty"`
	Devices []string `json:"devices"`

	Window  Part `json:"window"`  // T0 to T1: the three below together
	Prefill Part `json:"prefill"` // T0 to TFirst
	Decode  Part `json:"decode"`  // TFirst to TLast
	Tail    Part `json:"tail"`    // TLast to T1, when no token came any more

	MeanW Figure `json:"mean_w"`
	MaxW  Figure `json:"max_w"`

	PerPrompt    Figure `json:"per_prompt"` // J a prompt token, over prefill
	PerOutput    Figure `json:"per_output"` // J a token after the first burst, over decode
	PerPromptNet Figure `json:"per_prompt_net"`
	PerOutputNet Figure `json:"per_output_net"`
}

// Part is the energy of one stretch.
type Part struct {
	Joules Figure `json:"joules"` // gross
	Net    Figure `json:"net"`    // less what the machine draws with the model loaded and nothing to do
	Other  Figure `json:"other"`  // by a second reading of the same devices
	Check  Check  `json:"check"`
}

// Check is what the checks energy-short, energy-gap and energy-disagree need.
type Check struct {
	Seconds float64 `json:"seconds"`
	// Hz is the rate that was asked for where nine of ten such readings came, else
	// the rate that came. A sensor that gives means of a second has 1, however
	// often it is read.
	Hz float64 `json:"hz"`
	// CounterAtEdges says that the joules are a counter's difference, and that it
	// was read within 2.5 % of the stretch's length from each edge.
	CounterAtEdges bool `json:"counter_at_edges"`
	// LongestGapS is the longest time between readings. For a counter only the
	// edges matter, since it misses nothing in between.
	LongestGapS float64  `json:"longest_gap_s"`
	Joules      *float64 `json:"joules"`
	OtherJoules *float64 `json:"other_joules"`
}

// nearEdge is the share of a stretch within which a counter must have been read
// at each edge, so that both together are off by no more than 5 %.
const nearEdge = 0.025

// meanOf is the time over which a GPUPowerMean is a mean.
const meanOf = time.Second

// meter is one device.
type meter struct {
	of   string
	main *gauge
	also *gauge // a second reading of it
	why  string // why there is no main
}

// gauge is one series that gives energy.
type gauge struct {
	points  points
	counter bool
	wraps   float64
	means   time.Duration
	refresh time.Duration
	hz      float64
	name    string
	why     string // for what is missing of it
}

func (c column) gauge() *gauge {
	g := &gauge{
		points: c.points(), counter: c.series.Counter, wraps: c.series.Wraps, hz: c.track.Hz,
		name: sourceName(c), why: c.why(), refresh: refreshOther,
	}
	if strings.HasPrefix(c.track.Source, "nvml/") {
		g.refresh = refreshNVIDIA
	}
	if c.series.Metric == GPUPowerMean {
		g.means = meanOf
	}
	return g
}

// sourceName says in words what a series is.
func sourceName(c column) string {
	maker, _, _ := strings.Cut(c.track.Source, "/")
	switch {
	case c.series.Metric == RAPLEnergy:
		return "RAPL energy counter"
	case c.series.Metric == WallPower:
		return "wall meter's power"
	case maker == "nvidia-smi" && c.series.Metric == GPUPower:
		return "nvidia-smi power.draw.instant"
	case maker == "nvidia-smi":
		return "nvidia-smi power.draw (a mean of 1 s)"
	case maker == "nvml":
		maker = "NVML"
	default:
		maker = "hwmon"
	}
	switch c.series.Metric {
	case GPUEnergy:
		return maker + " energy counter"
	case GPUPower:
		return maker + " instant power"
	}
	return maker + " mean power"
}

// boards finds the GPUs. One that sees the processor as well is left out where
// there are others.
func (s *sheet) boards() (meters []meter, note, why string) {
	metrics := []Metric{GPUEnergy, GPUPower, GPUPowerMean}
	var names []string
	shared := map[string]bool{}
	var missing []column
	for _, m := range metrics {
		for _, c := range s.rec.columns(m, nil) {
			if c.series.Of == "" {
				missing = append(missing, c)
				continue
			}
			if !slices.Contains(names, c.series.Of) {
				names = append(names, c.series.Of)
			}
			if c.series.Covers != "" {
				shared[c.series.Of] = true
			}
		}
	}
	if len(shared) < len(names) {
		names = slices.DeleteFunc(names, func(of string) bool { return shared[of] })
	} else if len(shared) > 0 {
		note = "the sensor sees " + CoversPackage + ", not the GPU alone"
	}
	slices.Sort(names)
	for _, of := range names {
		meters = append(meters, s.meter(of, metrics))
	}
	if len(meters) == 0 {
		why = s.missing(missing)
	}
	return meters, note, why
}

// meter takes the first of the metrics that has readings, and the next one as a
// second reading.
func (s *sheet) meter(of string, metrics []Metric) meter {
	m := meter{of: of}
	var cols []column
	for _, metric := range metrics {
		for _, c := range s.rec.columns(metric, is(of)) {
			cols = append(cols, c)
			g := c.gauge()
			need := 1
			if g.counter {
				need = 2
			}
			switch {
			case len(g.points.at) < need:
			case m.main == nil:
				m.main = g
			case m.also == nil:
				m.also = g
			}
		}
	}
	if m.main == nil {
		m.why = s.missing(cols)
	}
	return m
}

// joules integrates one gauge.
func (g *gauge) joules(from, to int64) (integral, error) {
	if !g.counter {
		in, err := g.points.trapezoid(from, to, g.means)
		return in, g.explain(err)
	}
	p, err := g.points.unwrapped(g.wraps)
	if err != nil {
		return integral{}, err
	}
	in, err := p.fresh().counted(from, to, g.refresh)
	return in, g.explain(err)
}

// explain adds the source's own words to why a stretch is not covered.
func (g *gauge) explain(err error) error {
	if err == nil || g.why == "" || g.why == unread {
		return err
	}
	return fmt.Errorf("%w (%s)", err, g.why)
}

// sum adds up one reading of all meters over a stretch.
func (s *sheet) sum(meters []meter, from, to int64, pick func(*meter) *gauge) (Figure, Check) {
	f := Figure{Unit: "J", Coverage: 1}
	k := Check{Seconds: float64(to-from) / 1e9, Hz: math.Inf(1), CounterAtEdges: true}
	total, off := 0.0, 0.0
	var names, whys []string
	for i := range meters {
		m := &meters[i]
		g := pick(m)
		if g == nil {
			whys = append(whys, m.of+": "+m.why)
			continue
		}
		if !slices.Contains(names, g.name) {
			names = append(names, g.name)
		}
		in, err := g.joules(from, to)
		if err != nil {
			whys = append(whys, strings.TrimPrefix(m.of+": ", ": ")+err.Error())
		}
		total, off = total+in.value, off+in.off
		if f.Samples == 0 || in.used < f.Samples {
			f.Samples = in.used
		}
		f.LongestGapS = max(f.LongestGapS, float64(in.gap)/1e9)
		f.Coverage = min(f.Coverage, in.coverage)
		k.add(g, in, from, to)
	}
	f.Source = strings.Join(names, ", ")
	if math.IsInf(k.Hz, 0) {
		k.Hz, k.CounterAtEdges = 0, false
	}
	if len(whys) == 0 && (math.IsInf(total, 0) || math.IsNaN(total)) {
		whys = append(whys, "the readings are out of range")
	}
	if len(whys) > 0 || len(meters) == 0 {
		f.Why = strings.Join(whys, "; ")
		return f, k
	}
	f.Value, f.Off = &total, &off
	if off > 0.05*total {
		f.Note = fmt.Sprintf("it may be off by %.0f %%", 100*off/max(total, 1e-9))
	}
	k.Joules = f.Value
	return f, k
}

// add takes one device into the check: the worst of them counts.
func (k *Check) add(g *gauge, in integral, from, to int64) {
	hz := float64(max(0, in.used-1)) / (float64(to-from) / 1e9)
	if in.used > 1 && in.gap > 0 && g.hz > 0 && hz >= 0.9*g.hz {
		hz = g.hz
	}
	if g.means > 0 {
		hz = min(hz, float64(time.Second)/float64(g.means))
	}
	k.Hz = min(k.Hz, hz)
	gap := in.gap
	if g.counter {
		gap = in.edge
	}
	k.LongestGapS = max(k.LongestGapS, float64(gap)/1e9)
	if !g.counter || float64(in.nearest) > nearEdge*float64(to-from) {
		k.CounterAtEdges = false
	}
}

// part works out one stretch. what names its end when that is not known.
func (s *sheet) part(meters []meter, from, to int64, missing string, idle *Figure) Part {
	if missing != "" {
		return Part{Joules: without("J", missing), Net: without("J", missing), Other: without("J", missing)}
	}
	var p Part
	p.Joules, p.Check = s.sum(meters, from, to, func(m *meter) *gauge { return m.main })
	alsoAll := len(meters) > 0 && !slices.ContainsFunc(meters, func(m meter) bool { return m.also == nil })
	if alsoAll {
		p.Other, _ = s.sum(meters, from, to, func(m *meter) *gauge { return m.also })
		p.Other.Note = strings.TrimPrefix(p.Other.Note+"; a second reading of the same sensor, not an independent one", "; ")
		p.Check.OtherJoules = p.Other.Value
	} else {
		p.Other = without("J", "there is no second reading")
	}
	p.Net = p.Joules
	p.Net.Note = strings.TrimSuffix("less the loaded idle; "+p.Joules.Note, "; ")
	switch {
	case p.Joules.Value == nil:
	case idle == nil:
		p.Net.Value, p.Net.Off, p.Net.Why = nil, nil, "no loaded idle was measured: it takes 30 s with the model loaded and nothing to do, which the plan did not ask for"
	case idle.Value == nil:
		p.Net.Value, p.Net.Off, p.Net.Why = nil, nil, "the loaded idle: "+idle.Why
	default:
		seconds := float64(to-from) / 1e9
		p.Net.Value = new(*p.Joules.Value - *idle.Value*seconds)
		if idle.Off != nil {
			p.Net.Off = new(*p.Joules.Off + *idle.Off*seconds)
		}
	}
	return p
}

// energy works out everything that one kind of meter says.
func (s *sheet) energy(meters []meter, why string, a *Ask, idle *Figure) Energy {
	e := Energy{Devices: []string{}}
	for _, m := range meters {
		e.Devices = append(e.Devices, m.of)
	}
	w := a.Window
	none := ""
	if len(meters) == 0 {
		none = why
	}
	first, last := w.TFirst-w.T0+s.from, w.TLast-w.T0+s.from
	noFirst, noLast := none, none
	if none == "" && (w.TFirst <= w.T0 || w.TFirst > w.T1) {
		noFirst, noLast = "the time of the first token is not known", "the time of the first token is not known"
	} else if none == "" && (w.TLast <= w.TFirst || w.TLast > w.T1) {
		noLast = "no token came after the first ones"
	}
	e.Window = s.part(meters, s.from, s.to, none, idle)
	e.Prefill = s.part(meters, s.from, first, noFirst, idle)
	e.Decode = s.part(meters, first, last, noLast, idle)
	if noLast == "" && w.TLast == w.T1 {
		noLast = "the last token ends the window"
	}
	e.Tail = s.part(meters, last, s.to, noLast, idle)

	e.MeanW = e.Window.Joules.scaled(1/w.Seconds(), "W")
	e.MaxW = s.maxW(meters, none)
	e.PerPrompt = perToken(e.Prefill.Joules, a.PromptTokens, "prompt tokens")
	e.PerOutput = perToken(e.Decode.Joules, a.OutputTokens, "tokens after the first burst")
	e.PerPromptNet = perToken(e.Prefill.Net, a.PromptTokens, "prompt tokens")
	e.PerOutputNet = perToken(e.Decode.Net, a.OutputTokens, "tokens after the first burst")
	e.Rule = s.rule(meters, e.Window)
	return e
}

func perToken(joules Figure, tokens *float64, what string) Figure {
	switch {
	case joules.Value == nil:
		joules.Unit = "J/token"
		return joules
	case tokens == nil || !(*tokens > 0):
		joules.Value, joules.Off, joules.Unit = nil, nil, "J/token"
		joules.Why = "the number of " + what + " is not known"
		return joules
	}
	return joules.scaled(1 / *tokens, "J/token")
}

// maxW is the highest power within the window: by power readings where there are
// any, else by what a counter grew between two readings.
func (s *sheet) maxW(meters []meter, none string) Figure {
	if none != "" {
		return without("W", none)
	}
	f := Figure{Unit: "W", Coverage: 1}
	var all []points
	for i := range meters {
		m := &meters[i]
		var g *gauge
		for _, one := range []*gauge{m.main, m.also} {
			if one != nil && (g == nil || g.counter) {
				g = one
			}
		}
		if g == nil {
			f.Why = m.of + ": " + m.why
			return f
		}
		p := g.points
		if g.counter {
			if p = g.slopes(); len(p.at) == 0 {
				f.Why = m.of + ": too few readings of the counter for a power"
				return f
			}
		}
		lo, hi := p.around(s.from, s.to)
		in, _ := p.span(s.from, s.to, lo, hi)
		if i == 0 || in.used < f.Samples {
			f.Samples = in.used
		}
		f.Coverage, f.LongestGapS = min(f.Coverage, in.coverage), max(f.LongestGapS, float64(in.gap)/1e9)
		if !strings.Contains(f.Source, g.name) {
			f.Source = strings.TrimPrefix(f.Source+", "+g.name, ", ")
		}
		all = append(all, p)
	}
	f.Value = new(s.highestSum(all))
	return f.checked()
}

// slopes are the mean powers between the readings of a counter, each at the
// middle of its interval. Intervals of less than 50 ms are too short for counters
// that are brought up to date every 100 ms.
func (g *gauge) slopes() points {
	p, err := g.points.unwrapped(g.wraps)
	if err != nil {
		return points{}
	}
	p = p.fresh()
	var out points
	for i, last := 1, 0; i < len(p.at); i++ {
		if dt := p.at[i] - p.at[last]; dt >= int64(50*time.Millisecond) {
			out.at = append(out.at, p.at[last]+dt/2)
			out.v = append(out.v, (p.v[i]-p.v[last])/(float64(dt)/1e9))
			last = i
		}
	}
	return out
}

// rule says how the joules were obtained.
func (s *sheet) rule(meters []meter, w Part) string {
	if len(meters) == 0 || w.Joules.Source == "" {
		return ""
	}
	out := "trapezoid over " + w.Joules.Source
	if g := meters[0].main; g != nil && g.counter {
		out = "difference of the " + w.Joules.Source
	}
	if g := meters[0].main; g != nil && g.hz > 0 {
		out += fmt.Sprintf(" at %g Hz", g.hz)
	}
	out += ", interpolated to the window's edges"
	if len(meters) > 1 {
		out += fmt.Sprintf(", sum of %d devices", len(meters))
	}
	if w.Other.Source != "" {
		out += "; checked against " + w.Other.Source + " (the same sensor)"
	}
	return out
}
