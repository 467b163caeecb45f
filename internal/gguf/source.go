package gguf

import (
	"fmt"
	"math"
	"os"
)

// openSource opens a file for reading: mapped or read whole, as the system
// allows.
func openSource(path string) (*source, error) {
	// Before opening: a named pipe would block there.
	if st, err := os.Stat(path); err != nil {
		return nil, err
	} else if err := regular(path, st); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if err := regular(path, st); err != nil {
		return nil, err
	}
	if st.Size() > math.MaxInt {
		return nil, fmt.Errorf("%s: %d bytes do not fit this system's address space", path, st.Size())
	}
	s := &source{path: path, size: st.Size()}
	s.data, s.release, err = load(file, int(st.Size()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func regular(path string, st os.FileInfo) error {
	switch {
	case st.IsDir():
		return fmt.Errorf("%s: a folder; want a GGUF file", path)
	case !st.Mode().IsRegular():
		return fmt.Errorf("%s: not a regular file; want a GGUF file", path)
	case st.Size() == 0:
		return fmt.Errorf("%s: the file is empty; want a GGUF file", path)
	}
	return nil
}
