package telemetry

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// machine unpacks a recorded tree of /proc and /sys. A file that holds only
// "-> PATH" is a symbolic link.
func machine(t *testing.T, name string) root {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil { // for the test that reads as another user
			t.Fatal(err)
		}
	}
	a, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if to, ok := strings.CutPrefix(string(f.Data), "-> "); ok {
			err = os.Symlink(strings.TrimSpace(to), path)
		} else {
			err = os.WriteFile(path, f.Data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root(dir)
}

// pollers are all sources that are read from files, as Open sets them up.
func pollers(from root, pid int, why, disk, diskWhy string) []poller {
	target := func() (int, string) { return pid, why }
	return []poller{
		raplSource{from},
		&drmSource{root: from, fast: true},
		&drmSource{root: from},
		hostSource{from},
		psiSource{from},
		treeSource{root: from, target: target},
		cgroupSource{from, target},
		diskSource{from, disk, diskWhy},
		hwmonSource{from},
		freqSource{from},
		pssSource{from, target},
	}
}

// readMachine reads every source of a tree once. Values and reasons are named
// "metric of".
func readMachine(from root, pid int, why, disk, diskWhy string) (values map[string]float64, whys map[string]string) {
	values, whys = map[string]float64{}, map[string]string{}
	name := func(m Metric, of string) string { return strings.TrimSpace(string(m) + " " + of) }
	for _, p := range pollers(from, pid, why, disk, diskWhy) {
		rd := &reading{at: time.Now()}
		p.read(rd)
		for _, v := range rd.values {
			values[name(v.metric, v.of)] = v.v
		}
		for _, w := range rd.whys {
			whys[name(w.metric, w.of)] = w.why
		}
	}
	return values, whys
}

const (
	kB  = 1024.0
	gib = 1024 * 1024 * 1024.0
)

// Each tree has the shape of a real machine; the values are worked out by hand
// from what its files say. What a machine can't tell has a reason, and nothing is
// both or neither.
func TestMachines(t *testing.T) {
	for _, c := range []struct {
		tree   string
		pid    int
		disk   string
		values map[string]float64
		whys   map[string]string // and a part of each reason
	}{
		{
			tree: "laptop", pid: 4242, disk: "nvme0n1",
			values: map[string]float64{
				"rapl_energy package-0": 181234.56789, "rapl_energy psys": 5512.345678,
				"gpu_clock card1": 650,
				"load1":           1.27, "mem_available": 20971520 * kB, "swap_used": (8388604 - 8126460) * kB,
				"psi_memory_some_avg10 system": 1.25, "psi_memory_full_avg10 system": 0.5, "psi_memory_full_total system": 1.234567,
				"psi_cpu_some_avg10 system": 14.3, "psi_io_some_avg10 system": 3, "psi_io_full_avg10 system": 2.75,
				"psi_memory_some_avg10 user": 2, "psi_memory_full_avg10 user": 1.5, "psi_memory_full_total user": 0.334455,
				"psi_memory_some_avg10 unit": 0.75, "psi_memory_full_avg10 unit": 0.25, "psi_memory_full_total unit": 0.011223,
				"cgroup_current": 6 * gib, "cgroup_peak": 7 * gib, "cgroup_at_limit": 7, "cgroup_oom_kills": 1,
				"cgroup_limit": 16 * gib, // of app.slice, above the unit, which has none
				"vmrss":        (6291456 + 10240) * kB, "rss_anon": (1048576 + 8192) * kB, "rss_file": (5242880 + 1536) * kB, "rss_shmem": 512 * kB,
				"vmlck": 2048 * kB, "vmpin": 16 * kB, "pss": (6200000 + 9000) * kB,
				"tree_cpu":  45.12 + 3.88 + 0.10 + 0.05 + 1.00 + 0.50, // with the children that are no more
				"tree_read": 5368709120 + 1048576, "tree_processes": 2,
				"disk_reads nvme0n1": 1234567, "disk_read nvme0n1": 98765432 * 512,
				"temp coretemp Package id 0": 71, "temp nvme0n1 Composite": 44.85, "temp nvme0n1 Sensor 1": 51.85,
				"cpu_freq": 2250, "cpu_freq_min": 800, "cpus_governed powersave": 4,
			},
			whys: map[string]string{
				"gpu_energy": "no hwmon", "gpu_power": "no hwmon",
				"gpu_mem card1": "no total", "gpu_temp card1": "no hwmon", "gpu_limit card1": "no hwmon",
			},
		},
		{
			tree: "workstation", pid: 900, disk: "nvme0n1",
			values: map[string]float64{
				"rapl_energy package-0": 65532.610987,
				"load1":                 8.02, "mem_available": 104857600 * kB, "swap_used": 0,
				"psi_memory_some_avg10 system": 0, "psi_memory_full_avg10 system": 0, "psi_memory_full_total system": 0,
				"psi_cpu_some_avg10 system": 0.1, "psi_io_some_avg10 system": 0, "psi_io_full_avg10 system": 0,
				"psi_memory_some_avg10 unit": 0, "psi_memory_full_avg10 unit": 0, "psi_memory_full_total unit": 0,
				"cgroup_current": 50 * gib, "cgroup_at_limit": 0, "cgroup_oom_kills": 0,
				"vmrss": 52428800 * kB, "rss_anon": 52000000 * kB, "rss_file": 428800 * kB, "rss_shmem": 0, "vmlck": 0, "vmpin": 32 * gib,
				"pss": 52000000 * kB, "tree_cpu": 1200, "tree_read": 100 * gib, "tree_processes": 1,
				"disk_reads nvme0n1": 50, "disk_read nvme0n1": 400 * 512,
				"temp k10temp Tctl": 62.125,
				"cpu_freq":          4500, "cpu_freq_min": 4500, "cpus_governed performance": 1, "cpus_governed schedutil": 1,
			},
			whys: map[string]string{
				"gpu_energy": "no card of AMD or Intel among 2", "gpu_power": "among 2", "gpu_power_mean": "among 2",
				"gpu_mem": "among 2", "gpu_gtt": "among 2", "gpu_temp": "among 2", "gpu_limit": "among 2", "gpu_busy": "among 2", "gpu_clock": "among 2",
				"cgroup_peak": "Linux 5.19 has it", "cgroup_limit": "no limit is set",
				"psi_memory_some_avg10 user": "/system.slice/llama.service, which is in no user's slice",
				"psi_memory_full_avg10 user": "no user's slice", "psi_memory_full_total user": "no user's slice",
			},
		},
		{
			tree: "apu", pid: 0,
			values: map[string]float64{
				"rapl_energy package-0": 1, "gpu_power card0": 56.123, "gpu_power_mean card0": 54,
				"gpu_mem card0": 384 * 1024 * kB, "gpu_gtt card0": 20 * gib, "gpu_busy card0": 97, "gpu_temp card0": 68, "gpu_clock card0": 2700,
				"load1": 0, "mem_available": 48 * gib, "swap_used": 0,
				"temp amdgpu edge": 68,
			},
			whys: noTarget(noPSI(noDisk(map[string]string{
				"gpu_limit card0": "no power limit is shown",
				"cpu_freq":        "not there", "cpu_freq_min": "not there", "cpus_governed": "not there",
			}))),
		},
		{
			tree: "arc", pid: 0,
			values: map[string]float64{
				"gpu_energy card1": 222.5, // that of the card, not of its chip
				"gpu_clock card0":  300, "gpu_clock card1": 2400, "gpu_temp card1": 55, "gpu_limit card1": 190,
				"load1": 0.5, "mem_available": 48 * gib, "swap_used": 0,
			},
			whys: noTarget(noPSI(noDisk(map[string]string{
				"gpu_energy": "no power sensor of its own", "gpu_power": "no power sensor of its own", // of card0
				"gpu_mem card0": "no total", "gpu_temp card0": "no hwmon", "gpu_limit card0": "no hwmon", "gpu_mem card1": "no total",
				"rapl_energy": "no zone intel-rapl", "temp": "/sys/class/hwmon: no sensors",
				"cpu_freq": "not there", "cpu_freq_min": "not there", "cpus_governed": "not there",
			}))),
		},
		{
			tree: "docker-v1", pid: 7, disk: "sda",
			values: map[string]float64{
				"load1": 3, "mem_available": 8 * gib, "swap_used": 0,
				"cgroup_current": 2 * gib, "cgroup_peak": 3 * gib, "cgroup_limit": 4 * gib, "cgroup_at_limit": 42,
				"vmrss": 2001000 * kB, "vmlck": 0, "vmpin": 0, "pss": (200 + 1000000 + 300) * kB,
				"tree_cpu": 3.75, "tree_read": 12288, "tree_processes": 2,
				"disk_reads sda": 5000, "disk_read sda": 40000 * 512,
			},
			whys: noGPU("/sys/class/drm: not there", noPSI(map[string]string{
				"rapl_energy": "no zone intel-rapl", "temp": "no sensors",
				"rss_anon": "no RssAnon", "rss_file": "no RssFile", "rss_shmem": "no RssShmem",
				"cgroup_oom_kills":           "has no oom_kill",
				"psi_memory_some_avg10 unit": "version 1 keep no pressure", "psi_memory_full_avg10 unit": "version 1", "psi_memory_full_total unit": "version 1",
				"psi_memory_some_avg10 user": "version 1", "psi_memory_full_avg10 user": "version 1", "psi_memory_full_total user": "version 1",
				"cpu_freq": "not there", "cpu_freq_min": "not there", "cpus_governed": "not there",
			})),
		},
		{
			tree: "hybrid", pid: 50,
			values: map[string]float64{
				"load1": 0.1, "mem_available": 20 * gib, "swap_used": 0,
				"psi_memory_some_avg10 system": 0.01, "psi_memory_full_avg10 system": 0, "psi_memory_full_total system": 13.294092,
				"psi_cpu_some_avg10 system": 22.73, "psi_io_some_avg10 system": 0, "psi_io_full_avg10 system": 0,
				"psi_memory_some_avg10 user": 4, "psi_memory_full_avg10 user": 3, "psi_memory_full_total user": 5,
				"psi_memory_some_avg10 unit": 2, "psi_memory_full_avg10 unit": 1, "psi_memory_full_total unit": 2,
				"cgroup_current": 100 * 1024 * kB, "cgroup_peak": 200 * 1024 * kB, "cgroup_limit": gib, "cgroup_at_limit": 0, "cgroup_oom_kills": 0,
				"vmrss": 90000 * kB, "rss_anon": 80000 * kB, "rss_file": 10000 * kB, "rss_shmem": 0, "vmlck": 0, "vmpin": 0, "pss": 88000 * kB,
				"tree_cpu": 0.2, "tree_read": 0, "tree_processes": 1,
			},
			whys: noGPU("/sys/class/drm: not there", noDisk(map[string]string{
				"rapl_energy": "no zone intel-rapl", "temp": "no sensors",
				"cpu_freq": "not there", "cpu_freq_min": "not there", "cpus_governed": "not there",
			})),
		},
		{
			tree: "vm", pid: 33, disk: "vda",
			values: map[string]float64{
				"load1": 0, "mem_available": 3500000 * kB, "swap_used": 0,
				"vmrss": 100 * kB, "rss_anon": 50 * kB, "rss_file": 50 * kB, "rss_shmem": 0, "vmlck": 0, "vmpin": 0, "pss": 5000 * kB,
				"tree_cpu": 0, "tree_processes": 1, "disk_reads vda": 10, "disk_read vda": 80 * 512,
			},
			whys: noGPU("/sys/class/drm: not there", noPSI(map[string]string{
				"rapl_energy": "or a virtual machine", "temp": "virtual machines and containers seldom",
				"tree_read":      "/proc/33/io: no such file",
				"cgroup_current": "the root group, or the memory controller is off", "cgroup_peak": "root group", "cgroup_limit": "root group",
				"cgroup_at_limit": "root group", "cgroup_oom_kills": "root group",
				"psi_memory_some_avg10 unit": "CONFIG_PSI", "psi_memory_full_avg10 unit": "CONFIG_PSI", "psi_memory_full_total unit": "CONFIG_PSI",
				"psi_memory_some_avg10 user": "no user's slice", "psi_memory_full_avg10 user": "no user's slice", "psi_memory_full_total user": "no user's slice",
				"cpu_freq": "virtual machines seldom", "cpu_freq_min": "virtual machines seldom", "cpus_governed": "virtual machines seldom",
			})),
		},
		{
			tree: "bare-container", pid: 1,
			values: map[string]float64{
				"load1": 0.2, "mem_available": 4000000 * kB, "swap_used": 0,
				"vmrss": 1000 * kB, "rss_anon": 500 * kB, "rss_file": 500 * kB, "rss_shmem": 0, "vmlck": 0, "vmpin": 0, "pss": 5000 * kB,
				"tree_cpu": 0.1, "tree_read": 512, "tree_processes": 1,
			},
			whys: noGPU("a container without /sys", noPSI(noDisk(map[string]string{
				"rapl_energy": "/sys/class/powercap", "temp": "/sys/class/hwmon",
				"cgroup_current": "no control groups of version 2 are mounted here", "cgroup_peak": "are mounted", "cgroup_limit": "are mounted",
				"cgroup_at_limit": "are mounted", "cgroup_oom_kills": "are mounted",
				"psi_memory_some_avg10 unit": "version 2 are mounted", "psi_memory_full_avg10 unit": "version 2 are mounted", "psi_memory_full_total unit": "version 2 are mounted",
				"psi_memory_some_avg10 user": "version 2 are mounted", "psi_memory_full_avg10 user": "version 2 are mounted", "psi_memory_full_total user": "version 2 are mounted",
				"cpu_freq": "not there", "cpu_freq_min": "not there", "cpus_governed": "not there",
			}))),
		},
	} {
		t.Run(c.tree, func(t *testing.T) {
			why, diskWhy := "", ""
			if c.pid == 0 {
				why = "attached: nobody listens"
			}
			if c.disk == "" {
				diskWhy = "the disk is not known"
			}
			values, whys := readMachine(machine(t, c.tree), c.pid, why, c.disk, diskWhy)
			near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9*(1+a) && b-a < 1e-9*(1+b) })
			if diff := cmp.Diff(c.values, values, near); diff != "" {
				t.Errorf("values, want -, got +:\n%s", diff)
			}
			for name, part := range c.whys {
				if !strings.Contains(whys[name], part) {
					t.Errorf("%s: reason %q, want %q in it", name, whys[name], part)
				}
			}
			for name := range whys {
				if _, ok := c.whys[name]; !ok {
					t.Errorf("%s: has the reason %q, want none", name, whys[name])
				}
			}
		})
	}
}

