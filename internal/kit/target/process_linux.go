package target

import "syscall"

// childAttr puts the child into a group of its own, so that a Ctrl-C at the
// terminal reaches the kit alone, and ties its life to the thread that forks it.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func terminate(pid int) { _ = syscall.Kill(pid, syscall.SIGTERM) }

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
