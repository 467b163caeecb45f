package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/kit/host"
	"assay/internal/kit/plan"
	"assay/internal/kit/proc"
)

// figures are all that depends on the machine. What comes out of the stream
// alone needs no machine.
var figures = []struct {
	name, what string
	fields     []string
	ask        func(*machine) Answer
}{
	{"timing", "times and rates of the stream", []string{"ttft_ms", "ttfv_ms", "decode_tok_s", "prompt_tok_s_client", "gaps"}, (*machine).timing},
	{"token_count", "an independent token count", []string{"count_check.verdict", "prompt_tokens_expected"}, (*machine).tokenCount},
	{"gpu_energy", "energy of the GPUs", []string{"telemetry.board", "telemetry.window.gpu_samples"}, (*machine).gpuEnergy},
	{"package_energy", "energy of the processor packages", []string{"telemetry.rapl_package0"}, (*machine).packageEnergy},
	{"wall_energy", "energy at the wall", []string{"telemetry.wall"}, (*machine).wallEnergy},
	{"gpu_memory", "memory of the GPUs", []string{"telemetry.vram"}, (*machine).gpuMemory},
	{"power_limit", "power limit of the GPUs", []string{"telemetry.power_limit"}, (*machine).powerLimit},
	{"gpu_temperature", "temperature of the GPUs", []string{"telemetry.temps.gpu_max_c"}, (*machine).gpuTemperature},
	{"cpu_temperature", "temperature of the processors", nil, func(m *machine) Answer { return m.sensor("cpu") }},
	{"ssd_temperature", "temperature of the disks", []string{"telemetry.temps.ssd_max_c"}, func(m *machine) Answer { return m.sensor("ssd") }},
	{"memory_available", "available memory", []string{"telemetry.memory.mem_available_gib_min"}, (*machine).memoryAvailable},
	{"process_memory", "memory of the target's processes", []string{"telemetry.pinned"}, (*machine).processMemory},
	{"process_pss", "the target's share of shared memory", nil, (*machine).pss},
	{"memory_pressure", "memory pressure of the machine", []string{"telemetry.memory.psi_full_avg10_max", "telemetry.memory.psi_rule"}, (*machine).pressure},
	{"user_pressure", "memory pressure of the user's slice", []string{"telemetry.memory.user_psi_full_avg10_max"}, (*machine).userPressure},
	{"unit_pressure", "memory pressure of the target's cgroup", []string{"telemetry.memory.unit_psi_full_avg10_max"}, (*machine).unitPressure},
	{"unit_memory", "memory limit of the target's cgroup", []string{"telemetry.memory.unit_max_events_delta"}, (*machine).unitMemory},
	{"disk_reads", "reads of the model's disk", []string{"telemetry.data_reads_per_s", "telemetry.data_read_mb_per_s"}, (*machine).diskReads},
	{"page_cache", "model's files in the page cache", []string{"page_cache_percent"}, (*machine).pageCache},
	{"load", "load and other processes", []string{"telemetry.load", "telemetry.window"}, (*machine).load},
	{"governor", "governor of the processors", []string{"host.governor"}, (*machine).governorKnown},
}

func yes(source string, args ...any) Answer {
	return Answer{Can: true, Source: fmt.Sprintf(source, args...)}
}

func no(why, do string) Answer { return Answer{Why: why, Do: do} }

// orNo is yes where a file can be read, and else its error.
func (m *machine) orNo(path, do string) Answer {
	if _, err := m.read(path); err != nil {
		return no(err.Error(), do)
	}
	return yes("/%s", path)
}

const procDo = "measure on Linux, and where its /proc can be seen"

func (m *machine) timing() Answer {
	a := yes("the monotonic clock")
	if linux() {
		a.Source += ", with the kernel's receive times beside it"
	} else {
		a.Note = "no receive times from the kernel here: our own lag is known only from a timer"
	}
	if m.host.Clock != nil && !slices.Contains(clocks, *m.host.Clock) {
		a.Note = strings.TrimPrefix(a.Note+"; the kernel's clock is "+*m.host.Clock, "; ")
	}
	return a
}

