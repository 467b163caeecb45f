package serve

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// events writes server-sent events. Frames are gathered and sent together by
// send, so that what belongs to one token arrives in one read.
type events struct {
	w       http.ResponseWriter
	flusher *http.ResponseController
	buf     bytes.Buffer
	enc     *json.Encoder
	// A client that takes nothing for so long is gone: it must not hold a slot.
	// The kernel's buffers take some megabytes before a write waits at all.
	stall time.Duration

	mu      sync.Mutex // of what follows, and of writing: pings come from elsewhere
	started bool
	last    time.Time // of the last write
	broken  error
}

func newEvents(w http.ResponseWriter, stall time.Duration) *events {
	e := &events{w: w, stall: stall, flusher: http.NewResponseController(w), last: time.Now()}
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
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.write(e.buf.Bytes())
	e.buf.Reset()
	return err
}

// write is for who holds mu.
func (e *events) write(b []byte) error {
	if e.broken != nil {
		return e.broken
	}
	if !e.started {
		e.started = true
		h := e.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // nginx would gather frames
		e.w.WriteHeader(http.StatusOK)
	}
	e.last = time.Now()
	_ = e.flusher.SetWriteDeadline(e.last.Add(e.stall)) // where it can't be set, there is none
	_, err := e.w.Write(b)
	if err == nil {
		err = e.flusher.Flush()
	}
	_ = e.flusher.SetWriteDeadline(time.Time{}) // the connection may be used again
	e.broken = err
	return err
}

// keepAlive sends a comment whenever nothing was sent for a while, as when a
// long prompt is read, so that proxies and clients don't give up; readers of
// events skip comments. The function that it returns ends this, and must be
// called before the handler returns.
func (e *events) keepAlive(every time.Duration) (stop func()) {
	done := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		t := time.NewTimer(every)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
			}
			e.mu.Lock()
			idle := time.Since(e.last)
			if idle >= every {
				_ = e.write([]byte(": still working\n\n")) // the next frame is told
				idle = 0
			}
			e.mu.Unlock()
			t.Reset(every - idle)
		}
	})
	return func() {
		close(done)
		wait.Wait()
	}
}

// finish sends the rest and the mark of a stream that ended well.
func (e *events) finish() {
	e.buf.WriteString("data: [DONE]\n\n")
	_ = e.send() // who would be told has gone
}

// fail ends the stream with an error: as a frame, without the mark of a good
// end, when frames have been sent, else as an HTTP error.
func (e *events) fail(err *apiError) {
	e.mu.Lock()
	started := e.started
	if !started {
		e.started = true // a ping must not follow
		e.broken = err
		e.mu.Unlock()
		writeError(e.w, err)
		return
	}
	e.mu.Unlock()
	e.buf.Reset() // half a frame, perhaps
	_ = e.add(errorBody{err})
	_ = e.send()
}
