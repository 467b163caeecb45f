package derive

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/internal/kit/evidence"
	"assay/internal/kit/figure"
	"assay/internal/kit/row"
	"assay/internal/kit/telemetry"
)

// readSamples takes the samples out of evidence; nil: none were kept.
func readSamples(rec *evidence.Record) (*telemetry.Record, error) {
	if len(rec.Samples) == 0 {
		return nil, nil
	}
	out := new(telemetry.Record)
	if err := json.Unmarshal(rec.Samples, out); err != nil {
		return nil, fmt.Errorf("%s: %w", evidence.SamplesFile, err)
	}
	return out, nil
}

// measure adds to the inputs what the samples say of the run: from t0 to the end
// of the body, with w between the two.
func (s *source) measure(in *figure.Inputs, w *figure.Window) {
	around := &s.facts.Around
	ask := telemetry.Ask{Disk: around.Disk, Baseline: around.Baseline, Idle: around.Idle}
	if s.sampled == nil {
		ask.Why = cmp.Or(around.Why, "no samples were kept")
	}
	if rec := s.rec.Recording; rec != nil {
		ask.Window = telemetry.Window{T0: rec.T0, T1: rec.T0 + rec.EndAt}
		if w.TFirstNS != nil {
			ask.Window.TFirst, ask.Window.TLast = rec.T0+*w.TFirstNS, rec.T0+*w.TLastNS
		}
	}
	if n := in.PromptTokens; n != nil {
		computed := float64(*n)
		if in.CachedTokens != nil {
			computed -= float64(*in.CachedTokens)
		}
		ask.PromptTokens = &computed
	}
	if w.NFirst != nil {
		ask.OutputTokens = new(*w.NLast - *w.NFirst)
	}
	s.samples = telemetry.Compute(s.sampled, ask)
	in.Checks.LagP99MS, in.Checks.Energy = s.samples.LagP99.Value, sampled(&s.samples.Board.Window.Check)
	in.Extra = slices.Concat(
		energies("telemetry.board.", &s.samples.Board, true),
		energies("telemetry.rapl_package0.", &s.samples.RAPL[0], false),
		energies("telemetry.wall.", &s.samples.Wall, true),
	)
}

// energies are the figures of one kind of meter, which the checks may withhold.
// Each is held against the readings of its own stretch.
func energies(path string, e *telemetry.Energy, mean bool) []figure.Named {
	named := func(name string, read telemetry.Figure, p *telemetry.Part, groups ...figure.Group) figure.Named {
		f := possible(path+name, read)
		return figure.Named{
			Name: path + name, Groups: groups, Energy: sampled(&p.Check),
			Figure: &figure.Figure{Value: f.Value, Unit: f.Unit, Source: told(f), Why: cmp.Or(f.Why, "not sampled"), Note: f.Note, Samples: f.Samples},
		}
	}
	out := []figure.Named{named("joules", e.Window.Joules, &e.Window, figure.Joules)}
	if mean {
		out = append(out, named("mean_w", e.MeanW, &e.Window, figure.Joules))
	}
	return append(out,
		named("j_per_prompt_token", e.PerPrompt, &e.Prefill, figure.JPerToken, figure.PromptRates),
		named("j_per_output_token", e.PerOutput, &e.Decode, figure.JPerToken, figure.Decodes),
		named("j_per_prompt_token_net", e.PerPromptNet, &e.Prefill, figure.JPerToken, figure.PromptRates),
		named("j_per_output_token_net", e.PerOutputNet, &e.Decode, figure.JPerToken, figure.Decodes),
	)
}

// sampled is a check in the words of package figure.
func sampled(c *telemetry.Check) *figure.Energy {
	return &figure.Energy{
		Seconds: c.Seconds, Hz: c.Hz, CounterAtEdges: c.CounterAtEdges, LongestGapS: c.LongestGapS,
		Joules: c.Joules, OtherJoules: c.OtherJoules,
	}
}

