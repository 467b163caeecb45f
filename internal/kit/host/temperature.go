package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Temperature is one sensor's reading.
type Temperature struct {
	Kind  string  `json:"kind"`  // cpu, gpu or ssd
	Chip  string  `json:"chip"`  // driver's name of the chip: k10temp
	Label string  `json:"label"` // of the sensor: Tctl; empty: it has none
	C     float64 `json:"c"`     // °C
}

// chips of hwmon by what they are the temperature of. Others (mainboard,
// network, batteries) say nothing of a measurement.
var chips = map[string][]string{
	"cpu": {"k10temp", "coretemp", "zenpower", "k8temp", "cpu_thermal", "soc_thermal"},
	"gpu": {"amdgpu", "radeon", "nouveau", "i915", "xe"},
	"ssd": {"nvme", "drivetemp"},
}

// Temperatures reads all sensors of a kind below root. It fails when there is
// none, and says why.
func Temperatures(root, kind string) ([]Temperature, error) {
	r := readerOf(root, nil)
	if _, err := r.dir("sys/class/hwmon"); err != nil {
		return nil, err
	}
	var out []Temperature
	var lastErr error
	for _, dir := range r.Glob("sys/class/hwmon/hwmon[0-9]*") {
		chip := r.Trimmed(dir + "/name")
		if !slices.Contains(chips[kind], chip) {
			continue
		}
		for _, file := range r.Glob(dir + "/temp[0-9]*_input") {
			s, err := r.Read(file)
			if err != nil {
				lastErr = err
				continue
			}
			milli, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
			if err != nil || milli < -50e3 || milli > 200e3 {
				lastErr = fmt.Errorf("/%s is %q (want thousandths of a °C)", file, strings.TrimSpace(s))
				continue
			}
			label := strings.TrimSuffix(filepath.Base(file), "_input") + "_label"
			out = append(out, Temperature{kind, chip, r.Trimmed(dir + "/" + label), milli / 1000})
		}
	}
	if out == nil {
		if lastErr == nil {
			lastErr = errors.New(noSensor(kind))
		}
		return nil, lastErr
	}
	return out, nil
}

func noSensor(kind string) string {
	s := fmt.Sprintf("/sys/class/hwmon has no sensor of a %s (want %s)", kind, strings.Join(chips[kind], ", "))
	if kind == "gpu" {
		s += "; NVIDIA's driver puts none there"
	}
	return s
}

// Hottest is the highest temperature of a kind.
func Hottest(root, kind string) (Temperature, error) {
	all, err := Temperatures(root, kind)
	if err != nil {
		return Temperature{}, err
	}
	return slices.MaxFunc(all, func(a, b Temperature) int {
		switch {
		case a.C < b.C:
			return -1
		case a.C > b.C:
			return 1
		}
		return 0
	}), nil
}

// Throttled is how often the processors were slowed down for heat since the
// system started, packages and cores together.
func Throttled(root string) (int64, error) {
	r := readerOf(root, nil)
	const pattern = "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle"
	total, read := int64(0), false
	for _, name := range []string{"core_throttle_count", "package_throttle_count"} {
		for _, f := range r.Glob(pattern + "/" + name) {
			if n, err := strconv.ParseInt(r.Trimmed(f), 10, 64); err == nil {
				total, read = total+n, true
			}
		}
	}
	if !read {
		return 0, fmt.Errorf("/%s: not there (only Intel's processors count it)", pattern)
	}
	return total, nil
}
