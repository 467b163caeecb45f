package page

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"assay/internal/kit/telemetry"
)

// series is one line of a timeline.
type series struct {
	group  string // the chart it belongs to
	name   string
	unit   string
	points []point // seconds since the request
	n      int     // readings
}

// silence is a chart that there is nothing for.
type silence struct{ Group, Why string }

// shownSeries are the readings that timelines show, by the charts they stand in.
// A counter is shown as its growth a second, times scale.
var shownSeries = []struct {
	group  string
	unit   string
	metric telemetry.Metric
	of     func(string) bool // nil: all
	scale  float64
	name   string
}{
	{"Power", "W", telemetry.GPUPower, nil, 1, "GPU"},
	{"Power", "W", telemetry.GPUEnergy, nil, 1, "GPU by its counter"},
	{"Power", "W", telemetry.RAPLEnergy, isPackage, 1, "processor (NOT WALL)"},
	{"Power", "W", telemetry.WallPower, nil, 1, "wall"},
	{"Memory of the target", "MiB", telemetry.VmRSS, nil, 1.0 / (1 << 20), "resident"},
	{"Memory of the target", "MiB", telemetry.RssAnon, nil, 1.0 / (1 << 20), "anonymous"},
	{"Memory of the target", "MiB", telemetry.GPUMem, nil, 1.0 / (1 << 20), "GPU"},
	{"Memory left on the machine", "GiB", telemetry.MemAvailable, nil, 1.0 / (1 << 30), "available"},
	{"Waiting (pressure, mean of 10 s)", "%", telemetry.PSIMemFull, isSystem, 1, "for memory"},
	{"Waiting (pressure, mean of 10 s)", "%", telemetry.PSIIOFull, isSystem, 1, "for a disk"},
	{"Waiting (pressure, mean of 10 s)", "%", telemetry.PSICPUSome, isSystem, 1, "for a processor"},
	{"Processors at work", "CPUs", telemetry.TreeCPU, nil, 1, "target"},
	{"Processors at work", "CPUs", telemetry.SelfCPU, nil, 1, "assay"},
	{"Disk of the model", "MB/s", telemetry.DiskRead, nil, 1e-6, "read"},
	{"Temperature", "°C", telemetry.GPUTemp, nil, 1, "GPU"},
	{"Temperature", "°C", telemetry.Temp, isProcessor, 1, "processor"},
}

func isSystem(of string) bool { return of == telemetry.OfSystem }

func isPackage(of string) bool {
	return strings.HasPrefix(of, "package") && !strings.HasSuffix(of, " dram")
}

func isProcessor(of string) bool {
	chip, _, _ := strings.Cut(of, " ")
	return slices.Contains([]string{"coretemp", "k10temp", "zenpower", "cpu_thermal", "soc_thermal"}, chip)
}

// mostOfOne is how many series of one metric are shown: GPUs, packages, cores.
const mostOfOne = 4

// readSamples takes what timelines show. t0 is when the request began, in Unix
// nanoseconds. Of the time around the request it keeps as much as makes the
// window's edges plain.
func (t *trace) readSamples(r *telemetry.Record, t0 int64) {
	from := float64(t0-r.Origin) / 1e9
	room := max(1.5, t.window.end*0.15)
	whys := map[string][]string{}
	var groups []string
	for _, s := range shownSeries {
		if !slices.Contains(groups, s.group) {
			groups = append(groups, s.group)
		}
		n := 0
		for i := range r.Tracks {
			for k := range r.Tracks[i].Series {
				in := &r.Tracks[i].Series[k]
				if in.Metric != s.metric || s.of != nil && in.Of != "" && !s.of(in.Of) {
					continue
				}
				points := pointsOf(&r.Tracks[i], in, s.scale)
				for j := range points {
					points[j].x -= from
				}
				points = within(points, -room, t.window.end+room)
				readings := len(points)
				if in.Counter {
					readings = len(points)/2 + 1
				}
				if len(points) == 0 {
					why := cmp.Or(r.Tracks[i].Ended, in.Why)
					if why != "" && !slices.Contains(whys[s.group], said(why)) {
						whys[s.group] = append(whys[s.group], said(why))
					}
					continue
				}
				if n++; n > mostOfOne {
					continue
				}
				name := s.name
				if in.Of != "" && s.of == nil {
					name += " " + short(clean(in.Of), 24)
				}
				t.lines = append(t.lines, series{s.group, name, s.unit, thin(points, 120), readings})
			}
		}
	}
	for _, g := range groups {
		if !slices.ContainsFunc(t.lines, func(s series) bool { return s.group == g }) {
			why := "nothing of it was recorded"
			if w := whys[g]; w != nil {
				why = strings.Join(w[:min(len(w), 3)], "; ")
			}
			t.silent = append(t.silent, silence{g, why})
		}
	}
}

// pointsOf are the readings of a series; of a counter, what it grew a second
// from one to the next, as a step.
func pointsOf(t *telemetry.Track, s *telemetry.Series, scale float64) []point {
	var out []point
	before := -1
	for i, v := range s.V {
		if math.IsNaN(v) {
			continue
		}
		x := float64(t.At[i]) / 1e9
		switch {
		case !s.Counter:
			out = append(out, point{x, v * scale})
		case before >= 0:
			dt, d := float64(t.At[i]-t.At[before])/1e9, v-s.V[before]
			if d < 0 && s.Wraps > 0 {
				d += s.Wraps
			}
			// Two readings in quick succession, as at a window's edge, tell no rate.
			if dt < 0.09 {
				continue
			}
			if d >= 0 {
				y := d / dt * scale
				out = append(out, point{float64(t.At[before]) / 1e9, y}, point{x, y})
			}
		}
		before = i
	}
	return slices.DeleteFunc(out, func(p point) bool { return math.IsInf(p.y, 0) || math.Abs(p.y) > 1e15 })
}

// within keeps the points between two times.
func within(points []point, from, to float64) []point {
	return slices.DeleteFunc(points, func(p point) bool { return p.x < from || p.x > to })
}
