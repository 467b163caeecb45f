// Package pool runs the parts of a forward pass on a fixed number of goroutines.
package pool

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Pool runs a function over chunks of work on a fixed number of goroutines, the
// caller's among them. Chunks are taken from a shared counter, some at once while
// many are left and one at a time in the end, so a worker that is slow costs few
// chunks, not a share.
//
// Within a pass a worker spins, and parks once there was no Run for about spin:
// waking one takes longer than most Runs. GOMAXPROCS should be threads + 2 or more,
// so that other goroutines need not wait behind spinning ones.
//
// A worker whose processor is given to another program in the middle of a chunk
// holds everybody up, for some milliseconds each time. When that takes a larger
// share of the time than the worker is worth, it is benched: it gets no chunks
// for a while, and for longer if it stalls again afterwards. So a busy neighbour
// on one processor makes a pool of two threads about as fast as one of one
// thread, not slower.
type Pool struct {
	fn     func(int)
	chunks int32
	share  int32 // of the chunks that are left a worker takes one in so many
	_      [48]byte
	left   atomic.Int32 // chunks not yet taken, or less than 0; on a cache line of its own
	_      [60]byte
	done   atomic.Int32
	_      [60]byte
	gen    atomic.Uint32
	going  atomic.Bool // a Run is
	soon   atomic.Bool // see Soon
	closed atomic.Bool
	_      [48]byte

	ahead ahead
	_     [40]byte

	workers []*worker
	benches atomic.Int64

	// Only Run looks at these.
	seen   time.Time     // when now was last called
	idle   time.Duration // of the pauses that now leaves out
	away   int           // workers that are benched
	window time.Time     // stalls are counted since
	lost   time.Duration // waiting in them
	stalls int
	trial  trial
}

// worker is one goroutine besides the caller's.
type worker struct {
	parked  atomic.Bool
	busy    atomic.Bool // may have a chunk in hand
	benched atomic.Bool // takes no chunks
	_       [61]byte
	wake    chan struct{}

	// Only Run looks at these.
	stalled bool          // in the window
	until   time.Time     // benched to here
	penalty time.Duration // the last time on the bench
	lapse   time.Time     // when that is forgotten
}

// A worker takes so many chunks at once, but no more than its half of an equal part
// of those that are left: memory is read faster in longer stretches, and what is in
// the caches for one chunk often serves the next.
const (
	takeMost = 8
	takePart = 2
)

const (
	// spin is longer than the gaps within a forward pass, shorter than the gap
	// between two requests.
	spin = 20 * time.Microsecond
	// spinRun is how long a worker without chunks waits for others to end theirs,
	// before it leaves its processor to them: longer than chunks take, shorter than
	// the time that a neighbour is given.
	spinRun = 300 * time.Microsecond

	// A wait at the end of a Run that is longer than both of these is a stall: an
	// ordinary one ends with the last chunk.
	stallLeast  = 200 * time.Microsecond
	stallChunks = 8 // times what a chunk takes

	// unknownChunk is what a chunk may take where the caller did none itself.
	unknownChunk = time.Millisecond

	// Stalls are counted over so long: at least two of them.
	windowLeast = 20 * time.Millisecond
	windowMost  = 200 * time.Millisecond

	// A worker is benched for so long; twice as long each time that follows soon.
	penaltyFirst   = 200 * time.Millisecond
	penaltyLongest = 2 * time.Second

	// A pause between two Runs of such a length is one between requests. After a
	// longer one the neighbour may be gone.
	idleLeast = 50 * time.Millisecond
	idleMost  = 10 * time.Second
)

// Patience is how long who waits for a disk looks for what comes itself, before it
// sleeps: longer than a disk takes for an expert. To be woken takes longer than most Runs.
const Patience = 2 * time.Millisecond

// New starts threads-1 workers. threads is at least 1.
func New(threads int) *Pool {
	p := &Pool{workers: make([]*worker, threads-1), share: int32(takePart * threads), seen: time.Now()}
	for i := range p.workers {
		w := &worker{wake: make(chan struct{}, 1)}
		p.workers[i] = w
		go p.work(w)
	}
	return p
}

// Run calls fn(0) ... fn(chunks-1) and returns when all have returned. One Run
// at a time.
func (p *Pool) Run(chunks int, fn func(chunk int)) {
	if p.soon.Load() {
		p.soon.Store(false)
	}
	if p.away > 0 {
		p.recall()
	}
	if len(p.workers) == p.away || chunks <= 1 {
		for i := range chunks {
			fn(i)
		}
		return
	}
	// A worker that is late for the last Run may still count left down. That is
	// harmless: below 0 it gets nothing, and once left is set, so is all that
	// belongs to this Run.
	p.fn, p.chunks = fn, int32(chunks)
	p.done.Store(0)
	p.left.Store(int32(chunks))
	p.going.Store(true)
	p.gen.Add(1)
	for _, w := range p.workers {
		if !w.benched.Load() && w.parked.Load() && w.parked.CompareAndSwap(true, false) {
			w.wake <- struct{}{}
		}
	}
	began := p.now()
	own := p.take()
	if p.done.Load() != int32(chunks) {
		p.wait(int32(chunks), began, own)
	}
	p.going.Store(false)
}

