//go:build !linux

package pool

import "runtime"

// Yield lets others have this thread's processor.
func Yield() { runtime.Gosched() }
