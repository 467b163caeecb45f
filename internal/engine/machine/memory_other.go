//go:build !linux

package machine

// memory is plain memory where there is no mmap with huge pages.
type memory struct{ data []byte }

func newMemory(n int, _ bool) (*memory, error) { return &memory{make([]byte, n)}, nil }

func (m *memory) close() error {
	m.data = nil
	return nil
}

func (m *memory) hugeBytes() int64 { return -1 }
