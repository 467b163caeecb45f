package telemetry

import (
	"maps"
	"slices"
	"strings"
)

// Ask is what Compute needs to know beside the samples.
type Ask struct {
	Window Window
	Why    string // why there is no record ("remote target"); empty: there is one

	PromptTokens *float64 // that prefill computed: those from a cache left out
	OutputTokens *float64 // that came from TFirst to TLast
	Idle         *Idle    // nil: none was measured
	Baseline     *Baseline
	Disk         string // that holds the model, as in Options
}

// Figures is everything that samples say of a run.
type Figures struct {
	HostSamples int `json:"host_samples"` // readings of the host, the one before and the one after included
	GPUSamples  int `json:"gpu_samples"`  // of the GPUs' power or energy; of several GPUs the fewest

	Board Energy   `json:"board"` // all GPUs together
	RAPL  []Energy `json:"rapl"`  // a processor package each, at least one
	Wall  Energy   `json:"wall"`

	VRAM         Figure `json:"vram_mib"` // most in use, all GPUs together
	VRAMBaseline Figure `json:"vram_baseline_mib"`
	VRAMGrowth   Figure `json:"vram_growth_mib"`
	VRAMTarget   Figure `json:"vram_target_mib"` // of the target's processes
	GTT          Figure `json:"gtt_mib"`         // system memory used by GPUs
	GTTGrowth    Figure `json:"gtt_growth_mib"`
	GPUTemp      Figure `json:"gpu_temp_max_c"`
	GPUClock     Figure `json:"gpu_clock_mean_mhz"`
	GPUBusy      Figure `json:"gpu_busy_mean_pct"`
	Throttle     Figure `json:"gpu_throttle"` // bits that were set at any time, of any GPU; named in Note
	LimitMin     Figure `json:"power_limit_min_w"`
	LimitMax     Figure `json:"power_limit_max_w"`

	Load1        Figure `json:"load1_mean"`
	MemAvailable Figure `json:"mem_available_min_gib"`
	SwapUsed     Figure `json:"swap_used_max_gib"`
	PSISystem    Figure `json:"psi_system_full_avg10_max"`
	PSIUser      Figure `json:"psi_user_full_avg10_max"`
	PSIUnit      Figure `json:"psi_unit_full_avg10_max"`
	PSIStalled   Figure `json:"psi_system_full_s"` // time in which all tasks waited for memory
	PSICPU       Figure `json:"psi_cpu_some_avg10_max"`
	PSIIO        Figure `json:"psi_io_full_avg10_max"`

	CgroupMax   Figure `json:"cgroup_current_max_gib"`
	CgroupPeak  Figure `json:"cgroup_peak_gib"`
	CgroupLimit Figure `json:"cgroup_limit_gib"`
	AtLimit     Figure `json:"cgroup_at_limit"` // times in the window that the limit was met
	Kills       Figure `json:"cgroup_oom_kills"`

	VmRSS    Figure `json:"vmrss_max_bytes"`
	RssAnon  Figure `json:"rss_anon_max_bytes"`
	RssFile  Figure `json:"rss_file_max_bytes"`
	RssShmem Figure `json:"rss_shmem_max_bytes"`
	VmLck    Figure `json:"vmlck_max_bytes"`
	VmPin    Figure `json:"vmpin_max_bytes"`
	PSS      Figure `json:"pss_bytes"` // read after the window
	TreeCPU  Figure `json:"tree_cpus_mean"`
	TreeRead Figure `json:"tree_read_mb_per_s"`

	Noise    Figure             `json:"noise_procs_max"`
	NoiseCPU map[string]float64 `json:"noise_cpu"` // by name, the most that it used, in CPUs

	DiskReads    Figure `json:"data_reads_per_s_mean"`
	DiskReadsMax Figure `json:"data_reads_per_s_max"`
	DiskRead     Figure `json:"data_read_mb_per_s"`
	SSDTemp      Figure `json:"ssd_temp_max_c"`
	CPUTemp      Figure `json:"cpu_temp_max_c"`

	CPUFreq    Figure             `json:"cpu_freq_mean_mhz"`
	CPUFreqMin Figure             `json:"cpu_freq_min_mhz"`
	Governors  map[string]float64 `json:"governors"` // CPUs under each
	Governor   Figure             `json:"cpus_governed"`

	LagP99      Figure `json:"lag_p99_ms"`
	LagMax      Figure `json:"lag_max_ms"`
	SelfCPU     Figure `json:"self_cpus_mean"`
	GCPause     Figure `json:"self_gc_pause_ms"` // together
	GCs         Figure `json:"self_gcs"`
	RecorderCPU Figure `json:"recorder_cpus_mean"` // of SelfCPU, what the readings cost
	HelperCPU   Figure `json:"helper_cpus_mean"`
}

const (
	gibibyte = 1 << 30
	megabyte = 1e6
)

