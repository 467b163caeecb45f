package weights

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/gguf"
)

// A table's rows come from the file, on disk or in memory; they take no memory of
// the set's; and a file that became shorter is an error that says so.
func TestTable(t *testing.T) {
	parsed := small(t)
	path := filepath.Join(t.TempDir(), "small.gguf")
	write(t, path)
	opened, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*gguf.File{parsed, opened} {
		for _, mapped := range []bool{false, true} {
			o := Options{Disk: []string{"matrix", "unknown"}, Mmap: mapped}
			s, err := Load(context.Background(), f, o)
			if err != nil {
				t.Fatal(err)
			}
			if with, without := MemoryBytes(f, Options{}), MemoryBytes(f, o); !mapped && without >= with {
				t.Errorf("without the table the weights take %d bytes of %d", without, with)
			}
			table, err := s.Table("matrix", 32)
			if err != nil {
				t.Fatal(err)
			}
			row, scratch := make([]float32, 32), make([]byte, table.RowBytes())
			table.Want(2)
			if err := table.Row(2, row, scratch); err != nil || table.Rows != 3 || row[0] == 0 || row[0] != row[31] {
				t.Errorf("%d rows, row 2 is %v, %v", table.Rows, row, err)
			}
			for name, want := range map[string]string{"unknown": "missing", "matrix": "rows of 32, but the metadata ask for 16"} {
				if _, err := s.Table(name, 16); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %q in it", name, err, want)
				}
			}
			if f == opened && !mapped {
				if err := os.Truncate(path, 100); err != nil {
					t.Fatal(err)
				}
				if err := table.Row(2, row, scratch); err == nil || !strings.Contains(err.Error(), "tensor matrix, row 2") || !strings.Contains(err.Error(), "ends before") {
					t.Errorf("a row of a file that became shorter: %v", err)
				}
				write(t, path) // for the mapped one
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
}

// write writes the file of small.
func write(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := smallBuilder().WriteTo(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
