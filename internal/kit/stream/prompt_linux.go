package stream

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// promptly keeps the caller on a thread that gets a processor as soon as something
// has arrived, and returns what ends that. Engines keep all processors busy, and the
// kernel lets a thread that wakes wait for milliseconds behind one that computes:
// longer than fast engines take for many tokens. The thread is made a real-time one
// where that is allowed (CAP_SYS_NICE or RLIMIT_RTPRIO), and else one with the
// shortest time slice (Linux 6.12 and later), which needs no right and lets it go
// before those with longer ones. It only waits for the socket and copies what came.
func promptly() (end func()) {
	runtime.LockOSThread()
	was, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return runtime.UnlockOSThread
	}
	// What the thread starts is ordinary again.
	real := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	if unix.SchedSetAttr(0, &real, 0) != nil {
		short := *was
		short.Runtime = 100_000 // ns, the least
		if unix.SchedSetAttr(0, &short, 0) != nil {
			return runtime.UnlockOSThread
		}
	}
	return func() {
		if unix.SchedSetAttr(0, was, 0) == nil {
			runtime.UnlockOSThread()
		} // else the thread ends with its goroutine
	}
}
