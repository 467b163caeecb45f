package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Cgroup is where the memory of a process is accounted and limited.
type Cgroup struct {
	Version int    // 1 or 2
	Path    string // as /proc/PID/cgroup has it: "/user.slice/..."
	// Dirs are the folders of its files below the root, its own first and then
	// those above it: a limit of any of them holds.
	Dirs []string

	root string
}

// MemoryCgroup finds the memory cgroup of a process ("self", or its number)
// below root. On hybrid systems the memory controller may be at either version;
// it is where the process has it.
func MemoryCgroup(root, pid string) (Cgroup, error) {
	r := reader{root: root}
	file := "proc/" + pid + "/cgroup"
	s, err := r.file(file)
	if err != nil {
		return Cgroup{}, err
	}
	var v1, v2 string
	for line := range strings.Lines(s) {
		id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		switch {
		case !ok:
		case id == "0" && controllers == "":
			v2 = path
		case containsWord(controllers, "memory"):
			v1 = path
		}
	}
	c := Cgroup{root: root}
	switch {
	case v1 != "":
		c.Version, c.Path = 1, v1
	case v2 != "":
		c.Version, c.Path = 2, v2
	default:
		return Cgroup{}, fmt.Errorf("/%s: no memory cgroup", file)
	}
	point, mountRoot, err := r.cgroupMount(c.Version)
	if err != nil {
		return Cgroup{}, err
	}
	inside, ok := strings.CutPrefix(c.Path, strings.TrimSuffix(mountRoot, "/"))
	if !ok { // the mount shows another part of the tree
		inside = c.Path
	}
	inside = strings.Trim(filepath.Clean("/"+inside), "/")
	for {
		c.Dirs = append(c.Dirs, filepath.Join(point, inside))
		if inside == "" {
			break
		}
		inside = strings.TrimPrefix(filepath.Dir("/"+inside), "/")
	}
	return c, nil
}

func containsWord(list, word string) bool {
	return strings.Contains(","+list+",", ","+word+",")
}

// cgroupMount finds where the hierarchy is mounted, and which part of it.
func (r *reader) cgroupMount(version int) (point, root string, err error) {
	const file = "proc/self/mountinfo"
	s, err := r.file(file)
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(s) {
		before, after, ok := strings.Cut(line, " - ")
		a, b := strings.Fields(before), strings.Fields(after)
		if !ok || len(a) < 6 || len(b) < 3 {
			continue
		}
		if version == 2 && b[0] == "cgroup2" || version == 1 && b[0] == "cgroup" && containsWord(b[2], "memory") {
			return strings.TrimPrefix(a[4], "/"), a[3], nil
		}
	}
	return "", "", fmt.Errorf("/%s: no cgroup of version %d with memory is mounted", file, version)
}

// unlimited is from where on a limit of version 1 means none: it writes the
// largest number of pages.
const unlimited = 1 << 60

// Available is how many bytes can still be had before a limit of the cgroup, or
// of one above it, is hit: page cache that can be dropped counts as had. limited
// is false when there is no limit.
func (c Cgroup) Available() (bytes int64, limited bool, err error) {
	r := reader{root: c.root}
	names := map[int][3]string{
		1: {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
		2: {"memory.max", "memory.current", "inactive_file"},
	}[c.Version]
	for _, dir := range c.Dirs {
		limit, err := strconv.ParseInt(r.trimmed(dir+"/"+names[0]), 10, 64)
		if err != nil || limit >= unlimited {
			continue // "max", or the root, which has no limit
		}
		s, err := r.file(dir + "/" + names[1])
		if err != nil {
			return 0, false, err
		}
		used, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
		if err != nil {
			return 0, false, fmt.Errorf("/%s/%s is %q (want bytes)", dir, names[1], strings.TrimSpace(s))
		}
		for line := range strings.Lines(r.trimmed(dir + "/memory.stat")) {
			if f := strings.Fields(line); len(f) == 2 && f[0] == names[2] {
				if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
					used -= n
				}
			}
		}
		if left := max(limit-used, 0); !limited || left < bytes {
			bytes, limited = left, true
		}
	}
	return bytes, limited, nil
}

// Pressure is the share of the last ten seconds in which all tasks waited for a
// resource (memory, io), in percent: of the whole machine, or of a cgroup of
// version 2, whichever folder is given ("proc/pressure" or one of Dirs).
func Pressure(root, file string) (float64, error) {
	r := reader{root: root}
	s, err := r.file(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(s) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "full" {
			continue
		}
		text, ok := strings.CutPrefix(f[1], "avg10=")
		v, err := strconv.ParseFloat(text, 64)
		if !ok || err != nil || !(v >= 0 && v <= 100) {
			return 0, fmt.Errorf("/%s: %q (want full avg10=PERCENT)", file, strings.TrimSpace(line))
		}
		return v, nil
	}
	return 0, fmt.Errorf("/%s: no line full", file)
}

// PressureFile is where a cgroup has its pressure of a resource; version 1 has
// none.
func (c Cgroup) PressureFile(resource string) (string, error) {
	if c.Version != 2 {
		return "", errors.New("cgroups of version 1 have no pressure")
	}
	return c.Dirs[0] + "/" + resource + ".pressure", nil
}

// MemAvailable is what the kernel believes it can give without swapping, in
// bytes.
func MemAvailable(root string) (int64, error) {
	r := reader{root: root, why: map[string]string{}}
	v := r.kib("", "MemAvailable:")
	if v == nil {
		return 0, errors.New(r.why[""])
	}
	return *v, nil
}
