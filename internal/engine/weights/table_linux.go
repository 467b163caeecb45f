package weights

import (
	"os"

	"golang.org/x/sys/unix"
)

// readRandomly says that what lies behind the bytes that are read isn't wanted.
func readRandomly(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM) } // advice only

// readAhead begins to read some bytes into the page cache, and doesn't wait.
func readAhead(f *os.File, at int64, n int) {
	_ = unix.Fadvise(int(f.Fd()), at, int64(n), unix.FADV_WILLNEED) // advice only
}
