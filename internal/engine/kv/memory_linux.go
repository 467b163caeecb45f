package kv

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const hugePage = 2 << 20

// pageMemory is zeroed memory of the Go heap that starts at a cache line. The
// kernel is asked for pages of 2 MiB where they fit into it.
func pageMemory(n int) []byte {
	b := make([]byte, n+64)
	if n >= 2*hugePage {
		first := (uintptr(unsafe.Pointer(&b[0])) + hugePage - 1) &^ (hugePage - 1)
		o := int(first - uintptr(unsafe.Pointer(&b[0])))
		// Without huge pages it works as well.
		_ = unix.Madvise(b[o:o+(len(b)-o)/hugePage*hugePage], unix.MADV_HUGEPAGE)
	}
	o := int(-uintptr(unsafe.Pointer(&b[0])) & 63)
	return b[o : o+n : o+n]
}
