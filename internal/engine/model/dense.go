package model

import (
	"assay/internal/engine/kernel"
)

// activation makes the inner values of a feed-forward: it sets gate to what it
// makes of gate and up, which have the same length.
type activation func(gate, up []float32)

// dense is down(act(gate x, up x)): a feed-forward, or the expert that is always
// used.
type dense struct {
	gate, up, down linear     // [inner, width], [inner, width], [width, inner]
	act            activation // nil: silu(gate)*up
}

// feedForward is the dense feed-forward that most models without experts have.
func (b *builder) feedForward(prefix string) *dense {
	return b.dense(prefix, "", b.number("feed_forward_length", 1, 1<<20))
}

// dense reads the matrices ffn_gate, ffn_up and ffn_down with a suffix.
func (b *builder) dense(prefix, suffix string, inner int) *dense {
	return &dense{
		gate: b.linear(prefix+"ffn_gate"+suffix, inner, b.Width),
		up:   b.linear(prefix+"ffn_up"+suffix, inner, b.Width),
		down: b.linear(prefix+"ffn_down"+suffix, b.Width, inner),
	}
}

func (d *dense) keeps() kept { return kept{} }

func (d *dense) wants() roundings { return roundingsOf(d.gate.Matrix, d.up.Matrix) }

func (d *dense) bind(s *Pass, _ int) (runner, roundings) { return d.bindTo(s), d.wants() }

// denseRun is dense bound to a pass. It can be run as a whole, or its stages one by
// one beside others.
type denseRun struct {
	*dense
	s             *Pass
	gates, ups    *buffer // [n, inner]
	hidden        *acts   // [n, inner]
	downRoundings roundings

	gateUp, middle, finish func(int)
}

func (d *dense) bindTo(s *Pass) *denseRun {
	inner := d.gate.Rows
	r := &denseRun{
		dense: d, s: s, gates: s.floats("dense gate", inner), ups: s.floats("dense up", inner),
		downRoundings: roundingsOf(d.down.Matrix),
	}
	r.hidden = s.acts("dense", r.downRoundings, inner)
	r.gateUp, r.middle = r.gateUpChunk, r.activate
	r.finish = func(c int) { r.downChunk(c, s.delta) }
	return r
}

func (r *denseRun) run() error {
	p := r.s.pool
	r.s.near(r.down.Matrix)
	p.Run(r.gate.chunks()+r.up.chunks(), r.gateUp)
	p.Run(r.s.n, r.middle)
	r.s.near(r.s.coming)
	p.Run(r.down.chunks(), r.finish)
	return nil
}

func (r *denseRun) begins() *kernel.Matrix { return r.gate.Matrix }

func (r *denseRun) gateUpChunk(c int) {
	if n := r.gate.chunks(); c < n {
		r.gate.mul(c, r.gates.data, r.s.in, r.s.all[:r.s.n])
	} else {
		r.up.mul(c-n, r.ups.data, r.s.in, r.s.all[:r.s.n])
	}
}

// activate makes the inner values of token t, and rounds them for down.
func (r *denseRun) activate(t int) {
	gate, up := row(r.gates.data, t, r.gate.Rows), row(r.ups.data, t, r.gate.Rows)
	if r.act == nil {
		kernel.SiLUMul(gate, up)
	} else {
		r.act(gate, up)
	}
	r.hidden.set(r.downRoundings, t, gate)
}

func (r *denseRun) downChunk(c int, out []float32) {
	r.down.mul(c, out, r.hidden, r.s.all[:r.s.n])
}
