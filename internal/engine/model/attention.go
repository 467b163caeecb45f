package model

import (
	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/quant"
)

// attention is the mixer of causal self-attention. What a field's comment calls
// the zero value of leaves it out.
type attention struct {
	heads, kvHeads int       // each key-value head is shared by heads/kvHeads query heads
	dim            int       // of queries and keys
	values         int       // dimensions of values; 0: dim
	q, k, v        linear    // [heads*dim, width], [kvHeads*dim, width], [kvHeads*values, width]
	out            linear    // [width, heads*values]
	qNorm, kNorm   []float32 // [dim]: of each head; [heads*dim], [kvHeads*dim]: of all together; nil: none
	rope           *rope     // nil: none
	scale          float32   // of scores; 0: 1/sqrt(dim)
	window         int       // positions that are seen, the own one included; 0: all
	sinks          []float32 // [heads]: a score whose share of the weights goes nowhere; nil: none
	sparse         *indexer  // chooses the positions that are seen; nil: all are
	gated          bool      // q is [heads*2*dim, width]: of each head dim rows of query, then dim of a gate
}

func (a *attention) valueDim() int {
	if a.values == 0 {
		return a.dim
	}
	return a.values
}

func (a *attention) keeps() kept {
	k := kept{heads: a.kvHeads, dim: a.dim, values: a.values}
	if a.sparse != nil {
		k = k.and(a.sparse.keeps())
	}
	return k
}

// attentionRun is attention bound to a pass.
type attentionRun struct {
	*attention
	s     *Pass
	layer int
	scale float32
	turns *turning
	fours int // fours of query heads of a key-value head

	both             *buffer // [n, heads*2*dim]: queries and gates, where there are gates
	qs, ks, vs, gate *buffer // [n, heads*dim], [n, kvHeads*dim], [n, kvHeads*values], [n, heads*values]
	mixed            *buffer // [n, heads*values]
	mid              *acts   // [n, heads*values]
	outRoundings     roundings
	index            *indexing // nil: all positions are seen

	project, turn, attend, page, join, gather, finish func(int)
}

// attends is what layers of attention share.
type attends struct {
	states  []kernel.AttentionState // [n, kvHeads, fours]
	halves  []uint16                // [n, dim]
	scratch lent[kernel.Attention]  // one a worker
	layout  kernel.KVLayout         // that scratch is for
	apart   apart
}

func (a *attention) bind(s *Pass, layer int) (runner, roundings) {
	d := a.valueDim()
	r := &attentionRun{
		attention: a, s: s, layer: layer, scale: a.scale, turns: s.turning(a.rope),
		fours: (a.heads/a.kvHeads + kernel.Heads - 1) / kernel.Heads,
		qs:    s.floats("q", a.heads*a.dim), ks: s.floats("k", a.kvHeads*a.dim), vs: s.floats("v", a.kvHeads*d),
		mixed: s.floats("mixed", a.heads*d),
	}
	if r.scale == 0 {
		r.scale = quant.AttentionScale(a.dim)
	}
	if a.gated {
		r.both, r.gate = s.floats("queries and gates", 2*a.heads*a.dim), s.floats("gate", a.heads*d)
	}
	r.outRoundings = roundingsOf(a.out.Matrix)
	r.mid = s.acts("mixed", r.outRoundings, a.heads*d)
	s.attends.reserve(a, r.fours, s.pool.Threads())
	r.project, r.turn, r.attend, r.gather, r.finish = r.projectChunk, r.turnToken, r.attendJob, r.gatherToken, r.finishChunk
	r.page, r.join = r.pageJob, r.joinJob
	wants := roundingsOf(a.q.Matrix, a.k.Matrix, a.v.Matrix)
	if a.sparse != nil {
		r.index = a.sparse.bind(s, layer)
		wants |= a.sparse.wants()
	} else if s.pool.Threads() > 1 {
		s.attends.apart.reserve(d)
	}
	return r, wants
}

