package reuse

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A disk that takes no more: what should have gone there is forgotten, a line says
// so, no half of a file is left, and the next one is tried again.
func TestDiskFull(t *testing.T) {
	f := open(t, t.TempDir(), pageBytes, 1<<20, identity)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	few := before
	few.Cur = uint64(pageBytes / 2)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &few); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
			t.Error(err)
		}
	}
	defer restore()
	f.keep(text(1, 100))
	f.keep(text(2, 100))
	for range 1000 {
		if f.Stats().SpillFailed > 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if n := f.take(t, text(1, 100)); n != 0 {
		t.Errorf("%d tokens of what was not written", n)
	}
	if n := f.take(t, text(2, 100)); n != 99 {
		t.Errorf("%d tokens from memory, want 99", n)
	}
	restore()
	f.keep(text(3, 100))
	f.files(t, 1)
	f.Close(context.Background())
	if log := f.log.String(); !strings.Contains(log, "file too large; 100 tokens are forgotten") {
		t.Errorf("log %q", log)
	}
	names, err := os.ReadDir(f.dir)
	if err != nil || len(names) != 2 {
		t.Errorf("%v, %v", names, err)
	}
}
