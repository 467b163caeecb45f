//go:build unix

package gguf

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// load maps the file. The descriptor may be closed afterwards.
func load(file *os.File, size int) (data []byte, release func() error, err error) {
	data, err = unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("mapping %d bytes: %w", size, err)
	}
	return data, func() error { return unix.Munmap(data) }, nil
}
