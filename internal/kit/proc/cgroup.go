package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Cgroup is a control group that a process is in.
type Cgroup struct {
	Version int    // 1 or 2
	Path    string // as /proc/PID/cgroup has it: "/user.slice/..."
	// Dirs are its folder below the root and those above it, its own first: a limit
	// of any of them holds.
	Dirs []string

	root Root
}

// MemoryCgroup finds where the memory of a process ("self", or its number) is
// accounted and limited. On hybrid systems the memory controller may be at either
// version; it is where the process has it.
func (r Root) MemoryCgroup(pid string) (Cgroup, error) {
	v1, v2, err := r.cgroupsOf(pid)
	switch {
	case err != nil:
		return Cgroup{}, err
	case v1 != "":
		return r.cgroup(1, v1)
	case v2 != "":
		return r.cgroup(2, v2)
	}
	return Cgroup{}, fmt.Errorf("/proc/%s/cgroup: no memory cgroup", pid)
}

// UnifiedCgroup finds the process's cgroup of version 2, whatever controllers are
// there. Pressure is told of such only.
func (r Root) UnifiedCgroup(pid string) (Cgroup, error) {
	_, v2, err := r.cgroupsOf(pid)
	if err == nil && v2 == "" {
		err = errors.New("control groups of version 1 keep no pressure of a unit")
	}
	if err != nil {
		return Cgroup{}, err
	}
	return r.cgroup(2, v2)
}

// cgroupsOf reads lines such as "4:memory:/docker/1f2e" and
// "0::/user.slice/user-1000.slice".
func (r Root) cgroupsOf(pid string) (memoryV1, v2 string, err error) {
	text, err := r.Read("proc/" + pid + "/cgroup")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(f) != 3:
		case f[0] == "0" && f[1] == "":
			v2 = f[2]
		case hasWord(f[1], "memory"):
			memoryV1 = f[2]
		}
	}
	return memoryV1, v2, nil
}

func hasWord(list, word string) bool {
	return strings.Contains(","+list+",", ","+word+",")
}

// cgroup finds the folders of a group. In a container the table of mounts may show
// a group as the root of what is mounted.
func (r Root) cgroup(version int, name string) (Cgroup, error) {
	mounts, err := r.Mounts()
	if err != nil {
		return Cgroup{}, err
	}
	c := Cgroup{Version: version, Path: name, root: r}
	for _, m := range mounts {
		if version == 2 && m.FS != "cgroup2" || version == 1 && (m.FS != "cgroup" || !hasWord(m.Super, "memory")) {
			continue
		}
		top, below := strings.TrimPrefix(m.Point, "/"), name
		if m.Root != "/" {
			if rest, ok := strings.CutPrefix(name, m.Root); ok {
				below = rest
			}
		}
		below = strings.Trim(path.Clean("/"+below), "/")
		if strings.HasPrefix(name, "/..") || below != "" && !r.Exists(path.Join(top, below)) {
			return Cgroup{}, fmt.Errorf("the group %s is not to be seen below /%s", name, top)
		}
		for {
			c.Dirs = append(c.Dirs, path.Join(top, below))
			if below == "" {
				return c, nil
			}
			below = strings.TrimPrefix(path.Dir("/"+below), "/")
		}
	}
	return Cgroup{}, fmt.Errorf("no control groups of version %d%s are mounted here", version, map[int]string{1: " for memory"}[version])
}

// The names of a cgroup's files, by version.
var (
	limitFile    = map[int]string{1: "memory.limit_in_bytes", 2: "memory.max"}
	usageFile    = map[int]string{1: "memory.usage_in_bytes", 2: "memory.current"}
	peakFile     = map[int]string{1: "memory.max_usage_in_bytes", 2: "memory.peak"}
	eventsFile   = map[int]string{1: "memory.oom_control", 2: "memory.events"}
	inactiveFile = map[int]string{1: "total_inactive_file", 2: "inactive_file"} // a line of memory.stat
)

