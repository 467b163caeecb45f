package model

import (
	"math"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/quant"
)

// deltaNet is the mixer of a gated DeltaNet: every value head has a state [size,
// size] that fades and is corrected at every position. What it remembers is cut
// short as kv.Memory says.
//
//	q, k, v = silu(convolution of qkv(x)); q and k of length 1
//	out(norm(state read by q) * act(gate(x)))
type deltaNet struct {
	size, keyHeads, heads int         // heads of values; each head has size elements
	qkv                   linear      // [2*keyHeads*size + heads*size, width]: queries, keys, values
	gate                  linear      // [heads*size, width]
	beta, alpha           linear      // [heads, width]
	both                  *linear     // [2*heads, width] in place of them: of each key head the rows of beta, then of alpha
	taps                  [][]float32 // of the convolution, the oldest position first: [reach+1][rows of qkv]
	dt, decay             []float32   // [heads]
	norm                  []float32   // [size]
	out                   linear      // [width, heads*size]
	sigmoid               bool        // act; else silu
	grouped               bool        // value head h has key head h div (heads/keyHeads); else h mod keyHeads
}

func (d *deltaNet) channels() int { return (2*d.keyHeads + d.heads) * d.size }

func (d *deltaNet) keeps() kept {
	return kept{memory: []kv.MemoryShape{{
		Width: d.channels(), Reach: len(d.taps) - 1, KeyHeads: d.keyHeads, Heads: d.heads, Size: d.size,
	}}}
}

// keyOf is the key head that a value head uses, first whether it is the first one
// that does.
func (d *deltaNet) keyOf(head int) (key int, first bool) {
	if each := d.heads / d.keyHeads; d.grouped {
		return head / each, head%each == 0
	}
	return head % d.keyHeads, head < d.keyHeads
}

// deltaRun is a deltaNet bound to a pass.
type deltaRun struct {
	*deltaNet
	s     *Pass
	layer int
	parts []linear // that x is multiplied by
	into  []*buffer
	wide  convolution

	raw, turned  *buffer // [n, channels]: qkv(x); the convolution of it
	rates        *buffer // [n, 2*heads]: of both
	betas, decay *buffer // [n, heads]
	gates        *buffer // [n, heads*size]
	mixed        *buffer // [n, heads*size]
	mid          *acts   // [n, heads*size]
	outRoundings roundings
	scratch      lent[[]float32] // one a worker: a state

	project, convolve, step, gather, finish func(int)
}

func (d *deltaNet) bind(s *Pass, layer int) (runner, roundings) {
	r := &deltaRun{
		deltaNet: d, s: s, layer: layer,
		raw: s.floats("channels", d.channels()), turned: s.floats("turned channels", d.channels()),
		betas: s.floats("beta", d.heads), decay: s.floats("decay", d.heads),
		gates: s.floats("gate", d.heads*d.size), mixed: s.floats("mixed", d.heads*d.size),
	}
	r.wide = convolution{s: s, layer: layer, taps: d.taps, step: 1, rows: r.raw, width: d.channels()}
	r.parts, r.into = []linear{d.qkv, d.gate}, []*buffer{r.raw, r.gates}
	if d.both != nil {
		r.rates = s.floats("rates", 2*d.heads)
		r.parts, r.into = append(r.parts, *d.both), append(r.into, r.rates)
	} else {
		r.parts, r.into = append(r.parts, d.beta, d.alpha), append(r.into, r.betas, r.decay)
	}
	r.outRoundings = roundingsOf(d.out.Matrix)
	r.mid = s.acts("mixed", r.outRoundings, d.heads*d.size)
	r.scratch = s.states(d.size * d.size)
	r.project, r.convolve, r.step, r.gather, r.finish = r.projectChunk, r.convolveHeads, r.stepHead, r.gatherToken, r.finishChunk
	var wants roundings
	for _, p := range r.parts {
		wants |= roundingsOf(p.Matrix)
	}
	return r, wants
}

// states is a scratch state of so many floats for every worker.
func (s *Pass) states(n int) lent[[]float32] {
	if s.stateScratch == nil {
		s.stateScratch = map[int]lent[[]float32]{}
	}
	if s.stateScratch[n] == nil {
		s.stateScratch[n] = lend(s.pool.Threads(), func() *[]float32 { x := make([]float32, n); return &x })
	}
	return s.stateScratch[n]
}

// headsAtOnce is how many heads of a token one job of convolve takes.
const headsAtOnce = 8

func (r *deltaRun) run() error {
	p, n := r.s.pool, 0
	for _, w := range r.parts {
		n += w.chunks()
	}
	p.Run(n, r.project)
	for i := range r.s.spans {
		r.memory(i).Keep() // makes room
	}
	p.Run(r.s.n*r.jobs(), r.convolve)
	p.Run(len(r.s.spans)*r.heads, r.step)
	p.Run(r.s.n+len(r.s.spans), r.gather)
	for i := range r.s.spans {
		r.memory(i).Corrected()
	}
	p.Run(r.out.chunks(), r.finish)
	return nil
}

