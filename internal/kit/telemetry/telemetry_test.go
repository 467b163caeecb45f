package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree writes a /proc in the shape of a real one: a target (PID 100) with a
// child, which has a child of its own from its second thread. Kernels without
// lists of children tell a process's parent only.
func tree(t *testing.T, lists bool) string {
	root := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(root, "proc", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("loadavg", "1.50 0.75 0.40 3/180 4242\n")
	write("meminfo", "MemTotal:       24683652 kB\nMemFree:        23272308 kB\nMemAvailable:   20971520 kB\n")
	for pid, family := range map[int]struct {
		parent   int
		children string
	}{100: {1, "101 "}, 101: {100, ""}, 102: {101, ""}, 103: {1, ""}} {
		if lists {
			write(fmt.Sprintf("%d/task/%d/children", pid, pid), family.children)
		}
		write(fmt.Sprintf("%d/stat", pid), fmt.Sprintf("%d (an engine) S %d 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 1 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 17 0 0 0 0 0 0 1 1 1 1 1 1 1 0\n", pid, family.parent))
		write(fmt.Sprintf("%d/status", pid), fmt.Sprintf("Name:\tengine\nVmLck:\t    8 kB\nVmPin:\t    0 kB\nVmRSS:\t%d kB\n", pid))
	}
	if lists {
		write("101/task/777/children", "102 ")
	}
	return root
}

func TestSample(t *testing.T) {
	for _, lists := range []bool{true, false} {
		samples := Start(tree(t, lists), 100, "").Stop()
		if len(samples) != 2 {
			t.Fatalf("%d samples of a run without length: want one before and one after", len(samples))
		}
		want := map[Source]float64{
			Load1: 1.5, MemAvailable: 20971520 * 1024,
			VmRSS: (100 + 101 + 102) * 1024, VmLck: 3 * 8 * 1024, VmPin: 0, // 103 is another's child
		}
		for src, v := range want {
			sum, err := Summarize(samples, src)
			if err != nil || sum.Mean != v || sum.Max != v || sum.N != 2 {
				t.Errorf("lists of children %v: %s: %+v, %v; want %v", lists, src, sum, err, v)
			}
		}
	}
}

// What can't be read has a reason and no number.
func TestMissing(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct {
		name, root string
		pid        int
		why        string
		src        Source
		want       string
	}{
		{"no /proc", empty, 100, "", Load1, "no such file"},
		{"no target", tree(t, true), 0, "attached: the target's process is not known", VmRSS, "attached: the target's process is not known"},
		{"target gone", tree(t, true), 4000, "", VmPin, "process 4000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sum, err := Summarize(Start(c.root, c.pid, c.why).Stop(), c.src)
			if err == nil || !strings.Contains(err.Error(), c.want) || sum.N != 0 {
				t.Errorf("%+v, %v; want %q", sum, err, c.want)
			}
		})
	}
	if _, err := Summarize(nil, Load1); err == nil {
		t.Error("no samples, and no error")
	}
}

func TestSummarize(t *testing.T) {
	samples := []Sample{
		{Values: map[Source]float64{Load1: 1}},
		{Why: map[Source]string{Load1: "busy"}},
		{Values: map[Source]float64{Load1: 4}},
	}
	if s, err := Summarize(samples, Load1); err != nil || s != (Summary{Mean: 2.5, Min: 1, Max: 4, N: 2}) {
		t.Errorf("%+v, %v", s, err)
	}
}

// This process, for a moment longer than one tick.
func TestThisProcess(t *testing.T) {
	s := Start("/", os.Getpid(), "")
	time.Sleep(Every + Every/10)
	samples := s.Stop()
	if len(samples) != 3 {
		t.Errorf("%d samples in 1.1 s, want 3", len(samples))
	}
	rss, err := Summarize(samples, VmRSS)
	if err != nil || rss.Max < 1<<20 {
		t.Errorf("our own memory: %+v, %v", rss, err)
	}
}
