//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package display

import "golang.org/x/sys/unix"

const getModes, setModes = unix.TIOCGETA, unix.TIOCSETA
