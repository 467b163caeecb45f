package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/internal/kit/guard"
	"assay/internal/kit/host"
	"assay/internal/kit/plan"
)

// add puts down one finding.
func (m *machine) add(name string, level Level, do, found string, args ...any) {
	m.checks = append(m.checks, Check{Name: name, Level: level, Found: fmt.Sprintf(found, args...), Do: do})
}

// examine looks at everything that could disturb, in the order in which it is
// shown.
func (m *machine) examine() {
	m.programs()
	m.required()
	m.blind()
	m.memoryForModels()
	m.space()
	m.swap()
	m.noise()
	m.loadAverage()
	m.timer()
	m.governorFits()
	m.throttling()
	m.virtualMachine()
	m.clock()
	m.battery()
	m.modelDisks()
}

// programs looks for what the plan's arms start.
func (m *machine) programs() {
	var missing, there []string
	for i := range m.Plan.Arms {
		a := &m.Plan.Arms[i]
		if a.Kind() != plan.Started || slices.Contains(missing, a.Command[0]) || slices.Contains(there, a.Command[0]) {
			continue
		}
		if _, err := m.LookPath(a.Command[0]); err != nil {
			missing = append(missing, a.Command[0])
		} else {
			there = append(there, a.Command[0])
		}
	}
	switch {
	case len(missing) > 0:
		m.add("programs", Unfit, "install it, put it into PATH, or give its path in the plan", "the plan starts %s, which is not there", strings.Join(missing, ", "))
	case len(there) > 0:
		m.add("programs", OK, "", "%s", strings.Join(there, ", "))
	}
}

// required holds what the plan demands against the figures.
func (m *machine) required() {
	answers := map[string]Answer{}
	for _, f := range m.figures {
		answers[f.Name] = f.Answer
	}
	for _, name := range m.Plan.Require {
		var why, do []string
		can := false
		for _, figure := range provides[plan.Requirement(name)] {
			a := answers[figure]
			can = can || a.Can
			why = append(why, figure+": "+a.Why)
			if a.Do != "" {
				do = append(do, figure+": "+a.Do)
			}
		}
		if can {
			m.add(name, OK, "", "it can be measured")
			continue
		}
		m.add(name, Unfit, strings.Join(do, "; "), "the plan requires it, and it can't be measured: %s", strings.Join(why, "; "))
	}
	if slices.ContainsFunc(m.Plan.Require, func(s string) bool { return strings.HasSuffix(s, "energy") }) && m.Plan.MinSeconds < 10 {
		m.add("min_seconds", Warn, "give the plan min_seconds: 12", "the plan wants energy but lets runs be shorter than 10 s: it is withheld for those, unless a counter can be read at their edges")
	}
}

// provides says which figures meet a demand; one of them is enough.
var provides = map[plan.Requirement][]string{
	plan.RequireEnergy:        {"gpu_energy", "package_energy", "wall_energy"},
	plan.RequireGPUEnergy:     {"gpu_energy"},
	plan.RequirePackageEnergy: {"package_energy"},
	plan.RequireWallEnergy:    {"wall_energy"},
	plan.RequirePressure:      {"memory_pressure"},
	plan.RequireGPUMemory:     {"gpu_memory"},
	plan.RequireTemperatures:  {"gpu_temperature", "cpu_temperature", "ssd_temperature"},
	plan.RequireDiskReads:     {"disk_reads"},
}

// source reads for the guard.
func (m *machine) source() guard.Source { return guard.Source{Root: m.Root, Dir: m.Out} }

// blind names the guard's limits whose figure can't be read: they would never
// stop anything.
func (m *machine) blind() {
	r := m.source().Read(m.Plan.Guard)
	var out []string
	for _, l := range m.Plan.Guard {
		if why, ok := r.Why[l.Quantity]; ok {
			if l.Quantity == plan.GPUTemperature && m.figure("gpu_temperature").Can {
				continue // by the driver, not by /sys
			}
			out = append(out, fmt.Sprintf("%s (%s)", l.Quantity, why))
		}
	}
	if len(out) > 0 {
		m.add("guard", Warn, "measure elsewhere, or watch it yourself", "the guard can't watch %s", strings.Join(out, ", "))
		return
	}
	m.add("guard", OK, "", "it can watch all its %d limits", len(m.Plan.Guard))
}

