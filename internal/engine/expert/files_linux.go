package expert

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"assay/internal/gguf"
)

// files reads past the page cache where the file system can do so. Elsewhere it
// reads through the cache and lets go of what it read at once.
type files struct {
	direct   []*os.File // nil where it is refused
	buffered []*os.File
	refused  []atomic.Bool // a direct read was
}

// OpenFiles opens the files of f for reading.
func OpenFiles(f *gguf.File) (Reader, error) {
	shards := f.Shards()
	r := &files{
		direct: make([]*os.File, len(shards)), buffered: make([]*os.File, len(shards)),
		refused: make([]atomic.Bool, len(shards)),
	}
	for i, shard := range shards {
		if err := r.open(i, shard); err != nil {
			return nil, errors.Join(fmt.Errorf("experts are read from the model's files: %w", err), r.Close())
		}
	}
	return r, nil
}

func (r *files) open(i int, shard gguf.Shard) (err error) {
	if r.buffered[i], err = os.Open(shard.Path); err != nil {
		return err
	}
	st, err := r.buffered[i].Stat()
	if err != nil {
		return err
	}
	if st.Size() != shard.Size {
		return fmt.Errorf("%s has %d bytes; it had %d when it was opened", shard.Path, st.Size(), shard.Size)
	}
	// Random reads: reading further than asked is for nothing.
	_ = unix.Fadvise(int(r.buffered[i].Fd()), 0, 0, unix.FADV_RANDOM)
	r.direct[i], err = os.OpenFile(shard.Path, os.O_RDONLY|unix.O_DIRECT, 0)
	if errors.Is(err, unix.EINVAL) { // a file system without direct reads
		r.direct[i], err = nil, nil
	}
	return err
}

func (r *files) ReadAt(shard int, b []byte, off int64) (int, error) {
	if f := r.direct[shard]; f != nil && !r.refused[shard].Load() {
		n, err := pread(f, b, off)
		if !errors.Is(err, unix.EINVAL) {
			return n, err
		}
		r.refused[shard].Store(true) // its sectors are larger than ours
	}
	f := r.buffered[shard]
	n, err := pread(f, b, off)
	_ = unix.Fadvise(int(f.Fd()), off, int64(len(b)), unix.FADV_DONTNEED) // advice only
	return n, err
}

func pread(f *os.File, b []byte, off int64) (int, error) {
	for {
		n, err := unix.Pread(int(f.Fd()), b, off)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return max(n, 0), err
	}
}

func (r *files) Close() error {
	var errs []error
	for _, list := range [][]*os.File{r.direct, r.buffered} {
		for _, f := range list {
			if f != nil {
				errs = append(errs, f.Close())
			}
		}
	}
	return errors.Join(errs...)
}
