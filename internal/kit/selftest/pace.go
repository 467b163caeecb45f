package selftest

import (
	"container/heap"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// nap is the longest that the pacer sleeps: how long a new stream may wait
// before the pacer looks at it. A stalled connection is tried again as often.
const nap = int64(time.Millisecond)

// pacer plays all streams in one thread of its own. A sleep in a goroutine ends
// up to a millisecond late, since the Go runtime waits in whole milliseconds;
// here the thread itself sleeps until the next frame is due and then writes it,
// without waking anyone in between.
type pacer struct {
	clock clock
	mu    sync.Mutex
	fresh []*playing    // handed over, not yet taken up
	news  chan struct{} // there is something fresh
	quit  chan struct{}
	heap  playHeap
	buf   []byte
}

func newPacer(c clock) *pacer {
	return &pacer{clock: c, news: make(chan struct{}, 1), quit: make(chan struct{})}
}

// playing is a stream on its way.
type playing struct {
	*script
	raw     syscall.RawConn
	arrived int64  // the request had been read
	next    int    // step
	due     int64  // when to go on
	rest    []byte // second half of an event that is cut
	held    []byte // bytes of a clump
	pending []byte // bytes for the socket
	send    func(fd uintptr) bool
	sent    int // bytes that send got rid of
	done    chan struct{}
	err     error
	truth   Truth
}

// Truth is what the server did, by its own clock.
type Truth struct {
	ID          string  `json:"id"`            // of the completion
	Model       string  `json:"model"`         // the schedule
	ArrivedUnix float64 `json:"arrived_unix"`  // wall clock, s
	ArrivedNS   int64   `json:"arrived_ns"`    // CLOCK_MONOTONIC: the request had been read
	FirstNS     int64   `json:"first_ns"`      // the first token frame was sent; 0: none
	LastNS      int64   `json:"last_ns"`       // the last one
	FirstTokens int     `json:"first_tokens"`  // in the first token frame
	Tokens      int     `json:"tokens"`        // in all
	Frames      int     `json:"frames"`        // token frames
	LateMeanMS  float64 `json:"late_mean_ms"`  // token frames against the schedule
	LateMaxMS   float64 `json:"late_max_ms"`   //
	Stalls      int     `json:"stalls"`        // writes that found the socket full
	Err         string  `json:"err,omitempty"` // why it was not played to its end
}

// play plays a script on a connection and returns when it is over.
func (p *pacer) play(s *script, raw syscall.RawConn, t Truth) (Truth, error) {
	pl := &playing{script: s, raw: raw, arrived: t.ArrivedNS, truth: t, done: make(chan struct{})}
	pl.send = func(fd uintptr) bool {
		pl.sent, pl.err = write(fd, pl.pending)
		return true
	}
	pl.due = pl.arrived
	p.mu.Lock()
	p.fresh = append(p.fresh, pl)
	p.mu.Unlock()
	select {
	case p.news <- struct{}{}:
	default:
	}
	select {
	case <-pl.done:
	case <-p.quit:
		t.Err = errStopped.Error()
		return t, errStopped
	}
	if n := pl.truth.Frames; n > 0 {
		pl.truth.LateMeanMS /= float64(n)
	}
	if pl.err != nil {
		pl.truth.Err = pl.err.Error()
	}
	return pl.truth, pl.err
}

// run is the pacer's thread. It ends when quit is closed.
func (p *pacer) run() {
	runtime.LockOSThread() // never unlocked: its timer slack is not for others
	punctual()
	for {
		if len(p.heap) == 0 {
			select {
			case <-p.news:
			case <-p.quit:
				return
			}
		}
		p.takeUp()
		for len(p.heap) > 0 && p.heap[0].due <= p.clock.now() {
			pl := p.heap[0]
			if p.advance(pl) {
				heap.Pop(&p.heap)
				close(pl.done)
			} else {
				heap.Fix(&p.heap, 0)
			}
		}
		select {
		case <-p.quit:
			return
		default:
		}
		if len(p.heap) > 0 {
			now := p.clock.now()
			if due := min(p.heap[0].due, now+nap); due > now {
				p.clock.sleepUntil(due)
			}
		}
	}
}

func (p *pacer) takeUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pl := range p.fresh {
		heap.Push(&p.heap, pl)
	}
	p.fresh = p.fresh[:0]
}