// told says where a figure comes from, and how well it was sampled.
func told(f *telemetry.Figure) string {
	if f.Samples == 0 {
		return f.Source
	}
	return fmt.Sprintf("%s: %d readings, at most %.3g s apart, over %.0f %% of the time", f.Source, f.Samples, f.LongestGapS, 100*f.Coverage)
}

const (
	vramRule   = "most in use in the window, all GPUs together, less what was in use before the target was started"
	pinnedRule = "largest sum over the target's processes of what /proc/PID/status says, one reading before the window, one after, one a second within"
	psiRule    = "the full line of memory pressure: of the system, of the user's slice (user_psi), of the target's own unit (unit_psi)"
	limitRule  = "the limit that the driver enforces, as it was read: it may float, so it is never one number"
)

// telemetry sets what the samples say beside energy, and gives the reason for
// each figure that they don't.
func (s *source) telemetry(r *row.Row) {
	t, f := &r.Telemetry, s.samples
	if rec := s.rec.Recording; rec != nil {
		t0 := float64(rec.T0) / 1e9
		seconds := float64(rec.EndAt) / 1e9
		t.Window = row.Window{T0: &t0, T1: new(t0 + seconds), Seconds: &seconds}
	} else {
		r.Null("no connection was made", "telemetry.window.t0", "telemetry.window.t1", "telemetry.window.seconds")
	}
	t.Window.HostSamples, t.Window.GPUSamples = &f.HostSamples, &f.GPUSamples

	get := floats(r)
	board, rapl, wall := &f.Board, &f.RAPL[0], &f.Wall
	get("board.max_w", &t.Board.MaxW, &board.MaxW)
	get("wall.max_w", &t.Wall.MaxW, &wall.MaxW)
	rule(r, "board.rule", &t.Board.Rule, board.Rule, board.Window.Joules.Why)
	rule(r, "wall.rule", &t.Wall.Rule, wall.Rule, wall.Window.Joules.Why)
	t.RAPLPackage0.Label = &rapl.Label
	if t.RAPLPackage0.Joules == nil {
		t.RAPLPackage0.Why = new(cmp.Or(r.Why["telemetry.rapl_package0.joules"], "not sampled"))
	}
	get("data_reads_per_s.mean", &t.DataReads.Mean, &f.DiskReads)
	get("data_reads_per_s.max", &t.DataReads.Max, &f.DiskReadsMax)
	get("data_read_mb_per_s.mean", &t.DataReadMB.Mean, &f.DiskRead)
	get("temps.gpu_max_c", &t.Temps.GPUMaxC, &f.GPUTemp)
	get("temps.ssd_max_c", &t.Temps.SSDMaxC, &f.SSDTemp)
	get("vram.max_used_mib", &t.VRAM.MaxUsedMiB, &f.VRAM)
	get("vram.baseline_mib", &t.VRAM.BaselineMiB, &f.VRAMBaseline)
	get("vram.growth_mib", &t.VRAM.GrowthMiB, &f.VRAMGrowth)
	t.VRAM.Rule = new(vramRule)
	bytes := whole64(r)
	bytes("pinned.vmrss_max_bytes", &t.Pinned.VmRSSMaxBytes, &f.VmRSS)
	bytes("pinned.vmlck_max_bytes", &t.Pinned.VmLckMaxBytes, &f.VmLck)
	bytes("pinned.vmpin_max_bytes", &t.Pinned.VmPinMaxBytes, &f.VmPin)
	t.Pinned.Rule = new(pinnedRule)
	get("load.load1_mean", &t.Load.Load1Mean, &f.Load1)
	s.noise(r)
	get("memory.mem_available_gib_min", &t.Memory.MemAvailableGiBMin, &f.MemAvailable)
	get("memory.user_psi_full_avg10_max", &t.Memory.UserPSIFullAvg10Max, &f.PSIUser)
	get("memory.psi_full_avg10_max", &t.Memory.PSIFullAvg10Max, &f.PSISystem)
	get("memory.unit_psi_full_avg10_max", &t.Memory.UnitPSIFullAvg10Max, &f.PSIUnit)
	t.Memory.PSIRule = new(psiRule)
	bytes("memory.unit_max_events_delta", &t.Memory.UnitMaxEventsDelta, &f.AtLimit)
	if st := s.facts.Start; st != nil && st.CgroupWhy != "" {
		for path, there := range map[string]bool{"unit_psi_full_avg10_max": t.Memory.UnitPSIFullAvg10Max != nil, "unit_max_events_delta": t.Memory.UnitMaxEventsDelta != nil} {
			if there {
				r.Notes["telemetry.memory."+path] = "of the cgroup that the target shares with the kit: " + st.CgroupWhy
			}
		}
	}
	get("power_limit.min_w", &t.PowerLimit.MinW, &f.LimitMin)
	get("power_limit.max_w", &t.PowerLimit.MaxW, &f.LimitMax)
	t.PowerLimit.Rule = new(limitRule)
}

