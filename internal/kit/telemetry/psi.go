package telemetry

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Whose pressure a reading is.
const (
	OfSystem = "system" // the whole machine
	OfUser   = "user"   // the slice or service of the user whose the target is
	OfUnit   = "unit"   // the target's own control group
)

// pressure is one file of pressure stall information.
type pressure struct {
	some, full *stall // full is not told of processors by older kernels
}

// stall is one line of it: shares in percent, time in seconds.
type stall struct{ avg10, total float64 }

// parsePressure reads lines such as
// "some avg10=0.12 avg60=0.00 avg300=0.00 total=1234", total in microseconds.
func parsePressure(text string) (pressure, error) {
	var p pressure
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || (f[0] != "some" && f[0] != "full") {
			continue
		}
		var s stall
		seen := 0
		for _, kv := range f[1:] {
			key, val, _ := strings.Cut(kv, "=")
			if key != "avg10" && key != "total" {
				continue
			}
			v, err := strconv.ParseFloat(val, 64)
			if err != nil || v != v || v < 0 || v > 1e18 {
				return pressure{}, fmt.Errorf("%s is not a number", clip(kv))
			}
			if key == "avg10" {
				s.avg10 = v
			} else {
				s.total = v / 1e6
			}
			seen++
		}
		if seen != 2 {
			return pressure{}, fmt.Errorf("%q has not avg10 and total", clip(strings.TrimSpace(line)))
		}
		if f[0] == "some" {
			p.some = &s
		} else {
			p.full = &s
		}
	}
	if p.some == nil {
		return pressure{}, errors.New("no line \"some\"")
	}
	return p, nil
}

// readPressure reads one file; the reason tells how to get what is missing.
func readPressure(from root, path string) (pressure, error) {
	text, err := from.read(path)
	switch {
	case errors.Is(err, syscall.EOPNOTSUPP):
		return pressure{}, fmt.Errorf("%w: pressure stall information is switched off (boot with psi=1)", err)
	case errors.Is(err, os.ErrNotExist):
		return pressure{}, fmt.Errorf("%w: the kernel gives no pressure stall information here (CONFIG_PSI, or psi=1 at boot)", err)
	case err != nil:
		return pressure{}, err
	}
	p, err := parsePressure(text)
	if err != nil {
		return p, fmt.Errorf("/%s: %w", path, err)
	}
	return p, nil
}

// psiSource reads the pressure on the whole machine.
type psiSource struct{ root root }

func (psiSource) source() string { return "pressure" }

func (s psiSource) read(r *reading) {
	setMemoryPressure(r, s.root, "proc/pressure/memory", OfSystem)
	if p, err := readPressure(s.root, "proc/pressure/cpu"); err != nil {
		r.failOf(OfSystem, err, PSICPUSome)
	} else {
		r.set(PSICPUSome, OfSystem, p.some.avg10)
	}
	if p, err := readPressure(s.root, "proc/pressure/io"); err != nil {
		r.failOf(OfSystem, err, PSIIOSome, PSIIOFull)
	} else {
		r.set(PSIIOSome, OfSystem, p.some.avg10)
		if p.full != nil {
			r.set(PSIIOFull, OfSystem, p.full.avg10)
		}
	}
}

func setMemoryPressure(r *reading, from root, path, of string) {
	p, err := readPressure(from, path)
	if err == nil && p.full == nil {
		err = fmt.Errorf("/%s: no line \"full\"", path)
	}
	if err != nil {
		r.failOf(of, err, PSIMemSome, PSIMemFull, PSIMemTotal)
		return
	}
	r.set(PSIMemSome, of, p.some.avg10)
	r.set(PSIMemFull, of, p.full.avg10)
	r.set(PSIMemTotal, of, p.full.total)
}
