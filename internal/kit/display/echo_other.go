//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package display

import "io"

// quiet leaves a terminal as it is.
func quiet(io.Writer) (undo func()) { return func() {} }
