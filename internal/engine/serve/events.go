package serve

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// events writes server-sent events. Frames are gathered and sent together by
// send, so that what belongs to one token arrives in one read.
type events struct {
	w       http.ResponseWriter
	flusher *http.ResponseController
	buf     bytes.Buffer
	enc     *json.Encoder
	started bool
}

func newEvents(w http.ResponseWriter) *events {
	e := &events{w: w, flusher: http.NewResponseController(w)}
	e.enc = json.NewEncoder(&e.buf)
	e.enc.SetEscapeHTML(false)
	return e
}

// add puts one frame in the next write.
func (e *events) add(v any) error {
	e.buf.WriteString("data: ")
	if err := e.enc.Encode(v); err != nil { // ends the line
		return err
	}
	e.buf.WriteByte('\n')
	return nil
}

// send writes what was added. The first call sends the headers: until then a
// failure can still be an HTTP error.
func (e *events) send() error {
	if e.buf.Len() == 0 {
		return nil
	}
	if !e.started {
		e.started = true
		h := e.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // nginx would gather frames
		e.w.WriteHeader(http.StatusOK)
	}
	_, err := e.w.Write(e.buf.Bytes())
	e.buf.Reset()
	if err != nil {
		return err
	}
	return e.flusher.Flush()
}

// finish sends the rest and the mark of a stream that ended well.
func (e *events) finish() {
	e.buf.WriteString("data: [DONE]\n\n")
	_ = e.send() // who would be told has gone
}

// fail ends the stream with an error: as a frame, without the mark of a good
// end, when frames have been sent, else as an HTTP error.
func (e *events) fail(err *apiError) {
	if !e.started {
		writeError(e.w, err)
		return
	}
	e.buf.Reset() // half a frame, perhaps
	_ = e.add(errorBody{err})
	_ = e.send()
}
