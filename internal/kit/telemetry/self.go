package telemetry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"
)

// selfSource reads what the kit itself costs.
type selfSource struct {
	rec   *Recorder
	stats debug.GCStats // its buffers are used again
}

func (*selfSource) source() string { return "assay" }

func (s *selfSource) read(r *reading) {
	if cpu, err := processCPU(); err != nil {
		r.fail(err, SelfCPU)
	} else {
		r.set(SelfCPU, "", cpu.Seconds())
	}
	debug.ReadGCStats(&s.stats)
	r.set(SelfGCPause, "", s.stats.PauseTotal.Seconds())
	r.set(SelfGCs, "", float64(s.stats.NumGC))
	if _, ok := threadCPU(); ok {
		r.set(RecorderCPU, "", time.Duration(s.rec.pollCPU.Load()).Seconds())
	} else {
		r.fail(errors.New("this system does not tell the processor time of a thread"), RecorderCPU)
	}
	helpers := time.Duration(s.rec.helperCPU.Load()).Seconds() // of those that have ended
	for _, pid := range s.rec.helpers.running() {
		st, err := root("/").Stat(pid)
		if err != nil {
			r.fail(fmt.Errorf("helper process %d: %w", pid, err), HelperCPU)
			return
		}
		helpers += st.CPU + st.Waited
	}
	r.set(HelperCPU, "", helpers)
}

// lagEvery is the period of the ticker whose lateness is our lag.
const lagEvery = 25 * time.Millisecond

// lag watches how late this process is woken: what a frame that arrives while
// all processors are busy would suffer as well.
func (r *Recorder) lag(ctx context.Context) {
	next := time.Now().Add(lagEvery)
	timer := time.NewTimer(lagEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		now := time.Now()
		late := now.Sub(next)
		rd := &reading{}
		rd.set(SelfLag, "", math.Round(float64(max(0, late))/1e3)/1e3) // ms, to the microsecond
		r.add("lag", lagEvery, now, rd)
		for next = next.Add(lagEvery); next.Before(now); next = next.Add(lagEvery) {
			// What was slept through is told by the one reading above.
		}
		timer.Reset(time.Until(next))
	}
}
