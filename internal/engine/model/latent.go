package model

import (
	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
)

// latent is the mixer of DeepSeek's attention (MLA): of a position only one short
// vector is kept, of which the keys and values of all heads are made, and a part of
// the key that all heads share.
//
// It runs absorbed: a head's matrix for keys is applied to its query and not to the
// keys, and its matrix for values to the weighted short vectors. So the short
// vectors are key and value at once, all heads share them, and a position needs
// 2*rank + turned numbers instead of heads*(nope+turned+values): 1,088 instead of
// 40,960 in DeepSeek V3. What a head computes depends on its token's position alone,
// so the bits stay those of the tokens.
type latent struct {
	heads        int
	nope, turned int     // elements of a head's query and key without, and with, position
	rank         int     // of the short vector
	values       int     // dimensions of a head's value
	q            *linear // [heads*(nope+turned), width]; nil: qA and qB
	qA, qB       linear  // [low, width], [heads*(nope+turned), low]
	qNorm        []float32
	kv           linear           // [rank+turned, width]
	kvNorm       []float32        // [rank]
	kB, vB       []*kernel.Matrix // heads x [rank, nope], heads x [values, rank]
	out          linear           // [width, heads*values]
	rope         *rope
	scale        float32 // of scores
}

// dim is the number of dimensions of the keys that are kept.
func (l *latent) dim() int { return l.rank + l.turned }

func (l *latent) keeps() kept { return kept{heads: 1, dim: l.dim(), values: l.rank} }

// latentRun is latent bound to a pass. A slot is a head of a token: t*heads + head.
type latentRun struct {
	*latent
	s     *Pass
	layer int
	turns *turning
	fours int // of heads

	low                  *buffer // [n, low]: what qA gives
	lowIn                *acts
	qs                   *buffer // [n, heads*(nope+turned)]
	kvs                  *buffer // [n, rank+turned]
	wide                 *buffer // [slots, rank+turned]: queries in the keys' terms
	short                *buffer // [slots, rank]: weighted short vectors
	mixed                *buffer // [n, heads*values]
	plain                *acts   // [slots, nope]: input of kB
	shortIn              *acts   // [slots, rank]: input of vB
	mid                  *acts   // [n, heads*values]
	lows, plains, shorts roundings
	mids                 roundings
	slots                [][]kernel.Route // of each head: slots to slots

	project, widen, raise, turn, absorb, attend, lower, gather, finish func(int)
}

func (l *latent) bind(s *Pass, layer int) (runner, roundings) {
	slots := MaxBatch * l.heads
	r := &latentRun{
		latent: l, s: s, layer: layer, turns: s.turning(l.rope), fours: (l.heads + kernel.Heads - 1) / kernel.Heads,
		qs: s.floats("q", l.heads*(l.nope+l.turned)), kvs: s.floats("k", l.dim()),
		wide: s.floats("wide", l.heads*l.dim()), short: s.floats("short", l.heads*l.rank), mixed: s.floats("mixed", l.heads*l.values),
		plains: roundingsOf(l.kB...), shorts: roundingsOf(l.vB...), mids: roundingsOf(l.out.Matrix),
	}
	wants := roundingsOf(l.kv.Matrix)
	if l.q != nil {
		wants |= roundingsOf(l.q.Matrix)
	} else {
		wants |= roundingsOf(l.qA.Matrix)
		r.lows, r.low = roundingsOf(l.qB.Matrix), s.floats("low", l.qA.Rows)
		r.lowIn = s.acts("low", r.lows, l.qA.Rows)
	}
	r.plain, r.shortIn = s.slots("plain", r.plains, slots, l.nope), s.slots("short", r.shorts, slots, l.rank)
	r.mid = s.acts("mixed", r.mids, l.heads*l.values)
	s.attends.reserve(&attention{kvHeads: 1, dim: l.dim(), values: l.rank}, r.fours, s.pool.Threads())
	for h := range l.heads {
		routes := make([]kernel.Route, MaxBatch)
		for t := range routes {
			slot := int32(t*l.heads + h)
			routes[t] = kernel.Route{In: slot, Out: slot}
		}
		r.slots = append(r.slots, routes)
	}
	r.project, r.widen, r.raise, r.turn, r.absorb = r.projectChunk, r.widenToken, r.raiseChunk, r.turnToken, r.absorbChunk
	r.attend, r.lower, r.gather, r.finish = r.attendJob, r.lowerChunk, r.gatherToken, r.finishChunk
	return r, wants
}

func (r *latentRun) run() error {
	p, n := r.s.pool, r.s.n
	p.Run(r.first().chunks()+r.kv.chunks(), r.project)
	if r.q == nil {
		p.Run(n, r.widen)
		p.Run(r.qB.chunks(), r.raise)
	}
	p.Run(n, r.turn)
	p.Run(r.heads*chunks(r.kB[0]), r.absorb)
	p.Run(len(r.s.blocks)*r.fours, r.attend)
	p.Run(r.heads*chunks(r.vB[0]), r.lower)
	p.Run(n, r.gather)
	p.Run(r.out.chunks(), r.finish)
	return nil
}

