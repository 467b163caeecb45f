package derive

import (
	"assay/internal/kit/row"
	"assay/internal/kit/telemetry"
)

// gibibyte is the unit of mem_available_gib_min.
const gibibyte = 1 << 30

// telemetry sets what the samples say and gives the reason for every figure that
// is not sampled.
func (s *source) telemetry(r *row.Row) {
	t, samples := &r.Telemetry, s.facts.Samples
	if rec := s.rec.Recording; rec != nil {
		t0 := float64(rec.T0) / 1e9
		seconds := float64(rec.EndAt) / 1e9
		t.Window = row.Window{T0: &t0, T1: new(t0 + seconds), Seconds: &seconds}
	} else {
		r.Null("no connection was made", "telemetry.window.t0", "telemetry.window.t1", "telemetry.window.seconds")
	}
	t.Window.HostSamples, t.Window.GPUSamples = new(len(samples)), new(0)

	const energy = "energy and temperatures are not sampled by this version"
	r.Null(energy, "telemetry.board", "telemetry.temps", "telemetry.power_limit")
	t.RAPLPackage0 = row.RAPL{Label: new("RAPL package-0: NOT WALL"), Why: new(energy)}
	r.Null("the memory of GPUs is not sampled by this version", "telemetry.vram")
	r.Null("disk reads are not sampled by this version", "telemetry.data_reads_per_s", "telemetry.data_read_mb_per_s")
	r.Null("noise is not sampled by this version", "telemetry.load.noise_procs_max")
	r.Null("memory pressure is not sampled by this version",
		"telemetry.memory.user_psi_full_avg10_max", "telemetry.memory.psi_full_avg10_max", "telemetry.memory.unit_psi_full_avg10_max",
		"telemetry.memory.psi_rule", "telemetry.memory.unit_max_events_delta")
	if samples == nil {
		r.Null("remote target: this host's figures say nothing of it", "telemetry.load.load1_mean", "telemetry.memory.mem_available_gib_min", "telemetry.pinned")
		return
	}
	get := func(path string, src telemetry.Source, set func(telemetry.Summary)) {
		sum, err := telemetry.Summarize(samples, src)
		if err != nil {
			r.Null(err.Error(), path)
			return
		}
		set(sum)
	}
	get("telemetry.load.load1_mean", telemetry.Load1, func(v telemetry.Summary) { t.Load.Load1Mean = &v.Mean })
	get("telemetry.memory.mem_available_gib_min", telemetry.MemAvailable, func(v telemetry.Summary) {
		t.Memory.MemAvailableGiBMin = new(v.Min / gibibyte)
	})
	p := &t.Pinned
	p.Rule = new("largest sum over the target's processes of what /proc/PID/status says, one sample before the window, one after, one a second within")
	for _, f := range []struct {
		name string
		src  telemetry.Source
		to   **int64
	}{
		{"vmrss_max_bytes", telemetry.VmRSS, &p.VmRSSMaxBytes},
		{"vmlck_max_bytes", telemetry.VmLck, &p.VmLckMaxBytes},
		{"vmpin_max_bytes", telemetry.VmPin, &p.VmPinMaxBytes},
	} {
		get("telemetry.pinned."+f.name, f.src, func(v telemetry.Summary) { *f.to = new(int64(v.Max)) })
	}
}
