package model

import (
	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
)

// indexer chooses what sparse attention sees. Positions are taken in blocks of
// ratio; a block's key is the mean of its positions' keys, normalised and turned as
// the block's first position. The score of a block is the sum over the indexer's
// heads of what of query times key is above 0. Positions behind the last whole block
// are always seen.
//
// Of the others those are seen that llama.cpp takes, so that both give the same
// text. It chooses topK+ratio-1 single positions, of which those behind the last
// whole block come first: mostly topK/ratio whole blocks, and a few positions of the
// next best one. Which, where scores are equal, follows from the order in which C++'s
// partial_sort leaves them, which chosen repeats step by step. (The rule that its
// comments and other engines describe takes whole blocks only; ref has both.) It
// depends on the scores alone, and these on the tokens alone.
type indexer struct {
	heads, dim, topK, ratio int
	q, k                    linear    // [heads*dim, width], [dim, width]
	qNorm, kNorm            []float32 // [dim]
	rope                    *rope
}

// keeps: the key of each position; that of a block in place of its last position's,
// which nobody needs any more.
func (x *indexer) keeps() kept { return kept{floats: x.dim} }

// most is how many positions a query can see.
func (x *indexer) most() int { return x.topK + x.ratio - 1 }

// indexing is an indexer bound to a pass.
type indexing struct {
	*indexer
	s      *Pass
	layer  int
	turns  *turning
	qs, ks *buffer // [n, heads*dim], [n, dim]
	shared *indexes

	project, keep, closeBlock, score, choose func(int)
}

// indexes is what indexers share in a pass: what they chose is of the layer at work.
type indexes struct {
	blocks  int            // that scores has room for, each token
	scores  []float32      // [n, blocks]
	pages   int            // that seen has room for, each token
	seen    []kernel.Seen  // [n, pages]
	scratch lent[choosing] // one a worker
}

func (x *indexer) wants() roundings { return roundingsOf(x.q.Matrix, x.k.Matrix) }

func (x *indexer) bind(s *Pass, layer int) *indexing {
	if s.indexes == nil {
		s.indexes = &indexes{scratch: lend(s.pool.Threads(), func() *choosing { return new(choosing) })}
	}
	r := &indexing{
		indexer: x, s: s, layer: layer, turns: s.turning(x.rope), shared: s.indexes,
		qs: s.floats("queries of the indexer", x.heads*x.dim), ks: s.floats("keys of the indexer", x.dim),
	}
	r.project, r.keep, r.closeBlock, r.score, r.choose = r.projectChunk, r.keepToken, r.closeToken, r.scorePage, r.chooseToken
	return r
}

// run finds out what each token sees.
func (r *indexing) run() {
	s := r.s
	s.pool.Run(r.q.chunks()+r.k.chunks(), r.project)
	s.pool.Run(s.n, r.keep)
	s.pool.Run(s.n, r.closeBlock)
	last := 0
	for t := range s.n {
		last = max(last, s.pos[t])
	}
	if last < r.most() { // all see all
		return
	}
	r.shared.reserve(s.n, last/r.ratio+1, last/kv.PageSize+1)
	s.pool.Run(s.n*r.shared.pages, r.score)
	s.pool.Run(s.n, r.choose)
}

// reserve makes room for n tokens; it grows by more than is needed, since a text
// grows.
func (x *indexes) reserve(n, blocks, pages int) {
	x.blocks, x.pages = blocks, pages
	if len(x.scores) < n*blocks {
		x.scores = make([]float32, n*blocks*5/4)
	}
	if len(x.seen) < n*pages {
		x.seen = make([]kernel.Seen, n*pages*5/4+1)
	}
}

func (r *indexing) projectChunk(c int) {
	if n := r.q.chunks(); c < n {
		r.q.mul(c, r.qs.data, r.s.in, r.s.all[:r.s.n])
	} else {
		r.k.mul(c-n, r.ks.data, r.s.in, r.s.all[:r.s.n])
	}
}

// keepToken makes the queries of token t, and keeps its key.
func (r *indexing) keepToken(t int) {
	s := r.s
	for h := range r.heads {
		q := row(r.qs.data, t*r.heads+h, r.dim)
		kernel.RMSNorm(q, q, r.qNorm, s.m.Eps)
		r.turns.turn(q, t)
	}
	copy(s.cache(t).Floats(r.layer, s.pos[t]), row(r.ks.data, t, r.dim))
}

