package expert

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func TestGovernor(t *testing.T) {
	const m = 1 << 20 // the limit is 1600 MiB, so the reserve 100 MiB
	for _, c := range []struct {
		name             string
		held, budget     int64
		free             int64
		pressure         float64
		quiet            int
		want, wantQuiet0 int64 // 1: quiet begins anew
	}{
		{"much is free, and has been", 200, 200, 500, 0, calm, 600, 0},
		{"much is free, but was not lately", 200, 200, 500, 0, 2, 200, 0},
		{"no more than all experts", 700, 700, 900, 0, calm, 1000, 0},
		{"less free than the budget would take", 200, 600, 200, 0, calm, 300, 0},
		{"a little below the reserve", 200, 600, 80, 0, calm, 200, 0},
		{"far below the reserve", 200, 600, 40, 0, calm, 140, 1},
		{"nothing free", 90, 600, 0, 0, calm, 10, 1},
		{"under pressure", 800, 800, 200, 20, calm, 700, 1},
		{"under pressure, after giving some back", 700, 700, 200, 20, 2, 700, 0},
	} {
		s := &Store{shape: Shape{Layers: 1, Experts: 999}, least: 10 * m}
		s.classes = []*class{{layers: 1, perSlab: 1, slab: m, share: 1}}
		g := &governor{s: s, quiet: c.quiet}
		s.least = 10 * m
		got := g.next(c.held*m, c.budget*m, Free{Bytes: c.free * m, Limit: 1600 * m, Pressure: c.pressure})
		want := c.want * m
		if c.name == "no more than all experts" {
			want = s.need()
		}
		if got != want || (g.quiet == 0) != (c.wantQuiet0 == 1) {
			t.Errorf("%s: %d MiB, quiet %d; want %d MiB", c.name, got/m, g.quiet, want/m)
		}
	}
}

// memory is a machine whose free memory a test sets; what the store holds is taken
// from it.
type memory struct {
	mu    sync.Mutex
	total int64
	s     *Store
}

func (m *memory) Free() (Free, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := m.total
	if m.s != nil {
		left -= m.s.held()
	}
	return Free{Bytes: max(0, left), Limit: 512 << 20}, nil
}

func (m *memory) set(total int64, s *Store) {
	m.mu.Lock()
	m.total, m.s = total, s
	m.mu.Unlock()
}

// auto gives memory back when others want it, works on, and takes it again.
func TestAuto(t *testing.T) {
	f := model(t)
	m := &memory{total: 256 << 20}
	s := open(t, f, testShape, Options{Memory: m})
	m.set(256<<20, s)
	ref := &reference{f: f, shape: testShape}
	var everything []int32
	for i := range int32(testShape.Experts) {
		everything = append(everything, i)
	}
	pass := func() {
		t.Helper()
		for layer := range testShape.Layers {
			b, err := s.Begin(layer, everything, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := all(b, func(x Expert) error { return ref.check(s, layer, x) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	until := func(what string, ok func(Stats) bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; {
			pass()
			if ok(s.Stats()) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s never happened: %+v", what, s.Stats())
			}
		}
	}
	most := testShape.Layers * testShape.Experts
	until("holding all", func(st Stats) bool { return st.Resident == most })
	m.set(40<<20, s) // the reserve is 32
	until("shrinking", func(st Stats) bool { return st.Shrinks > 0 && st.Resident < most && st.Slots < most })
	m.set(256<<20, s)
	until("growing back", func(st Stats) bool { return st.Resident == most })
}

func TestOpenWithoutMemory(t *testing.T) {
	f := model(t)
	if _, err := Open(f, testShape, Options{Memory: &memory{total: 33 << 20}}); err == nil {
		t.Error("opened with 1 MiB")
	}
	if _, err := Open(f, testShape, Options{Memory: Machine(t.TempDir())}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without /proc: %v", err)
	}
}

// files of a machine below a temporary root.
func machine(t *testing.T, files map[string]string) Machine {
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Machine(root)
}

const meminfo = "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:   800 kB\n"

func TestMachine(t *testing.T) {
	v1 := "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	v2 := "31 24 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  Free
	}{
		"no groups": {map[string]string{}, Free{800 << 10, 1000 << 10, 0}},
		"version 1, the one above is tighter": {map[string]string{
			"proc/self/cgroup":                               "5:cpu:/x\n4:memory:/a/b\n0::/a\n",
			"proc/self/mountinfo":                            v1,
			"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "500000\n",
			"sys/fs/cgroup/memory/a/b/memory.usage_in_bytes": "100000\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes":   "400000\n",
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes":   "300000\n",
			"sys/fs/cgroup/memory/a/memory.stat":             "inactive_file 1\ntotal_inactive_file 50000\ntotal_active_file 20000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes":     "900000\n",
		}, Free{160000, 400000, 0}},
		"version 2 with pressure": {map[string]string{
			"proc/self/cgroup":                     "0::/a\n",
			"proc/self/mountinfo":                  v2,
			"proc/pressure/memory":                 "some avg10=9.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=3.00 avg60=0.00 avg300=0.00 total=1\n",
			"sys/fs/cgroup/a/memory.max":           "500000\n",
			"sys/fs/cgroup/a/memory.current":       "450000\n",
			"sys/fs/cgroup/a/memory.stat":          "inactive_file 10000\n",
			"sys/fs/cgroup/a/memory.pressure":      "some avg10=30.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=12.50 avg60=0.00 avg300=0.00 total=1\n",
			"sys/fs/cgroup/memory.pressure":        "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
			"sys/fs/cgroup/cgroup.subtree_control": "memory\n",
		}, Free{60000, 500000, 12.5}},
		"version 2 without a limit": {map[string]string{
			"proc/self/cgroup":               "0::/a\n",
			"proc/self/mountinfo":            v2,
			"sys/fs/cgroup/a/memory.max":     "max\n",
			"sys/fs/cgroup/a/memory.current": "450000\n",
		}, Free{800 << 10, 1000 << 10, 0}},
		"a container whose group is the root of the mount": {map[string]string{
			"proc/self/cgroup":                           "4:memory:/docker/1f\n",
			"proc/self/mountinfo":                        "31 24 0:27 /docker/1f /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "500000\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "600000\n",
		}, Free{0, 500000, 0}},
	} {
		c.files["proc/meminfo"] = meminfo
		if got, err := machine(t, c.files).Free(); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
	bad := machine(t, map[string]string{"proc/meminfo": "MemTotal: many kB\n"})
	if _, err := bad.Free(); err == nil {
		t.Error("a meminfo that tells nothing is taken")
	}
}
