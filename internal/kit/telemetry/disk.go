package telemetry

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"assay/internal/kit/proc"
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
	text, err := s.root.Read("proc/diskstats")
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
			return 0, 0, fmt.Errorf("%q: fields 4 and 6 are not numbers", proc.Clip(strings.TrimSpace(line)))
		}
		return float64(n), float64(sectors) * sector, nil
	}
	return 0, 0, fmt.Errorf("no line of %s", disk)
}

// DiskOf names the disk on which a file lies ("nvme0n1"), by the table of mounts
// below rootDir ("/" but in tests). file is an absolute path without links.
func DiskOf(rootDir, file string) (string, error) {
	r := root(rootDir)
	mounts, err := r.Mounts()
	if err != nil {
		return "", err
	}
	best, ok := proc.MountOf(mounts, file)
	if !ok {
		return "", fmt.Errorf("%s lies on no mount of /proc/self/mountinfo", file)
	}
	dev, ok := strings.CutPrefix(best.Source, "/dev/")
	if !ok {
		return "", fmt.Errorf("%s lies on %s (%s), which has no disk of its own", file, best.FS, best.Point)
	}
	return wholeDisk(r, dev)
}

// wholeDisk goes from a partition or a mapped device to the disk below it.
func wholeDisk(r root, dev string) (string, error) {
	if strings.Contains(dev, "/") { // /dev/mapper/NAME is known by its link to /dev/dm-N
		base := path.Base(dev)
		dev = ""
		for _, f := range r.Glob("sys/class/block/dm-*/dm/name") {
			if name, err := r.Line(f); err == nil && name == base {
				dev = path.Base(path.Dir(path.Dir(f)))
			}
		}
		if dev == "" {
			return "", fmt.Errorf("/sys/class/block: no mapped device is called %s", base)
		}
	}
	for range 8 { // partition on a mapped device on a partition
		dir := "sys/class/block/" + dev
		if !r.Exists(dir) {
			return "", fmt.Errorf("/%s: not there", dir)
		}
		if slaves := r.Glob(dir + "/slaves/*"); len(slaves) > 1 {
			return "", fmt.Errorf("%s lies on %d disks", dev, len(slaves))
		} else if len(slaves) == 1 {
			dev = path.Base(slaves[0])
			continue
		}
		if !r.Exists(dir + "/partition") {
			return dev, nil
		}
		real := r.Resolve(dir)
		if real == "" || path.Dir(real) == "." {
			return "", fmt.Errorf("/%s: the disk of this partition is not to be found", dir)
		}
		dev = path.Base(path.Dir(real))
	}
	return "", fmt.Errorf("%s: mapped devices upon mapped devices without end", dev)
}
