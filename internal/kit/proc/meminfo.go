package proc

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Kilobytes finds "NAME:  123 kB" in a file of such lines, as meminfo, status and
// smaps_rollup are, and gives bytes.
func Kilobytes(text, name string) (int64, error) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		if rest, ok = strings.CutPrefix(rest, ":"); !ok {
			continue
		}
		f := strings.Fields(rest)
		if len(f) == 2 && f[1] == "kB" {
			if n, err := strconv.ParseUint(f[0], 10, 53); err == nil {
				return int64(n) * 1024, nil
			}
		}
		return 0, fmt.Errorf("%s is %q (want a number of kB)", name, Clip(strings.TrimSpace(rest)))
	}
	return 0, errors.New("no " + name)
}

// Meminfo reads one line of /proc/meminfo, in bytes.
func (r Root) Meminfo(name string) (int64, error) {
	text, err := r.Read("proc/meminfo")
	if err != nil {
		return 0, err
	}
	v, err := Kilobytes(text, name)
	if err != nil {
		return 0, fmt.Errorf("/proc/meminfo: %w", err)
	}
	return v, nil
}

// Count finds a number in a file of lines "NAME COUNT", as vmstat and
// memory.events are.
func (r Root) Count(path, name string) (int64, error) {
	text, err := r.Read(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, err := strconv.ParseUint(f[1], 10, 53)
			if err != nil {
				return 0, fmt.Errorf("/%s: %s is %q (want a count)", path, name, Clip(f[1]))
			}
			return int64(n), nil
		}
	}
	return 0, fmt.Errorf("/%s: it has no %s", path, name)
}

// OOMKills is how many processes of the whole machine the kernel has killed for
// memory since it was booted.
func (r Root) OOMKills() (int64, error) { return r.Count("proc/vmstat", "oom_kill") }
