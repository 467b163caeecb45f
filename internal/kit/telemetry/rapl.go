package telemetry

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
)

// NotWall is the label of everything that RAPL tells: it is the energy of a
// chip, without power supply, board, disks and fans.
const NotWall = "NOT WALL"

// raplSource reads the energy counters of the processor packages (RAPL: Intel,
// and AMD since Zen), and of the memory where they are kept apart. The counters
// start anew from 0 at a range of the zone's own.
type raplSource struct{ root root }

func (raplSource) source() string { return "rapl" }

func (s raplSource) read(r *reading) {
	// The same package also appears under intel-rapl-mmio, which is left out.
	zones := s.root.Glob("sys/class/powercap/intel-rapl:*")
	if len(zones) == 0 {
		r.fail(errors.New("/sys/class/powercap: no zone intel-rapl (not an x86 processor with RAPL, module intel_rapl_msr not loaded, or a virtual machine)"), RAPLEnergy)
		return
	}
	for _, zone := range zones {
		name, err := s.root.Line(path.Join(zone, "name"))
		if err != nil {
			continue
		}
		if part := strings.Count(path.Base(zone), ":") > 1; part {
			if name != "dram" {
				continue // core and uncore are in the package
			}
			parent, _, _ := cutLast(path.Base(zone), ":")
			pkg, err := s.root.Line("sys/class/powercap/" + parent + "/name")
			if err != nil {
				continue
			}
			name = pkg + " " + name
		}
		s.zone(r, zone, name)
	}
}

func (s raplSource) zone(r *reading, zone, name string) {
	v, err := s.root.Number(path.Join(zone, "energy_uj"))
	if errors.Is(err, os.ErrPermission) {
		err = fmt.Errorf("%w: only root may read it since CVE-2020-8694 (run as root, or let an administrator chmod a+r the file)", err)
	}
	if err != nil {
		r.failOf(name, err, RAPLEnergy)
		return
	}
	wraps, err := s.root.Number(path.Join(zone, "max_energy_range_uj"))
	if err != nil {
		wraps = 0 // a counter that goes back then tells nothing
	}
	r.values = append(r.values, value{metric: RAPLEnergy, of: name, v: v / 1e6, wraps: wraps / 1e6})
}

// cutLast cuts around the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
