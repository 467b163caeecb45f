package modelfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/models/seedling"
)

func sum(data string) string {
	s := sha256.Sum256([]byte(data))
	return hex.EncodeToString(s[:])
}

// old writes a file whose times are long past, as far as they can be set.
func old(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, past, past); err != nil {
		t.Fatal(err)
	}
}

// settled waits until a file's inode is old enough for its sum to be kept.
func settled() { time.Sleep(young + 50*time.Millisecond) }

func TestSumsAreKept(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the file system's clock")
	}
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.bin"), filepath.Join(dir, "b.bin")
	old(t, a, "first")
	old(t, b, "second")
	settled()
	read := int64(0)
	o := Options{Dir: filepath.Join(dir, "cache", "sha256"), Progress: func(done, total int64) {
		if read = done; done > total {
			t.Errorf("%d bytes of %d", done, total)
		}
	}}
	want := map[string]string{"1": sum("first"), "2": sum("second")}
	sums := func(wantRead int64) {
		t.Helper()
		read = 0
		got, err := Sums(t.Context(), []string{a, b}, o)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("want -, got +:\n%s", diff)
		}
		if read != wantRead {
			t.Errorf("%d bytes were read, want %d", read, wantRead)
		}
	}
	sums(11)
	sums(0)

	// Other bytes, of the same length and with the old time put back.
	old(t, a, "FIRST")
	want["1"] = sum("FIRST")
	sums(5)

	// Another file in its place, by a link.
	settled()
	sums(5) // too young to be kept before
	sums(0)
	if err := os.Rename(a, a+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(b, a); err != nil {
		t.Fatal(err)
	}
	want["1"] = sum("second")
	sums(0) // the same file as the second, which is known

	// A kept sum that is broken is computed again.
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s was left behind", e.Name())
		}
		if err := os.WriteFile(filepath.Join(o.Dir, e.Name()), []byte(`{"sha256":"0"}`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sums(12)
}

// Where nothing can be kept, sums are computed every time.
func TestSumsWithoutAFolder(t *testing.T) {
	dir := t.TempDir()
	a := filepath.Join(dir, "a.bin")
	old(t, a, "x")
	inTheWay := filepath.Join(dir, "file")
	old(t, inTheWay, "")
	for _, cache := range []string{"", filepath.Join(inTheWay, "sha256")} {
		got, err := Sums(t.Context(), []string{a}, Options{Dir: cache})
		if err != nil || got["1"] != sum("x") {
			t.Errorf("%v, %v", got, err)
		}
	}
}

func TestSumsFail(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "none.gguf")
	if _, err := Sums(t.Context(), []string{missing}, Options{}); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("error %v", err)
	}
	a := filepath.Join(dir, "a.bin")
	old(t, a, "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Sums(ctx, []string{a}, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	grows := Options{Progress: func(_, _ int64) { old(t, a, "xy") }}
	if _, err := Sums(t.Context(), []string{a}, grows); err == nil || !strings.Contains(err.Error(), "changed while it was read") {
		t.Errorf("error %v", err)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	model, other, empty := filepath.Join(dir, "m.gguf"), filepath.Join(dir, "m.safetensors"), filepath.Join(dir, "empty")
	old(t, model, string(seedling.GGUF))
	old(t, other, "{}")
	old(t, empty, "")
	for _, path := range []string{model, other, empty} {
		got, err := Files(path)
		if err != nil || len(got) != 1 || filepath.Base(got[0]) != filepath.Base(path) {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if n, err := Size(model); err != nil || n != int64(len(seedling.GGUF)) {
		t.Errorf("size %d, %v", n, err)
	}
	old(t, model, "GGUF and no more")
	misnamed := filepath.Join(dir, "x.gguf")
	old(t, misnamed, "no GGUF")
	for _, path := range []string{model, misnamed, dir, filepath.Join(dir, "none")} {
		if got, err := Files(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

func TestCacheDir(t *testing.T) {
	for _, tc := range []struct{ cache, home, want string }{
		{"/c", "/h", "/c/assay/sha256"},
		{"", "/h", "/h/.cache/assay/sha256"},
		{"", "", ""},
		{"relative", "/h", ""},
	} {
		got := CacheDir(func(name string) string { return map[string]string{"XDG_CACHE_HOME": tc.cache, "HOME": tc.home}[name] })
		if got != tc.want {
			t.Errorf("%q, %q: %q, want %q", tc.cache, tc.home, got, tc.want)
		}
	}
}
