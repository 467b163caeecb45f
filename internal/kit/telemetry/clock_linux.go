package telemetry

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonicSince is the time since a reading of the machine's monotonic clock,
// which all processes share; 0 where it can't be told.
func monotonicSince(ns int64) time.Duration {
	var t unix.Timespec
	if ns <= 0 || unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano() - ns)
}

// threadCPU is the processor time of the calling thread.
func threadCPU() (time.Duration, bool) {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
