package spec

import "time"

// Window chooses how many tokens to draft. The rate of a round with k drafts is
//
//	(1 + p1 + p1*p2 + ... + p1*...*pk) / time(k)
//
// where pi is how often draft i was right when those before it were, of late, and
// time(k) what drafting k tokens and the pass over k+1 took. Both are learnt; what
// was not tried yet is drawn as a line through what was. It takes the k with the
// best rate, and none where even that would be little better than none. Then it
// tries one draft now and then, after longer and longer pauses, as long as all
// tries together have cost less than a hundredth of the time.
//
// The same measurements lead to the same choices. Times belong to the machine and
// stay over sequences; it belongs to one goroutine.
type Window struct {
	most   int
	passes [MaxDrafts + 1]times // by drafts: of passes
	drafts [MaxDrafts + 1]times // of drafting
	tries  [MaxDrafts + 1]float64
	hits   [MaxDrafts + 1]float64
	prior  float64 // how likely the first draft was right, by evidence that is forgotten

	pause, wait int     // plain rounds after the next failed try; until the next try
	since       int     // rounds since a plain one
	total       float64 // seconds of all rounds
	loss        float64 // seconds that drafting has cost in all, less what it gained; at least 0
}

const (
	pays        = 1.03 // how much better than none a rate must be
	memory      = 0.96 // what evidence of one draft keeps when the next comes: the last 25 count
	unknown     = 0.5  // how likely the first draft is right, before there is evidence
	priorN      = 2    // for how many drafts that counts, and what is forgotten
	pauseFirst  = 12
	pauseMost   = 256
	refresh     = 64   // rounds after which the time without drafts is measured again
	share       = 0.01 // of the time that tries may cost
	rememberTry = 0.25 // what evidence keeps over a pause
)

// NewWindow makes a Window that drafts at most most tokens.
func NewWindow(most int) *Window {
	return &Window{most: min(most, MaxDrafts), prior: unknown, pause: pauseFirst}
}

// Begin starts a sequence: what was learnt about the last one's text counts less,
// and drafting may be tried at once.
func (w *Window) Begin() {
	w.forget()
	w.prior = (w.prior + unknown) / 2
	w.pause, w.wait = pauseFirst, 0
}

// forget lets the evidence weigh less than what comes.
func (w *Window) forget() {
	w.prior = w.accepted(1, w.prior)
	for i := range w.tries {
		w.tries[i] *= rememberTry
		w.hits[i] *= rememberTry
	}
}

// Want is how many tokens to draft for the next round.
func (w *Window) Want() int {
	if w.most < 1 || w.passes[0].n == 0 || w.since >= refresh {
		return 0
	}
	if k := w.best(); k > 0 {
		return k
	}
	if w.wait > 0 || w.loss > share*w.total+w.passes[0].middle() {
		return 0
	}
	return 1
}

// Measured tells of a round: the drafts that its pass verified (none, if there was
// nothing to draft), how many were right, and what drafting and the pass took.
func (w *Window) Measured(drafts, right int, drafting, pass time.Duration) {
	d, p := drafting.Seconds(), pass.Seconds()
	w.total += d + p
	w.passes[drafts].add(p)
	if drafts == 0 {
		w.since = 0
		w.loss += d
		w.wait = max(0, w.wait-1)
		return
	}
	w.since++
	w.drafts[drafts].add(d)
	for i := 1; i <= drafts && i <= right+1; i++ {
		w.tries[i], w.hits[i] = w.tries[i]*memory+1, w.hits[i]*memory
		if i <= right {
			w.hits[i]++
		}
	}
	w.loss = max(0, w.loss+d+p-float64(1+right)*w.passes[0].middle())
	if w.best() > 0 {
		w.pause = pauseFirst
		return
	}
	if w.forget(); right == drafts { // it may begin to pay: go on
		w.pause = pauseFirst
		return
	}
	w.wait = w.pause
	w.pause = min(2*w.pause, pauseMost)
}

// accepted is how likely draft k is right if those before it are, and draft k-1 is
// with the given probability.
func (w *Window) accepted(k int, before float64) float64 {
	return (w.hits[k] + priorN*before) / (w.tries[k] + priorN)
}

// best is the number of drafts with the best rate; 0 where none pays.
func (w *Window) best() int {
	tried := 0
	for k := 1; k <= w.most; k++ {
		if w.passes[k].n > 0 {
			tried = k
		}
	}
	if tried == 0 {
		return 0
	}
	plain := w.passes[0].middle()
	best, rate := 0, pays/plain
	tokens, all, p := 1.0, 1.0, w.prior
	for k := 1; k <= min(w.most, 2*tried); k++ {
		p = w.accepted(k, p)
		all *= p
		tokens += all
		if r := tokens / w.time(k, tried); r > rate {
			best, rate = k, r
		}
	}
	return best
}

// time is about what a round of k drafts takes; tried is the longest that was.
func (w *Window) time(k, tried int) float64 {
	if w.passes[k].n > 0 {
		return w.took(k)
	}
	below, above := k-1, k+1
	for ; below > 0 && w.passes[below].n == 0; below-- {
	}
	for ; above < tried && w.passes[above].n == 0; above++ {
	}
	if above > tried { // a line through none and the longest
		return w.took(0) + (w.took(tried)-w.took(0))/float64(tried)*float64(k)
	}
	return w.took(below) + (w.took(above)-w.took(below))/float64(above-below)*float64(k-below)
}

func (w *Window) took(k int) float64 {
	if k == 0 {
		return w.passes[0].middle()
	}
	return w.passes[k].middle() + w.drafts[k].middle()
}

// times are the latest few, in seconds.
type times struct {
	last [7]float64
	n    int // how many were added
}

func (t *times) add(s float64) {
	t.last[t.n%len(t.last)] = s
	t.n++
}

// middle is the median, the lower one of two: what disturbs a pass makes it longer.
func (t *times) middle() float64 {
	sorted := t.last
	n := min(t.n, len(sorted))
	for i := 1; i < n; i++ {
		for j := i; j > 0 && sorted[j] < sorted[j-1]; j-- {
			sorted[j], sorted[j-1] = sorted[j-1], sorted[j]
		}
	}
	if n == 0 {
		return 0
	}
	return sorted[(n-1)/2]
}
