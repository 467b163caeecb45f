package expert

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Machine is the memory of this machine, below the folder where its /proc and /sys
// are: "/" but in tests. The limits of the process's control group and of those
// above it hold, in version 1 and 2.
type Machine string

// Free is the least of what the machine and each of the groups have left.
func (m Machine) Free() (Free, error) {
	total, err := m.number("proc/meminfo", "MemTotal:", 1024)
	if err != nil {
		return Free{}, err
	}
	free, err := m.number("proc/meminfo", "MemAvailable:", 1024)
	if err != nil {
		return Free{}, err
	}
	f := Free{Bytes: free, Limit: total}
	f.Pressure = m.pressure("proc/pressure/memory")
	for _, g := range m.groups() {
		left, limit, ok, err := g.left(m)
		if err != nil {
			return Free{}, err
		}
		if ok && left < f.Bytes {
			f.Bytes, f.Limit = left, limit
		}
		if g.version == 2 {
			f.Pressure = max(f.Pressure, m.pressure(path.Join(g.dir, "memory.pressure")))
		}
	}
	return f, nil
}

func (m Machine) text(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(string(m), name))
	return string(b), err
}

// number finds "NAME 123" in a file of such lines.
func (m Machine) number(file, name string, unit int64) (int64, error) {
	text, err := m.text(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil || n < 0 || n > 1<<62/unit {
				return 0, fmt.Errorf("/%s: %s is %q, want a number", file, name, f[1])
			}
			return n * unit, nil
		}
	}
	return 0, fmt.Errorf("/%s has no %s", file, name)
}

// pressure is "full avg10" of a file of pressure stall information; 0 where there
// is none.
func (m Machine) pressure(file string) float64 {
	text, err := m.text(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "full" {
			if s, ok := strings.CutPrefix(f[1], "avg10="); ok {
				if v, err := strconv.ParseFloat(s, 64); err == nil && v >= 0 && v <= 100 {
					return v
				}
			}
		}
	}
	return 0
}

// group is a control group: where its files are.
type group struct {
	version int
	dir     string // below the root
}

// groups are the process's own group for memory and those above it.
func (m Machine) groups() []group {
	text, err := m.text("proc/self/cgroup")
	if err != nil {
		return nil
	}
	var found []group
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // "4:memory:/a/b", "0::/a/b"
		switch {
		case len(f) != 3:
		case f[0] == "0" && f[1] == "":
			found = append(found, m.above(2, f[2])...)
		case listed(f[1], "memory"):
			found = append(found, m.above(1, f[2])...)
		}
	}
	return found
}

func listed(list, word string) bool { return strings.Contains(","+list+",", ","+word+",") }

// above lists the folders of a group, its own first, by the table of mounts. In a
// container a group may be the root of what is mounted.
func (m Machine) above(version int, name string) []group {
	text, err := m.text("proc/self/mountinfo")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(text) {
		// "31 24 0:27 ROOT POINT rw,... - cgroup cgroup rw,memory"
		before, after, ok := strings.Cut(line, " - ")
		at, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(at) < 5 || len(kind) < 3 {
			continue
		}
		if version == 2 && kind[0] != "cgroup2" || version == 1 && (kind[0] != "cgroup" || !listed(kind[2], "memory")) {
			continue
		}
		below := path.Clean("/" + name)
		if at[3] != "/" {
			if rest, ok := strings.CutPrefix(below, at[3]); ok && (rest == "" || rest[0] == '/') {
				below = path.Clean("/" + rest)
			}
		}
		var found []group
		for {
			found = append(found, group{version, path.Join(at[4], below)})
			if below == "/" {
				return found
			}
			below = path.Dir(below)
		}
	}
	return nil
}

// left is what the group may still take: page cache on the inactive list can be
// dropped, and half of what is on the active one. ok is false where it has no limit.
func (g group) left(m Machine) (left, limit int64, ok bool, err error) {
	limitFile, usageFile, prefix := "memory.max", "memory.current", ""
	if g.version == 1 {
		limitFile, usageFile, prefix = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"
	}
	read := func(file string) (uint64, error) {
		text, err := m.text(path.Join(g.dir, file))
		if err != nil {
			return 0, err
		}
		text = strings.TrimSpace(text)
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/%s is %q, want bytes", strings.TrimPrefix(path.Join(g.dir, file), "/"), text)
		}
		return n, nil
	}
	if text, err := m.text(path.Join(g.dir, limitFile)); err != nil || strings.TrimSpace(text) == "max" {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // the root of version 2, or a group that one above accounts
		}
		return 0, 0, false, err
	}
	n, err := read(limitFile)
	if err != nil || n >= 1<<60 { // version 1 writes the largest number of pages
		return 0, 0, false, err
	}
	used, err := read(usageFile)
	if err != nil {
		return 0, 0, false, err
	}
	limit = int64(n)
	left = limit - int64(min(used, 1<<60))
	if c, err := m.number(path.Join(g.dir, "memory.stat"), prefix+"inactive_file", 1); err == nil {
		left += c
	}
	if c, err := m.number(path.Join(g.dir, "memory.stat"), prefix+"active_file", 1); err == nil {
		left += c / 2
	}
	return min(max(left, 0), limit), limit, true, nil
}
