package telemetry

import (
	"fmt"
)

// Whose pressure a reading is.
const (
	OfSystem = "system" // the whole machine
	OfUser   = "user"   // the slice or service of the user whose the target is
	OfUnit   = "unit"   // the target's own control group
)

// psiSource reads the pressure on the whole machine.
type psiSource struct{ root root }

func (psiSource) source() string { return "pressure" }

func (s psiSource) read(r *reading) {
	setMemoryPressure(r, s.root, "proc/pressure/memory", OfSystem)
	if p, err := s.root.Pressure("proc/pressure/cpu"); err != nil {
		r.failOf(OfSystem, err, PSICPUSome)
	} else {
		r.set(PSICPUSome, OfSystem, p.Some.Avg10)
	}
	if p, err := s.root.Pressure("proc/pressure/io"); err != nil {
		r.failOf(OfSystem, err, PSIIOSome, PSIIOFull)
	} else {
		r.set(PSIIOSome, OfSystem, p.Some.Avg10)
		if p.Full != nil {
			r.set(PSIIOFull, OfSystem, p.Full.Avg10)
		}
	}
}

func setMemoryPressure(r *reading, from root, path, of string) {
	p, err := from.Pressure(path)
	if err == nil && p.Full == nil {
		err = fmt.Errorf("/%s: no line \"full\"", path)
	}
	if err != nil {
		r.failOf(of, err, PSIMemSome, PSIMemFull, PSIMemTotal)
		return
	}
	r.set(PSIMemSome, of, p.Some.Avg10)
	r.set(PSIMemFull, of, p.Full.Avg10)
	r.set(PSIMemTotal, of, p.Full.Total)
}