func (m *machine) figure(name string) Answer {
	for _, f := range m.figures {
		if f.Name == name {
			return f.Answer
		}
	}
	return Answer{}
}

// memoryForModels compares the models that are loaded together with the memory
// that can be had.
func (m *machine) memoryForModels() {
	r := m.source().Read([]plan.Limit{{Quantity: plan.MemoryAvailable}})
	have, ok := r.Values[plan.MemoryAvailable]
	if !ok {
		m.add("memory", Unknown, "", "how much can be had is not known: %s", r.Why[plan.MemoryAvailable])
		return
	}
	var need float64
	for _, model := range m.Models {
		if m.Plan.InOrder() == plan.Interleaved {
			need += float64(model.Bytes)
		} else {
			need = max(need, float64(model.Bytes))
		}
	}
	for _, l := range m.Plan.Guard {
		if l.Quantity == plan.MemoryAvailable && l.Beyond(have) {
			m.add("memory", Unfit, "end what uses it, or lower guard.memory_available", "%s can be had, under the guard's limit of %s: it would stop the first run", plan.FormatBytes(have), plan.FormatBytes(l.Value))
			return
		}
	}
	switch {
	case need > have && len(m.host.GPUs) == 0:
		m.add("memory", Unfit, "end what uses it, or take a smaller model", "the models that are loaded at once have %s, but only %s of memory can be had: they would be read from the disk all the time", plan.FormatBytes(need), plan.FormatBytes(have))
	case need > have:
		m.add("memory", Warn, "", "the models that are loaded at once have %s, but only %s of memory can be had: what the GPUs don't hold is read from the disk", plan.FormatBytes(need), plan.FormatBytes(have))
	case len(m.Models) == 0:
		m.add("memory", OK, "", "%s can be had; the plan names no model file", plan.FormatBytes(have))
	default:
		m.add("memory", OK, "", "%s can be had, the models that are loaded at once have %s", plan.FormatBytes(have), plan.FormatBytes(need))
	}
}

// space is the disk that the rows go to.
func (m *machine) space() {
	r := m.source().Read([]plan.Limit{{Quantity: plan.DiskFree}})
	free, ok := r.Values[plan.DiskFree]
	if !ok {
		m.add("disk", Unknown, "", "how much is free is not known: %s", r.Why[plan.DiskFree])
		return
	}
	for _, l := range m.Plan.Guard {
		if l.Quantity == plan.DiskFree && l.Beyond(free) {
			m.add("disk", Unfit, "free some, or give another --out", "%s free where the rows go, under the guard's limit of %s", plan.FormatBytes(free), plan.FormatBytes(l.Value))
			return
		}
	}
	m.add("disk", OK, "", "%s free where the rows go", plan.FormatBytes(free))
}

// someSwap is from how much swap on it is worth a word.
const someSwap = 64 << 20

func (m *machine) swap() {
	const do = "swapoff -a && swapon -a, once there is memory for it; or raise noise.swap_used"
	limit := m.Plan.Noise.SwapUsed
	free := 0.0
	total, err := m.meminfo("SwapTotal")
	if err == nil {
		free, err = m.meminfo("SwapFree")
	}
	if err != nil {
		m.unknown("swap", limit != nil, "noise.swap_used", err.Error())
		return
	}
	used := total - free
	switch {
	case limit != nil && used > *limit:
		m.add("swap", Unfit, do, "%s are in swap, the plan allows %s", plan.FormatBytes(used), plan.FormatBytes(*limit))
	case limit == nil && used > someSwap:
		m.add("swap", Warn, do, "%s are in swap: what is there may be needed in a run", plan.FormatBytes(used))
	case total == 0:
		m.add("swap", OK, "", "there is none")
	default:
		m.add("swap", OK, "", "%s of %s are used", plan.FormatBytes(used), plan.FormatBytes(total))
	}
}

// unknown is a finding that could not be made; unfit where the plan has a limit
// on it, which then can't be seen to be kept.
func (m *machine) unknown(name string, asked bool, key, why string) {
	if asked {
		m.add(name, Unfit, "leave "+key+" out of the plan, or measure elsewhere", "the plan has a limit on it, and it can't be read: %s", why)
		return
	}
	m.add(name, Unknown, "", "%s", why)
}

