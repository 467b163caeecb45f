package weights

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const hugePage = 2 << 20

// arena is one anonymous mapping; mem is the part of it that starts at a
// multiple of 2 MiB.
type arena struct{ mapping, mem []byte }

func newArena(n int) (*arena, error) {
	m, err := unix.Mmap(-1, 0, n+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	// A kernel without transparent huge pages refuses; small pages work as well,
	// and hugeBytes tells.
	_ = unix.Madvise(m, unix.MADV_HUGEPAGE)
	o := int(-uintptr(unsafe.Pointer(&m[0])) & (hugePage - 1))
	return &arena{m, m[o : o+n : o+n]}, nil
}

func (a *arena) close() error {
	if a.mapping == nil {
		return nil
	}
	m := a.mapping
	a.mapping, a.mem = nil, nil
	return unix.Munmap(m)
}

// hugeBytes sums AnonHugePages over the mapping's entries in
// /proc/self/smaps. The kernel may have joined it with a neighbour.
func (a *arena) hugeBytes() (int64, error) {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if len(a.mem) == 0 {
		return 0, nil
	}
	first := uint64(uintptr(unsafe.Pointer(&a.mem[0])))
	last := first + uint64(len(a.mem))
	var huge int64
	inside, found := false, false
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		var from, to uint64
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			inside = from < last && to > first
			found = found || inside
		} else if rest, ok := strings.CutPrefix(line, "AnonHugePages:"); ok && inside {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("/proc/self/smaps: AnonHugePages: %w", err)
			}
			huge += kb << 10
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	if !found {
		return 0, fmt.Errorf("/proc/self/smaps has no entry for the weights")
	}
	return min(huge, int64(len(a.mem))), nil
}
