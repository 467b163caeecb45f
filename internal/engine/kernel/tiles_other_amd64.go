//go:build !linux

package kernel

// mayUseTiles: no other system has been tried.
func mayUseTiles() bool { return false }
