package pool

import (
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

func BenchmarkRun(b *testing.B) {
	p := New(2)
	defer p.Close()
	for b.Loop() {
		p.Run(2, func(int) {})
	}
}
