package row

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"unicode/utf8"
)

// MaxLine is the longest line that Read accepts, in bytes.
const MaxLine = 16 << 20

// Line is one line of a file of rows, without its line feed.
type Line struct {
	Number int // from 1
	Bytes  []byte
	Size   int64 // in the file, its line feed included
	Torn   bool  // the file ends without a line feed
	Err    error
}

// Read gives the rows of r one by one; name is r's name in errors. A line that
// is no row gives an error "name:line: field: ..." and reading goes on with the
// next. Blank lines are skipped.
func Read(r io.Reader, name string) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		for line := range Lines(r) {
			switch row, err := line.Row(); {
			case err != nil:
				if !yield(nil, fmt.Errorf("%s:%d: %w", name, line.Number, err)) {
					return
				}
			case row != nil:
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// Row decodes the line. It is nil without an error when the line is blank.
func (l Line) Row() (*Row, error) {
	if l.Err != nil {
		return nil, l.Err
	}
	data := bytes.TrimSpace(l.Bytes)
	if len(data) == 0 {
		return nil, nil
	}
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("offset %d: not UTF-8", badUTF8(data))
	}
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("offset %d: broken JSON: %w", syntax.Offset, err)
		}
		return nil, err
	}
	row := new(Row)
	if err := row.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	return row, nil
}

func badUTF8(data []byte) int {
	at := 0
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}

// Lines gives the lines of r. Its memory is bounded by MaxLine: the bytes of a
// longer line are dropped and the line carries an error. A failed read ends
// the sequence with a line that carries the failure.
func Lines(r io.Reader) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		for number := 1; ; number++ {
			line := Line{Number: number}
			err := line.fill(in)
			if err != nil && !errors.Is(err, io.EOF) {
				line.Err = err
				yield(line)
				return
			}
			end := err != nil
			if end && line.Size == 0 {
				return
			}
			line.Torn = end
			if !yield(line) || end {
				return
			}
		}
	}
}

// fill reads one line. Its error is that of the reader.
func (l *Line) fill(in *bufio.Reader) error {
	for {
		part, err := in.ReadSlice('\n')
		l.Size += int64(len(part))
		if err == nil {
			part = part[:len(part)-1]
		}
		if len(l.Bytes)+len(part) > MaxLine {
			l.Bytes = nil
			l.Err = fmt.Errorf("the line is longer than %d bytes", MaxLine)
		}
		if l.Err == nil {
			l.Bytes = append(l.Bytes, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}
