package telemetry

import (
	"errors"
	"fmt"
	"strconv"

	"assay/internal/kit/proc"
)

// cgroupSource reads the control group of the target, and the pressure on it and
// on the user's slice that it is in.
type cgroupSource struct {
	root   root
	target func() (pid int, why string)
}

func (cgroupSource) source() string { return "cgroup" }

var cgroupMemory = []Metric{CgroupCurrent, CgroupPeak, CgroupLimit, CgroupAtLimit, CgroupKills}

func (s cgroupSource) read(r *reading) {
	psi := []Metric{PSIMemSome, PSIMemFull, PSIMemTotal}
	pid, why := s.target()
	if pid == 0 {
		err := errors.New(why)
		r.fail(err, cgroupMemory...)
		r.failOf(OfUser, err, psi...)
		r.failOf(OfUnit, err, psi...)
		return
	}
	memory, err := s.root.MemoryCgroup(strconv.Itoa(pid))
	if err != nil {
		r.fail(err, cgroupMemory...)
	} else {
		readMemory(r, memory)
	}
	unit, err := s.root.UnifiedCgroup(strconv.Itoa(pid))
	if err != nil {
		r.failOf(OfUser, err, psi...)
		r.failOf(OfUnit, err, psi...)
		return
	}
	if memory.Version == 1 {
		r.note += " (hybrid: memory by version 1)"
	}
	file := unit.Dirs[0] + "/memory.pressure"
	if len(unit.Dirs) == 1 && s.root.Exists(file) && !s.root.Exists(unit.Dirs[0]+"/cgroup.events") {
		// A container's own group has that file, though it is its root.
		r.failOf(OfUnit, errors.New("the target is in the root of all groups, whose pressure is the whole machine's"), psi...)
	} else {
		setMemoryPressure(r, s.root, file, OfUnit)
	}
	if user := unit.UserSlice(); user != "" {
		setMemoryPressure(r, s.root, user+"/memory.pressure", OfUser)
	} else {
		r.failOf(OfUser, fmt.Errorf("the target is in %s, which is in no user's slice", unit.Path), psi...)
	}
}

// readMemory reads what a group's memory is.
func readMemory(r *reading, g proc.Cgroup) {
	r.note = fmt.Sprintf("%s (version %d)", g.Path, g.Version)
	dir, err := g.Accounted()
	if err != nil {
		r.fail(err, cgroupMemory...)
		return
	}
	if dir != g.Dirs[0] {
		r.note = fmt.Sprintf("%s (version %d; memory is that of /%s)", g.Path, g.Version, dir)
	}
	kills := func(string) (int64, error) { return g.OOMKills() }
	limit := func(string) (int64, error) {
		dir, n, err := g.Limit()
		if err == nil && dir == "" {
			err = errors.New("no limit is set")
		}
		return n, err
	}
	for _, f := range []struct {
		metric Metric
		ask    func(dir string) (int64, error)
	}{{CgroupCurrent, g.Usage}, {CgroupPeak, g.Peak}, {CgroupLimit, limit}, {CgroupAtLimit, g.AtLimit}, {CgroupKills, kills}} {
		if n, err := f.ask(dir); err != nil {
			r.fail(err, f.metric)
		} else {
			r.set(f.metric, "", float64(n))
		}
	}
}
