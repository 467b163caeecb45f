package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Pressure is one file of pressure stall information.
type Pressure struct {
	Some, Full *Stall // full is not told of processors by older kernels
}

// Stall is one line of it: shares in percent, time in seconds.
type Stall struct{ Avg10, Total float64 }

// ParsePressure reads lines such as
// "some avg10=0.12 avg60=0.00 avg300=0.00 total=1234", total in microseconds.
func ParsePressure(text string) (Pressure, error) {
	var p Pressure
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || (f[0] != "some" && f[0] != "full") {
			continue
		}
		var s Stall
		seen := 0
		for _, kv := range f[1:] {
			key, val, _ := strings.Cut(kv, "=")
			if key != "avg10" && key != "total" {
				continue
			}
			v, err := strconv.ParseFloat(val, 64)
			if err != nil || v != v || v < 0 || v > 1e18 {
				return Pressure{}, fmt.Errorf("%s is not a number", Clip(kv))
			}
			if key == "avg10" {
				s.Avg10 = v
			} else {
				s.Total = v / 1e6
			}
			seen++
		}
		if seen != 2 {
			return Pressure{}, fmt.Errorf("%q has not avg10 and total", Clip(strings.TrimSpace(line)))
		}
		if f[0] == "some" {
			p.Some = &s
		} else {
			p.Full = &s
		}
	}
	if p.Some == nil {
		return Pressure{}, errors.New("no line \"some\"")
	}
	return p, nil
}

// Pressure reads one file; the reason tells how to get what is missing.
func (r Root) Pressure(path string) (Pressure, error) {
	text, err := r.Read(path)
	switch {
	case errors.Is(err, syscall.EOPNOTSUPP):
		return Pressure{}, fmt.Errorf("%w: pressure stall information is switched off (boot with psi=1)", err)
	case errors.Is(err, os.ErrNotExist):
		return Pressure{}, fmt.Errorf("%w: the kernel gives no pressure stall information here (CONFIG_PSI, or psi=1 at boot)", err)
	case err != nil:
		return Pressure{}, err
	}
	p, err := ParsePressure(text)
	if err != nil {
		return p, fmt.Errorf("/%s: %w", path, err)
	}
	return p, nil
}

// Full10 is the share of the last ten seconds in which all tasks waited for a
// resource, in percent, by a file of pressure: of the whole machine, or of a cgroup
// of version 2.
func (r Root) Full10(path string) (float64, error) {
	text, err := r.Read(path)
	if err != nil {
		return 0, err
	}
	p, err := ParsePressure(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("/%s: %w", path, err)
	case p.Full == nil:
		return 0, fmt.Errorf("/%s: no line full", path)
	case p.Full.Avg10 > 100:
		return 0, fmt.Errorf("/%s: full avg10=%g is no percentage", path, p.Full.Avg10)
	}
	return p.Full.Avg10, nil
}
