//go:build !linux

package stream

// promptly has no way to ask for more than the reader gets anyway.
func promptly() (end func()) { return func() {} }
