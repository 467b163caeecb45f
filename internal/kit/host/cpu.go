package host

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// cpuInfo is what /proc/cpuinfo says, as far as it says it: ARM kernels give
// neither a name nor x86's flags.
type cpuInfo struct {
	model      string
	hypervisor bool
}

func parseCPUInfo(s string) cpuInfo {
	var c cpuInfo
	for line := range strings.Lines(s) {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch key {
		case "model name", "Model", "cpu model", "uarch": // x86, Raspberry Pi, MIPS, RISC-V
			if c.model == "" {
				c.model = value
			}
		case "flags":
			c.hypervisor = c.hypervisor || strings.Contains(" "+value+" ", " hypervisor ")
		}
	}
	return c
}

func (r *reader) cpu(h *Host) {
	s, err := r.Read("proc/cpuinfo")
	if err != nil {
		r.null("cpu_model", "%v", err)
	} else {
		c := parseCPUInfo(s)
		if c.model != "" {
			h.CPUModel = &c.model
		} else {
			r.null("cpu_model", "/proc/cpuinfo: no model name (ARM kernels don't give one)")
		}
	}
	h.CPUs = r.allowed()
	h.Sockets, h.Cores = r.topology()
}

// allowed counts the processors that this process may run on, which a container
// or taskset may hold below what the machine has.
func (r *reader) allowed() *int {
	const path = "proc/self/status"
	s, err := r.Read(path)
	if err != nil {
		r.null("cpus", "%v", err)
		return nil
	}
	for line := range strings.Lines(s) {
		list, ok := strings.CutPrefix(line, "Cpus_allowed_list:")
		if !ok {
			continue
		}
		n, err := countList(strings.TrimSpace(list))
		if err != nil {
			r.null("cpus", "/%s: Cpus_allowed_list: %v", path, err)
			return nil
		}
		return &n
	}
	r.null("cpus", "/%s: no Cpus_allowed_list", path)
	return nil
}

// countList counts the members of a kernel list such as "0-3,8".
func countList(list string) (int, error) {
	n := 0
	for part := range strings.SplitSeq(list, ",") {
		from, to, ranged := strings.Cut(part, "-")
		a, err := strconv.Atoi(from)
		b := a
		if err == nil && ranged {
			b, err = strconv.Atoi(to)
		}
		if err != nil || b < a || a < 0 {
			return 0, fmt.Errorf("%q is not a list of processors (want 0-3,8)", list)
		}
		n += b - a + 1
	}
	return n, nil
}

// governor lists the frequency governors in use; on most machines there is one
// for all.
func (r *reader) governor() *string {
	const pattern = "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
	var names []string
	for _, f := range r.Glob(pattern) {
		if s := r.Trimmed(f); s != "" && !slices.Contains(names, s) {
			names = append(names, s)
		}
	}
	if len(names) == 0 {
		r.null("governor", "/%s: not there (virtual machines seldom have frequency scaling)", pattern)
		return nil
	}
	slices.Sort(names)
	return ptr(strings.Join(names, ", "))
}

// topology counts packages and cores from sysfs, which every architecture has.
func (r *reader) topology() (sockets, cores *int) {
	const pattern = "sys/devices/system/cpu/cpu[0-9]*/topology"
	packages, ids := map[string]bool{}, map[string]bool{}
	for _, dir := range r.Glob(pattern) {
		pkg, errP := r.Line(dir + "/physical_package_id")
		core, errC := r.Line(dir + "/core_id")
		if errP != nil || errC != nil {
			continue
		}
		if _, err := strconv.Atoi(core); err != nil {
			continue
		}
		packages[pkg] = true
		ids[pkg+"/"+core] = true
	}
	if len(ids) == 0 {
		r.null("sockets", "/%s: no readable topology", pattern)
		r.null("cores", "/%s: no readable topology", pattern)
		return nil, nil
	}
	return ptr(len(packages)), ptr(len(ids))
}
