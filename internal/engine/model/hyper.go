package model

import (
	"assay/internal/engine/kernel"
	"assay/internal/engine/quant"
)

// hyper is a layer on a residual stream of several, x [streams, width] a token
// (hyper-connections):
//
//	m, share = mix(x); x[c] += share[c] * part(m) for every stream c
//
// once for its mixer and once for its feed-forward, after an n-gram lookup, if it
// has one.
type hyper struct {
	grams *grams // nil: none
	mix   streamMixer
	mixer part
	ffn   streamMixer
	inner part // of the feed-forward
}

// streamMixer makes one vector of the streams, and the shares by which a part's
// output goes back to them:
//
//	f = norm of each stream
//	mixed = mean over streams of f * sigmoid(up(silu(down(f)/streams)))
//	share = 2*sigmoid(inject(f)/streams)
type streamMixer struct {
	norm   []float32 // [streams*width]
	down   linear    // [rank, streams*width]
	up     linear    // [streams*width, rank]
	inject *linear   // [streams, streams*width]; nil: nothing goes back
}

func (b *builder) streamMixer(prefix string, streams, rank int, back bool) streamMixer {
	n := streams * b.Width
	m := streamMixer{
		norm: b.vector(prefix+"_norm.weight", n),
		down: b.linear(prefix+"_down", rank, n), up: b.linear(prefix+"_up", n, rank),
	}
	if back {
		w := b.linear(prefix+"_inject", streams, n)
		m.inject = &w
	}
	return m
}

func (l *hyper) keeps() kept {
	k := l.mixer.keeps().and(l.inner.keeps())
	if l.grams != nil { // behind the mixer's
		k = k.and(l.grams.keeps())
	}
	return k
}

func (l *hyper) bind(s *Pass, i int) runner {
	r := &hyperRun{s: s}
	settles := i > 0
	if l.grams != nil {
		r.grams = l.grams.bind(s, i, len(l.mixer.keeps().memory), settles)
		settles = false
	}
	r.branches = [2]*hyperBranch{
		s.hyperBranch(&l.mix, l.mixer, i, settles),
		s.hyperBranch(&l.ffn, l.inner, i, true),
	}
	return r
}

type hyperRun struct {
	s        *Pass
	grams    *gramsRun
	branches [2]*hyperBranch
}

func (r *hyperRun) run() error {
	if r.grams != nil {
		if err := r.grams.run(); err != nil {
			return err
		}
	}
	for _, b := range r.branches {
		if err := b.run(); err != nil {
			return err
		}
	}
	return nil
}

// hyperBranch is a part with its mixing of streams, bound to a pass.
type hyperBranch struct {
	streamMixing
	inner   runner
	wants   roundings
	settles bool // the stream lacks what the branch before gave
	enter   func(t int)
	leave   func(t int)
}

func (s *Pass) hyperBranch(m *streamMixer, p part, layer int, settles bool) *hyperBranch {
	b := &hyperBranch{streamMixing: s.streamMixing(m), settles: settles}
	b.inner, b.wants = p.bind(s, layer)
	s.want(b.wants)
	b.enter, b.leave = b.take, b.give
	return b
}

func (b *hyperBranch) run() error {
	s := b.s
	s.pool.Run(s.n, b.enter)
	b.multiply(s.n)
	s.pool.Run(s.n, b.leave)
	return b.inner.run()
}

func (b *hyperBranch) take(t int) {
	if b.settles {
		b.spread(t)
	}
	b.normalise(t, t)
}

func (b *hyperBranch) give(t int) {
	h := row(b.s.normed, t, b.s.m.Width)
	b.mixed(t, h)
	b.s.in.set(b.wants, t, h)
	if b.inject != nil {
		shares := row(b.shares.data, t, b.s.m.streams)
		for c, v := range row(b.back.data, t, b.s.m.streams) {
			shares[c] = 2 * quant.Sigmoid(v/float32(b.s.m.streams))
		}
	}
}

// spreading is how what a branch gives goes back to the streams.
type spreading struct {
	s      *Pass
	shares *buffer // [n, streams]
}

func (s *Pass) spreading() spreading { return spreading{s, s.floats("shares", s.m.streams)} }

// spread adds what the last branch gave to all streams of token t.
func (r *spreading) spread(t int) {
	s := r.s
	x, d := row(s.x, t, s.m.streams*s.m.Width), row(s.delta, t, s.m.Width)
	for c, w := range row(r.shares.data, t, s.m.streams) {
		kernel.Axpy(row(x, c, s.m.Width), d, w)
	}
}