// Compute works out the figures of one window. rec may be nil, because of a.Why.
func Compute(rec *Record, a Ask) *Figures {
	s := &sheet{rec: rec, why: a.Why}
	if rec != nil {
		s.from, s.to = a.Window.T0-rec.Origin, a.Window.T1-rec.Origin
		if s.to <= s.from {
			s.rec, s.why = nil, "there is no window: nothing was received"
		}
	}
	f := &Figures{NoiseCPU: map[string]float64{}, Governors: map[string]float64{}}
	s.energies(f, &a)
	s.gpus(f, &a)
	s.host(f)
	s.target(f)
	s.disks(f, &a)
	s.self(f)
	return f
}

func (s *sheet) energies(f *Figures, a *Ask) {
	idle := a.Idle
	if idle == nil {
		idle = &Idle{}
	}
	meters, note, why := s.boards()
	f.Board = s.energy(meters, why, a, idle.Board)
	if f.Board.Label = note; note != "" {
		f.Board.Rule = strings.TrimPrefix(f.Board.Rule+"; "+note, "; ")
	}
	if len(meters) > 0 {
		f.GPUSamples = f.Board.Window.Joules.Samples
	}

	names := s.packages()
	for _, of := range names {
		m := s.meter(of, []Metric{RAPLEnergy})
		e := s.energy([]meter{m}, "", a, idle.RAPL[of])
		e.Label = "RAPL " + of + ": " + NotWall
		f.RAPL = append(f.RAPL, e)
	}
	if len(names) == 0 {
		e := s.energy(nil, s.missing(s.rec.columns(RAPLEnergy, nil)), a, nil)
		e.Label = "RAPL package-0: " + NotWall
		f.RAPL = []Energy{e}
	}

	var wall []meter
	m := s.meter("", []Metric{WallPower})
	if m.main != nil {
		wall = []meter{m}
	}
	f.Wall = s.energy(wall, m.why, a, idle.Wall)
}

// packages are the processor packages that RAPL knows, without their memory and
// without the platform as a whole.
func (s *sheet) packages() []string {
	var names []string
	for _, c := range s.rec.columns(RAPLEnergy, nil) {
		of := c.series.Of
		if strings.HasPrefix(of, "package") && !strings.HasSuffix(of, " dram") && !slices.Contains(names, of) {
			names = append(names, of)
		}
	}
	slices.Sort(names)
	return names
}

func (s *sheet) gpus(f *Figures, a *Ask) {
	get := func(m Metric, unit string, reduce func([]points) float64) Figure {
		return s.figure(unit, s.rec.columns(m, nil), reduce)
	}
	f.VRAM = get(GPUMem, "bytes", s.highestSum).scaled(1.0/mebibyte, "MiB")
	f.VRAMTarget = get(GPUMemTarget, "bytes", s.highestSum).scaled(1.0/mebibyte, "MiB")
	f.GTT = get(GPUGTT, "bytes", s.highestSum).scaled(1.0/mebibyte, "MiB")
	f.VRAMBaseline, f.VRAMGrowth = s.growth(a.Baseline, GPUMem, f.VRAM)
	_, f.GTTGrowth = s.growth(a.Baseline, GPUGTT, f.GTT)
	f.GPUTemp = get(GPUTemp, "°C", s.highest)
	f.GPUClock = get(GPUClock, "MHz", s.mean)
	f.GPUBusy = get(GPUBusy, "%", s.mean)
	f.LimitMin = get(GPULimit, "W", s.lowest)
	f.LimitMax = get(GPULimit, "W", s.highest)
	f.Throttle = get(GPUThrottle, "bits", s.anyBit)
	if f.Throttle.Value != nil {
		f.Throttle.Note = strings.Join(Throttles(uint64(*f.Throttle.Value)), ", ")
	}
}

// anyBit joins the bits of all readings.
func (s *sheet) anyBit(all []points) float64 {
	bits := uint64(0)
	for _, p := range all {
		lo, hi := p.around(s.from, s.to)
		for _, v := range p.v[lo : hi+1] {
			if v >= 0 && v < 1<<53 {
				bits |= uint64(v)
			}
		}
	}
	return float64(bits)
}

func (s *sheet) host(f *Figures) {
	get := func(m Metric, of, unit string, reduce func([]points) float64) Figure {
		return s.figure(unit, s.rec.columns(m, is(of)), reduce)
	}
	f.Load1 = get(Load1, "", "tasks", s.mean)
	f.HostSamples = f.Load1.Samples
	f.MemAvailable = get(MemAvailable, "", "bytes", s.lowest).scaled(1.0/gibibyte, "GiB")
	f.SwapUsed = get(SwapUsed, "", "bytes", s.highest).scaled(1.0/gibibyte, "GiB")
	f.PSISystem = get(PSIMemFull, OfSystem, "%", s.highest)
	f.PSIUser = get(PSIMemFull, OfUser, "%", s.highest)
	f.PSIUnit = get(PSIMemFull, OfUnit, "%", s.highest)
	f.PSIStalled = get(PSIMemTotal, OfSystem, "s", s.grown)
	f.PSICPU = get(PSICPUSome, OfSystem, "%", s.highest)
	f.PSIIO = get(PSIIOFull, OfSystem, "%", s.highest)
	f.Noise = get(NoiseProcs, "", "processes", s.highestSince)
	for _, c := range s.rec.columns(NoiseCPU, nil) {
		if p := c.points(); len(p.at) > 0 {
			if v := s.highestSince([]points{p}); v > 0 {
				f.NoiseCPU[c.series.Of] = v
			}
		}
	}
	f.CPUFreq = get(CPUFreq, "", "MHz", s.mean)
	f.CPUFreqMin = get(CPUFreqMin, "", "MHz", s.lowest)
	governed := s.rec.columns(CPUsGoverned, nil)
	f.Governor = s.figure("CPUs", governed, s.highestSum)
	for _, c := range governed {
		if p := c.points(); len(p.at) > 0 {
			f.Governors[c.series.Of] = s.highest([]points{p})
		}
	}
	f.Governor.Note = strings.Join(slices.Sorted(maps.Keys(f.Governors)), ", ")
}

