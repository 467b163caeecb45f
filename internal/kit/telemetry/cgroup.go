package telemetry

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// cgroupSource reads the control group of the target, and the pressure on it and
// on the user's slice that it is in.
type cgroupSource struct {
	root   root
	target func() (pid int, why string)
}

func (cgroupSource) source() string { return "cgroup" }

func (s cgroupSource) read(r *reading) {
	all := []Metric{CgroupCurrent, CgroupPeak, CgroupLimit, CgroupAtLimit, CgroupKills}
	psi := []Metric{PSIMemSome, PSIMemFull, PSIMemTotal}
	pid, why := s.target()
	if pid == 0 {
		err := errors.New(why)
		r.fail(err, all...)
		r.failOf(OfUser, err, psi...)
		r.failOf(OfUnit, err, psi...)
		return
	}
	g, err := findGroups(s.root, pid)
	if err != nil {
		r.fail(err, all...)
		r.failOf(OfUser, err, psi...)
		r.failOf(OfUnit, err, psi...)
		return
	}
	switch {
	case g.memoryWhy != nil:
		r.fail(g.memoryWhy, all...)
	case g.v1:
		g.readV1(r)
	default:
		g.readV2(r)
	}
	r.note = g.note()
	if g.unified == "" {
		err := errors.New("control groups of version 1 keep no pressure of a unit")
		r.failOf(OfUser, err, psi...)
		r.failOf(OfUnit, err, psi...)
		return
	}
	setMemoryPressure(r, s.root, path.Join(g.unified, "memory.pressure"), OfUnit)
	if user := userSlice(g.unified); user != "" {
		setMemoryPressure(r, s.root, path.Join(user, "memory.pressure"), OfUser)
	} else {
		r.failOf(OfUser, fmt.Errorf("the target is in %s, which is in no user's slice", g.where), psi...)
	}
}

// groups are where a process's control group is, below the root.
type groups struct {
	root      root
	memory    string // the folder with memory.*
	top       string // above which no folder is one
	v1        bool   // of version 1
	memoryWhy error  // why there is none
	unified   string // the folder of version 2; empty: there is none
	where     string // the group's own name
}

func (g *groups) note() string {
	switch {
	case g.v1 && g.unified != "":
		return g.where + " (hybrid: memory by version 1)"
	case g.v1:
		return g.where + " (version 1)"
	}
	return g.where + " (version 2)"
}

// findGroups reads /proc/PID/cgroup, lines such as "4:memory:/docker/1f2e" and
// "0::/user.slice/user-1000.slice", and the mounts that these names are below.
func findGroups(from root, pid int) (*groups, error) {
	text, err := from.read(path.Join("proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return nil, err
	}
	mounts, err := from.mounts()
	if err != nil {
		return nil, err
	}
	g := &groups{root: from, memoryWhy: fmt.Errorf("/proc/%d/cgroup names no group for memory", pid)}
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		switch {
		case hasWord(f[1], "memory"):
			dir, top, err := from.groupDir(mounts, "cgroup", "memory", f[2])
			g.memory, g.top, g.memoryWhy = dir, top, err
			g.v1, g.where = true, f[2]
		case f[0] == "0" && f[1] == "":
			dir, top, err := from.groupDir(mounts, "cgroup2", "", f[2])
			if err == nil {
				g.unified = dir
			}
			if g.where == "" {
				g.where = f[2]
			}
			if !g.v1 {
				g.memory, g.top, g.memoryWhy = dir, top, err
			}
		}
	}
	return g, nil
}

func hasWord(list, word string) bool {
	return strings.Contains(","+list+",", ","+word+",")
}

// groupDir finds the folder of a group. In a container the table of mounts may
// show a group as the root of what is mounted.
func (r root) groupDir(mounts []mount, fs, controller, name string) (dir, top string, err error) {
	for _, m := range mounts {
		if m.fs != fs || (controller != "" && !hasWord(m.super, controller)) {
			continue
		}
		top = strings.TrimPrefix(m.point, "/")
		below := name
		if m.root != "/" {
			if rest, ok := strings.CutPrefix(name, m.root); ok {
				below = rest
			}
		}
		if dir := path.Join(top, below); r.exists(dir) && !strings.HasPrefix(name, "/..") {
			return dir, top, nil
		}
		return "", "", fmt.Errorf("the target's group %s is not to be seen below /%s", name, top)
	}
	return "", "", fmt.Errorf("no control groups (%s) are mounted here", strings.TrimSpace(fs+" "+controller))
}