// noise counts the processes that used the processor beside ours, and names them.
func (s *source) noise(r *row.Row) {
	const path = "load.noise_procs_max"
	var n *int64
	whole64(r)(path, &n, &s.samples.Noise)
	if n == nil {
		return
	}
	r.Telemetry.Load.NoiseProcsMax = new(int(*n))
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.samples.NoiseCPU)) {
		names = append(names, fmt.Sprintf("%s (%.1f)", name, s.samples.NoiseCPU[name]))
	}
	if len(names) > 0 {
		r.Notes["telemetry."+path] = "by name, with the processors that each used at most: " + strings.Join(names, ", ")
	}
}

// floats gives the function that sets a number of a row's telemetry, or the
// reason why there is none.
func floats(r *row.Row) func(path string, to **float64, f *telemetry.Figure) {
	return func(path string, to **float64, f *telemetry.Figure) {
		path = "telemetry." + path
		f = possible(path, *f)
		if *to = f.Value; f.Value == nil {
			r.Null(cmp.Or(f.Why, "not sampled"), path)
			return
		}
		r.Sources[path] = told(f)
		if f.Note != "" {
			r.Notes[path] = f.Note
		}
	}
}

// belowZero are the numbers that may be.
var belowZero = []string{
	"telemetry.temps.gpu_max_c", "telemetry.temps.ssd_max_c", "telemetry.vram.growth_mib",
	"telemetry.board.j_per_prompt_token_net", "telemetry.board.j_per_output_token_net",
	"telemetry.rapl_package0.j_per_prompt_token_net", "telemetry.rapl_package0.j_per_output_token_net",
	"telemetry.wall.j_per_prompt_token_net", "telemetry.wall.j_per_output_token_net",
}

// possible gives a reason in place of a number that nothing can have, so that a
// broken sensor does not keep a row from being written.
func possible(path string, f telemetry.Figure) *telemetry.Figure {
	if f.Value != nil && *f.Value < 0 && !slices.Contains(belowZero, path) {
		f.Value, f.Why = nil, fmt.Sprintf("the readings make %g, which can't be", *f.Value)
	}
	return &f
}

// whole64 is floats for whole numbers.
func whole64(r *row.Row) func(path string, to **int64, f *telemetry.Figure) {
	return func(path string, to **int64, f *telemetry.Figure) {
		const most = 1 << 53 // from here on not every whole number is to be had
		v := *f
		if v.Value != nil && !(math.Abs(*v.Value) <= most) {
			v.Value, v.Why = nil, "the readings are out of range"
		}
		var n *float64
		if floats(r)(path, &n, &v); n != nil {
			*to = new(int64(math.Round(*n)))
		}
	}
}

// rule sets the words in which an energy is explained.
func rule(r *row.Row, path string, to **string, words, why string) {
	if words == "" {
		r.Null(cmp.Or(why, "not sampled"), "telemetry."+path)
		return
	}
	*to = &words
}
