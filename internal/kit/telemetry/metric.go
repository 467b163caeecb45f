package telemetry

// Metric names one kind of reading.
type Metric string

// The metrics. Their units and meanings are in the table below.
const (
	GPUEnergy    Metric = "gpu_energy"
	GPUPower     Metric = "gpu_power"
	GPUPowerMean Metric = "gpu_power_mean"
	GPUMem       Metric = "gpu_mem"
	GPUMemTarget Metric = "gpu_mem_target"
	GPUGTT       Metric = "gpu_gtt"
	GPUTemp      Metric = "gpu_temp"
	GPUClock     Metric = "gpu_clock"
	GPUMemClock  Metric = "gpu_mem_clock"
	GPUThrottle  Metric = "gpu_throttle"
	GPULimit     Metric = "gpu_limit"
	GPUBusy      Metric = "gpu_busy"

	RAPLEnergy Metric = "rapl_energy"
	WallPower  Metric = "wall_power"

	Load1        Metric = "load1"
	MemAvailable Metric = "mem_available"
	SwapUsed     Metric = "swap_used"

	PSIMemSome  Metric = "psi_memory_some_avg10"
	PSIMemFull  Metric = "psi_memory_full_avg10"
	PSIMemTotal Metric = "psi_memory_full_total"
	PSICPUSome  Metric = "psi_cpu_some_avg10"
	PSIIOSome   Metric = "psi_io_some_avg10"
	PSIIOFull   Metric = "psi_io_full_avg10"

	CgroupCurrent Metric = "cgroup_current"
	CgroupPeak    Metric = "cgroup_peak"
	CgroupLimit   Metric = "cgroup_limit"
	CgroupAtLimit Metric = "cgroup_at_limit"
	CgroupKills   Metric = "cgroup_oom_kills"

	VmRSS    Metric = "vmrss"
	RssAnon  Metric = "rss_anon"
	RssFile  Metric = "rss_file"
	RssShmem Metric = "rss_shmem"
	VmLck    Metric = "vmlck"
	VmPin    Metric = "vmpin"
	PSS      Metric = "pss"
	TreeCPU  Metric = "tree_cpu"
	TreeRead Metric = "tree_read"
	TreeSize Metric = "tree_processes"

	NoiseProcs Metric = "noise_procs"
	NoiseCPU   Metric = "noise_cpu"

	DiskReads    Metric = "disk_reads"
	DiskRead     Metric = "disk_read"
	Temp         Metric = "temp"
	CPUFreq      Metric = "cpu_freq"
	CPUFreqMin   Metric = "cpu_freq_min"
	CPUsGoverned Metric = "cpus_governed"

	SelfCPU     Metric = "self_cpu"
	SelfGCPause Metric = "self_gc_pause"
	SelfGCs     Metric = "self_gcs"
	SelfLag     Metric = "self_lag"
	RecorderCPU Metric = "recorder_cpu"
	HelperCPU   Metric = "helper_cpu"
)

// kind is what the numbers of a metric are.
type kind struct {
	unit    string
	counter bool // only grows; what matters is the difference of two readings
	means   string
}

