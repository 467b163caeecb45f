package expert

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping is anonymous memory; mem is the part of it that starts at a multiple
// of 2 MiB.
type mapping struct{ whole, mem []byte }

func newMapping(n int) (*mapping, error) {
	m, err := unix.Mmap(-1, 0, n+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	// A kernel without transparent huge pages refuses; small pages work as well.
	_ = unix.Madvise(m, unix.MADV_HUGEPAGE)
	o := int(-uintptr(unsafe.Pointer(&m[0])) & (hugePage - 1))
	return &mapping{m, m[o : o+n : o+n]}, nil
}

func (m *mapping) close() error { return unix.Munmap(m.whole) }
