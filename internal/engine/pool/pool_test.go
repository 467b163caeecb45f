package pool

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every chunk of every Run is run exactly once, for any number of threads, and
// Run returns only when all are done.
func TestRunDoesEveryChunkOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 5} {
		p := New(threads)
		if got := p.Threads(); got != threads {
			t.Errorf("Threads() = %d, want %d", got, threads)
		}
		for round := range 500 {
			chunks := round % 37
			counts := make([]atomic.Int32, chunks)
			p.Run(chunks, func(i int) { counts[i].Add(1) })
			for i := range counts {
				if n := counts[i].Load(); n != 1 {
					t.Fatalf("%d threads, round %d: chunk %d ran %d times", threads, round, i, n)
				}
			}
			if round%100 == 0 {
				time.Sleep(time.Millisecond) // let the workers park
			}
		}
		p.Close()
	}
}

// Results written by the workers are visible to the caller, and plain variables
// set before Run to the workers (the race detector checks this).
func TestRunOrdersMemory(t *testing.T) {
	p := New(3)
	defer p.Close()
	in, out := make([]int, 64), make([]int, 64)
	for round := range 200 {
		for i := range in {
			in[i] = round * i
		}
		p.Run(len(in), func(i int) { out[i] = in[i] + 1 })
		for i := range out {
			if out[i] != round*i+1 {
				t.Fatalf("round %d: out[%d] = %d, want %d", round, i, out[i], round*i+1)
			}
		}
	}
}

// Workers and caller that are held up at random, for up to 2 ms, lose nothing:
// in 1,000 Runs every chunk is run once.
func TestRunUnderRandomStalls(t *testing.T) {
	const threads = 3
	p := New(threads)
	defer p.Close()
	r := rand.New(rand.NewPCG(1, 2))
	runs := 1000
	if testing.Short() {
		runs = 200
	}
	for round := range runs {
		counts := make([]atomic.Int32, 1+r.IntN(40))
		stall := make([]time.Duration, len(counts))
		for i := range stall {
			if r.IntN(60) == 0 {
				stall[i] = time.Duration(r.Int64N(int64(2 * time.Millisecond)))
			}
		}
		p.Run(len(counts), func(i int) {
			time.Sleep(stall[i])
			counts[i].Add(1)
		})
		for i := range counts {
			if n := counts[i].Load(); n != 1 {
				t.Fatalf("round %d: chunk %d of %d ran %d times", round, i, len(counts), n)
			}
		}
	}
}

// A worker that stalls is benched: the Runs that follow don't wait for it. After
// its time it takes chunks again.
func TestStalledWorkerIsBenched(t *testing.T) {
	p := New(2)
	defer p.Close()
	caller := goroutine()
	var byWorker atomic.Int32
	var stalling atomic.Bool
	run := func() {
		var taken atomic.Int32
		p.Run(8, func(int) {
			if goroutine() != caller {
				byWorker.Add(1)
				if stalling.Load() {
					time.Sleep(4 * time.Millisecond)
				}
			}
			// Both get some: nobody ends before the other has begun, or a while has passed.
			for start := time.Now(); taken.Add(1) < 2 && time.Since(start) < 100*time.Microsecond; {
				taken.Add(-1)
			}
		})
	}
	stalling.Store(true)
	for deadline := time.Now().Add(10 * time.Second); p.Benched() == 0; run() {
		if time.Now().After(deadline) {
			t.Fatal("a worker that sleeps with each chunk was not benched")
		}
	}
	before := byWorker.Load()
	if p.away != 1 {
		t.Errorf("%d workers are away, want 1", p.away)
	}
	until := p.workers[0].until
	run()
	if n := byWorker.Load() - before; n > 0 && time.Now().Before(until) {
		t.Errorf("a benched worker ran %d chunks", n)
	}
	stalling.Store(false)
	for deadline := time.Now().Add(10 * time.Second); byWorker.Load() == before; run() {
		if time.Now().After(deadline) {
			t.Fatal("the worker never came back")
		}
	}
}

// A worker that has no chunks left doesn't park while the caller still computes: it
// would have to be woken for the next Run.
func TestWorkerWaitsForTheEndOfARun(t *testing.T) {
	p := New(2)
	defer p.Close()
	caller := goroutine()
	waited, parked := 0, 0
	for range 200 {
		began := time.Now()
		p.Run(2, func(int) {
			for start := time.Now(); goroutine() == caller && time.Since(start) < 5*spin; {
			}
		})
		if time.Since(began) > 12*spin || p.away > 0 {
			continue // the machine is busy, and the worker had reason to park
		}
		waited++
		if p.workers[0].parked.Load() {
			parked++
		}
	}
	if parked > waited/4 {
		t.Errorf("the worker was parked at the end of %d Runs of %d", parked, waited)
	}
}

// A worker that waits for a Run that comes soon does not park: waking it would take
// longer than many a Run. One that waits for longer does.
func TestWorkerWaitsForARunThatComesSoon(t *testing.T) {
	p := New(2)
	defer p.Close()
	w := p.workers[0]
	waited, parked := 0, 0
	for range 50 {
		p.Run(2, func(int) {})
		p.Soon()
		began := time.Now()
		for time.Since(began) < Patience/4 {
			Yield()
		}
		was := w.parked.Load()
		if time.Since(began) > Patience/2 || p.away > 0 {
			continue // the machine is busy
		}
		if waited++; was {
			parked++
		}
	}
	if parked > waited/4 {
		t.Errorf("the worker was parked %d times of %d although a Run came soon", parked, waited)
	}
	p.Soon()
	for end := time.Now().Add(10 * time.Second); !w.parked.Load(); time.Sleep(Patience) {
		if time.Now().After(end) {
			t.Fatal("no Run comes, and the worker does not park")
		}
	}
}

// goroutine is a name for the goroutine that calls it.
func goroutine() string {
	var b [64]byte
	name, _, _ := strings.Cut(string(b[:runtime.Stack(b[:], false)]), "[")
	return name
}

func BenchmarkRun(b *testing.B) {
	p := New(2)
	defer p.Close()
	for b.Loop() {
		p.Run(2, func(int) {})
	}
}
