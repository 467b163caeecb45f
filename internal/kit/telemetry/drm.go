package telemetry

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// Vendors of graphics cards, by PCI number.
const (
	vendorAMD    = "0x1002"
	vendorIntel  = "0x8086"
	vendorNVIDIA = "0x10de"
)

// CoversPackage marks a sensor of an integrated GPU that sees the processor's
// cores as well.
const CoversPackage = "the processor package"

// card is a GPU that the kernel's own drivers show in sysfs.
type card struct {
	name   string // "card1", as in /sys/class/drm
	dir    string // .../device
	hwmon  string // empty: it has none
	energy string // file of its energy counter, empty: it has none
	vendor string
	driver string // amdgpu, i915, xe
	apu    bool   // shares the processor's package, and its sensors see both
}

// cards finds the GPUs of AMD and Intel. why is set when there are none.
func cards(from root) (out []card, why error) {
	if !from.Exists("sys/class/drm") {
		return nil, errors.New("/sys/class/drm: not there (no graphics driver, or a container without /sys)")
	}
	others := 0
	for _, dir := range from.Glob("sys/class/drm/card*/device") {
		name := path.Base(path.Dir(dir))
		if strings.Contains(name, "-") {
			continue // a connector such as card0-DP-1
		}
		c := card{name: name, dir: dir}
		c.vendor, _ = from.Line(path.Join(dir, "vendor"))
		if c.vendor != vendorAMD && c.vendor != vendorIntel {
			others++
			continue
		}
		for _, h := range from.Glob(dir + "/hwmon/hwmon*") {
			n, err := from.Line(path.Join(h, "name"))
			if err == nil && !strings.Contains(n, "_gt") { // those of i915_gt0 are a part
				c.hwmon, c.driver = h, n
				break
			}
		}
		if c.hwmon != "" {
			c.energy = energyFile(from, c.hwmon)
			// Only AMD's integrated GPUs show the voltage of the north bridge.
			c.apu = c.vendor == vendorAMD && from.Exists(path.Join(c.hwmon, "in1_input"))
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		if others > 0 {
			return nil, fmt.Errorf("/sys/class/drm: no card of AMD or Intel among %d", others)
		}
		return nil, errors.New("/sys/class/drm: no card")
	}
	return out, nil
}

// energyFile is the counter of the whole card: the one that is labelled so, or
// the first.
func energyFile(r root, hwmon string) string {
	first := ""
	for _, f := range r.Glob(hwmon + "/energy*_input") {
		if label, _ := r.Line(strings.TrimSuffix(f, "_input") + "_label"); label == "card" {
			return f
		}
		if first == "" {
			first = f
		}
	}
	return first
}

// drmSource reads energy and power of those cards; fast says which half is read.
type drmSource struct {
	root  root
	fast  bool
	found []card
	why   error
}

func (s *drmSource) source() string {
	if s.fast {
		return "drm power"
	}
	return "drm"
}

func (s *drmSource) read(r *reading) {
	if len(s.found) == 0 {
		s.found, s.why = cards(s.root)
	}
	if len(s.found) == 0 {
		if s.fast {
			r.fail(s.why, GPUEnergy, GPUPower, GPUPowerMean)
		} else {
			r.fail(s.why, GPUMem, GPUGTT, GPUTemp, GPULimit, GPUBusy, GPUClock)
		}
		return
	}
	for i := range s.found {
		c := &s.found[i]
		if s.fast {
			s.power(r, c)
		} else {
			s.state(r, c)
		}
	}
}

func (s *drmSource) power(r *reading, c *card) {
	n := len(r.values)
	if c.hwmon == "" {
		// Not a reason of the card's own: an integrated GPU without a sensor is
		// part of the package and not one that is missing from a sum.
		r.fail(fmt.Errorf("/%s: no hwmon: this GPU has no power sensor of its own (an integrated one, or its driver is too old)", c.dir), GPUEnergy, GPUPower)
		return
	}
	if c.energy != "" {
		r.number(s.root, c.energy, 1e-6, GPUEnergy, c.name)
	}
	if f := path.Join(c.hwmon, "power1_input"); s.root.Exists(f) {
		r.number(s.root, f, 1e-6, GPUPower, c.name)
	}
	if f := path.Join(c.hwmon, "power1_average"); s.root.Exists(f) {
		r.number(s.root, f, 1e-6, GPUPowerMean, c.name)
	}
	if c.apu {
		for i := n; i < len(r.values); i++ {
			r.values[i].covers = CoversPackage
		}
	}
	if n == len(r.values) && !s.told(r, c) {
		r.failOf(c.name, fmt.Errorf("/%s: neither energy nor power", c.hwmon), GPUEnergy, GPUPower)
	}
}

// told says whether a card has a reason already.
func (s *drmSource) told(r *reading, c *card) bool {
	for _, w := range r.whys {
		if w.of == c.name {
			return true
		}
	}
	return false
}

func (s *drmSource) state(r *reading, c *card) {
	r.note = strings.TrimPrefix(r.note+", "+c.name+" "+c.driver, ", ")
	if c.vendor == vendorAMD {
		r.number(s.root, path.Join(c.dir, "mem_info_vram_used"), 1, GPUMem, c.name)
		r.number(s.root, path.Join(c.dir, "mem_info_gtt_used"), 1, GPUGTT, c.name)
		r.number(s.root, path.Join(c.dir, "gpu_busy_percent"), 1, GPUBusy, c.name)
	} else {
		err := errors.New("the drivers of Intel show no total of a card's memory in use")
		r.failOf(c.name, err, GPUMem)
	}
	s.clock(r, c)
	if c.hwmon == "" {
		r.failOf(c.name, fmt.Errorf("/%s: no hwmon", c.dir), GPUTemp, GPULimit)
		return
	}
	s.temp(r, c)
	for _, name := range []string{"power1_cap", "power1_max"} { // AMD's name and Intel's
		if f := path.Join(c.hwmon, name); s.root.Exists(f) {
			r.number(s.root, f, 1e-6, GPULimit, c.name)
			return
		}
	}
	r.failOf(c.name, fmt.Errorf("/%s: no power limit is shown", c.hwmon), GPULimit)
}

// temp takes the sensor of the chip itself: AMD calls it edge, Intel pkg.
func (s *drmSource) temp(r *reading, c *card) {
	best := ""
	for _, f := range s.root.Glob(c.hwmon + "/temp*_input") {
		label, _ := s.root.Line(strings.TrimSuffix(f, "_input") + "_label")
		if best == "" || label == "edge" || label == "pkg" {
			best = f
		}
	}
	if best == "" {
		r.failOf(c.name, fmt.Errorf("/%s: no temperature", c.hwmon), GPUTemp)
		return
	}
	r.number(s.root, best, 1e-3, GPUTemp, c.name)
}

// clock reads the frequency from where each driver shows it.
func (s *drmSource) clock(r *reading, c *card) {
	for _, f := range []struct {
		path  string
		scale float64
	}{
		{path.Join(c.hwmon, "freq1_input"), 1e-6},                          // amdgpu, Hz
		{path.Join(c.dir, "tile0/gt0/freq0/act_freq"), 1},                  // xe, MHz
		{path.Join("sys/class/drm", c.name, "gt_act_freq_mhz"), 1},         // i915
		{path.Join("sys/class/drm", c.name, "gt/gt0/rps_act_freq_mhz"), 1}, // i915, newer
	} {
		if s.root.Exists(f.path) {
			r.number(s.root, f.path, f.scale, GPUClock, c.name)
			return
		}
	}
	r.failOf(c.name, errors.New("no clock is shown"), GPUClock)
}