func (x *attends) reserve(a *attention, fours, workers int) {
	if n := MaxBatch * a.kvHeads * fours; len(x.states) < n {
		x.states = make([]kernel.AttentionState, n)
	}
	if n := MaxBatch * a.dim; len(x.halves) < n {
		x.halves = make([]uint16, n)
	}
	l := kernel.KVLayout{Dim: max(x.layout.Dim, a.dim), Values: max(x.layout.Values, a.valueDim())}
	if l == x.layout {
		return
	}
	x.layout, x.scratch = l, lend(workers, func() *kernel.Attention { return kernel.NewAttention(l) })
}

// run is out(attend(q, k, v)).
func (r *attentionRun) run() error {
	p := r.s.pool
	r.s.near(r.out.Matrix)
	p.Run(r.q.chunks()+r.k.chunks()+r.v.chunks(), r.project)
	p.Run(r.s.n, r.turn)
	if r.index != nil {
		r.index.run()
	}
	if r.apart() {
		r.attendApart()
	} else {
		p.Run(len(r.s.blocks)*r.kvHeads, r.attend)
	}
	p.Run(r.s.n, r.gather)
	r.s.near(r.s.coming)
	p.Run(r.out.chunks(), r.finish)
	return nil
}

func (r *attentionRun) begins() *kernel.Matrix { return r.q.Matrix }

// projectChunk computes a chunk of the rows of q, then k, then v.
func (r *attentionRun) projectChunk(c int) {
	q := r.qs
	if r.gated {
		q = r.both
	}
	for _, part := range [...]struct {
		w   *linear
		out *buffer
	}{{&r.q, q}, {&r.k, r.ks}, {&r.v, r.vs}} {
		if c < part.w.chunks() {
			part.w.mul(c, part.out.data, r.s.in, r.s.all[:r.s.n])
			return
		}
		c -= part.w.chunks()
	}
}

// turnToken normalises the queries and keys of token t, turns them by their
// position, and writes keys and values to the cache.
func (r *attentionRun) turnToken(t int) {
	q, k := row(r.qs.data, t, r.heads*r.dim), row(r.ks.data, t, r.kvHeads*r.dim)
	if r.gated {
		both, gate := row(r.both.data, t, 2*r.heads*r.dim), row(r.gate.data, t, r.heads*r.dim)
		for h := range r.heads {
			copy(row(q, h, r.dim), row(both, 2*h, r.dim))
			copy(row(gate, h, r.dim), row(both, 2*h+1, r.dim))
		}
	}
	r.norm(q, r.qNorm)
	r.norm(k, r.kNorm)
	for h := range r.heads {
		x := row(q, h, r.dim)
		r.turns.turn(x, t)
		kernel.Scale(x, r.scale)
	}
	v, d := row(r.vs.data, t, r.kvHeads*r.valueDim()), r.valueDim()
	cache := r.s.cache(t)
	for h := range r.kvHeads {
		x := row(k, h, r.dim)
		r.turns.turn(x, t)
		cache.Put(r.layer, h, r.s.pos[t], x, row(v, h, d), r.s.attends.halves[t*r.dim:])
	}
}

// norm normalises stretches of x as long as gamma: heads, or all of it.
func (r *attentionRun) norm(x, gamma []float32) {
	for n := len(gamma); n > 0 && len(x) > 0; x = x[n:] {
		kernel.RMSNorm(x[:n], x[:n], gamma, r.s.m.Eps)
	}
}

// turn turns a head of token t. No turning is nil.
func (r *turning) turn(x []float32, t int) {
	if r == nil {
		return
	}
	n := len(r.freqs)
	cos, sin := row(r.cos, t, n), row(r.sin, t, n)
	if r.adjacent {
		kernel.RopeAdjacent(x, cos, sin)
		return
	}
	kernel.Rope(x[:n], x[n:2*n], cos, sin)
}

