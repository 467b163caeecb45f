package pool

import (
	"sync/atomic"
	"unsafe"
)

// ahead is memory that will be read soon. Who waits for the end of a Run, or for the
// next one, brings it near: reading it is what takes the time then, and until then
// nothing else may be read.
type ahead struct {
	from atomic.Pointer[byte]
	size atomic.Int64
	at   atomic.Int64
}

// aheadStep is how many bytes are asked for between two looks at whether there is
// work: some 0.1 µs of reading.
const aheadStep = 1024

// Ahead says what a Run after the next one will read first; nil: that isn't known.
// Threads that wait for others until then bring it into their caches.
func (p *Pool) Ahead(b []byte) {
	a := &p.ahead
	a.at.Store(1 << 40)
	a.from.Store(unsafe.SliceData(b))
	a.size.Store(int64(len(b)))
	a.at.Store(0)
}

// step asks for the next stretch, or pauses where there is none. A stretch of what
// was told before may be asked for too: that reads nothing that isn't there.
func (a *ahead) step() {
	if a.at.Load() >= a.size.Load() {
		pause(4)
		return
	}
	at := a.at.Add(aheadStep) - aheadStep
	if n := min(aheadStep, a.size.Load()-at); n > 0 {
		prefetch(a.from.Load(), at, n)
	}
}