// Accounted is the folder where its memory is counted: its own, or, where version 2
// does not keep it apart, that of the nearest group above it.
func (c Cgroup) Accounted() (string, error) {
	for _, dir := range c.Dirs {
		if c.root.Exists(path.Join(dir, usageFile[c.Version])) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("/%s: it has no %s (the root group, or the memory controller is off)", c.Dirs[0], usageFile[c.Version])
}

// Usage is the memory in use in one of the cgroup's folders, in bytes.
func (c Cgroup) Usage(dir string) (int64, error) { return c.bytes(dir, usageFile) }

// Peak is the most memory that one of the cgroup's folders ever held, in bytes.
func (c Cgroup) Peak(dir string) (int64, error) {
	n, err := c.bytes(dir, peakFile)
	if c.Version == 2 && errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w (Linux 5.19 has it)", err)
	}
	return n, err
}

func (c Cgroup) bytes(dir string, name map[int]string) (int64, error) {
	file := path.Join(dir, name[c.Version])
	s, err := c.root.Line(file)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("/%s is %q (want bytes)", file, Clip(s))
	}
	return int64(n), nil
}

// unlimited is from where on a limit of version 1 means none: it writes the
// largest number of pages.
const unlimited = 1 << 60

// limit is that of one folder; ok is false where there is none.
func (c Cgroup) limit(dir string) (bytes int64, ok bool, err error) {
	s, err := c.root.Line(path.Join(dir, limitFile[c.Version]))
	if err != nil {
		return 0, false, err
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return int64(min(n, unlimited)), err == nil && n < unlimited, nil // "max"
}

// Limit is the lowest memory limit that holds for the cgroup, in bytes, and the
// folder that has it; dir is empty when there is no limit.
func (c Cgroup) Limit() (dir string, bytes int64, err error) {
	told := false
	for _, d := range c.Dirs {
		limit, ok, e := c.limit(d)
		if e != nil { // the root of version 2, or a group whose memory one above it accounts
			err = e
			continue
		}
		told = true
		if ok && (dir == "" || limit < bytes) {
			dir, bytes = d, limit
		}
	}
	if !told {
		return "", 0, err
	}
	return dir, bytes, nil
}

// Available is how many bytes can still be had before a limit of the cgroup, or
// of one above it, is hit: page cache that can be dropped counts as had. limited
// is false when there is no limit.
func (c Cgroup) Available() (bytes int64, limited bool, err error) {
	for _, dir := range c.Dirs {
		limit, ok, err := c.limit(dir)
		if err != nil || !ok {
			continue
		}
		used, err := c.Usage(dir)
		if err != nil {
			return 0, false, err
		}
		if n, err := c.root.Count(path.Join(dir, "memory.stat"), inactiveFile[c.Version]); err == nil {
			used -= n
		}
		if left := max(limit-used, 0); !limited || left < bytes {
			bytes, limited = left, true
		}
	}
	return bytes, limited, nil
}

// OOMKills is how many processes of the cgroup, or of the nearest one above it that
// counts them, the kernel has killed for memory.
func (c Cgroup) OOMKills() (n int64, err error) {
	for _, dir := range c.Dirs {
		n, err = c.root.Count(path.Join(dir, eventsFile[c.Version]), "oom_kill")
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return n, err
}

// AtLimit is how often the group of a folder hit its limit.
func (c Cgroup) AtLimit(dir string) (int64, error) {
	if c.Version == 2 {
		return c.root.Count(path.Join(dir, eventsFile[2]), "max")
	}
	return c.bytes(dir, map[int]string{1: "memory.failcnt"})
}

// PressureFile is where a cgroup has its pressure of a resource; version 1 has
// none.
func (c Cgroup) PressureFile(resource string) (string, error) {
	if c.Version != 2 {
		return "", errors.New("cgroups of version 1 have no pressure")
	}
	return c.Dirs[0] + "/" + resource + ".pressure", nil
}

// UserSlice is the service that systemd runs for a user, or else that user's
// slice, of which the group is a part; systemd-oomd looks at the same place. Empty:
// it is in neither.
func (c Cgroup) UserSlice() string {
	slice := ""
	for _, dir := range c.Dirs {
		switch base := path.Base(dir); {
		case strings.HasPrefix(base, "user@") && strings.HasSuffix(base, ".service"):
			return dir
		case strings.HasPrefix(base, "user-") && strings.HasSuffix(base, ".slice"):
			slice = dir
		}
	}
	return slice
}
