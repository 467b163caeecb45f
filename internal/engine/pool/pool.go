// Package pool runs the parts of a forward pass on a fixed number of goroutines.
package pool

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Pool runs a function over chunks of work on a fixed number of goroutines, the caller's among them. Chunks are taken
// one at a time from a shared counter, so a worker that the machine holds up costs one chunk, not a share.
//
// Between Runs a worker spins for about spin, then parks. GOMAXPROCS should be threads + 2 or more, so that other
// goroutines need not wait behind spinning ones.
type Pool struct {
	fn     func(int)
	chunks int32
	_      [52]byte
	left   atomic.Int32 // chunks not yet taken, or less than 0; on a cache line of its own
	_      [60]byte
	done   atomic.Int32
	_      [60]byte
	gen    atomic.Uint32
	closed atomic.Bool
	parked []atomic.Bool // one a worker
	wake   []chan struct{}
}

// spin is longer than the gaps within a forward pass, shorter than the gap between two requests.
const spin = 20 * time.Microsecond

// New starts threads-1 workers. threads is at least 1.
func New(threads int) *Pool {
	p := &Pool{parked: make([]atomic.Bool, threads-1), wake: make([]chan struct{}, threads-1)}
	for i := range p.wake {
		p.wake[i] = make(chan struct{}, 1)
		go p.worker(i)
	}
	return p
}

// Run calls fn(0) ... fn(chunks-1) and returns when all have returned. One Run at a time.
func (p *Pool) Run(chunks int, fn func(chunk int)) {
	if len(p.wake) == 0 || chunks <= 1 {
		for i := range chunks {
			fn(i)
		}
		return
	}
	// A worker that is late for the last Run may still count left down. That is harmless: below 0 it gets nothing,
	// and once left is set, so is all that belongs to this Run.
	p.fn, p.chunks = fn, int32(chunks)
	p.done.Store(0)
	p.left.Store(int32(chunks))
	p.gen.Add(1)
	for i := range p.parked {
		if p.parked[i].Load() && p.parked[i].CompareAndSwap(true, false) {
			p.wake[i] <- struct{}{}
		}
	}
	p.take()
	for n := 1; p.done.Load() != int32(chunks); n++ {
		pause(4)
		if n%256 == 0 { // a worker was taken off its processor with a chunk in hand
			runtime.Gosched()
		}
	}
}

func (p *Pool) take() {
	for {
		i := p.left.Add(-1)
		if i < 0 {
			return
		}
		p.fn(int(p.chunks - 1 - i))
		p.done.Add(1)
	}
}

func (p *Pool) worker(id int) {
	seen := uint32(0)
	for {
		start := time.Now()
		for n := 1; p.gen.Load() == seen; n++ {
			pause(4)
			if n%16 != 0 || time.Since(start) < spin {
				continue
			}
			p.parked[id].Store(true)
			// Run may have begun between the last look and the flag.
			if p.gen.Load() != seen && p.parked[id].CompareAndSwap(true, false) {
				break
			}
			<-p.wake[id]
			break
		}
		if p.closed.Load() {
			return
		}
		seen = p.gen.Load()
		p.take()
	}
}

// Threads is how many goroutines compute in a Run, the caller included.
func (p *Pool) Threads() int { return len(p.wake) + 1 }

// Close ends the workers. No Run may follow.
func (p *Pool) Close() {
	p.closed.Store(true)
	p.Run(2, func(int) {})
}
