package telemetry

import (
	"fmt"
	"strconv"
	"strings"
)

// hostSource reads load and memory of the machine.
type hostSource struct{ root root }

func (hostSource) source() string { return "host" }

func (s hostSource) read(r *reading) {
	if l, err := s.load(); err != nil {
		r.fail(err, Load1)
	} else {
		r.set(Load1, "", l)
	}
	m, err := s.root.read("proc/meminfo")
	if err != nil {
		r.fail(err, MemAvailable, SwapUsed)
		return
	}
	if v, ok := kilobytes(m, "MemAvailable"); ok {
		r.set(MemAvailable, "", v)
	} else {
		r.fail(fmt.Errorf("/proc/meminfo has no MemAvailable"), MemAvailable)
	}
	total, okT := kilobytes(m, "SwapTotal")
	free, okF := kilobytes(m, "SwapFree")
	if okT && okF {
		r.set(SwapUsed, "", max(0, total-free))
	} else {
		r.fail(fmt.Errorf("/proc/meminfo has no SwapTotal and SwapFree"), SwapUsed)
	}
}

func (s hostSource) load() (float64, error) {
	text, err := s.root.line("proc/loadavg")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(text, " ")
	v, err := strconv.ParseFloat(first, 64)
	if err != nil || v != v || v < 0 {
		return 0, fmt.Errorf("/proc/loadavg: %q does not begin with a load", clip(text))
	}
	return v, nil
}

// kilobytes finds "NAME:  123 kB" in a file of such lines, as meminfo, status
// and smaps_rollup are, and returns bytes.
func kilobytes(text, name string) (float64, bool) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		if rest, ok = strings.CutPrefix(rest, ":"); !ok {
			continue
		}
		f := strings.Fields(rest)
		if len(f) != 2 || f[1] != "kB" {
			return 0, false
		}
		n, err := strconv.ParseUint(f[0], 10, 53)
		if err != nil {
			return 0, false
		}
		return float64(n) * 1024, true
	}
	return 0, false
}