// closeToken makes the key of the block that token t completes.
func (r *indexing) closeToken(t int) {
	s, pos := r.s, r.s.pos[t]
	if (pos+1)%r.ratio != 0 {
		return
	}
	cache, mean := s.cache(t), row(r.ks.data, t, r.dim)
	if r.ratio > 1 {
		copy(mean, cache.Floats(r.layer, pos-r.ratio+1))
		for p := pos - r.ratio + 2; p <= pos; p++ {
			kernel.Add(mean, cache.Floats(r.layer, p))
		}
		kernel.Scale(mean, 1/float32(r.ratio))
	}
	key := cache.Floats(r.layer, pos)
	kernel.RMSNorm(key, mean, r.kNorm, s.m.Eps)
	r.turns.rope.turnAt(key, pos-r.ratio+1)
}

// sparse says whether token t sees less than all.
func (r *indexing) sparse(t int) bool { return r.s.pos[t] >= r.most() }

// scorePage scores the blocks of a token that end in some page.
func (r *indexing) scorePage(job int) {
	s, t, page := r.s, job/r.shared.pages, job%r.shared.pages
	if !r.sparse(t) {
		return
	}
	whole := (s.pos[t] + 1) / r.ratio
	from, to := page*kv.PageSize/r.ratio, min((page+1)*kv.PageSize/r.ratio, whole)
	cache, scores := s.cache(t), row(r.shared.scores, t, r.shared.blocks)
	for b := from; b < to; b++ {
		key, sum := cache.Floats(r.layer, (b+1)*r.ratio-1), float32(0)
		for h := range r.heads {
			sum += max(0, kernel.Dot(row(r.qs.data, t*r.heads+h, r.dim), key))
		}
		scores[b] = sum
	}
}

// chooseToken chooses what token t sees.
func (r *indexing) chooseToken(t int) {
	if !r.sparse(t) {
		return
	}
	pos := r.s.pos[t]
	whole := (pos + 1) / r.ratio
	c := r.shared.scratch.take()
	seen := r.seen(t)
	clear(seen)
	for _, p := range c.chosen(row(r.shared.scores, t, r.shared.blocks)[:whole], r.ratio, pos+1, r.most()) {
		seen[p/kv.PageSize].Add(int(p) % kv.PageSize)
	}
	r.shared.scratch.give(c)
}

// seen is what a sparse token sees, page by page.
func (r *indexing) seen(t int) []kernel.Seen {
	return r.shared.seen[t*r.shared.pages:][:r.shared.pages:r.shared.pages]
}

// choosing is scratch of chosen.
type choosing struct {
	scores []float32
	heap   []int32
}

// tailScore is that of positions which are always seen.
const tailScore = 1e9

// chosen are the width best of n positions (width < n), in no order: those of blocks
// have their block's score, those behind are better than all. They are found by a
// heap whose root is the worst of the best so far; positions come in order, and one
// that is better than the root takes its place.
func (c *choosing) chosen(blocks []float32, ratio, n, width int) []int32 {
	c.scores = c.scores[:0]
	for _, v := range blocks {
		for range ratio {
			c.scores = append(c.scores, v)
		}
	}
	for len(c.scores) < n {
		c.scores = append(c.scores, tailScore)
	}
	c.heap = c.heap[:0]
	for p := range int32(width) {
		c.heap = append(c.heap, p)
	}
	for i := (width - 2) / 2; i >= 0 && width > 1; i-- {
		c.sink(i, c.heap[i])
	}
	for p := width; p < n; p++ {
		if c.scores[p] > c.scores[c.heap[0]] {
			c.sink(0, int32(p))
		}
	}
	return c.heap
}

// sink puts a position into the heap at hole or below: the hole sinks to the bottom
// along the worse children, then rises to where the position belongs.
func (c *choosing) sink(hole int, p int32) {
	top, at, width := hole, hole, len(c.heap)
	for at < (width-1)/2 {
		at = 2*at + 2
		if c.scores[c.heap[at]] > c.scores[c.heap[at-1]] {
			at--
		}
		c.heap[hole], hole = c.heap[at], at
	}
	if width%2 == 0 && at == (width-2)/2 {
		at = 2*at + 2
		c.heap[hole], hole = c.heap[at-1], at-1
	}
	for hole > top && c.scores[c.heap[(hole-1)/2]] > c.scores[p] {
		c.heap[hole], hole = c.heap[(hole-1)/2], (hole-1)/2
	}
	c.heap[hole] = p
}
