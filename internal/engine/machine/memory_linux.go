package machine

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const hugePage = 2 << 20

// memory is an anonymous mapping that starts at a multiple of 2 MiB.
type memory struct {
	mapping, data []byte
}

func newMemory(n int, huge bool) (*memory, error) {
	m, err := unix.Mmap(-1, 0, n+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	advice := unix.MADV_HUGEPAGE
	if !huge {
		advice = unix.MADV_NOHUGEPAGE
	}
	_ = unix.Madvise(m, advice) // refused where there are no huge pages; hugeBytes tells
	o := int(-uintptr(unsafe.Pointer(&m[0])) & (hugePage - 1))
	return &memory{m, m[o : o+n : o+n]}, nil
}

func (m *memory) close() error {
	if m.mapping == nil {
		return nil
	}
	old := m.mapping
	m.mapping, m.data = nil, nil
	return unix.Munmap(old)
}

// hugeBytes sums AnonHugePages of the mapping in /proc/self/smaps.
func (m *memory) hugeBytes() int64 {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return -1
	}
	defer f.Close()
	first := uint64(uintptr(unsafe.Pointer(&m.data[0])))
	last := first + uint64(len(m.data))
	huge, inside := int64(0), false
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var from, to uint64
		var kib int64
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &from, &to); n == 2 {
			inside = from < last && to > first
		} else if rest, ok := strings.CutPrefix(lines.Text(), "AnonHugePages:"); ok && inside {
			if n, _ := fmt.Sscan(rest, &kib); n == 1 {
				huge += kib << 10
			}
		}
	}
	if lines.Err() != nil {
		return -1
	}
	return min(huge, int64(len(m.data)))
}
