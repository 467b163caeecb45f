package stream

import (
	"bytes"
	"fmt"
	"mime"
	"strings"
)

// Kind is how a body is cut into frames.
type Kind string

// The kinds of body.
const (
	SSE    Kind = "sse"    // text/event-stream
	NDJSON Kind = "ndjson" // one JSON value a line
	JSON   Kind = "json"   // the body is one frame: a reply that was not streamed, or an error
)

// MaxLine is the longest line that Frames takes.
const MaxLine = 16 << 20

// Frame is one event of the body, stamped by the read that completed it.
type Frame struct {
	At           int64 // ns since t0
	Kernel       int64 // the kernel's receive time of that read, -1 when not known
	Read         int   // index of that read
	Event        string
	ID           string
	Data         string
	Comment      bool // an SSE comment; Data is its text
	Unterminated bool // the body ended before the frame did
}

// KindOf is the kind that the response's Content-Type names.
func (r *Recording) KindOf() (Kind, error) {
	ct := r.Header.Get("Content-Type")
	mt, _, err := mime.ParseMediaType(ct)
	if err != nil {
		// A malformed parameter does not make the type itself unknown.
		mt = strings.ToLower(strings.TrimSpace(strings.SplitN(ct, ";", 2)[0]))
	}
	switch mt {
	case "text/event-stream":
		return SSE, nil
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/json-lines":
		return NDJSON, nil
	case "application/json", "application/problem+json":
		return JSON, nil
	}
	return "", fmt.Errorf("Content-Type %q is not a stream (want text/event-stream, application/x-ndjson or application/json)", ct)
}

// Frames cuts the body into frames. On an error it also returns the frames
// before it.
func Frames(rec *Recording, kind Kind) ([]Frame, error) {
	c := &cutter{first: true}
	switch kind {
	case SSE:
		c.line, c.ends = c.sseLine, "\r\n"
	case NDJSON:
		c.line, c.ends = c.ndjsonLine, "\n"
	case JSON:
		return wholeFrame(rec), nil
	default:
		return nil, fmt.Errorf("frames: kind %q (want %s, %s or %s)", kind, SSE, NDJSON, JSON)
	}
	for i := range rec.Reads {
		c.read, c.at, c.kernel = i, rec.Reads[i].At, rec.Reads[i].Kernel
		if err := c.feed(rec.Reads[i].Bytes); err != nil {
			return c.frames, err
		}
	}
	c.end(kind)
	return c.frames, nil
}

func wholeFrame(rec *Recording) []Frame {
	body := rec.Body()
	if len(body) == 0 {
		return nil
	}
	last := len(rec.Reads) - 1
	return []Frame{{
		At: rec.Reads[last].At, Kernel: rec.Reads[last].Kernel, Read: last,
		Data: string(body), Unterminated: !rec.Clean,
	}}
}

// cutter finds lines in bytes that come in any pieces and gives each to line.
type cutter struct {
	frames []Frame
	read   int
	at     int64
	kernel int64

	ends    string // bytes that end a line
	line    func(line []byte)
	offset  int    // in the body, of the bytes taken so far
	buf     []byte // the line so far
	first   bool   // no line has ended yet
	afterCR bool   // the last byte was CR, so an LF now belongs to it

	// The event so far, as the SSE standard builds it.
	data    []byte
	hasData bool
	event   string
	id      string
}

// feed takes the bytes of one read. A CR alone ends a line where the format says
// so (SSE); the line is then complete at once, without waiting to see whether an
// LF follows.
func (c *cutter) feed(p []byte) error {
	for len(p) > 0 {
		if c.afterCR {
			c.afterCR = false
			if p[0] == '\n' {
				p, c.offset = p[1:], c.offset+1
				continue
			}
		}
		n := bytes.IndexAny(p, c.ends)
		part := p
		if n >= 0 {
			part = p[:n]
		}
		if len(c.buf)+len(part) > MaxLine {
			return fmt.Errorf("frames: the line that reaches byte %d of the body is longer than %d bytes", c.offset+len(part), MaxLine)
		}
		c.buf = append(c.buf, part...)
		if n < 0 {
			c.offset += len(p)
			return nil
		}
		c.afterCR = p[n] == '\r'
		p, c.offset = p[n+1:], c.offset+n+1
		c.endLine()
	}
	return nil
}

// endLine gives the line away. A byte order mark may stand before the first one.
func (c *cutter) endLine() {
	line := c.buf
	if c.first {
		c.first = false
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	c.line(line)
	c.buf = c.buf[:0]
}

// end takes what the body left unfinished.
func (c *cutter) end(kind Kind) {
	before := len(c.frames)
	if len(c.buf) > 0 {
		c.endLine()
	}
	if kind == SSE {
		c.dispatch()
	}
	for i := before; i < len(c.frames); i++ {
		c.frames[i].Unterminated = true
	}
}

func (c *cutter) add(f Frame) {
	f.At, f.Kernel, f.Read = c.at, c.kernel, c.read
	c.frames = append(c.frames, f)
}

// sseLine follows "Interpreting an event stream" of the HTML standard, except
// that comments are kept as frames of their own.
func (c *cutter) sseLine(line []byte) {
	if len(line) == 0 {
		c.dispatch()
		return
	}
	name, value, _ := strings.Cut(string(line), ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "":
		c.add(Frame{Data: value, Comment: true})
	case "data":
		c.data = append(append(c.data, value...), '\n')
		c.hasData = true
	case "event":
		c.event = value
	case "id":
		if !strings.Contains(value, "\x00") {
			c.id = value
		}
	}
	// retry asks for a later reconnection, which a measurement never makes;
	// other names are ignored, as the standard wants.
}

func (c *cutter) dispatch() {
	if c.hasData {
		c.add(Frame{Event: c.event, ID: c.id, Data: string(c.data[:len(c.data)-1])})
	}
	c.data, c.hasData, c.event = c.data[:0], false, ""
}

func (c *cutter) ndjsonLine(line []byte) {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(strings.TrimSpace(string(line))) == 0 {
		return
	}
	c.add(Frame{Data: string(line)})
}
