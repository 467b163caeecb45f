package model

import (
	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
)

// mostTaps is how many positions a convolution looks at, at most.
const mostTaps = 16

// convolution is a causal convolution over time of rows that a pass computes,
// channel by channel. quant.Convolve is its definition.
type convolution struct {
	s           *Pass
	layer, part int         // whose memory has the rows before the pass
	taps        [][]float32 // [taps][width], the oldest position first
	step        int         // from one position that is looked at to the next
	rows        *buffer     // [n, width]
	width       int
}

// at fills out with len(out) channels of token t, from channel first on.
func (c *convolution) at(t, first int, out []float32) {
	s := c.s
	span := s.spans[s.seq[t]]
	var taps, rows [mostTaps][]float32
	for i, tap := range c.taps {
		back := (len(c.taps) - 1 - i) * c.step
		taps[i] = tap[first:][:len(out)]
		if before := t - back; before >= span.from {
			rows[i] = row(c.rows.data, before, c.width)[first:][:len(out)]
		} else if r := s.cache(t).Memory(c.layer, c.part).Row(s.pos[t] - back); r != nil {
			rows[i] = r[first:][:len(out)]
		}
	}
	kernel.Convolve(out, taps[:len(c.taps)], rows[:len(c.taps)])
}

// remember puts the rows of sequence i into its history. All of at must be done.
func (c *convolution) remember(i int, m kv.Memory) {
	m.Write(c.rows.data[c.s.spans[i].from*c.width:], c.width)
}

// taps reads the weights of a convolution, [channels, n], transposed.
func (b *builder) taps(name string, channels, n int) [][]float32 {
	out := make([][]float32, n)
	for i := range out {
		out[i] = make([]float32, channels)
	}
	w, err := b.w.Vectors(name, channels, n)
	if !b.got(name, err) {
		return out
	}
	for i := range out {
		for c := range channels {
			out[i][c] = w[c*n+i]
		}
	}
	return out
}

// shortConv is LFM2's mixer, a gated convolution over a few positions:
//
//	b, c, y = in(x); out(c * convolution of (b*y))
type shortConv struct {
	in, out linear      // [3*width, width], [width, width]
	taps    [][]float32 // [taps][width]
}

func (c *shortConv) keeps() kept {
	return kept{memory: []kv.MemoryShape{{Width: c.in.Cols, Reach: len(c.taps) - 1}}}
}

type shortConvRun struct {
	*shortConv
	s     *Pass
	layer int
	wide  convolution

	parts        *buffer // [n, 3*width]: b, c, y
	product      *buffer // [n, width]: b*y
	mixed        *buffer // [n, width]
	mid          *acts   // [n, width]
	outRoundings roundings

	project, multiply, convolve, remember, finish func(int)
}

func (c *shortConv) bind(s *Pass, layer int) (runner, roundings) {
	d := s.m.Width
	r := &shortConvRun{
		shortConv: c, s: s, layer: layer,
		parts: s.floats("channels", 3*d), product: s.floats("turned channels", d), mixed: s.floats("mixed", d),
	}
	r.wide = convolution{s: s, layer: layer, taps: c.taps, step: 1, rows: r.product, width: d}
	r.outRoundings = roundingsOf(c.out.Matrix)
	r.mid = s.acts("mixed", r.outRoundings, d)
	r.project, r.multiply, r.convolve, r.remember, r.finish = r.projectChunk, r.multiplyToken, r.convolveToken, r.rememberSequence, r.finishChunk
	return r, roundingsOf(c.in.Matrix)
}

func (r *shortConvRun) run() error {
	p, s := r.s.pool, r.s
	p.Run(r.in.chunks(), r.project)
	p.Run(s.n, r.multiply)
	p.Run(s.n, r.convolve)
	p.Run(len(s.spans), r.remember)
	p.Run(r.out.chunks(), r.finish)
	return nil
}

func (r *shortConvRun) projectChunk(c int) { r.in.mul(c, r.parts.data, r.s.in, r.s.all[:r.s.n]) }

func (r *shortConvRun) multiplyToken(t int) {
	d := r.s.m.Width
	parts, u := row(r.parts.data, t, 3*d), row(r.product.data, t, d)
	copy(u, parts[:d])
	kernel.Mul(u, parts[2*d:])
}

func (r *shortConvRun) convolveToken(t int) {
	d := r.s.m.Width
	w := row(r.mixed.data, t, d)
	r.wide.at(t, 0, w)
	kernel.Mul(w, row(r.parts.data, t, 3*d)[d:2*d])
	r.mid.set(r.outRoundings, t, w)
}

func (r *shortConvRun) rememberSequence(i int) {
	r.wide.remember(i, r.s.batch[i].Cache.Memory(r.layer, 0))
}

func (r *shortConvRun) finishChunk(c int) { r.out.mul(c, r.s.delta, r.mid, r.s.all[:r.s.n]) }