// tokenCount is about the plan more than the machine: an arm whose tokens nobody
// but the server can count is checked against nothing.
func (m *machine) tokenCount() Answer {
	var without []string
	for i := range m.Plan.Arms {
		a := &m.Plan.Arms[i]
		if a.Model == "" && a.Tokenizer == "" {
			without = append(without, a.Name)
		}
	}
	if len(without) > 0 {
		return no("no tokenizer is known for "+strings.Join(without, ", ")+", unless the server has one to ask",
			"give the arm a tokenizer: the model's GGUF file")
	}
	return yes("the text, tokenised again with the model's own tokenizer")
}

const noGPU = "there is no GPU"

// perGPU asks for each vendor of which there is a GPU. All of them must answer.
func (m *machine) perGPU(ask map[string]func() Answer) Answer {
	switch {
	case m.host.GPUs == nil:
		return no(m.host.Why["gpus"], "")
	case len(m.host.GPUs) == 0:
		return no(noGPU, "")
	}
	all := Answer{Can: true}
	var sources []string
	done := map[string]bool{}
	for _, g := range m.host.GPUs {
		if done[g.Vendor] {
			continue
		}
		done[g.Vendor] = true
		f, ok := ask[g.Vendor]
		if !ok {
			return no(fmt.Sprintf("no one knows how to ask a GPU of vendor %s (%s)", g.Vendor, g.PCIID), "")
		}
		a := f()
		if !a.Can {
			return a
		}
		sources = append(sources, a.Source)
		if a.Note != "" {
			all.Note = a.Note
		}
	}
	all.Source = strings.Join(sources, "; ")
	return all
}

// nvidia is what can be asked of NVIDIA's driver.
func (m *machine) nvidia() Answer {
	for _, g := range m.host.GPUs {
		if g.Vendor == "nvidia" && (g.Driver == nil || *g.Driver != "nvidia") {
			return no(fmt.Sprintf("%s has no driver of NVIDIA's", g.Slot), "install NVIDIA's driver, or attach the GPU to it")
		}
	}
	if _, err := m.LookPath("assay-nvml"); err == nil {
		return yes("NVML through assay-nvml, %d GPUs", m.gpusOf("nvidia"))
	}
	if _, err := m.LookPath("nvidia-smi"); err == nil {
		return yes("nvidia-smi, %d GPUs", m.gpusOf("nvidia"))
	}
	return no("neither assay-nvml nor nvidia-smi is in PATH", "build cmd/assay-nvml into PATH, or install nvidia-smi (nvidia-utils)")
}

// hwmon looks for a file at the chips of a name, of which each GPU has one.
func (m *machine) hwmon(chip string, files ...string) Answer {
	var source string
	var last error
	chips, have := 0, 0
	for _, dir := range m.glob("sys/class/hwmon/hwmon[0-9]*") {
		if name, _ := m.read(dir + "/name"); name != chip {
			continue
		}
		chips++
		for _, f := range files {
			_, err := m.read(dir + "/" + f)
			if err == nil {
				have++
				if source == "" {
					source = "/" + dir + "/" + f
				}
				break
			}
			last = err
		}
	}
	switch {
	case chips == 0:
		return no("/sys/class/hwmon has no "+chip, "")
	case have == 0:
		return no(last.Error(), "")
	}
	a := yes("%s of %s", source, chip)
	if have < chips {
		a.Note = fmt.Sprintf("of %d of the %d GPUs only", have, chips)
	}
	return a
}

func (m *machine) gpuEnergy() Answer {
	return m.perGPU(map[string]func() Answer{
		"nvidia": func() Answer {
			a := m.nvidia()
			if _, err := m.LookPath("assay-nvml"); a.Can && err != nil {
				a.Note = "without assay-nvml there is no energy counter, only power"
			}
			return a
		},
		"amd": func() Answer { return m.hwmon("amdgpu", "power1_average", "power1_input") },
		"intel": func() Answer {
			if a := m.hwmon("xe", "energy1_input"); a.Can {
				return a
			}
			return m.hwmon("i915", "energy1_input")
		},
	})
}