// attendJob is the query heads that share a key-value head, of a block of tokens,
// over all positions that each sees. quant.Look.Attend is its definition.
func (r *attentionRun) attendJob(job int) {
	s := r.s
	b, head := s.blocks[job/r.kvHeads], job%r.kvHeads
	cache := s.batch[b.seq].Cache
	layout := cache.Layout(r.layer)
	scratch := s.attends.scratch.take()
	for page := r.first(b.from) / kv.PageSize; page*kv.PageSize <= s.pos[b.to-1]; page++ {
		layout, data := layout, cache.Page(r.layer, head, page)
		at := page * kv.PageSize
		if b.to-b.from > 1 && r.index == nil {
			layout, data = scratch.Wide(layout, data, min(kv.PageSize, s.pos[b.to-1]+1-at))
		}
		for t := b.from; t < b.to; t++ {
			n, first := min(kv.PageSize, s.pos[t]+1-at), r.first(t)
			if n <= 0 || first >= at+kv.PageSize {
				continue
			}
			if r.index != nil && r.index.sparse(t) {
				r.attendSeen(scratch, t, head, page)
				continue
			}
			for four := range r.fours {
				rows, q, out := r.four(t, head, four)
				scratch.AddFrom(r.state(t, head, four), layout, data, max(0, first-at), n, rows, q, out, first >= at)
			}
		}
	}
	s.attends.scratch.give(scratch)
	for t := b.from; t < b.to; t++ {
		r.end(t, head)
	}
}

// four is how many query heads there are in a four of those that share a key-value
// head, their queries for token t, [rows, dim], and where results go, [rows, values].
func (r *attentionRun) four(t, head, four int) (rows int, q, out []float32) {
	group := r.heads / r.kvHeads
	h := t*r.heads + head*group + four*kernel.Heads
	return min(kernel.Heads, group-four*kernel.Heads), r.qs.data[h*r.dim:], r.mixed.data[h*r.valueDim():]
}

// end ends the attention of token t with a key-value head, after its last page.
func (r *attentionRun) end(t, head int) {
	layout := r.s.cache(t).Layout(r.layer)
	for four := range r.fours {
		rows, _, out := r.four(t, head, four)
		state := r.state(t, head, four)
		if r.sinks != nil {
			state.Sink(layout, rows, r.sinks[head*(r.heads/r.kvHeads)+four*kernel.Heads:], out)
		}
		state.Finish(layout, rows, out)
	}
}

// attendSeen is a page of attendJob for a token that doesn't see all of it.
func (r *attentionRun) attendSeen(scratch *kernel.Attention, t, head, page int) {
	seen := r.index.seen(t)
	first := true // no page before has a position that is seen
	for p := range page {
		first = first && seen[p] == kernel.Seen{}
	}
	cache := r.s.cache(t)
	layout, data := cache.Layout(r.layer), cache.Page(r.layer, head, page)
	for four := range r.fours {
		rows, q, out := r.four(t, head, four)
		scratch.AddSeen(r.state(t, head, four), layout, data, &seen[page], rows, q, out, first)
	}
}

func (r *attentionRun) state(t, head, four int) *kernel.AttentionState {
	return &r.s.attends.states[(t*r.kvHeads+head)*r.fours+four]
}

// first is the first position that token t sees.
func (r *attentionRun) first(t int) int {
	if r.window == 0 {
		return 0
	}
	return max(0, r.s.pos[t]+1-r.window)
}

// gatherToken rounds what attention gave for token t.
func (r *attentionRun) gatherToken(t int) {
	mixed := row(r.mixed.data, t, r.heads*r.valueDim())
	if r.gated {
		kernel.Sigmoids(mixed, row(r.gate.data, t, len(mixed)))
	}
	r.mid.set(r.outRoundings, t, mixed)
}

func (r *attentionRun) finishChunk(c int) {
	r.out.mul(c, r.s.delta, r.mid, r.s.all[:r.s.n])
}

func sigmoid(x float32) float32 { return 1 / (1 + quant.Exp(-x)) }