// streamMixing is a streamMixer bound to a pass. Its rows are tokens, or those
// tokens of which something is wanted.
type streamMixing struct {
	*streamMixer
	spreading
	flat, gate *buffer // [n, streams*width]
	low        *buffer // [n, rank]
	back       *buffer // [n, streams]
	in, mid    *acts   // [n, streams*width], [n, rank]
	inSet      roundings
	upSet      roundings
	n          int // rows

	first, middle, second func(int)
}

func (s *Pass) streamMixing(m *streamMixer) streamMixing {
	n, rank := s.m.streams*s.m.Width, m.down.Rows
	r := streamMixing{
		streamMixer: m, spreading: s.spreading(), inSet: roundingsOf(m.down.Matrix), upSet: roundingsOf(m.up.Matrix),
		flat: s.floats("streams", n), gate: s.floats("gates of streams", n), low: s.floats("low rank", rank), back: s.floats("back", s.m.streams),
	}
	if m.inject != nil {
		r.inSet |= roundingsOf(m.inject.Matrix)
	}
	r.in, r.mid = s.acts("streams", r.inSet, n), s.acts("low rank", r.upSet, rank)
	return r
}

// normalise makes row i of the streams of token t.
func (r *streamMixing) normalise(i, t int) {
	d, n := r.s.m.Width, r.s.m.streams*r.s.m.Width
	flat := row(r.flat.data, i, n)
	normStreams(flat, row(r.s.x, t, n), r.norm, d, r.s.m.Eps)
	r.in.set(r.inSet, i, flat)
}

// normStreams normalises every stream by itself.
func normStreams(out, x, gamma []float32, width int, eps float32) {
	for c := 0; c < len(x); c += width {
		kernel.RMSNorm(out[c:c+width], x[c:c+width], gamma[c:c+width], eps)
	}
}

// multiply makes the gates of n rows, and what goes back.
func (r *streamMixing) multiply(n int) {
	if r.first == nil {
		r.first, r.middle, r.second = r.downChunk, r.lowRow, r.upChunk
	}
	r.n = n
	jobs := r.down.chunks()
	if r.inject != nil {
		jobs += r.inject.chunks()
	}
	r.s.pool.Run(jobs, r.first)
	r.s.pool.Run(n, r.middle)
	r.s.pool.Run(r.up.chunks(), r.second)
}

func (r *streamMixing) downChunk(c int) {
	if n := r.down.chunks(); c < n {
		r.down.mul(c, r.low.data, r.in, r.s.all[:r.n])
	} else {
		r.inject.mul(c-n, r.back.data, r.in, r.s.all[:r.n])
	}
}

func (r *streamMixing) lowRow(i int) {
	low := row(r.low.data, i, r.down.Rows)
	for j, v := range low {
		low[j] = v / float32(r.s.m.streams)
	}
	kernel.SiLU(low)
	r.mid.set(r.upSet, i, low)
}

func (r *streamMixing) upChunk(c int) { r.up.mul(c, r.gate.data, r.mid, r.s.all[:r.n]) }

// mixed fills out with the one vector of row i.
func (r *streamMixing) mixed(i int, out []float32) {
	d, n := r.s.m.Width, r.s.m.streams*r.s.m.Width
	flat := row(r.flat.data, i, n)
	kernel.Sigmoids(flat, row(r.gate.data, i, n))
	copy(out, flat[:d])
	for c := d; c < n; c += d {
		kernel.Add(out, flat[c:c+d])
	}
	kernel.Scale(out, 1/float32(r.s.m.streams))
}

// hyperEnding makes the stream one again for the output.
type hyperEnding struct{ mixer streamMixer }

func (e *hyperEnding) bind(s *Pass) runner {
	r := &hyperEndingRun{streamMixing: s.streamMixing(&e.mixer)}
	r.enter, r.leave = r.take, r.give
	return r
}

type hyperEndingRun struct {
	streamMixing
	enter, leave func(i int)
}

func (r *hyperEndingRun) run() error {
	n := len(r.s.outs)
	r.s.pool.Run(n, r.enter)
	r.multiply(n)
	r.s.pool.Run(n, r.leave)
	return nil
}

func (r *hyperEndingRun) take(i int) {
	t := r.s.outs[i].token
	r.spread(t)
	r.normalise(i, t)
}

func (r *hyperEndingRun) give(i int) {
	r.mixed(i, row(r.s.normed, r.s.outs[i].token, r.s.m.Width))
	r.s.deliver(i)
}