func (m *machine) gpuMemory() Answer {
	return m.perGPU(map[string]func() Answer{
		"nvidia": m.nvidia,
		"amd": func() Answer {
			a := no(noGPU, "")
			for _, g := range m.host.GPUs {
				if g.Vendor != "amd" {
					continue
				}
				if a = m.orNo("sys/bus/pci/devices/"+g.Slot+"/mem_info_vram_used", "use the amdgpu driver"); !a.Can {
					break
				}
			}
			return a
		},
		"intel": func() Answer { return no("Intel's driver does not tell it outside a process", "") },
	})
}

func (m *machine) powerLimit() Answer {
	return m.perGPU(map[string]func() Answer{
		"nvidia": m.nvidia,
		"amd":    func() Answer { return m.hwmon("amdgpu", "power1_cap") },
		"intel": func() Answer {
			if a := m.hwmon("xe", "power1_max"); a.Can {
				return a
			}
			return m.hwmon("i915", "power1_max")
		},
	})
}

func (m *machine) gpuTemperature() Answer {
	return m.perGPU(map[string]func() Answer{
		"nvidia": m.nvidia,
		"amd":    func() Answer { return m.sensor("gpu") },
		"intel":  func() Answer { return m.sensor("gpu") },
	})
}

// sensor asks hwmon.
func (m *machine) sensor(kind string) Answer {
	t, err := host.Hottest(m.Root, kind)
	if err == nil {
		return yes("%s, at %.0f °C now", strings.TrimSpace(t.Chip+" "+t.Label), t.C)
	}
	do := map[string]string{
		"cpu": "load the sensor's driver: modprobe coretemp, or k10temp",
		"ssd": "NVMe disks have one with the driver nvme; SATA disks need modprobe drivetemp",
	}[kind]
	if m.virtual() {
		do = "virtual machines have no sensors: measure on the machine itself"
	}
	return no(err.Error(), do)
}

func (m *machine) packageEnergy() Answer {
	zones := m.glob("sys/class/powercap/intel-rapl:[0-9]*")
	var readable, packages int
	var last error
	for _, zone := range zones {
		name, err := m.read(zone + "/name")
		if err != nil || !strings.HasPrefix(name, "package") {
			continue
		}
		packages++
		if _, err := m.read(zone + "/energy_uj"); err != nil {
			last = err
			continue
		}
		readable++
	}
	switch {
	case packages > 0 && readable == packages:
		a := yes("RAPL, %d of %d packages", readable, packages)
		a.Note = "NOT WALL: the processor packages only"
		return a
	case packages > 0 && errors.Is(last, fs.ErrPermission):
		return no(last.Error()+": only root may read it, since it can leak secrets (CVE-2020-8694)",
			"run as root, or until the next boot: sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj")
	case packages > 0:
		return no(last.Error(), "")
	case m.virtual():
		return no("no RAPL: the hypervisor keeps it from virtual machines", "measure on the machine itself, or use a wall meter")
	}
	return no("/sys/class/powercap has no package of intel-rapl", "modprobe intel_rapl_msr (AMD's processors since Zen have it as well), or use a wall meter")
}

func (m *machine) wallEnergy() Answer {
	const do = "give the plan a wall_meter: a command that prints watts, or a file"
	w := m.Plan.WallMeter
	switch {
	case len(w.Command) > 0:
		if _, err := m.LookPath(w.Command[0]); err != nil {
			return no(fmt.Sprintf("the wall meter's command %s is not there", w.Command[0]), "install it, or give its path")
		}
		return yes("the command %s", filepath.Base(w.Command[0]))
	case w.File != "":
		if _, err := m.ReadFile(w.File); err != nil {
			return no("the wall meter's file: "+err.Error(), do)
		}
		return yes("the wall meter's file")
	}
	return no("the plan has no wall meter", do)
}

func (m *machine) memoryAvailable() Answer {
	if _, err := proc.Root(m.Root).Meminfo("MemAvailable"); err != nil {
		return no(err.Error(), procDo)
	}
	return yes("/proc/meminfo")
}