func (m *machine) meminfo(name string) (float64, error) {
	s, err := m.read("proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(s) {
		rest, ok := strings.CutPrefix(line, name+":")
		if !ok {
			continue
		}
		if f := strings.Fields(rest); len(f) == 2 && f[1] == "kB" {
			if kib, err := strconv.ParseFloat(f[0], 64); err == nil {
				return kib * 1024, nil
			}
		}
	}
	return 0, fmt.Errorf("/proc/meminfo: no %s", name)
}

// shortestLook is how far two looks must be apart for shares to mean something.
const shortestLook = 100 * time.Millisecond

// Without a limit in the plan, what is worth a word.
const (
	someCPU   = 20.0 // % of one processor
	someSteal = 1.0  // %
)

func (m *machine) noise() {
	n := m.Plan.Noise
	if m.Before == nil || m.After == nil {
		m.unknown("noise", n.CPU != nil || n.BusyProcesses != nil || n.Steal != nil, "noise", "nobody looked")
		return
	}
	b := m.After.since(m.Before, os.Getpid())
	if b.seconds < shortestLook.Seconds() {
		m.unknown("noise", n.CPU != nil || n.BusyProcesses != nil || n.Steal != nil, "noise", fmt.Sprintf("a look of %.3f s is too short: the kernel counts in hundredths of a second", b.seconds))
		return
	}
	who := "none of them busy"
	if len(b.busy) > 0 {
		who = "busiest " + strings.Join(b.busy[:min(len(b.busy), 3)], ", ")
	}
	found := fmt.Sprintf("others used %.0f %% of a processor within %.1f s, %s", b.others, b.seconds, who)
	const do = "end them, or wait until they are done"
	switch {
	case n.CPU != nil && b.others > *n.CPU:
		m.add("noise", Unfit, do, "%s; the plan allows %g %%", found, *n.CPU)
	case n.BusyProcesses != nil && len(b.busy) > *n.BusyProcesses:
		m.add("noise", Unfit, do, "%s: %d use more than a tenth of a processor, the plan allows %d", found, len(b.busy), *n.BusyProcesses)
	case n.CPU == nil && n.BusyProcesses == nil && b.others > someCPU:
		m.add("noise", Warn, do, "%s", found)
	default:
		m.add("noise", OK, "", "%s", found)
	}
	const stealDo = "the host is shared: take a larger or a dedicated machine"
	switch {
	case n.Steal != nil && b.steal > *n.Steal:
		m.add("steal", Unfit, stealDo, "the hypervisor took %.1f %% of the processors' time, the plan allows %g %%", b.steal, *n.Steal)
	case n.Steal == nil && b.steal > someSteal:
		m.add("steal", Warn, stealDo, "the hypervisor took %.1f %% of the processors' time", b.steal)
	case n.Steal != nil || m.virtual():
		m.add("steal", OK, "", "the hypervisor took %.1f %% of the processors' time", b.steal)
	}
	if b.swapping > 0 {
		m.add("swapping", Warn, "end what needs so much memory", "%.0f pages a second go to and from swap right now", b.swapping)
	}
}

func (m *machine) loadAverage() {
	s, err := m.read("proc/loadavg")
	limit := m.Plan.Noise.Load
	var load float64
	if err == nil {
		if _, e := fmt.Sscan(s, &load); e != nil {
			err = fmt.Errorf("/proc/loadavg is %q", s)
		}
	}
	switch {
	case err != nil:
		m.unknown("load", limit != nil, "noise.load", err.Error())
	case limit != nil && load > *limit:
		m.add("load", Unfit, "wait: it is a mean over the last minute", "load average %.2f, the plan allows %g", load, *limit)
	default:
		m.add("load", OK, "", "load average %.2f", load)
	}
}

// lateLimit is what a timer may be late by before the client's own lag would
// show in a time of 100 ms.
const lateLimit = time.Millisecond

