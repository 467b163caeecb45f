package telemetry

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"assay/internal/kit/proc"
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
	if v, err := s.root.Meminfo("MemAvailable"); err != nil {
		r.fail(err, MemAvailable)
	} else {
		r.set(MemAvailable, "", float64(v))
	}
	total, err := s.root.Meminfo("SwapTotal")
	free, errFree := s.root.Meminfo("SwapFree")
	if err = cmp.Or(err, errFree); err != nil {
		r.fail(err, SwapUsed)
	} else {
		r.set(SwapUsed, "", float64(max(0, total-free)))
	}
}

func (s hostSource) load() (float64, error) {
	text, err := s.root.Line("proc/loadavg")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(text, " ")
	v, err := strconv.ParseFloat(first, 64)
	if err != nil || v != v || v < 0 {
		return 0, fmt.Errorf("/proc/loadavg: %q does not begin with a load", proc.Clip(text))
	}
	return v, nil
}
