package telemetry

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// mount is one line of /proc/self/mountinfo.
type mount struct {
	root   string // the folder of the file system that is mounted
	point  string
	fs     string
	source string
	super  string // options of the file system
}

// parseMounts reads /proc/self/mountinfo:
// "36 25 0:31 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw".
// Lines that are not of this form are left out.
func parseMounts(text string) []mount {
	var out []mount
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 2 {
			continue
		}
		m := mount{root: unescape(l[3]), point: unescape(l[4]), fs: r[0], source: unescape(r[1])}
		if len(r) > 2 {
			m.super = r[2]
		}
		out = append(out, m)
	}
	return out
}

// unescape turns \040 and the like back into characters.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func (r root) mounts() ([]mount, error) {
	text, err := r.read("proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMounts(text), nil
}

// DiskOf names the disk on which a file lies ("nvme0n1"), by the table of mounts
// below rootDir ("/" but in tests). file is an absolute path without links.
func DiskOf(rootDir, file string) (string, error) {
	r := root(rootDir)
	mounts, err := r.mounts()
	if err != nil {
		return "", err
	}
	var best *mount
	for i := range mounts {
		m := &mounts[i]
		under := m.point == "/" || file == m.point || strings.HasPrefix(file, m.point+"/")
		if under && (best == nil || len(m.point) >= len(best.point)) { // a later mount hides an earlier one
			best = m
		}
	}
	if best == nil {
		return "", fmt.Errorf("%s lies on no mount of /proc/self/mountinfo", file)
	}
	dev, ok := strings.CutPrefix(best.source, "/dev/")
	if !ok {
		return "", fmt.Errorf("%s lies on %s (%s), which has no disk of its own", file, best.fs, best.point)
	}
	return r.disk(dev)
}

// disk goes from a partition or a mapped device to the disk below it.
func (r root) disk(dev string) (string, error) {
	if strings.Contains(dev, "/") { // /dev/mapper/NAME is known by its link to /dev/dm-N
		base := path.Base(dev)
		dev = ""
		for _, f := range r.glob("sys/class/block/dm-*/dm/name") {
			if name, err := r.line(f); err == nil && name == base {
				dev = path.Base(path.Dir(path.Dir(f)))
			}
		}
		if dev == "" {
			return "", fmt.Errorf("/sys/class/block: no mapped device is called %s", base)
		}
	}
	for range 8 { // partition on a mapped device on a partition
		dir := "sys/class/block/" + dev
		if !r.exists(dir) {
			return "", fmt.Errorf("/%s: not there", dir)
		}
		if slaves := r.glob(dir + "/slaves/*"); len(slaves) > 1 {
			return "", fmt.Errorf("%s lies on %d disks", dev, len(slaves))
		} else if len(slaves) == 1 {
			dev = path.Base(slaves[0])
			continue
		}
		if !r.exists(dir + "/partition") {
			return dev, nil
		}
		real := r.resolve(dir)
		if real == "" || path.Dir(real) == "." {
			return "", fmt.Errorf("/%s: the disk of this partition is not to be found", dir)
		}
		dev = path.Base(path.Dir(real))
	}
	return "", fmt.Errorf("%s: mapped devices upon mapped devices without end", dev)
}