func (g *groups) readV2(r *reading) {
	file := func(name string) string { return path.Join(g.memory, name) }
	if !g.root.exists(file("memory.current")) {
		r.fail(fmt.Errorf("/%s: it has no memory.current (the root group, or the memory controller is off)", g.memory),
			CgroupCurrent, CgroupPeak, CgroupLimit, CgroupAtLimit, CgroupKills)
		return
	}
	r.number(g.root, file("memory.current"), 1, CgroupCurrent, "")
	if g.root.exists(file("memory.peak")) {
		r.number(g.root, file("memory.peak"), 1, CgroupPeak, "")
	} else {
		r.fail(fmt.Errorf("/%s: not there (Linux 5.19 has it)", file("memory.peak")), CgroupPeak)
	}
	g.limit(r, "memory.max", func(s string) (float64, bool) {
		v, err := strconv.ParseUint(s, 10, 64)
		return float64(v), err == nil // "max": none
	})
	g.events(r, "memory.events", map[string]Metric{"max": CgroupAtLimit, "oom_kill": CgroupKills})
}

// noLimitV1 is what version 1 shows where there is no limit, in its smallest
// form: the largest number of bytes in whole pages of 64 KiB.
const noLimitV1 = 0x7fffffffffff0000

func (g *groups) readV1(r *reading) {
	file := func(name string) string { return path.Join(g.memory, name) }
	r.number(g.root, file("memory.usage_in_bytes"), 1, CgroupCurrent, "")
	r.number(g.root, file("memory.max_usage_in_bytes"), 1, CgroupPeak, "")
	r.number(g.root, file("memory.failcnt"), 1, CgroupAtLimit, "")
	g.limit(r, "memory.limit_in_bytes", func(s string) (float64, bool) {
		v, err := strconv.ParseUint(s, 10, 64)
		return float64(v), err == nil && v < noLimitV1
	})
	g.events(r, "memory.oom_control", map[string]Metric{"oom_kill": CgroupKills})
}

// limit is the lowest of the group and those above it.
func (g *groups) limit(r *reading, name string, parse func(string) (float64, bool)) {
	lowest, found := 0.0, false
	for dir := g.memory; ; dir = path.Dir(dir) {
		if s, err := g.root.line(path.Join(dir, name)); err == nil {
			if v, ok := parse(s); ok && (!found || v < lowest) {
				lowest, found = v, true
			}
		} else if dir == g.memory {
			r.fail(err, CgroupLimit)
			return
		}
		if dir == g.top || dir == "." || dir == "/" {
			break
		}
	}
	if !found {
		r.fail(errors.New("no limit is set"), CgroupLimit)
		return
	}
	r.set(CgroupLimit, "", lowest)
}

// events reads a file of lines "NAME COUNT".
func (g *groups) events(r *reading, name string, want map[string]Metric) {
	p := path.Join(g.memory, name)
	text, err := g.root.read(p)
	for key, metric := range want {
		if err != nil {
			r.fail(err, metric)
			continue
		}
		n, ok := 0.0, false
		for line := range strings.Lines(text) {
			f := strings.Fields(line)
			if len(f) == 2 && f[0] == key {
				v, perr := strconv.ParseUint(f[1], 10, 53)
				n, ok = float64(v), perr == nil
			}
		}
		if !ok {
			r.fail(fmt.Errorf("/%s: it has no %s", p, key), metric)
			continue
		}
		r.set(metric, "", n)
	}
}

// userSlice is the service that systemd runs for a user, or else that user's
// slice, of which dir is a part; systemd-oomd looks at the same place.
func userSlice(dir string) string {
	best := ""
	for p := dir; p != "." && p != "/"; p = path.Dir(p) {
		base := path.Base(p)
		if strings.HasPrefix(base, "user@") && strings.HasSuffix(base, ".service") {
			return p
		}
		if strings.HasPrefix(base, "user-") && strings.HasSuffix(base, ".slice") {
			best = p
		}
	}
	return best
}
