// Package machine measures what the processor and memory can do at best, so
// that the engine's speed can be held against it: how fast plain loads read
// memory, and how many int8 operations a second the multiply-and-add
// instruction of the kernels gives.
//
// Both are measured in short passes, on as many threads as the engine computes
// with. A shared machine changes within seconds, so measure close to what the
// figure is compared with.
package machine

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Result is a set of passes.
type Result struct {
	Passes []float64 // a second: bytes or operations, all threads together
	How    string    // the instruction that was used
	Huge   int64     // bytes of the memory that lay in huge pages; -1 where that can't be read
	Bytes  int64     // size of the memory that was read; 0 for arithmetic
}

// chunk is how many bytes a thread reads before it takes the next piece:
// longer than what prefetchers need to get going, short enough that all threads
// end together.
const chunk = 1 << 20

// Reader owns memory to read.
type Reader struct {
	memory *memory
}

// NewReader makes memory of n bytes (a multiple of 1 MiB; larger than the
// caches several times over) and writes to all of it. huge asks for 2 MiB pages.
func NewReader(n int, huge bool) (*Reader, error) {
	n = max(n/chunk, 1) * chunk
	m, err := newMemory(n, huge)
	if err != nil {
		return nil, fmt.Errorf("%d bytes of memory to read: %w", n, err)
	}
	for i := 0; i < n; i += 4096 {
		m.data[i] = byte(i >> 12)
	}
	return &Reader{m}, nil
}

// Close gives the memory back.
func (r *Reader) Close() error { return r.memory.close() }

// Read reads all of the memory, passes times over, on the given number of
// threads. It ends early, with the passes made, when ctx does.
func (r *Reader) Read(ctx context.Context, threads, passes int) Result {
	data := r.memory.data
	out := Result{How: readHow, Bytes: int64(len(data)), Huge: r.memory.hugeBytes()}
	chunks := len(data) / chunk
	for range passes {
		if ctx.Err() != nil {
			break
		}
		seconds := together(threads, func(thread int) {
			// Each thread has a stretch of its own, as a kernel's workers have.
			for i := thread * chunks / threads; i < (thread+1)*chunks/threads; i++ {
				read(data[i*chunk:][:chunk])
			}
		})
		out.Passes = append(out.Passes, float64(chunks*chunk)/seconds)
	}
	return out
}

// Arithmetic measures int8 multiplications and additions, counted as two
// operations a pair, on the given number of threads, with all operands in
// registers. It ends early, with the passes made, when ctx does.
func Arithmetic(ctx context.Context, threads, passes int) Result {
	out := Result{How: dotHow, Huge: -1}
	const calls = 400 // of about 10 microseconds: an assembly call can't be stopped
	for range passes {
		if ctx.Err() != nil {
			break
		}
		seconds := together(threads, func(int) {
			for range calls {
				dot(dotRounds)
			}
		})
		out.Passes = append(out.Passes, float64(threads)*calls*dotRounds*dotOps/seconds)
	}
	return out
}

// together runs f on threads threads of their own and returns how long that
// took, from when all were ready.
func together(threads int, f func(thread int)) (seconds float64) {
	if n := threads + 2; runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range threads {
		ready.Add(1)
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			<-start
			f(i)
		})
	}
	ready.Wait()
	t := time.Now()
	close(start)
	done.Wait()
	return time.Since(t).Seconds()
}