// memory is what the layer remembers of sequence i of the pass.
func (r *deltaRun) memory(i int) kv.Memory { return r.s.batch[i].Cache.Memory(r.layer, 0) }

func (r *deltaRun) projectChunk(c int) {
	for i, w := range r.parts {
		if c < w.chunks() {
			w.mul(c, r.into[i].data, r.s.in, r.s.all[:r.s.n])
			return
		}
		c -= w.chunks()
	}
}

// jobs is how many jobs of convolve a token has.
func (r *deltaRun) jobs() int { return (2*r.keyHeads + r.heads + headsAtOnce - 1) / headsAtOnce }

// convolveHeads makes some queries, keys and values of a token, and with the first
// of them the token's rates.
func (r *deltaRun) convolveHeads(job int) {
	t, part := job/r.jobs(), job%r.jobs()
	from, to := part*headsAtOnce, min((part+1)*headsAtOnce, 2*r.keyHeads+r.heads)
	out := row(r.turned.data, t, r.channels())[from*r.size : to*r.size]
	r.wide.at(t, from*r.size, out)
	kernel.SiLU(out)
	for h := from; h < min(to, 2*r.keyHeads); h++ {
		by := float32(1)
		if h < r.keyHeads { // queries: what they read is wanted divided by that root
			by = float32(1 / math.Sqrt(float64(r.size)))
		}
		kernel.Unit(row(out, h-from, r.size), r.s.m.Eps, by)
	}
	if part == 0 {
		r.rate(t)
	}
}

// rate makes beta and the decay of every head of a token.
func (r *deltaRun) rate(t int) {
	betas, decay := row(r.betas.data, t, r.heads), row(r.decay.data, t, r.heads)
	if r.both != nil {
		each, rates := r.heads/r.keyHeads, row(r.rates.data, t, 2*r.heads)
		for h := range r.heads {
			at := h/each*2*each + h%each
			betas[h], decay[h] = rates[at], rates[at+each]
		}
	}
	for h := range r.heads {
		betas[h] = quant.Sigmoid(betas[h])
		decay[h] = quant.Exp(float32(quant.Softplus(decay[h]+r.dt[h]) * r.deltaNet.decay[h]))
	}
}

// stepHead takes a head through all tokens of a sequence.
func (r *deltaRun) stepHead(job int) {
	i, head := job/r.heads, job%r.heads
	span, memory := r.s.spans[i], r.memory(i)
	key, first := r.keyOf(head)
	state, lacks, n := memory.State(head)
	if n > 0 {
		kernel.DeltaRepeat(state, &kernel.DeltaRows{
			N: n, Size: r.size, K: lacks.K[key*r.size:], Wrong: lacks.Wrong[head*r.size:], Decay: lacks.Decay[head:],
			KStride: r.keyHeads * r.size, VStride: r.heads * r.size, Heads: r.heads,
		})
	}
	turned := r.turned.data[span.from*r.channels():]
	rows := kernel.DeltaRows{
		N: span.to - span.from, Size: r.size,
		Q: turned[key*r.size:], K: turned[(r.keyHeads+key)*r.size:], V: turned[(2*r.keyHeads+head)*r.size:],
		Out: r.mixed.data[(span.from*r.heads+head)*r.size:], Decay: r.decay.data[span.from*r.heads+head:], Beta: r.betas.data[span.from*r.heads+head:],
		KStride: r.channels(), VStride: r.heads * r.size, Heads: r.heads,
	}
	keep := memory.Keep()
	if keep == nil {
		kernel.Delta(state, &rows)
		return
	}
	for t := range rows.N {
		keep.Decay[t*r.heads+head] = rows.Decay[t*r.heads]
		if first {
			copy(row(keep.K, t*r.keyHeads+key, r.size), rows.K[t*rows.KStride:])
		}
	}
	rows.Wrong, rows.Last = keep.Wrong[head*r.size:], true
	if rows.N == 1 {
		kernel.Delta(state, &rows)
		return
	}
	scratch := r.scratch.take()
	copy(*scratch, state)
	kernel.Delta(*scratch, &rows)
	r.scratch.give(scratch)
}

// gatherToken rounds what was read for token t. The jobs behind those of the tokens
// put what the convolution will look back at into the history.
func (r *deltaRun) gatherToken(t int) {
	if i := t - r.s.n; i >= 0 {
		r.wide.remember(i, r.memory(i))
		return
	}
	mixed, gates := row(r.mixed.data, t, r.heads*r.size), row(r.gates.data, t, r.heads*r.size)
	for h := range r.heads {
		o := row(mixed, h, r.size)
		kernel.RMSNorm(o, o, r.norm, r.s.m.Eps)
	}
	if r.sigmoid {
		kernel.Sigmoids(mixed, gates)
	} else {
		kernel.SiLUMul(gates, mixed)
		mixed = gates
	}
	r.mid.set(r.outRoundings, t, mixed)
}

func (r *deltaRun) finishChunk(c int) { r.out.mul(c, r.s.delta, r.mid, r.s.all[:r.s.n]) }
