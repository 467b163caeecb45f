package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

const noteForm = "assay-target-1"

// note is what is kept on the disk while a program runs, so that whoever comes
// after a caller that was killed finds what it left.
type note struct {
	Form   string   `json:"form"`
	BootID string   `json:"boot_id"` // process numbers mean nothing after a boot
	Caller process  `json:"caller"`
	Keeper *process `json:"keeper"` // null: not yet started
	First  *process `json:"first"`
	// Cgroups are the folders of those that are the program's own; empty: none.
	Cgroups []string `json:"cgroups"`
}

// process is one process for good, since numbers are used again.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // field 22 of /proc/PID/stat
}

func identify(pid int) (process, error) {
	s, err := root.Stat(pid)
	return process{pid, s.Start}, err
}

// there says whether it still runs.
func (p *process) there() (name string, ok bool) {
	if p == nil || p.PID <= 1 {
		return "", false
	}
	s, err := root.Stat(p.PID)
	return s.Name, err == nil && s.Start == p.Start && s.State != 'Z' && s.State != 'X'
}

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

// write puts the note on the disk, whole or not at all.
func (p *Process) write(keeper, first *int) error {
	if p.note == "" {
		return nil
	}
	n := note{Form: noteForm, Cgroups: p.cgroups}
	var err error
	if n.BootID, err = bootID(); err != nil {
		return err
	}
	if n.Caller, err = identify(os.Getpid()); err != nil {
		return err
	}
	for pid, to := range map[*int]**process{keeper: &n.Keeper, first: &n.First} {
		if pid == nil {
			continue
		}
		who, err := identify(*pid)
		if err != nil {
			return err
		}
		*to = &who
	}
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	part := p.note + ".part"
	if err := os.WriteFile(part, append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(part, p.note)
}

// Reap reads the note of a caller that died, kills what it left, and removes the
// note. It fails when the caller is still there. A note that is not there is
// fine: nothing was left.
func Reap(path string) ([]Killed, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var n note
	if err := json.Unmarshal(data, &n); err != nil {
		return nil, fmt.Errorf("%s: %w; see yourself to it that no target of an earlier run is left, and remove the file", path, err)
	}
	if n.Form != noteForm {
		return nil, fmt.Errorf("%s: form %q, want %q; see yourself to it that no target of an earlier run is left, and remove the file", path, n.Form, noteForm)
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	if n.BootID != boot {
		return nil, os.Remove(path) // no process outlives a boot, and no cgroup
	}
	if name, ok := n.Caller.there(); ok {
		return nil, fmt.Errorf("%s: %s (process %d) is still at work here; wait for it, or stop it", path, name, n.Caller.PID)
	}
	killed, err := n.kill()
	if err != nil {
		return killed, fmt.Errorf("%s: %w", path, err)
	}
	return killed, os.Remove(path)
}

// kill ends everything that a note names, and what descends from it.
func (n *note) kill() ([]Killed, error) {
	var killed []Killed
	var left []process
	take := func(pid int, tell bool) {
		who, err := identify(pid)
		if err != nil {
			return
		}
		if name, ok := who.there(); ok && tell {
			killed = append(killed, Killed{pid, name})
		}
		left = append(left, who)
	}
	if _, ok := n.Keeper.there(); ok {
		for _, pid := range descendants(n.Keeper.PID) {
			take(pid, true)
		}
		take(n.Keeper.PID, false) // last: it is at the same work
	} else if _, ok := n.First.there(); ok {
		take(n.First.PID, true)
		for _, pid := range descendants(n.First.PID) {
			take(pid, true)
		}
	}
	if _, ok := n.First.there(); ok {
		_ = syscall.Kill(-n.First.PID, syscall.SIGKILL) // it leads its group
	}
	for _, p := range left {
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
	if ours := slices.DeleteFunc(n.Cgroups, func(dir string) bool { return !isOurs(dir) }); len(ours) > 0 {
		more, err := reapCgroups(ours)
		for _, k := range more {
			if !contains(left, k.PID) {
				killed = append(killed, k)
			}
		}
		if err != nil {
			return killed, err
		}
	}
	for deadline := time.Now().Add(settle); ; time.Sleep(5 * time.Millisecond) {
		stays := false
		for _, p := range left {
			if name, ok := p.there(); ok {
				stays = true
				if time.Now().After(deadline) {
					return killed, fmt.Errorf("%s was killed and does not end", Killed{p.PID, name})
				}
			}
		}
		if !stays {
			return killed, nil
		}
	}
}

func contains(all []process, pid int) bool {
	for _, p := range all {
		if p.PID == pid {
			return true
		}
	}
	return false
}
