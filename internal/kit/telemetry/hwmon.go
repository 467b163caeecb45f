package telemetry

import (
	"errors"
	"path"
	"strings"
)

// hwmonSource reads the temperatures that the kernel's drivers show, of disks
// and processors above all. A disk answers with a command of its own, so this is
// done seldom.
type hwmonSource struct{ root root }

func (hwmonSource) source() string { return "temperatures" }

func (s hwmonSource) read(r *reading) {
	dirs := s.root.Glob("sys/class/hwmon/hwmon*")
	if len(dirs) == 0 {
		r.fail(errors.New("/sys/class/hwmon: no sensors (virtual machines and containers seldom show any)"), Temp)
		return
	}
	any := false
	var last error
	for _, dir := range dirs {
		chip, err := s.root.Line(path.Join(dir, "name"))
		if err != nil {
			continue
		}
		if chip == "nvme" || chip == "drivetemp" {
			if disk := s.diskOf(dir); disk != "" {
				chip = disk
			}
		}
		for _, f := range s.root.Glob(dir + "/temp*_input") {
			label, _ := s.root.Line(strings.TrimSuffix(f, "_input") + "_label")
			if strings.HasPrefix(label, "Core ") {
				continue // the package's is the highest of them
			}
			v, err := s.root.Number(f)
			if err != nil {
				last = err // a sensor that sleeps or is not connected
				continue
			}
			r.set(Temp, strings.TrimSpace(chip+" "+label), v/1000)
			any = true
		}
	}
	if !any {
		if last == nil {
			last = errors.New("/sys/class/hwmon: no chip shows a temperature")
		}
		r.fail(last, Temp)
	}
}

// diskOf names the disk that a sensor is in: the namespace of an NVMe controller
// ("nvme0n1"), the block device of a SCSI address ("sda").
func (s hwmonSource) diskOf(dir string) string {
	device := s.root.Resolve(path.Join(dir, "device"))
	if device == "" {
		return ""
	}
	for _, pattern := range []string{"/nvme*n*", "/block/*"} {
		if found := s.root.Glob(device + pattern); len(found) > 0 {
			return path.Base(found[0])
		}
	}
	return path.Base(device)
}