func (s *sheet) target(f *Figures) {
	get := func(m Metric, unit string, reduce func([]points) float64) Figure {
		return s.figure(unit, s.rec.columns(m, is("")), reduce)
	}
	for _, one := range []struct {
		to *Figure
		m  Metric
	}{
		{&f.VmRSS, VmRSS},
		{&f.RssAnon, RssAnon},
		{&f.RssFile, RssFile},
		{&f.RssShmem, RssShmem},
		{&f.VmLck, VmLck},
		{&f.VmPin, VmPin},
		{&f.PSS, PSS},
	} {
		*one.to = get(one.m, "bytes", s.highest)
	}
	f.TreeCPU = get(TreeCPU, "CPUs", s.perSecond)
	f.TreeRead = get(TreeRead, "bytes/s", s.perSecond).scaled(1/megabyte, "MB/s")
	f.CgroupMax = get(CgroupCurrent, "bytes", s.highest).scaled(1.0/gibibyte, "GiB")
	f.CgroupPeak = get(CgroupPeak, "bytes", s.highest).scaled(1.0/gibibyte, "GiB")
	f.CgroupLimit = get(CgroupLimit, "bytes", s.lowest).scaled(1.0/gibibyte, "GiB")
	f.AtLimit = get(CgroupAtLimit, "events", s.grown)
	f.Kills = get(CgroupKills, "events", s.grown)
}

func (s *sheet) disks(f *Figures, a *Ask) {
	get := func(m Metric, unit string, reduce func([]points) float64) Figure {
		return s.figure(unit, s.rec.columns(m, nil), reduce)
	}
	f.DiskReads = get(DiskReads, "1/s", s.perSecond)
	f.DiskReadsMax = get(DiskReads, "1/s", s.fastest)
	f.DiskRead = get(DiskRead, "bytes/s", s.perSecond).scaled(1/megabyte, "MB/s")

	all := s.rec.columns(Temp, nil)
	ssd := s.rec.columns(Temp, func(of string) bool { return a.Disk != "" && strings.HasPrefix(of+" ", a.Disk+" ") })
	f.SSDTemp = s.figure("°C", ssd, s.highest)
	if len(ssd) == 0 && s.rec != nil {
		switch {
		case a.Disk == "":
			f.SSDTemp.Why = "the disk of the model is not known"
		case len(all) == 0 || all[0].series.Of == "":
			f.SSDTemp.Why = s.missing(all)
		default:
			f.SSDTemp.Why = "no sensor of " + a.Disk + " is shown"
		}
	}
	cpu := s.rec.columns(Temp, func(of string) bool {
		chip, _, _ := strings.Cut(of, " ")
		return slices.Contains([]string{"coretemp", "k10temp", "zenpower", "cpu_thermal", "soc_thermal"}, chip)
	})
	f.CPUTemp = s.figure("°C", cpu, s.highest)
	if len(cpu) == 0 && s.rec != nil {
		if f.CPUTemp.Why = "no sensor of the processor is shown"; len(all) == 0 || all[0].series.Of == "" {
			f.CPUTemp.Why = s.missing(all)
		}
	}
}

func (s *sheet) self(f *Figures) {
	get := func(m Metric, unit string, reduce func([]points) float64) Figure {
		return s.figure(unit, s.rec.columns(m, nil), reduce)
	}
	f.LagP99 = get(SelfLag, "ms", s.lag)
	f.LagMax = get(SelfLag, "ms", s.highest)
	f.SelfCPU = get(SelfCPU, "CPUs", s.perSecond)
	f.GCPause = get(SelfGCPause, "s", s.grown).scaled(1e3, "ms")
	f.GCs = get(SelfGCs, "collections", s.grown)
	f.RecorderCPU = get(RecorderCPU, "CPUs", s.perSecond)
	f.HelperCPU = get(HelperCPU, "CPUs", s.perSecond)
	if v := f.LagP99.Value; v != nil && f.LagP99.Samples < 100 {
		f.LagP99.Note = "the largest: fewer than 100 wake-ups"
	}
}