// advance does what is due for one stream and says whether it is over.
func (p *pacer) advance(pl *playing) (over bool) {
	if len(pl.pending) == 0 && !p.fill(pl) {
		return false
	}
	if err := pl.raw.Write(pl.send); err != nil && pl.err == nil {
		pl.err = err
	}
	if pl.err != nil {
		return true
	}
	pl.pending = pl.pending[:copy(pl.pending, pl.pending[pl.sent:])]
	switch {
	case len(pl.pending) > 0:
		pl.truth.Stalls++
		pl.due = p.clock.now() + nap
	case len(pl.rest) > 0:
		pl.due = p.clock.now() + cutPause
	case pl.next == len(pl.steps):
		return true
	default:
		pl.due = pl.stepDue()
	}
	return false
}

// cutPause lies between the two halves of an event that is cut, so that they are
// not read as one.
const cutPause = int64(time.Millisecond)

// stepDue is when the next step is due.
func (pl *playing) stepDue() int64 { return pl.arrived + int64(pl.steps[pl.next].due) }

// fill puts the bytes that are due into pending. It says whether there are any:
// a clump may hold them back.
func (p *pacer) fill(pl *playing) bool {
	out := pl.rest
	if len(out) == 0 {
		if out = p.event(pl); len(out) == 0 {
			pl.due = pl.stepDue()
			return false
		}
		if pl.cut && len(out) > 1 {
			at := 1 + (7*pl.next)%(len(out)-1)
			pl.rest, out = append(pl.rest, out[at:]...), out[:at]
		}
	} else {
		pl.rest = pl.rest[:0]
	}
	pl.pending = appendChunk(pl.pending[:0], out)
	if pl.next == len(pl.steps) && len(pl.rest) == 0 && !pl.hangUp {
		pl.pending = append(pl.pending, "0\r\n\r\n"...)
	}
	return true
}

// event renders the next step and returns what of it is to be sent now.
func (p *pacer) event(pl *playing) []byte {
	p.render(pl, &pl.steps[pl.next])
	pl.next++
	if pl.clump == 0 {
		return p.buf
	}
	pl.held = append(pl.held, p.buf...)
	n := len(pl.held)
	switch {
	case pl.next == len(pl.steps):
	case n < pl.clump:
		return nil
	default:
		n = pl.clump
	}
	p.buf = append(p.buf[:0], pl.held[:n]...)
	pl.held = pl.held[:copy(pl.held, pl.held[n:])]
	return p.buf
}

// render puts an event's bytes into buf. Its stamp is the last thing that is
// taken before they go out.
func (p *pacer) render(pl *playing, s *step) {
	if s.raw {
		p.buf = append(p.buf[:0], s.body...)
		return
	}
	due := pl.stepDue()
	b := append(p.buf[:0], pl.prefix...)
	b = append(b, `{"id":"`...)
	b = append(b, pl.truth.ID...)
	b = append(b, '"')
	b = append(b, s.body...)
	b = append(b, `,"arrived_ns":`...)
	b = strconv.AppendInt(b, pl.arrived, 10)
	b = append(b, `,"due_ns":`...)
	b = strconv.AppendInt(b, due, 10)
	b = append(b, `,"sent_ns":`...)
	now := p.clock.now()
	b = strconv.AppendInt(b, now, 10)
	b = append(b, '}')
	p.buf = append(b, pl.suffix...)
	if s.tokens == 0 {
		return
	}
	t := &pl.truth
	if t.Frames == 0 {
		t.FirstNS, t.FirstTokens = now, s.tokens
	}
	t.LastNS = now
	t.Frames++
	t.Tokens += s.tokens
	late := float64(now-due) / 1e6
	t.LateMeanMS += late // the sum, until the stream is over
	t.LateMaxMS = max(t.LateMaxMS, late)
}

// appendChunk frames bytes as HTTP does.
func appendChunk(b, p []byte) []byte {
	b = strconv.AppendInt(b, int64(len(p)), 16)
	b = append(b, "\r\n"...)
	b = append(b, p...)
	return append(b, "\r\n"...)
}

// playHeap has the stream that is due next at its top.
type playHeap []*playing

func (h playHeap) Len() int           { return len(h) }
func (h playHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h playHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *playHeap) Push(x any)        { *h = append(*h, x.(*playing)) }
func (h *playHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return x
}
