package telemetry

import (
	"fmt"
	"strconv"
	"strings"
)

// tick is what /proc counts processor time in: USER_HZ is 100 on every Linux
// that Go runs on.
const tick = 0.01 // s

// procStat is a line of /proc/PID/stat, as far as it is used.
type procStat struct {
	name   string
	parent int
	kernel bool    // a thread of the kernel
	cpu    float64 // s, of the process
	waited float64 // s, of its children that have ended and been waited for
	start  uint64  // in ticks since boot; with the PID it names a process for good
}

// kernelThread is the flag PF_KTHREAD.
const kernelThread = 0x00200000

// parseStat reads "PID (name) S PPID ...". The name may hold anything, so it ends
// at the last parenthesis.
func parseStat(text string) (procStat, error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return procStat{}, fmt.Errorf("%q has no name in parentheses", clip(text))
	}
	f := strings.Fields(text[end+1:]) // f[0] is field 3, the state
	if len(f) < 20 {
		return procStat{}, fmt.Errorf("%d fields after the name, want 20 or more", len(f))
	}
	s := procStat{name: strings.ToValidUTF8(text[open+1:end], "?")}
	var n [5]uint64
	for i, field := range []int{6, 11, 12, 13, 14} { // flags, utime, stime, cutime, cstime
		v, err := strconv.ParseInt(f[field], 10, 64)
		if err != nil {
			return procStat{}, fmt.Errorf("field %d: %q is not a number", field+3, clip(f[field]))
		}
		n[i] = uint64(max(v, 0))
	}
	parent, err := strconv.ParseInt(f[1], 10, 32)
	if err != nil {
		return procStat{}, fmt.Errorf("field 4: %q is not a process", clip(f[1]))
	}
	if s.start, err = strconv.ParseUint(f[19], 10, 64); err != nil {
		return procStat{}, fmt.Errorf("field 22: %q is not a time", clip(f[19]))
	}
	s.parent, s.kernel = int(parent), n[0]&kernelThread != 0
	s.cpu = float64(n[1]+n[2]) * tick
	s.waited = float64(n[3]+n[4]) * tick
	return s, nil
}

// stat reads the line of one process.
func (r root) stat(pid int) (procStat, error) {
	path := "proc/" + strconv.Itoa(pid) + "/stat"
	text, err := r.read(path)
	if err != nil {
		return procStat{}, err
	}
	s, err := parseStat(text)
	if err != nil {
		return s, fmt.Errorf("/%s: %w", path, err)
	}
	return s, nil
}

// processes reads the lines of all processes that can be read.
func (r root) processes() map[int]procStat {
	out := map[int]procStat{}
	for _, pid := range r.pids() {
		if s, err := r.stat(pid); err == nil {
			out[pid] = s
		}
	}
	return out
}
