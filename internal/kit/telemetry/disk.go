package telemetry

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// sector is the unit of /proc/diskstats, whatever the disk's own is.
const sector = 512

// diskSource reads how much has been read from one disk.
type diskSource struct {
	root root
	disk string // "nvme0n1"
	why  string // why it is not known
}

func (diskSource) source() string { return "disk" }

func (s diskSource) read(r *reading) {
	if s.disk == "" {
		r.fail(errors.New(s.why), DiskReads, DiskRead)
		return
	}
	text, err := s.root.read("proc/diskstats")
	if err != nil {
		r.fail(err, DiskReads, DiskRead)
		return
	}
	reads, bytes, err := parseDiskstats(text, s.disk)
	if err != nil {
		r.fail(fmt.Errorf("/proc/diskstats: %w", err), DiskReads, DiskRead)
		return
	}
	r.set(DiskReads, s.disk, reads)
	r.set(DiskRead, s.disk, bytes)
}

// parseDiskstats finds the line of a disk: major, minor, name, reads completed,
// reads merged, sectors read, ...
func parseDiskstats(text, disk string) (reads, bytes float64, err error) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 6 || f[2] != disk {
			continue
		}
		n, errN := strconv.ParseUint(f[3], 10, 53)
		sectors, errS := strconv.ParseUint(f[5], 10, 53)
		if errN != nil || errS != nil {
			return 0, 0, fmt.Errorf("%q: fields 4 and 6 are not numbers", clip(strings.TrimSpace(line)))
		}
		return float64(n), float64(sectors) * sector, nil
	}
	return 0, 0, fmt.Errorf("no line of %s", disk)
}
