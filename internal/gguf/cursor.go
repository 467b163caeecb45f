package gguf

import (
	"encoding/binary"
	"fmt"
)

const cutShort = "the file was cut short or its header is damaged: fetch it again"

// field says which part of the file is being read; it becomes text only when
// something is wrong.
type field struct {
	name       string
	quoted     string
	number, of uint64
}

func (f field) String() string {
	switch {
	case f.quoted != "":
		const most = 100
		if len(f.quoted) > most {
			return fmt.Sprintf("%s %q...", f.name, f.quoted[:most])
		}
		return fmt.Sprintf("%s %q", f.name, f.quoted)
	case f.of != 0:
		return fmt.Sprintf("%s %d of %d", f.name, f.number, f.of)
	}
	return f.name
}

// cursor reads little-endian fields and never past end.
type cursor struct {
	src   *source
	pos   uint64
	end   uint64 // of what may be read: the file's end, or maxHeader
	field field
}

func (c *cursor) left() uint64 { return c.end - c.pos }

func (c *cursor) fail(at uint64, format string, args ...any) error {
	return &FormatError{File: c.src.path, Field: c.field.String(), Offset: at, Reason: fmt.Sprintf(format, args...)}
}

// take returns the next n bytes; what names them for the error.
func (c *cursor) take(n uint64, what string) ([]byte, error) {
	if n > c.left() {
		if c.end < uint64(len(c.src.data)) {
			return nil, c.fail(c.pos, "%s of %d bytes goes past the first %d bytes, to which metadata is limited", what, n, c.end)
		}
		return nil, c.fail(c.pos, "%s of %d bytes, but only %d are left; %s", what, n, c.left(), cutShort)
	}
	b := c.src.data[c.pos : c.pos+n]
	c.pos += n
	return b, nil
}

func (c *cursor) u32(what string) (uint32, error) {
	b, err := c.take(4, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (c *cursor) u64(what string) (uint64, error) {
	b, err := c.take(8, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// str passes over a string and returns its length and the offset of its bytes.
func (c *cursor) str(what string) (n, off uint64, err error) {
	if n, err = c.u64(what + " length"); err != nil {
		return 0, 0, err
	}
	off = c.pos
	_, err = c.take(n, what)
	return n, off, err
}

// name reads a key or a tensor's name.
func (c *cursor) name(what string) (string, error) {
	at := c.pos
	n, err := c.u64(what + " length")
	if err != nil {
		return "", err
	}
	if n == 0 || n > maxName {
		return "", c.fail(at, "%s length is %d; want 1 to %d", what, n, maxName)
	}
	b, err := c.take(n, what)
	return string(b), err
}

// skipStrings passes over n strings. When one does not fit it stops before it.
func (c *cursor) skipStrings(n uint64) bool {
	for range n {
		if c.left() < 8 {
			return false
		}
		size := binary.LittleEndian.Uint64(c.src.data[c.pos:])
		if size > c.left()-8 {
			return false
		}
		c.pos += 8 + size
	}
	return true
}

// peekElement decodes the next element of an array.
func (c *cursor) peekElement(k Kind) (Value, bool) {
	v := Value{kind: k, src: c.src}
	if k == KindString {
		start := c.pos
		if !c.skipStrings(1) {
			return Value{}, false
		}
		v.off = start + 8
		v.bits = c.pos - v.off
		return v, true
	}
	b, err := c.take(kinds[k].size, "element")
	if err != nil {
		return Value{}, false
	}
	v.bits = scalar(k, b)
	return v, true
}
