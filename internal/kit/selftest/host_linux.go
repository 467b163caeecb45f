package selftest

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// clock reads CLOCK_MONOTONIC in ns, without a system call: Go's own monotonic
// time is the same clock with another zero.
type clock struct {
	base time.Time
	zero int64 // CLOCK_MONOTONIC at base
}

func newClock() (clock, error) {
	var c clock
	best := time.Duration(1 << 62)
	for range 16 {
		var t unix.Timespec
		before := time.Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
			return clock{}, fmt.Errorf("CLOCK_MONOTONIC: %w", err)
		}
		if took := time.Since(before); took < best {
			best, c = took, clock{before, t.Nano() - took.Nanoseconds()/2}
		}
	}
	return c, nil
}

func (c clock) now() int64 { return c.zero + time.Since(c.base).Nanoseconds() }

// ofWall is what must be added to the wall clock now to have this one, ns. A
// pause between the two readings makes it too large, so the smallest of a few
// is taken.
func (c clock) ofWall() int64 {
	best := int64(1<<63 - 1)
	for range 5 {
		t := time.Now()
		best = min(best, c.zero+t.Sub(c.base).Nanoseconds()-t.UnixNano())
	}
	return best
}

// sleepUntil returns at the time t of c, or a little later. The caller's thread
// should have had punctual called.
func (c clock) sleepUntil(t int64) {
	ts := unix.NsecToTimespec(t)
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil) == unix.EINTR {
	}
}

// punctual makes the kernel wake the calling thread when it asked to be woken,
// not up to 50 us later to save wake-ups.
func punctual() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }

// cpuTime is what this process has used so far.
func cpuTime() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// write sends without waiting; it takes 0 bytes when the socket is full.
func write(fd uintptr, p []byte) (int, error) {
	for {
		n, err := unix.Write(int(fd), p)
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, nil
		default:
			return 0, os.NewSyscallError("write", err)
		}
	}
}

// load1 is the machine's load average over the last minute.
func load1() *float64 {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil
	}
	var v float64
	if _, err := fmt.Sscan(string(data), &v); err != nil {
		return nil
	}
	return &v
}
