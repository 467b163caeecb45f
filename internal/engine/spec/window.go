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
// tries one draft now and then, after longer and longer pauses.
//
// Where drafts pay nearly, luck makes them look as if they did, and the best of many
// k is the luckiest. So what drafting cost beyond what it gained is counted: while that
// is more than a hundredth of all the time and half a plain round, nothing is drafted.
// A round may exceed it by what it loses itself. What drafts gained may be lost again,
// up to some plain rounds, so that bad luck doesn't end what pays.
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
	loss        float64 // seconds that drafting has cost, less what it gained; below 0: it has gained
}

const (
	pays        = 1.03 // how much better than none a rate must be
	memory      = 0.96 // what evidence of one draft keeps when the next comes: the last 25 count
	unknown     = 0.5  // how likely the first draft is right, before there is evidence
	priorN      = 2    // for how many drafts that counts, and what is forgotten
	plainFirst  = 2    // plain rounds before the first try: one alone may have been disturbed
	pauseFirst  = 8
	pauseMost   = 64
	refresh     = 64   // rounds after which the time without drafts is measured again;
	refreshEach = 16   // the first times after so many for each that is known
	share       = 0.01 // of the time that drafting may lose
	freely      = 0.5  // plain rounds that it may lose besides
	credit      = 8    // plain rounds of what it gained that it may lose
	rememberTry = 0.25 // what evidence keeps over a pause
)

// NewWindow makes a Window that drafts at most most tokens.
func NewWindow(most int) *Window {
	return &Window{most: min(most, MaxDrafts), prior: unknown, pause: pauseFirst}
}

// Begin starts a sequence: what was learnt about the last one's text counts less, and
// pauses are shorter, but where the last ones all failed not as short as at first.
func (w *Window) Begin() {
	w.forget()
	w.prior = (w.prior + unknown) / 2
	w.pause = max(pauseFirst, w.pause/2)
	w.wait = min(w.wait, w.pause)
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
	plain := &w.passes[0]
	switch {
	case w.most < 1 || plain.n < plainFirst || w.since >= min(refresh, refreshEach*plain.n):
		return 0
	case w.loss > share*w.total+freely*plain.usual():
		return 0
	}
	if k := w.best(); k > 0 {
		return k
	}
	if w.wait > 0 {
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
	w.lost(drafts, right)
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

// lost counts what such a round usually takes beyond plain ones of the same tokens. A
// pass takes no longer than as many plain ones, or something disturbs it.
func (w *Window) lost(drafts, right int) {
	plain := w.passes[0].usual()
	took := w.drafts[drafts].usual() + min(w.passes[drafts].usual(), float64(1+drafts)*plain)
	w.loss = max(w.loss+took-float64(1+right)*plain, -credit*plain)
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
	plain := w.passes[0].usual()
	best, rate := 0, pays/plain
	tokens, all, p := 1.0, 1.0, w.prior
	for k := 1; k <= min(w.most, 2*tried); k++ {
		p = w.accepted(k, p)
		all *= p
		tokens += all
		if r := tokens / w.time(k); r > rate {
			best, rate = k, r
		}
	}
	return best
}

// time is about what a round of k drafts takes. A single one counts for no more than
// the others let expect: if it was disturbed, k would not be tried again.
func (w *Window) time(k int) float64 {
	switch w.passes[k].n {
	case 0:
		return w.line(k)
	case 1:
		return min(w.took(k), w.line(k))
	}
	return w.took(k)
}

// line is what a round of k drafts takes by those of more and of fewer.
func (w *Window) line(k int) float64 {
	below, above := k-1, k+1
	for ; below > 0 && w.passes[below].n == 0; below-- {
	}
	for ; above <= w.most && w.passes[above].n == 0; above++ {
	}
	switch {
	case above <= w.most:
		return w.took(below) + (w.took(above)-w.took(below))/float64(above-below)*float64(k-below)
	case below > 0: // a line through none and the longest
		return w.took(0) + (w.took(below)-w.took(0))/float64(below)*float64(k)
	}
	return w.took(k) // nothing else was tried
}

func (w *Window) took(k int) float64 {
	return w.passes[k].usual() + w.drafts[k].usual()
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

// usual is the third of seven, the lowest of three: what disturbs a pass makes it
// longer.
func (t *times) usual() float64 {
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
	return sorted[(n-1)/3]
}