func addWhys(to map[string]string, why string, names ...string) map[string]string {
	for _, n := range names {
		to[n] = why
	}
	return to
}

func noPSI(m map[string]string) map[string]string {
	return addWhys(m, "no pressure stall information", "psi_memory_some_avg10 system", "psi_memory_full_avg10 system", "psi_memory_full_total system",
		"psi_cpu_some_avg10 system", "psi_io_some_avg10 system", "psi_io_full_avg10 system")
}

func noDisk(m map[string]string) map[string]string {
	return addWhys(m, "the disk is not known", "disk_reads", "disk_read")
}

func noGPU(why string, m map[string]string) map[string]string {
	return addWhys(m, why, "gpu_energy", "gpu_power", "gpu_power_mean", "gpu_mem", "gpu_gtt", "gpu_temp", "gpu_limit", "gpu_busy", "gpu_clock")
}

func noTarget(m map[string]string) map[string]string {
	return addWhys(m, "attached: nobody listens", "vmrss", "rss_anon", "rss_file", "rss_shmem", "vmlck", "vmpin", "pss",
		"tree_cpu", "tree_read", "tree_processes",
		"cgroup_current", "cgroup_peak", "cgroup_limit", "cgroup_at_limit", "cgroup_oom_kills",
		"psi_memory_some_avg10 unit", "psi_memory_full_avg10 unit", "psi_memory_full_total unit",
		"psi_memory_some_avg10 user", "psi_memory_full_avg10 user", "psi_memory_full_total user")
}

