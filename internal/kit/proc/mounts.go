package proc

import (
	"strconv"
	"strings"
)

// Mount is one line of /proc/self/mountinfo.
type Mount struct {
	Device string // major:minor
	Root   string // the folder of the file system that is mounted
	Point  string
	FS     string
	Source string
	Super  string // options of the file system
}

// ParseMounts reads /proc/self/mountinfo:
// "36 25 0:31 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw".
// Lines that are not of this form are left out.
func ParseMounts(text string) []Mount {
	var out []Mount
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 2 {
			continue
		}
		m := Mount{Device: l[2], Root: unescape(l[3]), Point: unescape(l[4]), FS: r[0], Source: unescape(r[1])}
		if len(r) > 2 {
			m.Super = r[2]
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

// Mounts reads the table of mounts.
func (r Root) Mounts() ([]Mount, error) {
	text, err := r.Read("proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return ParseMounts(text), nil
}

// MountOf finds the mount that a path without links lies on: the longest mount
// point above it, and of equal ones the last, which covers the others.
func MountOf(mounts []Mount, path string) (Mount, bool) {
	var best Mount
	for _, m := range mounts {
		under := m.Point == "/" || path == m.Point || strings.HasPrefix(path, m.Point+"/")
		if under && len(m.Point) >= len(best.Point) {
			best = m
		}
	}
	return best, best.Point != ""
}
