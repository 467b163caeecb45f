package telemetry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// idleSeconds is how long an idle must last to be one.
const idleSeconds = 30

// Idle is what the machine draws with the model loaded and nothing to do: the
// watts that net figures leave out. A figure without a value has its reason.
type Idle struct {
	Seconds float64            `json:"seconds"`
	At      int64              `json:"at_unix_ns"` // when it began
	Board   *Figure            `json:"board"`
	RAPL    map[string]*Figure `json:"rapl"` // by package
	Wall    *Figure            `json:"wall"`
}

// IdleOf works it out from the samples of such a time. Less than 30 s are too
// few to tell.
func IdleOf(rec *Record, w Window) *Idle {
	f := Compute(rec, Ask{Window: w, Why: "the idle was not sampled"})
	out := &Idle{Seconds: w.Seconds(), At: w.T0, RAPL: map[string]*Figure{}}
	long := func(e Energy) *Figure {
		m := e.MeanW
		if m.Value != nil && out.Seconds < idleSeconds {
			m.Value, m.Off = nil, nil
			m.Why = fmt.Sprintf("it lasted %.1f s, at least %d s are needed", out.Seconds, idleSeconds)
		}
		return &m
	}
	out.Board, out.Wall = long(f.Board), long(f.Wall)
	for _, e := range f.RAPL {
		for _, of := range e.Devices {
			out.RAPL[of] = long(e)
		}
	}
	return out
}

// Baseline is the GPUs' memory in use before the target was started.
type Baseline struct {
	At     int64                         `json:"at_unix_ns"`
	Memory map[Metric]map[string]float64 `json:"memory"` // bytes, by GPUMem and GPUGTT, by GPU
	Why    string                        `json:"why,omitempty"`
}

// BaselineOf takes the last readings of a record.
func BaselineOf(rec *Record) *Baseline {
	out := &Baseline{Memory: map[Metric]map[string]float64{}}
	for _, m := range []Metric{GPUMem, GPUGTT} {
		cols := rec.columns(m, nil)
		for _, c := range cols {
			p := c.points()
			if len(p.at) == 0 {
				continue
			}
			if out.Memory[m] == nil {
				out.Memory[m] = map[string]float64{}
			}
			n := len(p.at) - 1
			out.Memory[m][c.series.Of] = p.v[n]
			out.At = max(out.At, rec.Origin+p.at[n])
		}
	}
	if len(out.Memory) == 0 {
		s := &sheet{rec: rec, why: "the time before the start was not sampled"}
		out.Why = s.missing(rec.columns(GPUMem, nil))
	}
	return out
}

// growth is what GPU memory in use grew by over the baseline.
func (s *sheet) growth(b *Baseline, m Metric, used Figure) (baseline, growth Figure) {
	baseline = Figure{Unit: "MiB", Source: used.Source}
	growth = used
	growth.Value = nil
	switch {
	case s.rec == nil:
		baseline.Why = s.why
	case b == nil:
		baseline.Why = "no baseline: the target's start was not seen"
	case b.Why != "":
		baseline.Why = b.Why
	default:
		sum := 0.0
		var missing []string
		for _, c := range s.rec.columns(m, nil) {
			if len(c.points().at) == 0 {
				continue // it takes no part in what is used either
			}
			v, ok := b.Memory[m][c.series.Of]
			if !ok {
				missing = append(missing, c.series.Of)
			}
			sum += v
		}
		if len(b.Memory[m]) == 0 || len(missing) > 0 {
			baseline.Why = strings.TrimSuffix("the baseline lacks it: "+strings.Join(missing, ", "), ": ")
			break
		}
		baseline.Value, baseline.Samples, baseline.Coverage = new(sum/mebibyte), 1, 1
		baseline.Note = "of " + strings.Join(slices.Sorted(maps.Keys(b.Memory[m])), ", ")
	}
	switch {
	case used.Value == nil:
	case baseline.Value == nil:
		growth.Why = baseline.Why
	default:
		growth.Value = new(*used.Value - *baseline.Value)
	}
	return baseline, growth
}
