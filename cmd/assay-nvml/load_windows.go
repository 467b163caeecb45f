package main

import "syscall"

// libraryNames are what the driver installs.
var libraryNames = []string{"nvml.dll"}

func load(name string) (uintptr, error) {
	h, err := syscall.LoadLibrary(name)
	return uintptr(h), err
}

func symbol(module uintptr, name string) (uintptr, error) {
	return syscall.GetProcAddress(syscall.Handle(module), name)
}

// monotonic: the reader stamps a line when it arrives.
func monotonic() int64 { return 0 }
