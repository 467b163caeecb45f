package guard

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/plan"
)

var lowMemory = plan.Limit{Quantity: plan.MemoryAvailable, Value: 100, Then: plan.End}

// Memory falls by 100 bytes a second from 1000; it is read four times a second.
// The limit of 100 is passed after 9 s, so the reading at 9.25 s is the first
// beyond it.
func TestWatchTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		stopped := make(chan Trip, 2)
		w := Start(Config{
			Limits: []plan.Limit{lowMemory, {Quantity: plan.GPUTemperature, Value: 80}},
			Read: func() Reading {
				return Reading{
					Values: map[plan.Quantity]float64{plan.MemoryAvailable: 1000 - 100*time.Since(began).Seconds()},
					Why:    map[plan.Quantity]string{plan.GPUTemperature: "no sensor"},
				}
			},
			Stop: func(trip Trip) {
				time.Sleep(2 * time.Second) // it takes a while to stop a target
				stopped <- trip
			},
		})
		time.Sleep(10 * time.Second)
		r := w.End()
		want := Trip{lowMemory, 75, 75, 9250 * time.Millisecond, 9250 * time.Millisecond, 1}
		if r.Trip == nil || *r.Trip != want || len(stopped) != 1 || <-stopped != want {
			t.Errorf("%+v, %d stops", r.Trip, len(stopped))
		}
		if took := time.Since(began); took != 11250*time.Millisecond {
			t.Errorf("End returned after %v: it waits for the stop, which began at 9.25 s", took)
		}
		if diff := cmp.Diff(map[plan.Quantity]string{plan.GPUTemperature: "no sensor"}, r.Blind); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWatchWithoutTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := Start(Config{
			Limits: []plan.Limit{lowMemory},
			Read:   func() Reading { return Reading{Values: map[plan.Quantity]float64{plan.MemoryAvailable: 500}} },
			Stop:   func(Trip) { t.Error("stopped") },
		})
		time.Sleep(1100 * time.Millisecond)
		r := w.End()
		// at 0, 0.25, 0.5, 0.75 and 1 s
		if r.Trip != nil || r.Readings != 5 || r.Longest != 250*time.Millisecond || len(r.Blind) != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// A reading that hangs holds up nothing: the limit on time still stops the run,
// and the end comes at once. What was never read is told.
func TestWatchWithAHangingReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var reads, stops atomic.Int32
		w := Start(Config{
			Limits: []plan.Limit{lowMemory, {Quantity: plan.RunTime, Value: 3, Then: plan.Next}},
			Read: func() Reading {
				reads.Add(1)
				<-release
				return Reading{}
			},
			Stop: func(Trip) { stops.Add(1) },
		})
		time.Sleep(5 * time.Second)
		before := time.Now()
		r := w.End()
		if time.Since(before) != 0 || reads.Load() != 1 || stops.Load() != 1 {
			t.Errorf("End took %v; %d readings begun, %d stops", time.Since(before), reads.Load(), stops.Load())
		}
		if r.Trip == nil || r.Trip.At != 3250*time.Millisecond || r.Readings != 0 || r.Longest != 5*time.Second {
			t.Errorf("%+v", r)
		}
		if why := r.Blind[plan.MemoryAvailable]; why != "no reading was finished before the end" {
			t.Errorf("blind: %q", why)
		}
		close(release) // the reader can leave, though no one listens any more
	})
}

// With only the time to watch, nothing is read.
func TestWatchTimeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := Start(Config{
			Limits: []plan.Limit{{Quantity: plan.RunTime, Value: 1}},
			Every:  100 * time.Millisecond,
			Read: func() Reading {
				t.Error("read")
				return Reading{}
			},
		})
		time.Sleep(2 * time.Second)
		if r := w.End(); r.Trip == nil || r.Trip.Value != 1.1 || len(r.Blind) != 0 {
			t.Errorf("%+v", r)
		}
	})
}
