// Package stream gets one completion over HTTP and keeps what was received:
// bytes and stamps, nothing decoded (Do). After the run the bytes are cut into
// frames (Frames) and the frames read as a completion (Decode). Both are pure
// functions of the Recording, so that anyone can repeat them.
//
// All times are nanoseconds on the monotonic clock since t0, the moment before
// the first request byte, unless a name says otherwise.
package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Recording is what one request brought back.
type Recording struct {
	T0        int64       `json:"t0_unix_ns"` // wall clock at t0
	DialNS    int64       `json:"dial_ns"`    // time to dial, TLS included, all of it before t0; 0 on a reused connection
	Reused    bool        `json:"reused"`     // the connection had carried a request before
	Remote    string      `json:"remote"`     // address that was dialled
	Proxy     string      `json:"proxy,omitempty"`
	SentAt    int64       `json:"sent_at"`    // the last request byte was handed to the kernel
	HeadersAt int64       `json:"headers_at"` // the read that completed the response's header returned; -1: never
	Proto     string      `json:"proto"`      // as the server named it, "HTTP/1.1"
	Status    int         `json:"status"`     // HTTP status, 0 when no response came
	Header    http.Header `json:"header"`     // of the response
	Reads     []Read      `json:"reads"`      // the body, chunk framing taken off
	EndAt     int64       `json:"end_at"`     // the body ended, or the request failed
	Clean     bool        `json:"clean"`      // the body ended as HTTP says it should
	Phase     Phase       `json:"phase,omitempty"`
	Err       string      `json:"err,omitempty"` // why the request failed; empty: it did not
}

// Read is what one read of the socket brought of the body.
type Read struct {
	At     int64  // the read returned
	Kernel int64  // the kernel had received the last of these bytes; -1: not known
	Bytes  []byte // never empty
}

// Body joins the bytes of all reads.
func (r *Recording) Body() []byte {
	n := 0
	for _, rd := range r.Reads {
		n += len(rd.Bytes)
	}
	body := make([]byte, 0, n)
	for _, rd := range r.Reads {
		body = append(body, rd.Bytes...)
	}
	return body
}

// recordingFormat names the layout that MarshalBinary writes.
const recordingFormat = "assay-recording-1"

// recordingHead is the first line of a stored recording.
type recordingHead struct {
	Format string `json:"format"`
	Recording
	Reads [][3]int64 `json:"reads"` // at, kernel, length
}

// MarshalBinary stores a recording as one line of JSON, in which each read is
// [at, kernel, length], followed by the body as it came: the stored form can be
// read by eye and compresses well.
func (r *Recording) MarshalBinary() ([]byte, error) {
	h := recordingHead{Format: recordingFormat, Recording: *r, Reads: make([][3]int64, len(r.Reads))}
	for i, rd := range r.Reads {
		h.Reads[i] = [3]int64{rd.At, rd.Kernel, int64(len(rd.Bytes))}
	}
	line, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	return append(append(line, '\n'), r.Body()...), nil
}

// UnmarshalBinary reads what MarshalBinary wrote. The bytes of the reads alias
// data.
func (r *Recording) UnmarshalBinary(data []byte) error {
	line, body, ok := bytes.Cut(data, []byte{'\n'})
	if !ok {
		return errors.New("recording: no newline after the first line: the file is cut short or not a recording")
	}
	var h recordingHead
	if err := json.Unmarshal(line, &h); err != nil {
		return fmt.Errorf("recording: first line: %w", err)
	}
	if h.Format != recordingFormat {
		return fmt.Errorf("recording: format %q, want %q", h.Format, recordingFormat)
	}
	out := h.Recording
	out.Reads = make([]Read, len(h.Reads))
	last := int64(0)
	for i, m := range h.Reads {
		at, kernel, n := m[0], m[1], m[2]
		switch {
		case n <= 0 || n > int64(len(body)):
			return fmt.Errorf("recording: read %d: length %d, but %d bytes are left", i, n, len(body))
		case at < last:
			return fmt.Errorf("recording: read %d: stamp %d lies before the one before it, %d", i, at, last)
		case kernel < -1:
			return fmt.Errorf("recording: read %d: kernel stamp %d, want -1 or a time after t0", i, kernel)
		}
		out.Reads[i] = Read{At: at, Kernel: kernel, Bytes: body[:n:n]}
		body, last = body[n:], at
	}
	if len(body) > 0 {
		return fmt.Errorf("recording: %d bytes after the last read", len(body))
	}
	*r = out
	return nil
}
