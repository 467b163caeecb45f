package host

import "strings"

// vendors of virtual machines, as DMI names them. The order matters where one
// machine has several of the words: a cloud is told before its hypervisor.
// Those that sell real machines under the same name count only together with the
// processor's hypervisor bit, where processors have one.
var vendors = []struct {
	in, name  string
	alsoMetal bool
}{
	{"Amazon EC2", "amazon", true},
	{"Google", "google", true},
	{"Alibaba Cloud", "alibaba", true},
	{"Hetzner", "hetzner", true},
	{"DigitalOcean", "digitalocean", false},
	{"OpenStack", "openstack", false},
	{"Microsoft Corporation Virtual Machine", "hyper-v", false},
	{"VMware", "vmware", false},
	{"VMW", "vmware", false},
	{"innotek GmbH", "virtualbox", false},
	{"VirtualBox", "virtualbox", false},
	{"Xen", "xen", false},
	{"Bochs", "bochs", false},
	{"Parallels", "parallels", false},
	{"BHYVE", "bhyve", false},
	{"Apple Virtualization", "apple", false},
	{"QEMU", "qemu", false},
	{"KVM", "kvm", false},
}

// virtualisation tells a virtual machine by DMI, the device tree, the files of
// Xen and the processor's hypervisor bit, and a container by the files its
// runtime leaves. It can be fooled; a row says what was seen.
func (r *reader) virtualisation() *string {
	var seen []string
	cpuinfo, cpuErr := r.Read("proc/cpuinfo")
	flags := strings.Contains(cpuinfo, "\nflags") // of x86, which has the hypervisor bit
	bit := parseCPUInfo(cpuinfo).hypervisor
	machine, known := r.machine(bit, flags && !bit)
	if machine != "" {
		seen = append(seen, "vm: "+machine)
	}
	if c := r.container(); c != "" {
		seen = append(seen, "container: "+c)
	}
	switch {
	case len(seen) > 0:
		return ptr(strings.Join(seen, ", "))
	case cpuErr != nil:
		r.null("virtualisation", "%v", cpuErr)
		return nil
	case !known && !flags:
		r.null("virtualisation", "neither DMI nor a hypervisor flag to tell by")
		return nil
	}
	return ptr("none")
}

// machine names the virtual machine; empty when it is none. bit: the processor
// says that it is one; noBit: it would, and does not. known says whether there
// was anything else to tell by.
func (r *reader) machine(bit, noBit bool) (name string, known bool) {
	if s := strings.ToLower(r.Trimmed("proc/sys/kernel/osrelease")); strings.Contains(s, "microsoft") {
		return "wsl", true
	}
	dmi := ""
	for _, f := range []string{"sys_vendor", "product_name", "board_vendor", "bios_vendor"} {
		if s := r.Trimmed("sys/class/dmi/id/" + f); s != "" {
			dmi += s + " "
		}
	}
	for _, v := range vendors {
		if strings.Contains(dmi, v.in) && !(v.alsoMetal && noBit) {
			return v.name, true
		}
	}
	if s := r.Trimmed("sys/hypervisor/type"); s != "" {
		return s, true
	}
	if s := strings.Trim(r.Trimmed("proc/device-tree/hypervisor/compatible"), "\x00"); s != "" { // ARM and POWER
		name, _, _ = strings.Cut(s, "\x00")
		return strings.TrimPrefix(name, "linux,"), true
	}
	if bit {
		return "unnamed hypervisor", true
	}
	return "", dmi != ""
}

func (r *reader) container() string {
	if s := r.Trimmed("run/systemd/container"); s != "" {
		return s
	}
	// Only root may read it, and only in some containers is it set.
	for kv := range strings.SplitSeq(r.Trimmed("proc/1/environ"), "\x00") {
		if name, ok := strings.CutPrefix(kv, "container="); ok && name != "" {
			return name
		}
	}
	if _, err := r.Read("var/run/secrets/kubernetes.io/serviceaccount/namespace"); err == nil {
		return "kubernetes"
	}
	if _, err := r.Read(".dockerenv"); err == nil {
		return "docker"
	}
	if _, err := r.Read("run/.containerenv"); err == nil {
		return "podman"
	}
	if s, err := r.Read("proc/1/cgroup"); err == nil {
		for _, name := range []string{"docker", "kubepods", "containerd", "lxc"} {
			if strings.Contains(s, name) {
				return name
			}
		}
	}
	return ""
}
