//go:build !linux

package expert

// hurry is for Linux.
func hurry() {}