// A container whose groups are elsewhere: version 2 is mounted, but not the part
// that the target is in.
func TestGroupOutOfSight(t *testing.T) {
	from := machine(t, "bare-container")
	mountinfo := "700 1 0:60 / / rw - overlay overlay rw\n701 700 0:27 / /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n"
	if err := os.WriteFile(filepath.Join(string(from), "proc/self/mountinfo"), []byte(mountinfo), 0o644); err != nil {
		t.Fatal(err)
	}
	rd := &reading{}
	cgroupSource{from, func() (int, string) { return 1, "" }}.read(rd)
	if len(rd.values) != 0 || !strings.Contains(rd.whys[0].why, "group /../../other is not to be seen below /sys/fs/cgroup") {
		t.Errorf("%v, %v", rd.values, rd.whys)
	}
}

// The root of all groups is no unit; that of a container is.
func TestRootIsNoUnit(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/7/cgroup", "0::/\n")
	write("proc/self/mountinfo", "30 1 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
	write("sys/fs/cgroup/memory.pressure", "some avg10=2.00 total=1\nfull avg10=1.00 total=1\n")
	read := func() *reading {
		rd := &reading{}
		cgroupSource{root(dir), func() (int, string) { return 7, "" }}.read(rd)
		return rd
	}
	if v, ok := numberOf(read(), PSIMemFull); ok {
		t.Errorf("%g", v)
	}
	write("sys/fs/cgroup/cgroup.events", "populated 1\nfrozen 0\n")
	if v, ok := numberOf(read(), PSIMemFull); !ok || v != 1 {
		t.Errorf("%g, %v", v, ok)
	}
}

// A group of version 2 without a memory controller of its own: its memory is that
// of the nearest group above it that has one, its pressure is its own.
func TestGroupWithoutMemory(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"proc/7/cgroup":        "0::/app.slice/kit.scope/assay-target-7-0\n",
		"proc/self/mountinfo":  "30 1 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"app.slice/memory.max": "1000\n", "app.slice/memory.current": "900\n",
		"app.slice/kit.scope/memory.max": "max\n", "app.slice/kit.scope/memory.current": "500\n", "app.slice/kit.scope/memory.peak": "600\n",
		"app.slice/kit.scope/memory.events":                    "max 3\noom_kill 0\n",
		"app.slice/kit.scope/memory.pressure":                  "some avg10=9.00 total=1\nfull avg10=8.00 total=1\n",
		"app.slice/kit.scope/assay-target-7-0/memory.pressure": "some avg10=2.00 total=1\nfull avg10=1.00 total=1\n",
	} {
		if !strings.HasPrefix(name, "proc/") {
			name = "sys/fs/cgroup/" + name
		}
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rd := &reading{}
	cgroupSource{root(dir), func() (int, string) { return 7, "" }}.read(rd)
	for m, want := range map[Metric]float64{CgroupCurrent: 500, CgroupPeak: 600, CgroupLimit: 1000, CgroupAtLimit: 3, PSIMemFull: 1} {
		if v, ok := numberOf(rd, m); !ok || v != want {
			t.Errorf("%s: %g, %q; want %g", m, v, whyOf(rd, m), want)
		}
	}
	if want := "/app.slice/kit.scope/assay-target-7-0 (version 2; memory is that of /sys/fs/cgroup/app.slice/kit.scope)"; rd.note != want {
		t.Errorf("note %q, want %q", rd.note, want)
	}
}

// The disk of a file: through partitions, mapped devices and mounts below mounts.
func TestDiskOf(t *testing.T) {
	for _, c := range []struct{ tree, file, want, err string }{
		{"laptop", "/models/a.gguf", "nvme0n1", ""},
		{"laptop", "/home/me/a.gguf", "nvme0n1", ""}, // on vg-home, on nvme0n1p2
		{"laptop", "/homestead/a.gguf", "nvme0n1", ""},
		{"laptop", "/tmp/a.gguf", "", "lies on tmpfs"},
		{"laptop", "/media/usb disk/a.gguf", "", "/sys/class/block/sda1: not there"},
		{"workstation", "/models/a.gguf", "", "md127 lies on 2 disks"},
		{"docker-v1", "/models/a.gguf", "sda", ""},
		{"docker-v1", "/root/a.gguf", "", "lies on overlay"},
		{"vm", "/root/a.gguf", "vda", ""},
	} {
		got, err := DiskOf(string(machine(t, c.tree)), c.file)
		if got != c.want || (err == nil) != (c.err == "") || (err != nil && !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s %s: %q, %v; want %q, %q", c.tree, c.file, got, err, c.want, c.err)
		}
	}
	if _, err := DiskOf(t.TempDir(), "/a"); err == nil {
		t.Error("no table of mounts, and no error")
	}
}

func TestListener(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sock := func(pid, inode string) {
		p := filepath.Join(dir, "proc", pid, "fd", "3")
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("socket:["+inode+"]", p); err != nil {
			t.Fatal(err)
		}
	}
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	write("proc/net/tcp", head+
		"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 5555 1 0 100 0 0 10 0\n"+
		"   1: 0100007F:1F91 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 5556 1 0 20 4 30 10 -1\n"+
		"   2: 0100007F:1F92 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 7777 1 0 100 0 0 10 0\n"+
		"   3: 0100007F:1F94 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 9999 1 0 100 0 0 10 0\n")
	write("proc/net/tcp6", head+"   0: 00000000000000000000000000000000:1F93 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 8888 1 0 100 0 0 10 0\n")
	write("proc/300/stat", "300 (server) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0\n")
	write("proc/301/stat", "301 (worker) S 300 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0\n")
	write("proc/400/stat", "400 (six) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0\n")
	sock("301", "5555")
	sock("300", "5555")
	write("proc/500/stat", "500 (docker-proxy) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0\n")
	sock("400", "8888")
	sock("500", "9999")
	for _, c := range []struct {
		port, want int
		err        string
	}{
		{8080, 300, ""}, // server and worker share the socket
		{8083, 400, ""}, // IPv6
		{8081, 0, "no process of this host listens on port 8081"}, // that is a connection
		{8084, 0, "docker-proxy listens on port 8084 and passes it on"},
		{8082, 0, "another user's or in another container"},
	} {
		pid, err := Listener(dir, c.port)
		if pid != c.want || (err == nil) != (c.err == "") || (err != nil && !strings.Contains(err.Error(), c.err)) {
			t.Errorf("port %d: %d, %v; want %d, %q", c.port, pid, err, c.want, c.err)
		}
	}
	if _, err := Listener(t.TempDir(), 80); err == nil || !strings.Contains(err.Error(), "/proc/net/tcp6") {
		t.Errorf("no tables: %v", err)
	}
}

// Everything that Open sets up has a name, and no two tracks share one.
func TestSourcesHaveNames(t *testing.T) {
	var names []string
	for _, p := range append(pollers("/", 0, "", "", ""), &noiseSource{}, &selfSource{}, wallFile{}, noWall{}) {
		if p.source() == "" || (slices.Contains(names, p.source()) && p.source() != "wall meter") {
			t.Errorf("%T: name %q", p, p.source())
		}
		names = append(names, p.source())
	}
	for m, k := range kinds {
		if k.unit == "" || m.Means() == "" || m.Unit() != k.unit {
			t.Errorf("%s: %+v", m, k)
		}
	}
}