func (m *machine) attachedOnly() bool {
	for i := range m.Plan.Arms {
		if m.Plan.Arms[i].Kind() != plan.Attached {
			return false
		}
	}
	return len(m.Plan.Arms) > 0
}

func (m *machine) processMemory() Answer {
	a := m.orNo("proc/self/status", procDo)
	if a.Can {
		a.Source = "/proc/PID/status of the whole tree"
		if m.attachedOnly() {
			a.Note = "of an attached server only when its process is found, and without its growth"
		}
	}
	return a
}

func (m *machine) pss() Answer {
	a := m.orNo("proc/self/smaps_rollup", "a kernel of 4.14 or newer has it")
	if a.Can {
		a.Source = "/proc/PID/smaps_rollup, outside the window: it stops the process for a moment"
	}
	return a
}

const psiDo = "boot with psi=1, on a kernel that was built with CONFIG_PSI"

func (m *machine) pressure() Answer {
	if _, err := proc.Root(m.Root).Full10("proc/pressure/memory"); err != nil {
		return no(err.Error(), psiDo)
	}
	return yes("/proc/pressure/memory")
}

const v2Do = "boot with systemd.unified_cgroup_hierarchy=1, for cgroups of version 2"

func (m *machine) unitPressure() Answer {
	cg, err := proc.Root(m.Root).MemoryCgroup("self")
	if err != nil {
		return no(err.Error(), v2Do)
	}
	file, err := cg.PressureFile("memory")
	if err != nil {
		return no(err.Error(), v2Do)
	}
	if _, err := proc.Root(m.Root).Full10(file); err != nil {
		return no(err.Error(), "start assay in a unit of its own: systemd-run --user --scope assay run ...")
	}
	return yes("/%s", file)
}

func (m *machine) userPressure() Answer {
	cg, err := proc.Root(m.Root).MemoryCgroup("self")
	if err != nil {
		return no(err.Error(), v2Do)
	}
	if _, err := cg.PressureFile("memory"); err != nil {
		return no(err.Error(), v2Do)
	}
	for _, dir := range cg.Dirs {
		if base := filepath.Base(dir); strings.HasPrefix(base, "user-") && strings.HasSuffix(base, ".slice") {
			if _, err := proc.Root(m.Root).Full10(dir + "/memory.pressure"); err != nil {
				return no(err.Error(), psiDo)
			}
			return yes("/%s/memory.pressure", dir)
		}
	}
	return no("this process is in no user's slice", "")
}

func (m *machine) unitMemory() Answer {
	cg, err := proc.Root(m.Root).MemoryCgroup("self")
	if err != nil {
		return no(err.Error(), "")
	}
	a := yes("cgroup version %d", cg.Version)
	if _, limited, err := cg.Available(); err != nil {
		return no(err.Error(), "")
	} else if !limited {
		a.Note = "it has no limit here"
	}
	return a
}

func (m *machine) diskReads() Answer {
	if _, err := m.read("proc/diskstats"); err != nil {
		return no(err.Error(), procDo)
	}
	var names []string
	for _, d := range m.disks {
		if d.Device == nil {
			return no(fmt.Sprintf("the model of %s: %s", d.Arm, d.Why["device"]), "put the model on a local disk")
		}
		if !slices.Contains(names, *d.Device) {
			names = append(names, *d.Device)
		}
	}
	if len(names) == 0 {
		return no("the plan names no model file whose disk could be watched", "")
	}
	return yes("/proc/diskstats, %s", strings.Join(names, ", "))
}

func (m *machine) pageCache() Answer {
	switch {
	case !linux():
		return no("only Linux tells it", "measure on Linux")
	case len(m.disks) == 0:
		return no("the plan names no model file that the kit starts an engine with", "")
	}
	return yes("cachestat, or mincore before Linux 6.5")
}

func (m *machine) load() Answer { return m.orNo("proc/loadavg", procDo) }

func (m *machine) governorKnown() Answer {
	if m.host.Governor == nil {
		return no(m.host.Why["governor"], "")
	}
	return yes("cpufreq: %s", *m.host.Governor)
}