var kinds = map[Metric]kind{
	GPUEnergy:    {"J", true, "energy of the board"},
	GPUPower:     {"W", false, "power of the board at the moment"},
	GPUPowerMean: {"W", false, "power of the board, mean of about the last second"},
	GPUMem:       {"bytes", false, "memory of the GPU in use"},
	GPUMemTarget: {"bytes", false, "memory of the GPU in use by the target's processes"},
	GPUGTT:       {"bytes", false, "system memory in use by the GPU"},
	GPUTemp:      {"°C", false, "temperature of the GPU"},
	GPUClock:     {"MHz", false, "clock of the GPU's processors"},
	GPUMemClock:  {"MHz", false, "clock of the GPU's memory"},
	GPUThrottle:  {"bits", false, "why the clock is held down, see Throttles"},
	GPULimit:     {"W", false, "power limit in force"},
	GPUBusy:      {"%", false, "share of the time in which the GPU worked"},

	RAPLEnergy: {"J", true, "energy of a processor package or of its memory"},
	WallPower:  {"W", false, "power by a wall meter"},

	Load1:        {"tasks", false, "runnable and waiting tasks, mean of the last minute"},
	MemAvailable: {"bytes", false, "memory that can be had without swapping"},
	SwapUsed:     {"bytes", false, "swap in use"},

	PSIMemSome:  {"%", false, "time in which some task waited for memory, mean of 10 s"},
	PSIMemFull:  {"%", false, "time in which all tasks waited for memory, mean of 10 s"},
	PSIMemTotal: {"s", true, "time in which all tasks waited for memory"},
	PSICPUSome:  {"%", false, "time in which some task waited for a processor, mean of 10 s"},
	PSIIOSome:   {"%", false, "time in which some task waited for a disk, mean of 10 s"},
	PSIIOFull:   {"%", false, "time in which all tasks waited for a disk, mean of 10 s"},

	CgroupCurrent: {"bytes", false, "memory charged to the target's control group"},
	CgroupPeak:    {"bytes", false, "most that was ever charged to it"},
	CgroupLimit:   {"bytes", false, "its limit, or a lower one above it"},
	CgroupAtLimit: {"events", true, "times that it met its limit"},
	CgroupKills:   {"events", true, "processes in it that the kernel killed for memory"},

	VmRSS:    {"bytes", false, "resident memory of the target's tree; pages that processes share count for each"},
	RssAnon:  {"bytes", false, "of this: anonymous"},
	RssFile:  {"bytes", false, "of this: mapped files"},
	RssShmem: {"bytes", false, "of this: shared"},
	VmLck:    {"bytes", false, "locked memory of the target's tree"},
	VmPin:    {"bytes", false, "pinned memory of the target's tree"},
	PSS:      {"bytes", false, "resident memory of the target's tree; shared pages count once"},
	TreeCPU:  {"s", true, "processor time of the target's tree"},
	TreeRead: {"bytes", true, "bytes that the target's tree had fetched from disks"},
	TreeSize: {"processes", false, "processes of the target's tree"},

	NoiseProcs: {"processes", false, "processes beside target and kit that use a tenth of a processor or more"},
	NoiseCPU:   {"CPUs", false, "what each of them uses"},

	DiskReads:    {"reads", true, "reads that the disk of the model has completed"},
	DiskRead:     {"bytes", true, "bytes read from it"},
	Temp:         {"°C", false, "temperature by a sensor of the machine"},
	CPUFreq:      {"MHz", false, "frequency, mean over the processors"},
	CPUFreqMin:   {"MHz", false, "frequency of the slowest processor"},
	CPUsGoverned: {"CPUs", false, "processors under a frequency governor"},

	SelfCPU:     {"s", true, "processor time of the kit"},
	SelfGCPause: {"s", true, "time that the kit's garbage collector held everything up"},
	SelfGCs:     {"collections", true, "collections of the kit's garbage"},
	SelfLag:     {"ms", false, "how late a ticker of the kit woke up"},
	RecorderCPU: {"s", true, "processor time that taking these readings cost"},
	HelperCPU:   {"s", true, "processor time of the helper programs that take readings"},
}

// Means says in words what a metric is.
func (m Metric) Means() string { return kinds[m].means }

// Unit is what a metric is counted in.
func (m Metric) Unit() string { return kinds[m].unit }

// Throttles names the bits of GPUThrottle (NVML's clocks event reasons) that
// hold a clock down; that the GPU has nothing to do is none of them.
func Throttles(bits uint64) []string {
	var out []string
	for _, t := range []struct {
		bit  uint64
		name string
	}{
		{0x2, "application clocks"},
		{0x4, "power limit"},
		{0x8, "hardware slowdown"},
		{0x10, "sync boost"},
		{0x20, "thermal limit (software)"},
		{0x40, "thermal limit (hardware)"},
		{0x80, "power brake"},
		{0x100, "display clocks"},
	} {
		if bits&t.bit != 0 {
			out = append(out, t.name)
		}
	}
	return out
}
