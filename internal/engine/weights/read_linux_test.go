package weights

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"assay/internal/gguf"
)

// onDisk is a file with a tensor of n random bytes, none of it in the page
// cache where the system lets us say so.
func onDisk(t *testing.T, n int) *gguf.File {
	t.Helper()
	data := make([]byte, n)
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	b := gguf.NewBuilder()
	b.Set("general.architecture", "test")
	b.Tensor("small", gguf.F32, []uint64{3}, data[:12])
	b.Tensor("large", gguf.F16, []uint64{uint64(n / 2)}, data)
	var out bytes.Buffer
	if _, err := b.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(out.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// Pieces read past the page cache are those of the mapped file: from any offset,
// of any length, up to the last byte.
func TestDirectReads(t *testing.T) {
	f := onDisk(t, 3<<20+38)
	tensor, _ := f.Tensor("large")
	s, err := openShards(f)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if s.direct[0] == nil {
		t.Skip("this file system has no direct reads")
	}
	size := int(tensor.Bytes())
	r := rand.New(rand.NewPCG(2, 3))
	var buf buffer
	for i := range 40 {
		o := r.IntN(size)
		n := 1 + r.IntN(min(unitBytes, size-o))
		switch i {
		case 0:
			o, n = size-1, 1
		case 1:
			o, n = size-unitBytes, unitBytes
		}
		got, err := s.readDirect(tensor, o, n, &buf)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, tensor.Data()[o:][:n]) {
			t.Fatalf("%d bytes from %d on are not those of the file", n, o)
		}
	}
}

// A file that became shorter since it was opened is told, not read past its end.
func TestDirectReadOfAShorterFile(t *testing.T) {
	f := onDisk(t, 1<<20)
	tensor, _ := f.Tensor("large")
	s, err := openShards(f)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if s.direct[0] == nil {
		t.Skip("this file system has no direct reads")
	}
	if err := os.Truncate(f.Name(), 64<<10); err != nil {
		t.Fatal(err)
	}
	_, err = s.readDirect(tensor, 256<<10, 4096, new(buffer))
	if err == nil || !strings.Contains(err.Error(), "the file ends before byte") {
		t.Errorf("error %v, want that the file ends", err)
	}
}
