//go:build !unix

package gguf

import (
	"io"
	"os"
)

// load reads the whole file.
func load(file *os.File, size int) (data []byte, release func() error, err error) {
	data = make([]byte, size)
	if _, err = io.ReadFull(file, data); err != nil {
		return nil, nil, err
	}
	return data, nil, nil
}
