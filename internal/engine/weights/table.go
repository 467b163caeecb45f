package weights

import (
	"errors"
	"fmt"
	"io"
	"os"

	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

// Table is a tensor whose rows are read from the file when they are wanted, one by
// one: it may be larger than memory. It may be used from several goroutines.
type Table struct {
	Rows, Cols int

	file   string
	name   string
	kind   gguf.Type
	size   int   // bytes of a row
	offset int64 // of row 0 in the file
	from   io.ReaderAt
	disk   *os.File // from, where it is a file
}

// newTable opens the file of t for itself.
func newTable(f *gguf.File, t *gguf.Tensor) (*Table, error) {
	if len(t.Dims) < 2 || !quant.Supported(t.Type) {
		return nil, fmt.Errorf("%s: tensor %s is %s with dimensions %v; its rows can't be looked up", f.Name(), t.Name, t.Type, t.Dims)
	}
	table := &Table{Rows: int(t.Rows()), Cols: int(t.Dims[0]), file: f.Name(), name: t.Name, kind: t.Type, size: t.RowBytes()}
	if !f.Mapped() {
		table.from = inMemory(t.Data())
		return table, nil
	}
	disk, err := os.Open(f.Shards()[t.Shard].Path)
	if err != nil {
		return nil, fmt.Errorf("tensor %s is read from its file row by row: %w", t.Name, err)
	}
	readRandomly(disk)
	table.from, table.disk, table.offset = disk, disk, int64(t.Offset)
	return table, nil
}

// inMemory is a file that was read whole before.
type inMemory []byte

func (m inMemory) ReadAt(b []byte, off int64) (int, error) {
	if n := copy(b, m[min(off, int64(len(m))):]); n < len(b) {
		return n, io.ErrUnexpectedEOF
	}
	return len(b), nil
}

// RowBytes is how many bytes Row needs as scratch.
func (t *Table) RowBytes() int { return t.size }

// Want begins to read row i, which Row is going to be asked for.
func (t *Table) Want(i int) {
	if t.disk != nil {
		readAhead(t.disk, t.offset+int64(i)*int64(t.size), t.size)
	}
}

// Row decodes row i to out, [Cols].
func (t *Table) Row(i int, out []float32, scratch []byte) error {
	at := t.offset + int64(i)*int64(t.size)
	raw := scratch[:t.size]
	if _, err := t.from.ReadAt(raw, at); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the file ends before; it was longer when it was opened")
		}
		return fmt.Errorf("%s: tensor %s, row %d: reading %d bytes at %d: %w", t.file, t.name, i, t.size, at, err)
	}
	quant.Decode(t.kind, out[:t.Cols], raw)
	return nil
}

func (t *Table) close() error {
	if t.disk == nil {
		return nil
	}
	return t.disk.Close()
}

func (s *Set) openTables(f *gguf.File, names []string) error {
	s.tables = make(map[string]*Table, len(names))
	for _, name := range names {
		t, ok := f.Tensor(name)
		if !ok {
			continue // who wants it will say so
		}
		table, err := newTable(f, t)
		if err != nil {
			return err
		}
		s.tables[name] = table
	}
	return nil
}

func (s *Set) closeTables() error {
	var errs []error
	for _, t := range s.tables {
		errs = append(errs, t.close())
	}
	s.tables = nil
	return errors.Join(errs...)
}

// Table is the tensor name, of rows of cols numbers, that Load left in the file.
func (s *Set) Table(name string, cols int) (*Table, error) {
	t := s.tables[name]
	switch {
	case t == nil:
		return nil, fmt.Errorf("%s: tensor %s is missing", s.file, name)
	case t.Cols != cols:
		return nil, fmt.Errorf("%s: tensor %s has rows of %d, but the metadata ask for %d", s.file, name, t.Cols, cols)
	}
	return t, nil
}
