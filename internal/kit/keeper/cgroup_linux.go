package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"assay/internal/kit/proc"
)

// cgroupPrefix begins the names of the cgroups that are made here.
const cgroupPrefix = "assay-target-"

// makeCgroups makes a cgroup below the caller's own, so that every limit that
// holds for the caller holds for the program too. On version 1 and hybrid systems
// it is one of the memory controller's, the first of those returned; hybrid ones
// get another of version 2, which alone tells a pressure. planned is told of each
// before it is there, so that a caller that is killed at any moment leaves none that
// nobody knows of.
func makeCgroups(planned func(dir string) error) ([]string, error) {
	own, err := root.MemoryCgroup("self")
	if err != nil {
		return nil, err
	}
	dir, err := makeBelow(own, planned)
	if err != nil {
		return nil, err
	}
	if own.Version == 1 {
		if unified, err := root.UnifiedCgroup("self"); err == nil {
			if pressure, err := makeBelow(unified, planned); err == nil {
				return []string{dir, pressure}, nil
			}
		}
	}
	return []string{dir}, nil
}

// made numbers the cgroups of this process. No name is used twice: a cgroup is removed
// by the keeper and by the caller, of whom the one that comes late would else kill what
// is in a newer one of the same name.
var made atomic.Int64

func makeBelow(own proc.Cgroup, planned func(dir string) error) (dir string, err error) {
	parent := filepath.Join("/", own.Dirs[0])
	for range 100 { // names that a caller of the same number left behind
		dir = filepath.Join(parent, fmt.Sprintf("%s%d-%d", cgroupPrefix, os.Getpid(), made.Add(1)))
		if _, err = os.Lstat(dir); err == nil {
			err = fs.ErrExist
			continue
		}
		if err := planned(dir); err != nil {
			return "", err
		}
		err = os.Mkdir(dir, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil {
			os.Remove(dir) // a plain folder: nothing is mounted there
			return "", err
		}
		return dir, nil
	}
	return "", err
}

// enterCgroup moves a process.
func enterCgroup(dir string, pid int) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
}

// isOurs says whether a folder can be one that makeCgroups made: whatever a note
// says, no other is touched.
func isOurs(dir string) bool {
	return strings.HasPrefix(filepath.Base(dir), cgroupPrefix) && filepath.IsAbs(dir)
}

// settle is how long killed processes may take to be gone: the kernel gives back
// their memory first.
const settle = 10 * time.Second

// reapCgroups kills what is in cgroups and those below them, removes them, and
// tells whom it killed.
func reapCgroups(dirs []string) (killed []Killed, err error) {
	for _, dir := range dirs {
		more, e := reapCgroup(dir)
		killed, err = append(killed, more...), errors.Join(err, e)
	}
	return killed, err
}

func reapCgroup(dir string) ([]Killed, error) {
	var killed []Killed
	for deadline := time.Now().Add(settle); ; time.Sleep(5 * time.Millisecond) {
		for _, pid := range members(dir) {
			s, err := root.Stat(pid)
			if err != nil {
				continue
			}
			if !slices.ContainsFunc(killed, func(k Killed) bool { return k.PID == pid }) {
				killed = append(killed, Killed{pid, s.Name})
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		err := removeTree(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return killed, nil
		}
		if time.Now().After(deadline) {
			return killed, fmt.Errorf("the target's cgroup: %w", err)
		}
	}
}

// folders are a cgroup and those below it, the deepest last.
func folders(dir string) []string {
	var out []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			out = append(out, path)
		}
		return nil
	})
	return out
}

// members are the processes in a cgroup and those below it. Number 0 is one that
// is not to be seen from here.
func members(dir string) []int {
	var out []int
	for _, d := range folders(dir) {
		data, err := os.ReadFile(filepath.Join(d, "cgroup.procs"))
		if err != nil {
			continue
		}
		for word := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(word); err == nil && pid > 1 {
				out = append(out, pid)
			}
		}
	}
	return out
}

func removeTree(dir string) error {
	err := fs.ErrNotExist
	for _, d := range slices.Backward(folders(dir)) {
		if err = os.Remove(d); err != nil {
			return err
		}
	}
	return err
}
