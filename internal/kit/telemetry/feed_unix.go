//go:build unix

package telemetry

import (
	"os/exec"
	"syscall"
)

// ownGroup puts a helper into a process group of its own, so that what it starts
// can be ended with it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) error {
	return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}

// Shell is how a command line is run.
func Shell(command string) []string { return []string{"/bin/sh", "-c", command} }
