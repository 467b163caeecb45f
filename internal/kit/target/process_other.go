//go:build !linux

package target

import (
	"os"
	"syscall"
)

// childAttr: other systems have no death signal. A kit that is killed leaves its
// target behind there.
func childAttr() *syscall.SysProcAttr { return nil }

func terminate(pid int) { killGroup(pid) }

func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
