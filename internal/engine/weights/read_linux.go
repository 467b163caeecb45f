package weights

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"assay/internal/gguf"
)

// sector is what offsets, lengths and addresses of direct reads are multiples
// of, on every disk that is in use.
const sector = 4096

// shards reads pieces of a model's files past the page cache, so that the model
// is not in memory twice; pieces that the cache holds already are taken from
// there, which is faster.
type shards struct {
	direct []*os.File // nil where a file can't be read directly
}

// buffer is one worker's memory for direct reads.
type buffer struct{ b []byte }

func (b *buffer) room(n int) []byte {
	if len(b.b) < n+sector {
		b.b = make([]byte, n+sector)
	}
	o := int(-uintptr(unsafe.Pointer(&b.b[0])) & (sector - 1))
	return b.b[o : o+n]
}

func openShards(f *gguf.File) (*shards, error) {
	s := &shards{direct: make([]*os.File, len(f.Shards()))}
	if !f.Mapped() {
		return s, nil
	}
	for i, shard := range f.Shards() {
		file, err := os.OpenFile(shard.Path, os.O_RDONLY|unix.O_DIRECT, 0)
		if errors.Is(err, unix.EINVAL) { // a file system without direct reads
			continue
		}
		if err != nil {
			s.close()
			return nil, err
		}
		s.direct[i] = file
	}
	return s, nil
}

func (s *shards) close() {
	for _, f := range s.direct {
		if f != nil {
			_ = f.Close() // it was only read
		}
	}
}

// read is n bytes of the tensor's data from o on. They are valid until the next
// read with the same buffer.
func (s *shards) read(t *gguf.Tensor, o, n int, buf *buffer) ([]byte, error) {
	mapped := t.Data()[o:][:n]
	if s.direct[t.Shard] == nil || resident(mapped) {
		return mapped, nil
	}
	return s.readDirect(t, o, n, buf)
}

func (s *shards) readDirect(t *gguf.Tensor, o, n int, buf *buffer) ([]byte, error) {
	at := int64(t.Offset) + int64(o)
	skip := int(at % sector)
	b := buf.room((skip + n + sector - 1) / sector * sector)
	for got := 0; got < skip+n; {
		k, err := unix.Pread(int(s.direct[t.Shard].Fd()), b[got:], at-int64(skip)+int64(got))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EINVAL): // sectors are larger than we know
			return t.Data()[o:][:n], nil
		case err != nil:
			return nil, fmt.Errorf("reading %d bytes at %d: %w", n, at, err)
		case k == 0, got+k < skip+n && k%sector != 0: // only the end of the file cuts a sector
			return nil, fmt.Errorf("the file ends before byte %d; it was longer when it was opened", at+int64(n))
		}
		got += k
	}
	return b[skip : skip+n], nil
}

// resident says whether the page cache holds all of b, a part of a mapped file.
func resident(b []byte) bool {
	first := uintptr(unsafe.Pointer(&b[0])) &^ (sector - 1)
	n := uintptr(unsafe.Pointer(&b[0])) + uintptr(len(b)) - first
	var pages [unitBytes/sector + 2]byte
	if int((n+sector-1)/sector) > len(pages) {
		return false
	}
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, first, n, uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
		return false
	}
	for _, p := range pages[:(n+sector-1)/sector] {
		if p&1 == 0 {
			return false
		}
	}
	return true
}
