package pool

import "time"

// Stalls show only a part of what a busy neighbour costs: the workers also push
// each other from the processors that are left. So where the same work comes
// again and again, as in decoding, the pool tries which is faster, with or
// without the worker that stalled, and keeps to that for a while.
type trial struct {
	with, without mean      // times with all workers, and without those that are away
	stall         time.Time // the last one
	immune        time.Time // no further trial before
	calm          time.Duration
}

// mean is of the latest few times.
type mean struct {
	sum time.Duration
	n   int
}

const (
	trialTimes  = 4
	trialPlain  = 2                      // enough where one is faster by a quarter
	trialRecent = 100 * time.Millisecond // a stall is news for so long
	calmFirst   = time.Second            // how long the outcome that all workers stay holds; doubled each time
	calmLongest = 16 * time.Second
)

func (m *mean) add(d time.Duration) {
	if m.n == 2*trialTimes { // forget half of it
		m.sum, m.n = m.sum/2, trialTimes
	}
	m.sum += d
	m.n++
}

// clear says whether the mean stands on enough times.
func (m *mean) clear() bool { return m.n >= trialTimes }

// below says whether m is less than share percent of o.
func (m *mean) below(o *mean, share int) bool {
	return int64(m.sum)*int64(o.n)*100 < int64(o.sum)*int64(m.n)*int64(share)
}

// Observe tells the pool how long a piece of work took that comes again and
// again in the same size: a pass of one token.
func (p *Pool) Observe(d time.Duration) {
	if len(p.workers) == 0 {
		return
	}
	now, t := p.now(), &p.trial
	if p.away > 0 {
		t.without.add(d)
		if t.without.clear() && t.with.clear() && !t.without.below(&t.with, 97) {
			for _, w := range p.workers { // it was no help
				w.until = now
			}
			t.with = mean{}
			t.calm = min(max(calmFirst, 2*t.calm), calmLongest)
			t.immune = now.Add(t.calm)
		}
		return
	}
	t.with.add(d)
	if now.Before(t.immune) {
		return
	}
	// Back from the bench: was it right to come back? What is plain is known early:
	// each pass costs. Else a trial only where somebody stalled.
	plain := t.without.clear() && t.with.n >= trialPlain && t.without.below(&t.with, 80)
	if !t.with.clear() && !plain {
		return
	}
	if back := plain || t.without.clear() && t.without.below(&t.with, 97); back || now.Sub(t.stall) < trialRecent {
		p.benchOne(now)
		t.without = mean{}
		return
	}
	t.without = mean{}
}

// benchOne sends the worker away that stalled last.
func (p *Pool) benchOne(now time.Time) {
	one := p.workers[0]
	for _, w := range p.workers {
		if w.lapse.After(one.lapse) || w.stalled {
			one = w
		}
	}
	if !one.benched.Load() {
		p.bench(one, now)
	}
}
