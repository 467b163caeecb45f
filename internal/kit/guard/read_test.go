package guard

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/plan"
	"assay/internal/kit/proc/machines"
)

func limitsOn(quantities ...plan.Quantity) []plan.Limit {
	var out []plan.Limit
	for _, q := range quantities {
		out = append(out, plan.Limit{Quantity: q})
	}
	return out
}

func TestSource(t *testing.T) {
	all := limitsOn(plan.MemoryAvailable, plan.MemoryPressure, plan.IOPressure, plan.GPUTemperature, plan.CPUTemperature, plan.SSDTemperature, plan.RunTime)
	for name, want := range map[string]Reading{
		"amd-vm": {
			Values: map[plan.Quantity]float64{plan.MemoryAvailable: 224 * mib, plan.MemoryPressure: 0, plan.IOPressure: 0.03}, // the cgroup above the job's
			Why: map[plan.Quantity]string{
				plan.GPUTemperature: "/sys/class/hwmon: no such file or directory",
				plan.CPUTemperature: "/sys/class/hwmon: no such file or directory",
				plan.SSDTemperature: "/sys/class/hwmon: no such file or directory",
			},
		},
		"nvidia-server": {
			Values: map[plan.Quantity]float64{
				plan.MemoryAvailable: 56 << 30, plan.MemoryPressure: 1.5, plan.IOPressure: 0, // pressure of the session's cgroup, more than the machine's 0.12
				plan.CPUTemperature: 53, plan.SSDTemperature: 45.85,
			},
			Why: map[plan.Quantity]string{plan.GPUTemperature: "/sys/class/hwmon has no sensor of a gpu (want amdgpu, radeon, nouveau, i915, xe); NVIDIA's driver puts none there"},
		},
		"amd-desktop": {
			Values: map[plan.Quantity]float64{plan.MemoryAvailable: 52042076 * 1024, plan.MemoryPressure: 0, plan.GPUTemperature: 62, plan.CPUTemperature: 61.25, plan.SSDTemperature: 44.85},
			Why: map[plan.Quantity]string{
				plan.IOPressure: "/proc/pressure/io: no such file or directory",
			},
		},
	} {
		if diff := cmp.Diff(want, Source{Root: machines.Tree(t, name)}.Read(all)); diff != "" {
			t.Errorf("%s: want -, got +:\n%s", name, diff)
		}
	}
}

// What only a driver tells comes from More, and its reason counts where it has
// no number either.
func TestSourceMore(t *testing.T) {
	src := Source{Root: machines.Tree(t, "nvidia-server"), More: func() Reading {
		return Reading{Values: map[plan.Quantity]float64{plan.GPUTemperature: 71}, Why: map[plan.Quantity]string{plan.IOPressure: "not mine"}}
	}}
	got := src.Read(limitsOn(plan.GPUTemperature, plan.IOPressure))
	want := Reading{Values: map[plan.Quantity]float64{plan.GPUTemperature: 71, plan.IOPressure: 0}, Why: map[plan.Quantity]string{}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The disk is that of a folder that is there.
func TestDiskFree(t *testing.T) {
	dir := t.TempDir()
	r := Source{Root: "/", Dir: dir}.Read(limitsOn(plan.DiskFree))
	if v := r.Values[plan.DiskFree]; v < mib || v > 1<<50 {
		t.Errorf("%+v", r)
	}
	gone := filepath.Join(dir, "gone")
	for _, c := range []struct{ dir, want string }{{gone, gone + ": no such file or directory"}, {"", "no folder is given"}} {
		r := Source{Root: "/", Dir: c.dir}.Read(limitsOn(plan.DiskFree))
		if r.Why[plan.DiskFree] != c.want {
			t.Errorf("%+v, want %q", r, c.want)
		}
	}
}

// On the machine that runs the tests, a process's own cgroup is found, if it has
// one.
func TestSourceHere(t *testing.T) {
	if _, err := os.Stat("/proc/meminfo"); err != nil {
		t.Skip(err)
	}
	r := Source{Root: "/", PID: os.Getpid()}.Read(limitsOn(plan.MemoryAvailable))
	if v := r.Values[plan.MemoryAvailable]; v <= 0 {
		t.Errorf("%+v", r)
	}
}
