package guard

import (
	"sync"
	"time"

	"assay/internal/kit/plan"
)

// Every is the time between readings: short enough for a process that takes a
// gigabyte a second and a limit of a few hundred megabytes.
const Every = 250 * time.Millisecond

// Config is what to watch, and what to do.
type Config struct {
	Limits []plan.Limit
	Every  time.Duration // 0: Every
	// Read takes one reading; its time is not looked at. It runs beside the watch
	// and may hang: nothing waits for it.
	Read func() Reading
	// Stop is called once, when a limit is reached, from a goroutine of its own.
	Stop func(Trip)
}

// Report is how a watch went.
type Report struct {
	Trip     *Trip         `json:"trip"` // null: no limit was reached
	Readings int           `json:"readings"`
	Longest  time.Duration `json:"longest"` // between two readings, or one and an end of the watch
	// Blind are the limits' quantities that no reading held, with the reason.
	Blind map[plan.Quantity]string `json:"blind,omitempty"`
}

// Watch is a guard at work.
type Watch struct {
	c       Config
	began   time.Time
	end     chan struct{}
	done    chan struct{}
	stopped sync.WaitGroup

	report Report // the goroutine's own until done is closed
	seen   map[plan.Quantity]bool
	why    map[plan.Quantity]string
	last   time.Duration // of the last reading
}

// Start begins to watch. End must be called.
func Start(c Config) *Watch {
	if c.Every <= 0 {
		c.Every = Every
	}
	w := &Watch{
		c: c, began: time.Now(), end: make(chan struct{}), done: make(chan struct{}),
		seen: map[plan.Quantity]bool{}, why: map[plan.Quantity]string{},
	}
	go w.run()
	return w
}

// End ends the watch and says how it went. It waits for a Stop that has begun,
// and never for a reading. After it no Stop is called.
func (w *Watch) End() Report {
	close(w.end)
	<-w.done
	w.stopped.Wait()
	w.gap(time.Since(w.began))
	w.report.Blind = map[plan.Quantity]string{}
	for _, l := range w.c.Limits {
		if q := l.Quantity; q != plan.RunTime && !w.seen[q] {
			why, ok := w.why[q]
			if !ok {
				why = "no reading was finished before the end"
			}
			w.report.Blind[q] = why
		}
	}
	return w.report
}

func (w *Watch) run() {
	defer close(w.done)
	judge := NewJudge(w.c.Limits)
	tick := time.NewTicker(w.c.Every)
	defer tick.Stop()
	readings := make(chan Reading, 1) // a reader whose watch has ended can still put its own there
	reading := false
	begin := func() {
		if reading || !w.needsReadings() {
			return
		}
		reading = true
		go func() { readings <- w.c.Read() }()
	}
	begin()
	for {
		var r Reading
		select {
		case <-w.end:
			return
		case r = <-readings:
			reading = false
			w.take(&r)
		case <-tick.C:
			begin()
			r.At = time.Since(w.began) // for the limit on time, which must not wait for a reading
		}
		if w.report.Trip != nil {
			continue
		}
		if t, tripped := judge.See(r); tripped {
			w.report.Trip = &t
			if w.c.Stop != nil {
				w.stopped.Go(func() { w.c.Stop(t) })
			}
		}
	}
}

// needsReadings is false when only the time is limited.
func (w *Watch) needsReadings() bool {
	for _, l := range w.c.Limits {
		if l.Quantity != plan.RunTime {
			return w.c.Read != nil
		}
	}
	return false
}

// take stamps a reading with the time at which it was finished.
func (w *Watch) take(r *Reading) {
	r.At = time.Since(w.began)
	w.gap(r.At)
	w.last = r.At
	w.report.Readings++
	for q := range r.Values {
		w.seen[q] = true
	}
	for q, why := range r.Why {
		w.why[q] = why
	}
}

func (w *Watch) gap(now time.Duration) {
	w.report.Longest = max(w.report.Longest, now-w.last)
}
