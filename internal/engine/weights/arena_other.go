//go:build !linux

package weights

import "errors"

// arena is plain memory where there is no mmap with huge pages.
type arena struct{ mem []byte }

func newArena(n int) (*arena, error) { return &arena{make([]byte, n)}, nil }

func (a *arena) close() error {
	a.mem = nil
	return nil
}

func (a *arena) hugeBytes() (int64, error) {
	return 0, errors.New("huge pages are only known on Linux")
}