// Soon says that a Run will follow when what it waits for is there, within
// Patience: until then workers that wait for it don't park, but give way to others.
func (p *Pool) Soon() { p.soon.Store(true) }

// now is a clock that stands still between requests: times on the bench are times
// of computing, or each short request would try the worker anew.
func (p *Pool) now() time.Time {
	t := time.Now()
	if gap := t.Sub(p.seen); gap > idleLeast && gap < idleMost {
		p.idle += gap
	}
	p.seen = t
	return t.Add(-p.idle)
}

// wait spins until all chunks are done, and counts it as a stall of the workers
// that still have one in hand after an unusual time. The caller did own chunks
// since began.
func (p *Pool) wait(chunks int32, began time.Time, own int) {
	var start time.Time
	usual := unknownChunk
	stalled := false
	for n := 1; p.done.Load() != chunks; n++ {
		p.ahead.step()
		if n%64 != 0 {
			continue
		}
		now := p.now()
		switch {
		case start.IsZero():
			start = now
			if own > 0 {
				usual = start.Sub(began) / time.Duration(own)
			}
		case !stalled && now.Sub(start) > max(stallLeast, stallChunks*usual):
			stalled = true
			for _, w := range p.workers {
				w.stalled = w.stalled || w.busy.Load()
			}
		}
		// Let what holds us up have this processor. Not before it does: the scheduler
		// would wake a thread each time, to find it nothing to run.
		if stalled && n%256 == 0 {
			runtime.Gosched()
		}
	}
	if stalled {
		p.count(began, start, p.now())
	}
}

// count adds a stall, from start to now in a Run since began, and benches who
// caused it when too much was lost. Without one of n workers the others do (n-1)/n
// of what all would; so a worker is worth 1/n of the time.
func (p *Pool) count(began, start, now time.Time) {
	if now.Sub(p.window) > windowMost {
		p.window, p.lost, p.stalls = began, 0, 0
	}
	p.lost += now.Sub(start)
	p.stalls++
	p.trial.stall = now
	if now.Before(p.trial.immune) { // it is known that all workers are faster
		return
	}
	elapsed, n := now.Sub(p.window), time.Duration(p.Threads()-p.away)
	if p.stalls < 2 || elapsed < windowLeast || p.lost*n*10 < elapsed*9 {
		return
	}
	for _, w := range p.workers {
		if w.stalled && !w.benched.Load() {
			p.bench(w, now)
		}
		w.stalled = false
	}
	p.window = time.Time{}
}

// bench sends a worker away for a time.
func (p *Pool) bench(w *worker, now time.Time) {
	if now.After(w.lapse) {
		w.penalty = 0
	}
	w.penalty = min(max(penaltyFirst, 2*w.penalty), penaltyLongest)
	w.until, w.lapse = now.Add(w.penalty), now.Add(2*w.penalty)
	w.benched.Store(true)
	p.away++
	p.benches.Add(1)
}

// recall takes workers back whose time is over.
func (p *Pool) recall() {
	now := p.now()
	for _, w := range p.workers {
		if w.benched.Load() && now.After(w.until) {
			w.benched.Store(false)
			p.away--
			p.trial.with = mean{}
		}
	}
}

// take runs chunks until there are none, and returns how many it ran.
func (p *Pool) take() int {
	n := 0
	for {
		k := max(1, min(takeMost, p.left.Load()/p.share))
		i := p.left.Add(-k)
		if i <= -k {
			return n
		}
		for c := i + k - 1; c >= max(0, i); c-- {
			p.fn(int(p.chunks - 1 - c))
			p.done.Add(1)
			n++
		}
	}
}

func (p *Pool) work(w *worker) {
	seen := uint32(0)
	for {
		start := time.Now()
		idle := start
		for n := 1; p.gen.Load() == seen; n++ {
			if !w.benched.Load() {
				p.ahead.step()
				if n%16 != 0 {
					continue
				}
				now := time.Now()
				if p.going.Load() {
					idle = now
					if now.Sub(start) < spinRun {
						continue
					}
				} else if now.Sub(idle) < spin {
					continue
				} else if p.soon.Load() && now.Sub(idle) < Patience {
					Yield()
					continue
				}
			}
			w.parked.Store(true)
			// Run may have begun between the last look and the flag.
			if p.gen.Load() != seen && w.parked.CompareAndSwap(true, false) {
				break
			}
			<-w.wake
			break
		}
		if p.closed.Load() {
			return
		}
		seen = p.gen.Load()
		if !w.benched.Load() {
			w.busy.Store(true)
			p.take()
			w.busy.Store(false)
		}
	}
}

// Threads is how many goroutines compute in a Run, the caller included, when
// nothing holds them up.
func (p *Pool) Threads() int { return len(p.workers) + 1 }

// Benched is how often a worker was benched.
func (p *Pool) Benched() int64 { return p.benches.Load() }

// Close ends the workers. No Run may follow.
func (p *Pool) Close() {
	for _, w := range p.workers {
		w.benched.Store(false)
	}
	p.away = 0
	p.closed.Store(true)
	p.Run(2, func(int) {})
}
