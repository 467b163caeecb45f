package proc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/kit/proc/machines"
)

func TestMain(m *testing.M) { machines.Main(m) }

func TestMemoryCgroup(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		tree    string
		version int
		path    string
		dirs    string
		bytes   int64
		limited bool
	}{
		// 1 at /jobs/a1: 512 - (200 - 50) = 362 MiB; at /jobs: 1024 - (900 - 100) = 224 MiB, which is less; the root has no limit
		{"amd-vm", 1, "/jobs/a1", "sys/fs/cgroup/memory/jobs/a1 sys/fs/cgroup/memory/jobs sys/fs/cgroup/memory", 224 * mib, true},
		// no limit at the session, 64 GiB - (9 - 1) GiB at the user's slice
		{"nvidia-server", 2, "/user.slice/user-1000.slice/session-4.scope", "sys/fs/cgroup/user.slice/user-1000.slice/session-4.scope sys/fs/cgroup/user.slice/user-1000.slice sys/fs/cgroup/user.slice sys/fs/cgroup", 56 << 30, true},
		// a namespace: the container's own folder is the root of what it sees; 2048 - (700 - 200) MiB
		{"arm-container", 2, "/", "sys/fs/cgroup", 1548 * mib, true},
		{"amd-desktop", 2, "/", "sys/fs/cgroup", 0, false},
	} {
		cg, err := Root(machines.Tree(t, c.tree)).MemoryCgroup("self")
		if err != nil {
			t.Errorf("%s: %v", c.tree, err)
			continue
		}
		bytes, limited, err := cg.Available()
		if cg.Version != c.version || cg.Path != c.path || strings.Join(cg.Dirs, " ") != c.dirs || bytes != c.bytes || limited != c.limited || err != nil {
			t.Errorf("%s: %+v, %d, %v, %v", c.tree, cg, bytes, limited, err)
		}
	}
	for _, name := range []string{"empty", "desktop"} {
		if _, err := Root(machines.Tree(t, name)).MemoryCgroup("self"); err == nil || err.Error() != "/proc/self/cgroup: no such file or directory" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A file that makes no sense is an error, never a number.
func TestCgroupNonsense(t *testing.T) {
	root := machines.Own(t, "arm-container")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("sys/fs/cgroup/memory.current", "lots\n")
	cg, err := Root(root).MemoryCgroup("self")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := cg.Available(); err == nil || err.Error() != `/sys/fs/cgroup/memory.current is "lots" (want bytes)` {
		t.Error(err)
	}
	// More in use than the limit: nothing is left, and never less than nothing.
	write("sys/fs/cgroup/memory.current", "9000000000\n")
	if n, limited, err := cg.Available(); n != 0 || !limited || err != nil {
		t.Error(n, limited, err)
	}
	write("proc/self/cgroup", "nothing\n")
	if _, err := Root(root).MemoryCgroup("self"); err == nil || err.Error() != "/proc/self/cgroup: no memory cgroup" {
		t.Error(err)
	}
	write("proc/self/cgroup", "4:memory:/x\n")
	if _, err := Root(root).MemoryCgroup("self"); err == nil || err.Error() != "no control groups of version 1 for memory are mounted here" {
		t.Error(err)
	}
}

func TestPressure(t *testing.T) {
	root := machines.Own(t, "nvidia-server")
	cg, err := Root(root).MemoryCgroup("self")
	if err != nil {
		t.Fatal(err)
	}
	file, err := cg.PressureFile("memory")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"proc/pressure/memory": 0.12, "proc/pressure/io": 0, file: 1.5} {
		if v, err := Root(root).Full10(name); v != want || err != nil {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
	for _, text := range []string{"", "some avg10=1.00\n", "full avg10=x\n", "full avg10=NaN\n", "full avg60=1\n", "full avg10=101\n"} {
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if v, err := Root(root).Full10(file); err == nil {
			t.Errorf("%q: %v", text, v)
		}
	}
	old, err := Root(machines.Tree(t, "amd-vm")).MemoryCgroup("self")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.PressureFile("memory"); err == nil {
		t.Error("version 1 has a pressure")
	}
}

func TestMemAvailable(t *testing.T) {
	if n, err := Root(machines.Tree(t, "nvidia-server")).Meminfo("MemAvailable"); n != 2051392640*1024 || err != nil {
		t.Error(n, err)
	}
	if _, err := Root(machines.Tree(t, "desktop")).Meminfo("MemAvailable"); err == nil || err.Error() != "/proc/meminfo: no MemAvailable" {
		t.Error(err)
	}
}
