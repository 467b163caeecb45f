package host

import (
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/proc/machines"
)

func TestMain(m *testing.M) { machines.Main(m) }

func TestRead(t *testing.T) {
	for _, c := range []struct {
		tree string
		want Host
	}{
		{"amd-vm", Host{
			Kernel: ptr("6.18.44-fc-v857"), Distribution: ptr("Debian GNU/Linux 12 (bookworm)"),
			CPUModel: ptr("AMD EPYC"), Sockets: ptr(1), Cores: ptr(2), CPUs: ptr(2),
			MemoryBytes: ptr(int64(24683652 * 1024)), Virtualisation: ptr("vm: unnamed hypervisor"),
			Why: map[string]string{"governor": "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor: not there (virtual machines seldom have frequency scaling)"},
		}},
		{"arm-container", Host{
			Kernel: ptr("6.1.0-28-cloud-arm64"), Distribution: ptr("Alpine Linux v3.22"),
			Sockets: ptr(1), Cores: ptr(2), CPUs: ptr(2),
			MemoryBytes: ptr(int64(8123456 * 1024)), Virtualisation: ptr("container: docker"),
			Why: map[string]string{
				"cpu_model": "/proc/cpuinfo: no model name (ARM kernels don't give one)",
				"governor":  "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor: not there (virtual machines seldom have frequency scaling)",
			},
		}},
		{"desktop", Host{ // two packages of two cores of two threads; six of the eight allowed; a meminfo that makes no sense
			Kernel:   ptr("6.8.0-60-generic"),
			CPUModel: ptr("Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz"), Sockets: ptr(2), Cores: ptr(4), CPUs: ptr(6), Governor: ptr("performance, powersave"),
			Virtualisation: ptr("none"),
			Why: map[string]string{
				"distribution": "/etc/os-release: no such file or directory",
				"memory_bytes": `/proc/meminfo: MemTotal is "many kB" (want a number of kB)`,
			},
		}},
		{"empty", Host{ // a container without /proc and /sys
			Why: map[string]string{
				"kernel":         "/proc/sys/kernel/osrelease: no such file or directory",
				"distribution":   "/etc/os-release: no such file or directory",
				"cpu_model":      "/proc/cpuinfo: no such file or directory",
				"cpus":           "/proc/self/status: no such file or directory",
				"governor":       "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor: not there (virtual machines seldom have frequency scaling)",
				"sockets":        "/sys/devices/system/cpu/cpu[0-9]*/topology: no readable topology",
				"cores":          "/sys/devices/system/cpu/cpu[0-9]*/topology: no readable topology",
				"memory_bytes":   "/proc/meminfo: no such file or directory",
				"virtualisation": "/proc/cpuinfo: no such file or directory",
			},
		}},
	} {
		t.Run(c.tree, func(t *testing.T) {
			c.want.OS, c.want.Arch = ptr(runtime.GOOS), ptr(runtime.GOARCH)
			if diff := cmp.Diff(c.want, basics(machines.Tree(t, c.tree))); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

// The detail is among the facts, and so are its reasons.
func TestReadHasTheDetail(t *testing.T) {
	h, d := Read(machines.Tree(t, "amd-vm")), ReadDetail(machines.Tree(t, "amd-vm"))
	for field, why := range d.Why {
		if h.Why[field] != why {
			t.Errorf("%s: %q, want %q", field, h.Why[field], why)
		}
	}
	d.Why = nil
	if diff := cmp.Diff(d, h.Detail); diff != "" || h.Why["governor"] == "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// On the machine that runs the tests, the facts that Linux always gives are
// there, and whatever is not has a reason.
func TestReadThisMachine(t *testing.T) {
	h := Read("/")
	for name, missing := range map[string]bool{
		"kernel": h.Kernel == nil, "distribution": h.Distribution == nil, "cpu_model": h.CPUModel == nil,
		"sockets": h.Sockets == nil, "cores": h.Cores == nil, "cpus": h.CPUs == nil, "governor": h.Governor == nil,
		"memory_bytes": h.MemoryBytes == nil, "virtualisation": h.Virtualisation == nil,
	} {
		if _, reason := h.Why[name]; missing != reason {
			t.Errorf("%s: null %v, reason %q", name, missing, h.Why[name])
		}
	}
}

func TestCountList(t *testing.T) {
	for list, want := range map[string]int{"0": 1, "0-3": 4, "0-3,8": 5, "2,4,6-7": 4, "": -1, "3-1": -1, "a": -1, "0-": -1, "-1": -1} {
		n, err := countList(list)
		if err != nil {
			n = -1
		}
		if n != want {
			t.Errorf("countList(%q) = %d, %v; want %d", list, n, err, want)
		}
	}
}
