//go:build !linux && !windows

package main

import "errors"

// libraryNames is empty: NVIDIA's driver is not for this system.
var libraryNames []string

func load(string) (uintptr, error) { return 0, errors.ErrUnsupported }

func symbol(uintptr, string) (uintptr, error) { return 0, errors.ErrUnsupported }

func monotonic() int64 { return 0 }
