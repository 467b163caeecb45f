package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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

// The whole tree is read, however the kernel tells it, and nobody else's process.
func TestTree(t *testing.T) {
	for _, lists := range []bool{true, false} {
		got := readTree(tree(t, lists), 100, "")
		want := map[Metric]float64{VmRSS: (100 + 101 + 102) * kB, VmLck: 3 * 8 * kB, VmPin: 0, TreeSize: 3} // 103 is another's child
		for m, v := range want {
			if have, ok := numberOf(got, m); !ok || have != v {
				t.Errorf("lists of children %v: %s is %g (%v), want %g", lists, m, have, ok, v)
			}
		}
	}
}

// A process that lost its parent has the keeper as its parent, and is the
// target's; the keeper itself is not.
func TestTreeOfAKeeper(t *testing.T) {
	for _, lists := range []bool{true, false} {
		from := tree(t, lists)
		for pid, line := range map[int]string{100: "100 (engine) S 50", 50: "50 (assay-keeper) S 1", 103: "103 (engine) S 50"} {
			path := filepath.Join(from, "proc", fmt.Sprint(pid))
			if err := os.MkdirAll(filepath.Join(path, "task", fmt.Sprint(pid)), 0o755); err != nil {
				t.Fatal(err)
			}
			rest := " 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 1 1 1\n"
			if err := os.WriteFile(filepath.Join(path, "stat"), []byte(line+rest), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if lists {
			if err := os.WriteFile(filepath.Join(from, "proc/50/task/50/children"), []byte("100 103 "), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got := readTree(from, 100, "")
		want := map[Metric]float64{VmRSS: (100 + 101 + 102 + 103) * kB, TreeSize: 4}
		for m, v := range want {
			if have, ok := numberOf(got, m); !ok || have != v {
				t.Errorf("lists of children %v: %s is %g (%v), want %g", lists, m, have, ok, v)
			}
		}
	}
}

// What can't be read has a reason and no number.
func TestNoTree(t *testing.T) {
	for _, c := range []struct {
		name, root string
		pid        int
		why, want  string
	}{
		{"no /proc", t.TempDir(), 100, "", "process 100"},
		{"no target", tree(t, true), 0, "another user's", "another user's"},
		{"target gone", tree(t, true), 4000, "", "process 4000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := readTree(c.root, c.pid, c.why)
			if v, ok := numberOf(got, VmRSS); ok || !strings.Contains(whyOf(got, VmRSS), c.want) {
				t.Errorf("%g, %q; want %q", v, whyOf(got, VmRSS), c.want)
			}
		})
	}
}

func readTree(from string, pid int, why string) *reading {
	rd := &reading{}
	treeSource{root(from), func() (int, string) { return pid, why }, func([]int) {}}.read(rd)
	return rd
}

func numberOf(r *reading, m Metric) (float64, bool) {
	for _, v := range r.values {
		if v.metric == m {
			return v.v, true
		}
	}
	return 0, false
}

func whyOf(r *reading, m Metric) string {
	for _, w := range r.whys {
		if w.metric == m {
			return w.why
		}
	}
	return ""
}
