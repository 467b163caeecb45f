package telemetry

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"assay/internal/kit/keeper"
	"assay/internal/kit/proc"
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
	first, err := s.root.Stat(pid)
	if err != nil {
		r.fail(fmt.Errorf("the target's process %d: %w", pid, err), treeAll...)
		return
	}
	pids := s.root.Tree(pid)
	// Those that lost their parent are the keeper's, who does not belong to them.
	if keeps, err := s.root.Stat(first.Parent); err == nil && keeps.Name == keeper.Name {
		for _, p := range s.root.Tree(first.Parent)[1:] {
			if !slices.Contains(pids, p) {
				pids = append(pids, p)
			}
		}
	}
	if s.found != nil {
		s.found(pids)
	}
	r.set(TreeSize, "", float64(len(pids)))
	s.memory(r, pids)
	var cpu, read float64
	var readErr error
	for i, p := range pids {
		st, err := s.root.Stat(p)
		if err != nil {
			continue // a child may have ended meanwhile
		}
		cpu += st.CPU + st.Waited
		n, err := readBytes(s.root, p)
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
		text, err := s.root.Read(path)
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
			v, err := proc.Kilobytes(text, statusName[m])
			if err != nil {
				missing[m] = true
			}
			sums[m] += float64(v)
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
func readBytes(r root, pid int) (float64, error) {
	path := "proc/" + strconv.Itoa(pid) + "/io"
	text, err := r.Read(path)
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
				return 0, fmt.Errorf("/%s: read_bytes: %q is not a number", path, proc.Clip(strings.TrimSpace(v)))
			}
			return float64(n), nil
		}
	}
	return 0, fmt.Errorf("/%s: no read_bytes", path)
}
