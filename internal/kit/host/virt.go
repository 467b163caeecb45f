package host

import "strings"

// vendors of virtual machines, as DMI names them.
var vendors = []struct{ in, name string }{
	{"QEMU", "qemu"},
	{"Amazon EC2", "amazon"},
	{"Google", "google"},
	{"Microsoft Corporation Virtual Machine", "hyper-v"},
	{"VMware", "vmware"},
	{"innotek GmbH", "virtualbox"},
	{"Xen", "xen"},
	{"Parallels", "parallels"},
	{"DigitalOcean", "digitalocean"},
	{"Apple Virtualization", "apple"},
}

// virtualisation tells a virtual machine by the processor's hypervisor bit and
// DMI, a container by the files its runtime leaves. It can be fooled; a row says
// what was seen.
func (r *reader) virtualisation() *string {
	var seen []string
	cpuinfo, cpuErr := r.file("proc/cpuinfo")
	dmi := ""
	for _, f := range []string{"sys_vendor", "product_name"} {
		if s, err := r.file("sys/class/dmi/id/" + f); err == nil {
			dmi += strings.TrimSpace(s) + " "
		}
	}
	machine := ""
	for _, v := range vendors {
		if strings.Contains(dmi, v.in) {
			machine = v.name
			break
		}
	}
	if s, err := r.file("sys/hypervisor/type"); err == nil && machine == "" {
		machine = strings.TrimSpace(s)
	}
	if machine == "" && parseCPUInfo(cpuinfo).hypervisor {
		machine = "unnamed hypervisor"
	}
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
	case dmi == "" && !strings.Contains(cpuinfo, "\nflags"):
		r.null("virtualisation", "neither DMI nor a hypervisor flag to tell by")
		return nil
	}
	return ptr("none")
}

func (r *reader) container() string {
	if s, err := r.file("run/systemd/container"); err == nil {
		return strings.TrimSpace(s)
	}
	if _, err := r.file(".dockerenv"); err == nil {
		return "docker"
	}
	if _, err := r.file("run/.containerenv"); err == nil {
		return "podman"
	}
	if s, err := r.file("proc/1/cgroup"); err == nil {
		for _, name := range []string{"docker", "kubepods", "containerd", "lxc"} {
			if strings.Contains(s, name) {
				return name
			}
		}
	}
	return ""
}
