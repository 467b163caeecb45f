package derive

import (
	"math"
	"strings"
	"testing"

	"assay/internal/kit/telemetry"
)

// A cgroup that is not the target's alone is told as such.
func TestSharedCgroup(t *testing.T) {
	rec, f := sample()
	const path = "telemetry.memory.unit_max_events_delta"
	if r := derived(t, rec, f); *r.Telemetry.Memory.UnitMaxEventsDelta != 2 || r.Notes[path] != "" {
		t.Errorf("%v", r.Notes)
	}
	f.Start.CgroupWhy = "mkdir: permission denied"
	if r := derived(t, rec, f); r.Notes[path] != "of the cgroup that the target shares with the kit: mkdir: permission denied" {
		t.Errorf("%v", r.Notes)
	}
}

// A wall meter that drew 200 W, read 20 times a second: half a second of it is
// kept aside, since 2 s are needed. Without one the row says so.
func TestWallMeter(t *testing.T) {
	rec, f := sample()
	if r := derived(t, rec, f); r.Telemetry.Wall.Joules != nil || r.Why["telemetry.wall.joules"] == "" || r.Why["telemetry.wall.max_w"] == "" {
		t.Errorf("%+v, %v", r.Telemetry.Wall, r.Why)
	}
	read := samples(rec.Recording.T0)
	meter := telemetry.Track{Source: "wall meter", Hz: 20, Series: []telemetry.Series{{Metric: telemetry.WallPower, V: telemetry.Values{}}}}
	for ns := int64(998e6); ns <= 1498e6; ns += 50e6 {
		meter.At, meter.Series[0].V = append(meter.At, ns), append(meter.Series[0].V, 200)
	}
	read.Tracks = append(read.Tracks, meter)
	rec.Samples = encoded(read)
	r := derived(t, rec, f)
	if r.Telemetry.Wall.MaxW == nil || *r.Telemetry.Wall.MaxW != 200 {
		t.Errorf("%+v, %v", r.Telemetry.Wall, r.Why)
	}
	for _, w := range r.Withheld {
		if w.Figure == "telemetry.wall.joules" && math.Abs(*w.Value-99.2) < 1e-9 && strings.Contains(w.Why, "at least 2 s are needed") {
			return
		}
	}
	t.Errorf("%+v", r.Withheld)
}
