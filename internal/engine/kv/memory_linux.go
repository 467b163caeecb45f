package kv

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const hugePage = 2 << 20

// pageMemory is zeroed memory of the Go heap that starts at a cache line. Where it
// is worth it, it starts at a page of 2 MiB instead, and the kernel is asked for
// such pages: what is before is never touched, so it takes no memory.
func pageMemory(n int) []byte {
	align := 64
	if n >= hugePage {
		align = hugePage
	}
	b := make([]byte, n+align)
	o := int(-uintptr(unsafe.Pointer(&b[0])) & uintptr(align-1))
	b = b[o : o+n : o+n]
	if whole := n / hugePage * hugePage; whole > 0 {
		_ = unix.Madvise(b[:whole], unix.MADV_HUGEPAGE) // without huge pages it works as well
	}
	return b
}
