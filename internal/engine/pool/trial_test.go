package pool

import (
	"testing"
	"time"
)

// After a stall the pool tries to do without the worker. It keeps to what is
// faster: takes the worker back when it is missed, and benches it again, for
// longer, when it is no help after its return.
func TestTrialKeepsWhatIsFaster(t *testing.T) {
	for _, c := range []struct {
		name    string
		without time.Duration // with the worker it is 10 ms
		again   bool          // benched again
	}{
		{"the worker is missed", 15 * time.Millisecond, false},
		{"the worker is a burden", 6 * time.Millisecond, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := New(2)
			defer p.Close()
			observe := func(d time.Duration) {
				for range trialTimes {
					p.Observe(d)
				}
			}
			observe(10 * time.Millisecond)
			if p.away != 0 {
				t.Fatal("a worker was benched without a stall")
			}
			p.trial.stall = p.now()
			p.Observe(10 * time.Millisecond)
			if p.away != 1 {
				t.Fatalf("%d workers are away after a stall, want 1", p.away)
			}
			first := p.workers[0].penalty
			observe(c.without)
			p.workers[0].until = p.now().Add(-1) // its time is over
			p.Run(2, func(int) {})
			if p.away != 0 {
				t.Fatalf("%d workers are away after their time, want 0", p.away)
			}
			p.trial.stall = time.Time{}
			observe(10 * time.Millisecond)
			if again := p.away == 1; again != c.again {
				t.Errorf("benched again: %v, want %v", again, c.again)
			}
			if c.again && p.workers[0].penalty != 2*first {
				t.Errorf("benched for %v after %v, want twice as long", p.workers[0].penalty, first)
			}
			if immune := p.now().Before(p.trial.immune); immune == c.again {
				t.Errorf("no further trial: %v, want %v", immune, !c.again)
			}
		})
	}
}

// What is plain needs no four passes: back from the bench, a worker that makes
// each take half as long again goes after two.
func TestTrialEndsEarlyWhenItIsPlain(t *testing.T) {
	p := New(2)
	defer p.Close()
	p.trial.without = mean{trialTimes * 10 * time.Millisecond, trialTimes}
	p.Observe(15 * time.Millisecond)
	if p.away != 0 {
		t.Fatal("benched after one pass")
	}
	p.Observe(15 * time.Millisecond)
	if p.away != 1 {
		t.Error("not benched after two passes")
	}
}

// Time on the bench is time of computing: a pause between two requests, in which
// the workers are parked, is not counted.
func TestBenchOutlastsAPause(t *testing.T) {
	p := New(2)
	defer p.Close()
	w := p.workers[0]
	p.bench(w, p.now())
	pause := func(d time.Duration) { // as if all so far had been so much earlier
		p.seen, w.until = p.seen.Add(-d), w.until.Add(-d)
		p.Run(2, func(int) {})
	}
	if pause(5 * time.Second); p.away != 1 {
		t.Error("the worker is back after a pause of 5 s")
	}
	if pause(time.Minute); p.away != 0 {
		t.Error("the worker is still away after a pause of a minute")
	}
}
