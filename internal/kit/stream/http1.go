package stream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// What an HTTP response may spend outside its body.
const (
	maxHead    = 1 << 20  // status line and header
	maxTrailer = 64 << 10 // trailer after the last chunk
	maxSize    = 4 << 10  // a chunk's size line with its extensions
)

// response is the head of an HTTP response.
type response struct {
	proto     string
	status    int
	header    http.Header
	keepAlive bool
	body      body
}

// parseHead reads the head of the final response and gives the bytes after it.
// It returns a nil response while the head is not whole. Interim responses
// (1xx) are passed over.
func parseHead(p []byte, method string) (*response, []byte, error) {
	for {
		n := headLen(p)
		if n < 0 {
			if len(p) > maxHead {
				return nil, nil, fmt.Errorf("the response's header is longer than %d bytes", maxHead)
			}
			return nil, nil, nil
		}
		r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(p[:n])), &http.Request{Method: method})
		if err != nil {
			return nil, nil, fmt.Errorf("not an HTTP/1 response: %w (it begins %q)", err, string(p[:min(n, 60)]))
		}
		r.Body.Close()
		p = p[n:]
		if r.StatusCode < 200 && r.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		resp := &response{proto: r.Proto, status: r.StatusCode, header: r.Header, keepAlive: !r.Close}
		switch {
		case len(r.TransferEncoding) > 0:
			resp.body = body{framing: chunked, state: inSize}
		case method == http.MethodHead || r.StatusCode == http.StatusNoContent || r.StatusCode == http.StatusNotModified:
			resp.body = body{framing: counted}
		case r.ContentLength >= 0:
			resp.body = body{framing: counted, left: r.ContentLength}
		default:
			resp.body = body{framing: untilClose}
		}
		return resp, p, nil
	}
}

// headLen is the length of a head up to and with its blank line, -1 when that
// has not come.
func headLen(p []byte) int {
	at := 0
	for {
		i := bytes.IndexByte(p[at:], '\n')
		if i < 0 {
			return -1
		}
		at += i + 1
		rest := p[at:]
		switch {
		case len(rest) > 0 && rest[0] == '\n':
			return at + 1
		case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
			return at + 2
		}
	}
}

// noResponse says why no response came.
func noResponse(got []byte, err error) error {
	switch {
	case errors.Is(err, io.EOF) && len(got) == 0:
		return errors.New("the server closed the connection without an answer")
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the server closed the connection within the response's header (it begins %q)", string(got[:min(len(got), 60)]))
	}
	return err
}

type framing int

const (
	untilClose framing = iota
	counted
	chunked
)

type chunkState int

const (
	inSize chunkState = iota
	inData
	afterData
	inTrailer
	chunksDone
)

// body takes HTTP's framing off bytes that come in any pieces.
type body struct {
	framing framing
	left    int64 // bytes left of the counted body or of the chunk
	state   chunkState
	line    []byte // the size or trailer line so far
	trailer int    // bytes of trailer seen
	excess  bool   // bytes followed the end
}

// feed gives the payload within p, written over p, and whether the body has
// come to its end.
func (b *body) feed(p []byte) (out []byte, done bool, err error) {
	switch b.framing {
	case untilClose:
		return p, false, nil
	case counted:
		n := min(int64(len(p)), b.left)
		b.left -= n
		b.excess = int64(len(p)) > n
		return p[:n], b.left == 0, nil
	}
	out = p[:0]
	for len(p) > 0 && b.state != chunksDone {
		if b.state == inData {
			n := int(min(int64(len(p)), b.left))
			out = append(out, p[:n]...)
			p = p[n:]
			if b.left -= int64(n); b.left == 0 {
				b.state = afterData
			}
			continue
		}
		c := p[0]
		p = p[1:]
		if c != '\n' {
			if b.line = append(b.line, c); len(b.line) > maxSize {
				return out, false, fmt.Errorf("chunked body: a line between chunks is longer than %d bytes", maxSize)
			}
			continue
		}
		line := strings.TrimSuffix(string(b.line), "\r")
		b.line = b.line[:0]
		if err := b.chunkLine(line); err != nil {
			return out, false, err
		}
	}
	b.excess = len(p) > 0
	return out, b.state == chunksDone, nil
}

// chunkLine takes one whole line of the chunked framing.
func (b *body) chunkLine(line string) error {
	switch b.state {
	case afterData:
		if line != "" {
			return fmt.Errorf("chunked body: %q where a chunk's end belongs", line)
		}
		b.state = inSize
	case inTrailer:
		if b.trailer += len(line); b.trailer > maxTrailer {
			return fmt.Errorf("chunked body: the trailer is longer than %d bytes", maxTrailer)
		}
		if line == "" {
			b.state = chunksDone
		}
	case inSize:
		size, _, _ := strings.Cut(line, ";")
		n, err := chunkSize(strings.TrimRight(size, " \t"))
		if err != nil {
			return err
		}
		b.left, b.state = n, inData
		if n == 0 {
			b.state = inTrailer
		}
	}
	return nil
}

func chunkSize(s string) (int64, error) {
	var n int64
	if s == "" || len(s) > 15 {
		return 0, fmt.Errorf("chunked body: %q is not a chunk size", s)
	}
	for i := range len(s) {
		d := strings.IndexByte("0123456789abcdef", s[i]|0x20)
		if d < 0 || (s[i] < '0') {
			return 0, fmt.Errorf("chunked body: %q is not a chunk size", s)
		}
		n = n<<4 | int64(d)
	}
	return n, nil
}

// end says whether the body may end where the connection did.
func (b *body) end(err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	switch b.framing {
	case untilClose:
		return nil
	case counted:
		return fmt.Errorf("the server hung up with %d bytes of the body missing", b.left)
	}
	return errors.New("the server hung up before the last chunk of the body")
}
