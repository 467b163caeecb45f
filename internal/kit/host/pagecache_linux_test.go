package host

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// evict writes a file to the disk and takes it out of memory.
func evict(t *testing.T, f *os.File, from, n int64) {
	t.Helper()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), from, n, unix.FADV_DONTNEED); err != nil {
		t.Skip(err)
	}
}

// A file of 300 MiB without data but for 8 MiB at the end, of which half is then
// dropped: both ways of asking agree, and asking reads nothing.
func TestPageCache(t *testing.T) {
	const size, data = 300 << 20, 8 << 20
	dir := t.TempDir()
	path := filepath.Join(dir, "model.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, data), size-data); err != nil {
		t.Fatal(err)
	}
	want := func(mib float64) {
		t.Helper()
		percent, err := PageCache(path)
		if err != nil || math.Abs(percent-100*mib/300) > 0.01 {
			t.Errorf("%.4f %%, %v; want %.4f", percent, err, 100*mib/300)
		}
		pages, err := mincore(f, size)
		if got := float64(pages*int64(os.Getpagesize())) / (1 << 20); err != nil || got != mib {
			t.Errorf("mincore: %v MiB, %v; want %v", got, err, mib)
		}
		if pages, err := cachestat(f, size); !errors.Is(err, unix.ENOSYS) {
			if got := float64(pages*int64(os.Getpagesize())) / (1 << 20); err != nil || got != mib {
				t.Errorf("cachestat: %v MiB, %v; want %v", got, err, mib)
			}
		}
	}
	want(8)
	evict(t, f, size-data, data/2)
	if percent, _ := PageCache(path); percent > 2.5 {
		t.Skip("this file system does not drop what it is told to")
	}
	want(4)
	evict(t, f, 0, 0)
	want(0)
	if percent, err := PageCache(dir, path); err != nil || percent != 0 {
		t.Errorf("a folder: %v, %v", percent, err)
	}
}

// What is not a model's file is an error without its path, which rows must not
// have.
func TestPageCacheOfNothing(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "the model's file: stat: no such file or directory",
		empty:                      "the model's files are empty",
		"/dev/null":                "the model is neither a file nor a folder",
	} {
		if _, err := PageCache(path); err == nil || err.Error() != want || strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}
