package telemetry

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// treeSource reads the target's first process and all that descend from it.
type treeSource struct {
	root   root
	target func() (pid int, why string)
	found  func(pids []int) // told which processes these are
}

func (treeSource) source() string { return "processes" }

var (
	treeMemory = []Metric{VmRSS, RssAnon, RssFile, RssShmem, VmLck, VmPin}
	treeAll    = append([]Metric{TreeCPU, TreeRead, TreeSize}, treeMemory...)
	statusName = map[Metric]string{VmRSS: "VmRSS", RssAnon: "RssAnon", RssFile: "RssFile", RssShmem: "RssShmem", VmLck: "VmLck", VmPin: "VmPin"}
)

func (s treeSource) read(r *reading) {
	pid, why := s.target()
	if pid == 0 {
		r.fail(errors.New(why), treeAll...)
		return
	}
	if _, err := s.root.stat(pid); err != nil {
		r.fail(fmt.Errorf("the target's process %d: %w", pid, err), treeAll...)
		return
	}
	pids := s.root.tree(pid)
	if s.found != nil {
		s.found(pids)
	}
	r.set(TreeSize, "", float64(len(pids)))
	s.memory(r, pids)
	var cpu, read float64
	var readErr error
	for i, p := range pids {
		st, err := s.root.stat(p)
		if err != nil {
			continue // a child may have ended meanwhile
		}
		cpu += st.cpu + st.waited
		n, err := s.root.readBytes(p)
		if err != nil && (i == 0 || !errors.Is(err, os.ErrNotExist)) {
			readErr = err
		}
		read += n
	}
	r.set(TreeCPU, "", cpu)
	if readErr != nil {
		r.fail(readErr, TreeRead)
		return
	}
	r.set(TreeRead, "", read)
}

// memory sums what /proc/PID/status says. Kernels before 4.5 do not split the
// resident memory.
func (s treeSource) memory(r *reading, pids []int) {
	sums := map[Metric]float64{}
	missing := map[Metric]bool{}
	for i, pid := range pids {
		path := "proc/" + strconv.Itoa(pid) + "/status"
		text, err := s.root.read(path)
		if err != nil {
			if i == 0 {
				r.fail(err, treeMemory...)
				return
			}
			continue
		}
		if !strings.Contains(text, "\nVmRSS:") {
			continue // a zombie, which holds no memory
		}
		for _, m := range treeMemory {
			v, ok := kilobytes(text, statusName[m])
			if !ok {
				missing[m] = true
			}
			sums[m] += v
		}
	}
	for _, m := range treeMemory {
		if missing[m] {
			r.fail(fmt.Errorf("/proc/%d/status: no %s", pids[0], statusName[m]), m)
			continue
		}
		r.set(m, "", sums[m])
	}
}

// readBytes is what a process, and the children that it has waited for, had
// fetched from disks; pages that faulted in from mapped files count as well.
func (r root) readBytes(pid int) (float64, error) {
	path := "proc/" + strconv.Itoa(pid) + "/io"
	text, err := r.read(path)
	if errors.Is(err, os.ErrPermission) {
		return 0, fmt.Errorf("%w: only the target's own user may read it", err)
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, "read_bytes:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(v), 10, 53)
			if err != nil {
				return 0, fmt.Errorf("/%s: read_bytes: %q is not a number", path, clip(strings.TrimSpace(v)))
			}
			return float64(n), nil
		}
	}
	return 0, fmt.Errorf("/%s: no read_bytes", path)
}

// tree lists a process and all that descend from it. Where the kernel keeps no
// lists of children every process is asked for its parent.
func (r root) tree(first int) []int {
	children := r.children
	if len(r.glob(childFiles(first))) == 0 {
		of := map[int][]int{}
		for pid, s := range r.processes() {
			of[s.parent] = append(of[s.parent], pid)
		}
		children = func(pid int) []int { return of[pid] }
	}
	pids, seen := []int{first}, map[int]bool{first: true}
	for i := 0; i < len(pids); i++ {
		for _, pid := range children(pids[i]) {
			if !seen[pid] {
				pids, seen[pid] = append(pids, pid), true
			}
		}
	}
	return pids
}

func childFiles(pid int) string {
	return "proc/" + strconv.Itoa(pid) + "/task/*/children"
}

// children reads a process's children from the kernel's lists, one a thread.
func (r root) children(pid int) []int {
	var out []int
	for _, f := range r.glob(childFiles(pid)) {
		text, err := r.read(f)
		if err != nil {
			continue // the thread has ended
		}
		for w := range strings.FieldsSeq(text) {
			if pid, err := strconv.Atoi(w); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

// pids lists all processes.
func (r root) pids() []int {
	dir, err := os.Open(filepath.Join(string(r), "proc"))
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var out []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 0 {
			out = append(out, pid)
		}
	}
	return out
}
