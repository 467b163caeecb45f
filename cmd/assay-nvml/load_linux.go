package main

import (
	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

// libraryNames are what the driver installs.
var libraryNames = []string{"libnvidia-ml.so.1"}

func load(name string) (uintptr, error) {
	return purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func symbol(module uintptr, name string) (uintptr, error) { return purego.Dlsym(module, name) }

// monotonic is the clock that this program and its reader share.
func monotonic() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return t.Nano()
}
