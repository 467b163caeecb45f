//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package display

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// quiet stops a terminal from showing what is typed, which would break the view, and
// returns what undoes it. Nothing else of its modes is changed. In the background a
// program that touches them would be stopped, so it is left then.
func quiet(terminal io.Writer) (undo func()) {
	undo = func() {}
	f, ok := terminal.(*os.File)
	if !ok {
		return undo
	}
	fd := int(f.Fd())
	before, err := unix.IoctlGetTermios(fd, getModes)
	if err != nil || !foreground(fd) || before.Lflag&unix.ECHO == 0 {
		return undo
	}
	now := *before
	now.Lflag &^= unix.ECHO
	if unix.IoctlSetTermios(fd, setModes, &now) != nil {
		return undo
	}
	return func() {
		if foreground(fd) {
			_ = unix.IoctlSetTermios(fd, setModes, before) // there is nobody to tell
		}
	}
}

func foreground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