// first is what makes queries of the stream, at once or as a first step.
func (r *latentRun) first() *linear {
	if r.q != nil {
		return r.q
	}
	return &r.qA
}

// projectChunk computes a chunk of the rows of the first step of queries, then of
// kv.
func (r *latentRun) projectChunk(c int) {
	routes, q := r.s.all[:r.s.n], r.first()
	if n := q.chunks(); c >= n {
		r.kv.mul(c-n, r.kvs.data, r.s.in, routes)
		return
	}
	out := r.qs
	if r.q == nil {
		out = r.low
	}
	q.mul(c, out.data, r.s.in, routes)
}

// widenToken normalises the first step of token t for the second.
func (r *latentRun) widenToken(t int) {
	x := row(r.low.data, t, r.qA.Rows)
	kernel.RMSNorm(x, x, r.qNorm, r.s.m.Eps)
	r.lowIn.set(r.lows, t, x)
}

func (r *latentRun) raiseChunk(c int) { r.qB.mul(c, r.qs.data, r.lowIn, r.s.all[:r.s.n]) }

// turnToken keeps the short vector and the shared key of token t, and prepares its
// queries: what has a position is turned and takes its place behind what kB will
// make of the rest.
func (r *latentRun) turnToken(t int) {
	key := row(r.kvs.data, t, r.dim())
	short := key[:r.rank]
	kernel.RMSNorm(short, short, r.kvNorm, r.s.m.Eps)
	r.turns.turn(key[r.rank:], t)
	r.s.cache(t).Put(r.layer, 0, r.s.pos[t], key, short, r.s.attends.halves[t*r.dim():])
	size := r.nope + r.turned
	for h := range r.heads {
		slot := t*r.heads + h
		q := row(r.qs.data, slot, size)
		kernel.Scale(q, r.scale)
		r.turns.turn(q[r.nope:], t)
		copy(row(r.wide.data, slot, r.dim())[r.rank:], q[r.nope:])
		r.plain.set(r.plains, slot, q[:r.nope])
	}
}

// perHead computes a chunk of the rows of one head's matrix, for all tokens.
func (r *latentRun) perHead(job int, m []*kernel.Matrix, out []float32, stride int, in *acts) {
	n := chunks(m[0])
	w, c := m[job/n], job%n
	step := w.ChunkRows()
	w.Mul(out, stride, in.of(w), c*step, min((c+1)*step, w.Rows), r.slots[job/n][:r.s.n])
}

func (r *latentRun) absorbChunk(job int) { r.perHead(job, r.kB, r.wide.data, r.dim(), r.plain) }

func (r *latentRun) lowerChunk(job int) {
	r.perHead(job, r.vB, r.mixed.data, r.values, r.shortIn)
}

// attendJob is up to four heads of a block of tokens over all positions up to each
// token's own, and rounds what they give for vB.
func (r *latentRun) attendJob(job int) {
	s := r.s
	b, four := s.blocks[job/r.fours], job%r.fours
	cache, first, dim := s.batch[b.seq].Cache, four*kernel.Heads, r.dim()
	rows, layout := min(kernel.Heads, r.heads-first), cache.Layout(r.layer)
	scratch := s.attends.scratch.take()
	for page := 0; page*kv.PageSize <= s.pos[b.to-1]; page++ {
		layout, data := layout, cache.Page(r.layer, 0, page)
		if b.to-b.from > 1 {
			layout, data = scratch.Wide(layout, data, min(kv.PageSize, s.pos[b.to-1]+1-page*kv.PageSize))
		}
		for t := b.from; t < b.to; t++ {
			if n := min(kv.PageSize, s.pos[t]+1-page*kv.PageSize); n > 0 {
				slot := t*r.heads + first
				scratch.Add(&s.attends.states[t*r.fours+four], layout, data, n, rows, r.wide.data[slot*dim:], r.short.data[slot*r.rank:], page == 0)
			}
		}
	}
	s.attends.scratch.give(scratch)
	for t := b.from; t < b.to; t++ {
		slot := t*r.heads + first
		s.attends.states[t*r.fours+four].Finish(layout, rows, r.short.data[slot*r.rank:])
		for i := range rows {
			r.shortIn.set(r.shorts, slot+i, row(r.short.data, slot+i, r.rank))
		}
	}
}

// gatherToken rounds the values of token t's heads.
func (r *latentRun) gatherToken(t int) {
	r.mid.set(r.mids, t, row(r.mixed.data, t, r.heads*r.values))
}

func (r *latentRun) finishChunk(c int) { r.out.mul(c, r.s.delta, r.mid, r.s.all[:r.s.n]) }
