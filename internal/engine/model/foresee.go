package model

import (
	"assay/internal/engine/expert"
	"assay/internal/engine/kernel"
)

// foreseeTokens is how many tokens a pass may have for experts to be guessed. More of
// them want most experts anyway, and keep the disk busy.
const foreseeTokens = 4

// foresight guesses which experts a layer will want while a layer before it
// computes its own, for the store to read them meanwhile. It asks the layer's router
// of the stream as it is by then: what is still to be added, by the layers between,
// mostly changes little. Nothing but reading follows from a guess.
type foresight struct {
	s      *Pass
	store  *expert.Store
	layer  int       // the store's number
	norm   []float32 // [width], of the router's input
	of     *experts
	wants  roundings
	in     *acts
	normed *buffer // [n, width]
	probs  *buffer // [n, experts]
	biased *buffer // [n, experts]
	chosen []int32 // [n, used]
	weight []float32

	enter, route, pick func(int)
}

// foresee has each layer of experts that a store holds guess for the next ones.
func (s *Pass) foresee() {
	var before []*expertsRun // the nearest last
	for _, r := range s.runners {
		e, from, norm := storedOf(r)
		if from == nil {
			before = before[:0]
			continue
		}
		if len(before) > 0 {
			f := s.foresight(e, from, norm)
			for _, b := range before {
				b.next = append(b.next, f)
			}
		}
		before = append(before[max(0, len(before)+1-expert.Farthest):], e)
	}
}

// storedOf is the experts of a usual layer, where they are from, and the norm of their
// input. from is nil where r is not such a layer, or no store has them.
func storedOf(r runner) (e *expertsRun, from *stored, norm []float32) {
	l, ok := r.(*residualRun)
	if !ok {
		return nil, nil, nil
	}
	if e, ok = l.ffn.inner.(*expertsRun); ok {
		from, _ = e.source.(*stored)
	}
	return e, from, l.ffn.norm
}

func (s *Pass) foresight(e *expertsRun, from *stored, norm []float32) *foresight {
	f := &foresight{
		s: s, store: from.store, layer: from.layer, norm: norm, of: e.experts,
		wants:  roundingsOf(e.router.Matrix),
		normed: s.few("foreseen", s.m.Width), probs: s.few("foreseen router", e.n), biased: s.few("foreseen router, biased", e.n),
		chosen: make([]int32, foreseeTokens*e.used), weight: make([]float32, foreseeTokens*e.used),
	}
	f.in = s.slots("foreseen", f.wants, foreseeTokens, s.m.Width)
	f.enter, f.route, f.pick = f.normalise, f.routeChunk, f.choose
	return f
}

// few is a buffer of so many floats a token, of passes that guess.
func (s *Pass) few(use string, each int) *buffer { return s.shared(use, foreseeTokens*each) }

// tell tells the store what to expect so many layers later, if that is of use.
func (f *foresight) tell(before int) {
	n := f.s.n
	if n > foreseeTokens || !f.store.Foresees(f.layer, before) {
		return
	}
	f.s.pool.Run(n, f.enter)
	f.s.pool.Run(f.of.router.chunks(), f.route)
	f.s.pool.Run(n, f.pick)
	f.store.Ahead(f.layer, before, f.chosen[:n*f.of.used])
}

func (f *foresight) normalise(t int) {
	width := f.s.m.Width
	h := row(f.normed.data, t, width)
	kernel.RMSNorm(h, row(f.s.x, t, width), f.norm, f.s.m.Eps)
	f.in.set(f.wants, t, h)
}

func (f *foresight) routeChunk(c int) {
	f.of.router.mul(c, f.probs.data, f.in, f.s.all[:f.s.n])
}

func (f *foresight) choose(t int) { f.of.pick(t, f.probs, f.biased, f.chosen, f.weight) }
