package expert

import (
	"container/heap"
	"math"
)

// policy decides which expert goes when a slot is needed: of all layers' experts
// that nobody holds, the one with the lowest frequency, where a use counts half
// after halfLife tokens.
//
// An expert's frequency f at time t is kept as key = log2(f) + t/halfLife. That
// does not change while time goes on, so the order stays as it is until an expert
// is used.
//
// Uses are counted when the next pass begins. Counted at once, experts of the
// layers that a pass has just left would be dearer than those of the layers it
// comes to next, which is the wrong way round when a long prompt goes through
// all of them. Of equals, the one given back last goes first: it will be needed
// last.
type policy struct {
	now     float64  // tokens seen, in half lives
	tokens  float64  // of the pass under way, in half lives
	layer   int      // that was asked for last
	touched []*entry // with pending uses
	given   uint64
}

// halfLife is in tokens. Twice as long gains 0.2 points on a trace that stays as it
// is and loses 5 on one whose frequent experts change every 600 tokens (TestPolicy).
const halfLife = 256

// lowest is the key of an expert that was never used.
var lowest = math.Inf(-1)

func (p *policy) init(entries []entry) {
	p.layer = -1
	p.touched = make([]*entry, 0, len(entries))
	for i := range entries {
		entries[i].key = lowest
	}
}

// pass begins a new pass when layer says so, and counts the uses of the last.
func (p *policy) pass(layer int) {
	if layer > p.layer {
		p.layer = layer
		return
	}
	p.layer = layer
	p.now += p.tokens
	p.tokens = 0
	for _, e := range p.touched {
		e.key = math.Log2(math.Exp2(e.key-p.now)+float64(e.pending)) + p.now
		e.pending = 0
		if e.place >= 0 {
			heap.Fix(&e.slot.class.idle, e.place)
		}
	}
	p.touched = p.touched[:0]
}

// use notes that n tokens of the pass want e.
func (p *policy) use(e *entry, n int32) {
	if n <= 0 {
		return
	}
	if e.pending == 0 {
		p.touched = append(p.touched, e)
	}
	e.pending += n
}

// frequency is the decayed number of uses.
func (p *policy) frequency(e *entry) float64 { return math.Exp2(e.key-p.now) + float64(e.pending) }

// idle is a heap: the expert to go next is first.
type idle []*entry

func (h idle) Len() int { return len(h) }

func (h idle) Less(i, j int) bool {
	if h[i].ahead != h[j].ahead { // its layer comes soon
		return h[j].ahead
	}
	if h[i].key != h[j].key {
		return h[i].key < h[j].key
	}
	return h[i].given > h[j].given
}

func (h idle) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *idle) Push(x any) {
	e := x.(*entry)
	e.place = len(*h)
	*h = append(*h, e)
}

func (h *idle) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h, e.place = old[:len(old)-1], -1
	return e
}
