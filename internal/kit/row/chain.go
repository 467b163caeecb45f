package row

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Fault is a break in a journal's chain.
type Fault struct {
	File    string
	Line    int // 0: the file as a whole
	Problem string
}

func (f Fault) Error() string {
	if f.Line == 0 {
		return f.File + ": " + f.Problem
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Problem)
}

// Check goes through the journal in dir and returns every break in its chain:
// a line that is gone, doubled, moved or changed, the last one included.
// A row that a crash left without its head counts as written.
func Check(dir string) ([]Fault, error) {
	path := filepath.Join(dir, RowsFile)
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	defer f.Close()
	head, err := readHead(dir)
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return []Fault{{File: filepath.Join(dir, HeadFile), Problem: err.Error()}}, nil
	}
	if err != nil {
		return nil, err
	}
	c := chain{name: path}
	for line := range Lines(f) {
		c.add(line)
	}
	return c.end(head), nil
}

// chain follows the lines of a journal.
type chain struct {
	name   string
	rows   int
	bytes  int64
	last   string // sha256 of the last line
	before head   // how things stood before the last line
	faults []Fault
}

func (c *chain) fault(line int, format string, args ...any) {
	c.faults = append(c.faults, Fault{c.name, line, fmt.Sprintf(format, args...)})
}

// add takes the next line and returns its row, nil when it has none.
func (c *chain) add(line Line) *Row {
	c.before = head{c.rows, c.bytes, c.last}
	c.bytes += line.Size
	if line.Torn {
		c.fault(line.Number, "the line is torn: its line feed is missing")
	}
	r, err := line.Row()
	c.rows++
	want := c.last
	c.last = hash(line.Bytes)
	switch {
	case err != nil:
		c.fault(line.Number, "%v", err)
		return nil
	case r == nil:
		c.fault(line.Number, "a blank line")
		return nil
	}
	if r.Seq != c.rows {
		c.fault(line.Number, "seq: %d, want %d: rows are missing, doubled or out of order", r.Seq, c.rows)
	}
	got := ""
	if r.PrevSHA256 != nil {
		got = *r.PrevSHA256
	}
	if got != want {
		c.fault(line.Number, "prev_sha256: %q, but the line before has %q: one of the two was changed, or lines between them are missing", got, want)
	}
	return r
}

// end compares the end of the chain with the head and returns all faults.
func (c *chain) end(h *head) []Fault {
	now := head{c.rows, c.bytes, c.last}
	switch {
	case h == nil && c.rows > 1:
		c.fault(0, "%s is missing: the last rows can't be checked", HeadFile)
	case h == nil || *h == now || *h == c.before:
	case h.Rows > c.rows:
		c.fault(0, "%d rows, but there were %d: the last ones are missing", c.rows, h.Rows)
	default:
		c.fault(c.rows, "the end differs from %s, which knows %d rows: the last row was changed or rows were added by hand", HeadFile, h.Rows)
	}
	return c.faults
}
