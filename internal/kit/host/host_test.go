package host

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// machines are the trees that have been unpacked, by name. Tests only read them.
var machines = struct {
	sync.Mutex
	root string
	dirs map[string]string
}{dirs: map[string]string{}}

func TestMain(m *testing.M) {
	var err error
	if machines.root, err = os.MkdirTemp("", "assay-machines-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(machines.root)
	os.Exit(code)
}

// tree is the files of a machine: testdata/NAME.txtar. amd-vm was recorded, the
// others have the shapes of real machines.
func tree(t testing.TB, name string) string {
	t.Helper()
	machines.Lock()
	defer machines.Unlock()
	dir, ok := machines.dirs[name]
	if !ok {
		dir = filepath.Join(machines.root, name)
		unpack(t, name, dir)
		machines.dirs[name] = dir
	}
	return dir
}

// ownTree is a tree that the test may change.
func ownTree(t testing.TB, name string) string {
	t.Helper()
	dir := t.TempDir()
	unpack(t, name, dir)
	return dir
}

func unpack(t testing.TB, name, dir string) {
	t.Helper()
	a, err := txtar.ParseFile("testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := txtar.Write(a, dir); err != nil {
		t.Fatal(err)
	}
}

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
			if diff := cmp.Diff(c.want, Read(tree(t, c.tree))); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
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
