//go:build !linux

package expert

import (
	"errors"
	"io"
	"os"

	"assay/internal/gguf"
)

// files reads through the system's cache.
type files struct{ open []*os.File }

// OpenFiles opens the files of f for reading.
func OpenFiles(f *gguf.File) (Reader, error) {
	r := &files{}
	for _, shard := range f.Shards() {
		file, err := os.Open(shard.Path)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.open = append(r.open, file)
	}
	return r, nil
}

func (r *files) ReadAt(shard int, b []byte, off int64) (int, error) {
	n, err := r.open[shard].ReadAt(b, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (r *files) Close() error {
	var errs []error
	for _, f := range r.open {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
