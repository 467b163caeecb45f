package row

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The files of a journal's directory.
const (
	RowsFile = "rows.jsonl"      // one row a line, appended only
	HeadFile = "rows.head"       // how many rows there are and the last one's sha256
	TornFile = "rows.jsonl.torn" // what a crash left of a line, set aside
	LockFile = "rows.lock"       // held by the one writer
)

// Journal appends rows to a directory. Each row is on the disk before Append
// returns, and each names the sha256 of the line before it, so that no row can
// be changed, moved or taken out without a trace (see Check). Only one Journal
// is open in a directory at a time.
type Journal struct {
	dir  string
	file *os.File
	lock *os.File
	head head
	last string // sha256 of the last line, empty when there is none
	runs int    // highest Run so far
	torn int64
}

// head is the contents of HeadFile. It covers the end of the chain, which no
// later row covers.
type head struct {
	Rows   int    `json:"rows"`
	Bytes  int64  `json:"bytes"` // size of RowsFile
	SHA256 string `json:"sha256"`
}

// encode is the head as its file holds it.
func (h head) encode() ([]byte, error) {
	line, err := json.Marshal(h)
	return append(line, '\n'), err
}

// OpenJournal opens dir for appending and creates it if need be. What a crash
// left of a last line goes to TornFile; any other damage is an error.
func OpenJournal(dir string) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	j := &Journal{dir: dir, lock: lock}
	if err := j.open(); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

func (j *Journal) open() error {
	path := filepath.Join(j.dir, RowsFile)
	if err := j.setTornAside(path); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.file = file
	c := chain{name: path}
	for line := range Lines(file) {
		if r := c.add(line); r != nil {
			j.runs = max(j.runs, r.Run)
			j.last = c.last
		}
	}
	head, err := readHead(j.dir)
	if err != nil {
		return err
	}
	if faults := c.end(head); len(faults) > 0 {
		return fmt.Errorf("%w; start a new directory, or look into what happened to this one with \"assay verify\"", faults[0])
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.head.Rows, j.head.Bytes, j.head.SHA256 = c.rows, size, c.last
	if c.rows > 0 && (head == nil || *head != j.head) {
		return j.writeHead()
	}
	return syncDir(j.dir)
}

// setTornAside moves the bytes after the last line feed to TornFile, and a
// whole last line as well when it is no JSON and the head does not know it: a
// crash can leave a line of zeros.
func (j *Journal) setTornAside(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	defer file.Close()
	var last Line
	start, size := int64(0), int64(0)
	for line := range Lines(file) {
		last, start = line, size
		size += line.Size
	}
	head, err := readHead(j.dir)
	if err != nil {
		return err
	}
	known := head != nil && head.Bytes > start // then it was whole once
	if size == 0 || known || !last.Torn && json.Valid(last.Bytes) {
		return nil
	}
	torn, err := os.OpenFile(filepath.Join(j.dir, TornFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	_, err = io.Copy(torn, io.NewSectionReader(file, start, size-start))
	if err == nil {
		_, err = torn.WriteString("\n") // keeps what later crashes leave apart
	}
	if err = errors.Join(err, torn.Sync(), torn.Close()); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.torn = size - start
	if err := errors.Join(file.Truncate(start), file.Sync()); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// Place sets where a row stands in its journal: its number, and the sha256 of the
// line before it, nil for the first. It adds the reasons that follow from the
// row.
func (r *Row) Place(seq int, prev *string) {
	r.Seq, r.PrevSHA256 = seq, prev
	if prev != nil {
		delete(r.Why, "prev_sha256")
	}
	r.Explain()
}

// Append writes a row: it sets Seq and PrevSHA256, adds the reasons that
// follow from the row (Explain) and refuses one that Validate or the schema
// objects to.
func (j *Journal) Append(r *Row) error {
	r.Place(j.head.Rows+1, textOrNull(j.last))
	if bad := Validate(r); len(bad) > 0 {
		list := make([]string, len(bad))
		for i, v := range bad {
			list[i] = v.String()
		}
		return fmt.Errorf("journal: row %s can't be written: %s", r.RowID, strings.Join(list, "; "))
	}
	line, err := r.Encode()
	if err == nil {
		err = CheckSchema(Written, line)
	}
	if err != nil {
		return fmt.Errorf("journal: row %s can't be written: %w", r.RowID, err)
	}
	if len(line) > MaxLine {
		return fmt.Errorf("journal: row %s has %d bytes, more than the %d that a line may have", r.RowID, len(line), MaxLine)
	}
	_, err = j.file.Write(append(line, '\n'))
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		// All of the line or a part of it may be there. Without it the journal
		// stays whole.
		return fmt.Errorf("journal: %w", errors.Join(err, j.file.Truncate(j.head.Bytes)))
	}
	j.last = hash(line)
	j.head = head{Rows: r.Seq, Bytes: j.head.Bytes + int64(len(line)) + 1, SHA256: j.last}
	j.runs = max(j.runs, r.Run)
	return j.writeHead()
}

// Runs is the highest run number in the journal.
func (j *Journal) Runs() int { return j.runs }

// Rows is how many rows there are.
func (j *Journal) Rows() int { return j.head.Rows }

// Torn is how many bytes were set aside when the journal was opened.
func (j *Journal) Torn() int64 { return j.torn }

// Dir is the journal's directory.
func (j *Journal) Dir() string { return j.dir }

// Path is the file of rows.
func (j *Journal) Path() string { return filepath.Join(j.dir, RowsFile) }

// Close lets another writer in.
func (j *Journal) Close() error {
	var err error
	if j.file != nil {
		err = j.file.Close()
	}
	return errors.Join(err, j.lock.Close())
}

// writeHead replaces HeadFile as a whole, so that a crash leaves the old one
// or the new one.
func (j *Journal) writeHead() error {
	line, err := j.head.encode()
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	path := filepath.Join(j.dir, HeadFile)
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	_, err = f.Write(line)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return syncDir(j.dir)
}

// readHead is nil without an error when there is no head.
func readHead(dir string) (*head, error) {
	path := filepath.Join(dir, HeadFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	h := new(head)
	if err := json.Unmarshal(data, h); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if line, err := h.encode(); err != nil || !bytes.Equal(line, data) {
		return nil, fmt.Errorf("%s: %q is not what was written there: it was changed by hand", path, data[:min(len(data), 200)])
	}
	return h, nil
}

// syncDir makes new names in dir survive a crash.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

func hash(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}
