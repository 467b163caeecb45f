package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Tree lists a process and all that descend from it. Where the kernel keeps no
// lists of children every process is asked for its parent.
func (r Root) Tree(first int) []int {
	children := r.children
	if len(r.Glob(childFiles(first))) == 0 {
		of := map[int][]int{}
		for pid, s := range r.Processes() {
			of[s.Parent] = append(of[s.Parent], pid)
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
func (r Root) children(pid int) []int {
	var out []int
	for _, f := range r.Glob(childFiles(pid)) {
		text, err := r.Read(f)
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

// PIDs lists all processes.
func (r Root) PIDs() []int {
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
