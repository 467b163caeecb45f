package proc

import (
	"fmt"
	"strconv"
	"strings"
)

// tick is what /proc counts processor time in: USER_HZ is 100 on every Linux
// that Go runs on.
const tick = 0.01 // s

// Stat is a line of /proc/PID/stat, as far as it is used.
type Stat struct {
	Name   string
	State  byte // R, S, Z ...
	Parent int
	Kernel bool    // a thread of the kernel
	CPU    float64 // s, of the process
	Waited float64 // s, of its children that have ended and been waited for
	Start  uint64  // in ticks since boot; with the PID it names a process for good
}

// kernelThread is the flag PF_KTHREAD.
const kernelThread = 0x00200000

// ParseStat reads "PID (name) S PPID ...". The name may hold anything, so it ends
// at the last parenthesis.
func ParseStat(text string) (Stat, error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return Stat{}, fmt.Errorf("%q has no name in parentheses", Clip(text))
	}
	f := strings.Fields(text[end+1:]) // f[0] is field 3, the state
	if len(f) < 20 {
		return Stat{}, fmt.Errorf("%d fields after the name, want 20 or more", len(f))
	}
	s := Stat{Name: strings.ToValidUTF8(text[open+1:end], "?"), State: f[0][0]}
	var n [5]uint64
	for i, field := range []int{6, 11, 12, 13, 14} { // flags, utime, stime, cutime, cstime
		v, err := strconv.ParseInt(f[field], 10, 64)
		if err != nil {
			return Stat{}, fmt.Errorf("field %d: %q is not a number", field+3, Clip(f[field]))
		}
		n[i] = uint64(max(v, 0))
	}
	parent, err := strconv.ParseInt(f[1], 10, 32)
	if err != nil {
		return Stat{}, fmt.Errorf("field 4: %q is not a process", Clip(f[1]))
	}
	if s.Start, err = strconv.ParseUint(f[19], 10, 64); err != nil {
		return Stat{}, fmt.Errorf("field 22: %q is not a time", Clip(f[19]))
	}
	s.Parent, s.Kernel = int(parent), n[0]&kernelThread != 0
	s.CPU = float64(n[1]+n[2]) * tick
	s.Waited = float64(n[3]+n[4]) * tick
	return s, nil
}

// Stat reads the line of one process.
func (r Root) Stat(pid int) (Stat, error) {
	path := "proc/" + strconv.Itoa(pid) + "/stat"
	text, err := r.Read(path)
	if err != nil {
		return Stat{}, err
	}
	s, err := ParseStat(text)
	if err != nil {
		return s, fmt.Errorf("/%s: %w", path, err)
	}
	return s, nil
}

// Processes reads the lines of all processes that can be read.
func (r Root) Processes() map[int]Stat {
	out := map[int]Stat{}
	for _, pid := range r.PIDs() {
		if s, err := r.Stat(pid); err == nil {
			out[pid] = s
		}
	}
	return out
}
