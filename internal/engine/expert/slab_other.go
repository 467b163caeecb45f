//go:build !linux

package expert

import "unsafe"

// mapping is plain memory where there is no mmap.
type mapping struct{ mem []byte }

func newMapping(n int) (*mapping, error) {
	b := make([]byte, n+sector)
	o := int(-uintptr(unsafe.Pointer(&b[0])) & (sector - 1))
	return &mapping{b[o : o+n : o+n]}, nil
}

func (m *mapping) close() error { return nil }
