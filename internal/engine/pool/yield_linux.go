package pool

import "golang.org/x/sys/unix"

// Yield lets another thread have this one's processor, if one waits for it.
func Yield() {
	pause(16)
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // it can't fail
}
