// Package mtp drafts with the block of a model that was trained to predict the token
// after next (multi-token prediction; llama.cpp's nextn tensors).
//
// The block takes, for a position t, the model's hidden state h(t), behind the output
// norm, and the embedding of token t+1, and gives logits of token t+2 and a state
// g(t) of its own. It is a layer with attention, so it has keys and values of its own,
// one entry for each such pair that it was shown. To draft on, g takes the place of
// h, and the draft that of the token; what that leaves in the cache is forgotten
// again, since the true state comes with the round that verifies it.
//
// What it drafts depends on the pairs that it saw. Where the model reused the keys
// and values of a prompt there are no states to see, and while nobody asks for drafts
// only the last pairs are kept: then its attention looks over a gap, and drafts may
// be a little worse. They are verified all the same.
package mtp

import (
	"math"
	"sync"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/model"
	"assay/internal/engine/pool"
	"assay/internal/engine/quant"
	"assay/internal/engine/spec"
)

// Head is the block on a pool. Its drafters may be used from several goroutines.
type Head struct {
	lock  sync.Locker
	pass  *model.Pass
	store *kv.Store
	width int
	words int // vocabulary
}

// New makes a Head of m, which model.NewHead gave. Its caches have the given format.
// lock is held while it computes: by whoever computes on the pool.
func New(m *model.Model, p *pool.Pool, f kernel.KVFormat, lock sync.Locker) *Head {
	return &Head{lock: lock, pass: model.NewPass(m, p), store: kv.NewStore(m.KVShape(f)), width: m.Width, words: m.Vocabulary}
}

// Touch is model.Pass.Touch.
func (h *Head) Touch() { h.pass.Touch() }

// waiting is how many pairs wait to be computed, at most. Computing them with the
// next draft costs little more than that; after a long time without drafts, most of
// what came is skipped: half of them go when there are more.
const waiting = 64

// Drafter drafts for one sequence: a spec.Drafter.
type Drafter struct {
	head   *Head
	cache  *kv.Cache
	known  []int32 // the sequence
	at     []int32 // of each pair in the cache: the position of its token
	tokens []int32 // pairs that wait: their tokens, the last of known
	states []float32
	asked  bool // for drafts, since Begin

	logits []float32
	own    [2][]float32 // [width]: g, and the one before
	one    [1]int32
	batch  [1]model.Sequence
}

// NewDrafter makes a drafter for sequences of up to context tokens.
func (h *Head) NewDrafter(context int) *Drafter {
	d := &Drafter{
		head: h, cache: h.store.NewCache(),
		known: make([]int32, 0, context+spec.MaxDrafts), at: make([]int32, 0, context+spec.MaxDrafts),
		tokens: make([]int32, 0, waiting), states: make([]float32, 0, waiting*h.width),
		logits: make([]float32, h.words),
	}
	d.own = [2][]float32{make([]float32, h.width), make([]float32, h.width)}
	return d
}

// Watches: it needs the model's states.
func (d *Drafter) Watches() bool { return true }

// Begin starts a sequence. Pairs of the last one that are the same in this are kept.
func (d *Drafter) Begin(tokens []int32) {
	d.tokens, d.states, d.asked = d.tokens[:0], d.states[:0], false
	same := 0
	for same < len(tokens) && same < len(d.known) && tokens[same] == d.known[same] {
		same++
	}
	keep := len(d.at)
	for keep > 0 && int(d.at[keep-1]) >= same {
		keep--
	}
	d.cache.Truncate(keep)
	d.at, d.known = d.at[:keep], append(d.known[:same], tokens[same:]...)
}

// Accept is shown pairs: states[i] and tokens[i].
func (d *Drafter) Accept(tokens []int32, states []float32) {
	w := d.head.width
	for len(tokens) > waiting { // of a prompt; the last one waits for Draft
		n := min(len(tokens)-1, model.MaxBatch)
		d.learn(nil, nil)
		d.run(len(d.known), tokens[:n], states[:n*w], nil, nil)
		d.known = append(d.known, tokens[:n]...)
		tokens, states = tokens[n:], states[n*w:]
	}
	switch n := len(d.tokens); {
	case n+len(tokens) <= waiting:
	case !d.asked:
		d.learn(nil, nil)
	default: // half of them go at once, so that each moves once at most
		old := n - min(n, waiting/2, waiting-len(tokens))
		d.tokens = d.tokens[:copy(d.tokens, d.tokens[old:])]
		d.states = d.states[:copy(d.states, d.states[old*w:])]
	}
	d.known = append(d.known, tokens...)
	d.tokens = append(d.tokens, tokens...)
	d.states = append(d.states, states[:len(tokens)*w]...)
}

// learn computes the pairs that wait, and fills logits and state for the last of
// them. It returns false where there is none, or the block can't be computed.
func (d *Drafter) learn(logits, state []float32) bool {
	if len(d.tokens) == 0 {
		return false
	}
	ok := d.run(len(d.known)-len(d.tokens), d.tokens, d.states, logits, state)
	d.tokens, d.states = d.tokens[:0], d.states[:0]
	return ok
}

// run computes pairs whose tokens stand at position first and behind. Pairs that
// can't be computed are skipped: what is wrong shows in the model's own passes.
func (d *Drafter) run(first int, tokens []int32, before, logits, state []float32) bool {
	if !d.step(tokens, before, logits, state) {
		return false
	}
	for i := range tokens {
		d.at = append(d.at, int32(first+i))
	}
	return true
}

// step is one pass of the block.
func (d *Drafter) step(tokens []int32, before, logits, state []float32) bool {
	d.head.lock.Lock()
	defer d.head.lock.Unlock()
	d.batch[0] = model.Sequence{Cache: d.cache, Tokens: tokens, Before: before, Logits: logits, Hidden: state}
	return d.head.pass.Run(nil, d.batch[:]) == nil
}

// Draft takes the best token each time, and goes on from there.
func (d *Drafter) Draft(to []spec.Guess, least float32) int {
	d.asked = true
	state, next := d.own[0], d.own[1]
	if len(to) == 0 || !d.learn(d.logits, state) {
		return 0
	}
	defer func() { d.cache.Truncate(len(d.at)) }() // drafts are not known to be right
	for i := range to {
		if to[i] = best(d.logits); to[i].P < least {
			return i
		}
		if i+1 == len(to) {
			break
		}
		d.one[0] = to[i].ID
		if !d.step(d.one[:], state, d.logits, next) {
			return i + 1
		}
		state, next = next, state
	}
	return len(to)
}

// best is the token with the greatest logit, the lowest one among equals, and its
// probability.
func best(logits []float32) spec.Guess {
	id := 0
	for i, v := range logits {
		if v > logits[id] {
			id = i
		}
	}
	const nothing = 20 // e^-20: a vocabulary of such would not change the fourth digit
	top, sum := logits[id], float32(0)
	for _, v := range logits {
		if v > top-nothing {
			sum += quant.Exp(v - top)
		}
	}
	if !(sum >= 1) || math.IsInf(float64(sum), 0) { // no numbers
		return spec.Guess{ID: int32(id)}
	}
	return spec.Guess{ID: int32(id), P: 1 / sum}
}