// timer is a first look at the client's own lag; assay selftest measures it.
func (m *machine) timer() {
	if len(m.Late) == 0 {
		return
	}
	sorted := slices.Clone(m.Late)
	slices.Sort(sorted)
	p90 := sorted[len(sorted)*9/10]
	if p90 > lateLimit {
		m.add("timer", Warn, "let the machine become idle; assay selftest measures the client's lag", "a timer of 1 ms is %v late or more in a tenth of %d tries", p90.Round(time.Microsecond), len(sorted))
		return
	}
	m.add("timer", OK, "", "a timer of 1 ms is less than %v late in nine tenths of %d tries", p90.Round(time.Microsecond), len(sorted))
}

func (m *machine) governorFits() {
	want, have := m.Plan.Noise.Governor, m.host.Governor
	switch {
	case have == nil:
		m.unknown("governor", want != "", "noise.governor", m.host.Why["governor"])
	case want != "" && *have != want:
		m.add("governor", Unfit, "cpupower frequency-set -g "+want, "it is %s, the plan wants %s", *have, want)
	case want == "" && *have != "performance":
		m.add("governor", Warn, "cpupower frequency-set -g performance", "it is %s: rates depend on how soon the processors speed up", *have)
	default:
		m.add("governor", OK, "", "%s", *have)
	}
}

func (m *machine) throttling() {
	refused := m.Plan.Noise.Throttling == "refused"
	n, err := host.Throttled(m.Root)
	switch {
	case err != nil:
		m.unknown("throttling", refused, "noise.throttling", err.Error())
	case n > 0 && refused:
		m.add("throttling", Unfit, "better cooling; the count starts again with the system", "the processors were slowed down for heat %d times since the system started, the plan refuses that", n)
	case n > 0:
		m.add("throttling", Warn, "better cooling, a cool_down in the plan, a guard on cpu_temperature", "the processors were slowed down for heat %d times since the system started", n)
	default:
		m.add("throttling", OK, "", "never since the system started")
	}
}

func (m *machine) virtualMachine() {
	refused := m.Plan.Noise.VirtualMachine == "refused"
	switch {
	case m.host.Virtualisation == nil:
		m.unknown("virtual", refused, "noise.virtual_machine", m.host.Why["virtualisation"])
	case m.virtual() && refused:
		m.add("virtual", Unfit, "measure on a real machine", "%s, which the plan refuses", *m.host.Virtualisation)
	case m.virtual():
		m.add("virtual", Warn, "compare only what ran on the same machine, in turns", "%s: neighbours that are not seen share the processors", *m.host.Virtualisation)
	default:
		m.add("virtual", OK, "", "%s", *m.host.Virtualisation)
	}
}

// clocks that are read without asking the kernel.
var clocks = []string{"tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "riscv_clocksource"}

func (m *machine) clock() {
	if c := m.host.Clock; c != nil && !slices.Contains(clocks, *c) {
		m.add("clock", Warn, "look in the kernel's log for why it left tsc; boot with clocksource=tsc tsc=reliable if the processor is sound", "the kernel's clock is %s, which is slow to read", *c)
	}
}

// battery warns of machines that slow down to save power.
func (m *machine) battery() {
	for _, dir := range m.glob("sys/class/power_supply/*") {
		kind, _ := m.read(dir + "/type")
		status, _ := m.read(dir + "/status")
		if kind == "Battery" && status == "Discharging" {
			m.add("battery", Warn, "plug the machine in", "it runs on its battery, which slows processors down")
			return
		}
	}
}

// modelDisks warns of models that lie where reading is slow or not seen.
func (m *machine) modelDisks() {
	seen := map[string]bool{}
	for _, d := range m.disks {
		kind, what := "", ""
		if d.Kind != nil {
			kind = *d.Kind
		}
		switch {
		case kind == "network":
			what = "on " + *d.FileSystem + ", over the network"
		case kind == "loop":
			what = "in a file that is mounted as a disk"
		case d.Rotational != nil && *d.Rotational && (kind == "sata" || kind == "scsi"):
			what = "on a disk with platters"
		}
		if what != "" && !seen[what] {
			seen[what] = true
			m.add("model disk", Warn, "copy it to a local SSD", "the model of %s lies %s: loading is slow, and so is all that memory does not hold", d.Arm, what)
		}
	}
}

// Nearest is the folder itself, or the nearest one above it that is there.
func Nearest(dir string) string {
	dir = filepath.Clean(dir)
	for {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return dir
		}
		dir = up
	}
}
