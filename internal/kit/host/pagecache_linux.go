package host

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cachedPages counts the pages of a file, and those that are in memory.
func cachedPages(path string) (cached, all int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, withoutPath(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, 0, withoutPath(err)
	}
	if info.Size() == 0 {
		return 0, 0, nil
	}
	page := int64(os.Getpagesize())
	all = (info.Size() + page - 1) / page
	cached, err = cachestat(f, info.Size())
	if errors.Is(err, unix.ENOSYS) { // before Linux 6.5
		cached, err = mincore(f, info.Size())
	}
	return min(cached, all), all, err
}

func cachestat(f *os.File, size int64) (int64, error) {
	var st unix.Cachestat_t
	err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{Len: uint64(size)}, &st, 0)
	if err != nil {
		return 0, fmt.Errorf("cachestat: %w", err)
	}
	return int64(st.Cache), nil
}

// mincore maps a file a piece at a time, without touching it. The kernel tells
// the truth only to who may write the file, and "all" to others.
func mincore(f *os.File, size int64) (int64, error) {
	const piece = 256 << 20
	if unix.Access(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.W_OK) != nil {
		return 0, errors.New("mincore: Linux before 6.5 tells it only to who may write the model's file")
	}
	page := int64(os.Getpagesize())
	seen := make([]byte, piece/page)
	var cached int64
	for at := int64(0); at < size; at += piece {
		n := min(piece, size-at)
		m, err := unix.Mmap(int(f.Fd()), at, int(n), unix.PROT_NONE, unix.MAP_SHARED)
		if err != nil {
			return 0, fmt.Errorf("mincore: mmap: %w", err)
		}
		pages := (n + page - 1) / page
		_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(n), uintptr(unsafe.Pointer(&seen[0])))
		if err := unix.Munmap(m); err != nil {
			return 0, fmt.Errorf("mincore: munmap: %w", err)
		}
		if errno != 0 {
			return 0, fmt.Errorf("mincore: %w", errno)
		}
		for _, b := range seen[:pages] {
			cached += int64(b & 1)
		}
	}
	return cached, nil
}
