package guard

import (
	"errors"
	"fmt"
	"maps"
	"strconv"

	"assay/internal/kit/host"
	"assay/internal/kit/plan"
	"assay/internal/kit/proc"
)

// Source reads the quantities of this machine from /proc and /sys.
type Source struct {
	Root string // "/" but in tests
	PID  int    // of the target, whose cgroup's limit counts as well; 0: not known
	Dir  string // where the rows go: the disk that must not fill up
	// More adds what /sys does not tell, an NVIDIA card's temperature for
	// instance, and wins where it does. Nil: nothing.
	More func() Reading
}

// Read reads what the limits need. Its time is left to the watch.
func (s Source) Read(limits []plan.Limit) Reading {
	out := Reading{Values: map[plan.Quantity]float64{}, Why: map[plan.Quantity]string{}}
	for _, l := range limits {
		q := l.Quantity
		if q == plan.RunTime {
			continue
		}
		v, err := s.read(q)
		if err != nil {
			out.Why[q] = err.Error()
			continue
		}
		out.Values[q] = v
	}
	if s.More != nil {
		more := s.More()
		maps.Copy(out.Values, more.Values)
		for q, why := range more.Why {
			if _, have := out.Values[q]; !have {
				out.Why[q] = why
			}
		}
		for q := range out.Values {
			delete(out.Why, q)
		}
	}
	return out
}

// Reader is Read for a Config.
func (s Source) Reader(limits []plan.Limit) func() Reading {
	return func() Reading { return s.Read(limits) }
}

func (s Source) read(q plan.Quantity) (float64, error) {
	switch q {
	case plan.MemoryAvailable:
		return s.memory()
	case plan.MemoryPressure:
		return s.pressure("memory")
	case plan.IOPressure:
		return s.pressure("io")
	case plan.GPUTemperature:
		return s.hottest("gpu")
	case plan.CPUTemperature:
		return s.hottest("cpu")
	case plan.SSDTemperature:
		return s.hottest("ssd")
	case plan.DiskFree:
		if s.Dir == "" {
			return 0, errors.New("no folder is given")
		}
		return diskFree(s.Dir)
	}
	return 0, fmt.Errorf("no one reads %s", q)
}

func (s Source) hottest(kind string) (float64, error) {
	t, err := host.Hottest(s.Root, kind)
	return t.C, err
}

// memory is what the target can still have: the machine's available memory, or
// what its cgroup, or one above it, has left, whichever is less.
func (s Source) memory() (float64, error) {
	machine, err := proc.Root(s.Root).Meminfo("MemAvailable")
	if err != nil {
		return 0, err
	}
	cg, err := s.cgroup()
	if err != nil { // no cgroups, or the target has just ended
		return float64(machine), nil
	}
	left, limited, err := cg.Available()
	if err != nil || !limited {
		return float64(machine), nil
	}
	return float64(min(machine, left)), nil
}

func (s Source) cgroup() (proc.Cgroup, error) {
	pid := "self"
	if s.PID > 0 {
		pid = strconv.Itoa(s.PID)
	}
	return proc.Root(s.Root).MemoryCgroup(pid)
}

// pressure is that of the machine or that of the target's cgroup, whichever is
// more. A cgroup of version 1 has none.
func (s Source) pressure(resource string) (float64, error) {
	v, err := proc.Root(s.Root).Full10("proc/pressure/" + resource)
	cg, e := s.cgroup()
	if e != nil {
		return v, err
	}
	file, e := cg.PressureFile(resource)
	if e != nil {
		return v, err
	}
	unit, e := proc.Root(s.Root).Full10(file)
	switch {
	case e != nil:
		return v, err
	case err != nil:
		return unit, nil
	}
	return max(v, unit), nil
}
