package model

import (
	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
)

// apart computes attention of a few tokens page by page, each page apart from the
// others, and then joins them in their order: the bits are those of one page after
// another. So all threads have work whatever the number of heads, the last of them
// ends soon after the first, and a page is read once for all tokens of a sequence.
//
// What pages give is kept for so many at a time as there is room for: a wave.
type apart struct {
	states []kernel.AttentionState // [n, kvHeads, fours, wave]
	outs   []float32               // [n, kvHeads, fours, wave, Heads*values]
	from   int                     // the wave's first page
	wave   int                     // its pages
}

// apartFloats is the room for results, of all pages of a wave: 1 MiB.
const apartFloats = 256 << 10

// reserve makes room for heads of so many values.
func (x *apart) reserve(values int) {
	if n := apartFloats / (kernel.Heads * values); len(x.states) < n {
		x.states = make([]kernel.AttentionState, n)
	}
	if x.outs == nil {
		x.outs = make([]float32, apartFloats)
	}
}

// apart says whether pages are computed apart: where there are few tokens, and room
// for several pages of each.
func (r *attentionRun) apart() bool {
	s := r.s
	if s.n > nearTokens || r.index != nil || s.pool.Threads() == 1 {
		return false
	}
	x := &s.attends.apart
	slots := s.n * r.kvHeads * r.fours
	x.wave = len(x.outs) / (slots * kernel.Heads * r.valueDim())
	return x.wave > 1 && s.furthest() >= kv.PageSize
}

// furthest is the last position of all tokens of the pass.
func (s *Pass) furthest() int {
	most := 0
	for _, pos := range s.pos[:s.n] {
		most = max(most, pos)
	}
	return most
}

// attendApart is attend for the tokens of a pass for which apart says so.
func (r *attentionRun) attendApart() {
	x, p := &r.s.attends.apart, r.s.pool
	last := r.s.furthest() / kv.PageSize
	x.from = last
	for t := range r.s.n {
		x.from = min(x.from, r.first(t)/kv.PageSize)
	}
	for ; x.from <= last; x.from += x.wave {
		p.Run(len(r.s.spans)*min(x.wave, last+1-x.from)*r.kvHeads, r.page)
		p.Run(r.s.n*r.kvHeads, r.join)
	}
}

// pageJob is one page of one head, for all tokens of a sequence.
func (r *attentionRun) pageJob(job int) {
	s, x := r.s, &r.s.attends.apart
	head, seq := job%r.kvHeads, job/r.kvHeads%len(s.spans)
	page := x.from + job/r.kvHeads/len(s.spans)
	cache, at := s.batch[seq].Cache, page*kv.PageSize
	if at > s.pos[s.spans[seq].to-1] {
		return
	}
	layout, data := cache.Layout(r.layer), cache.Page(r.layer, head, page)
	scratch := s.attends.scratch.take()
	for t := s.spans[seq].from; t < s.spans[seq].to; t++ {
		n, first := min(kv.PageSize, s.pos[t]+1-at), r.first(t)
		if n <= 0 || first >= at+kv.PageSize {
			continue
		}
		for four := range r.fours {
			rows, q, _ := r.four(t, head, four)
			state, part := r.part(t, head, four, page)
			scratch.AddFrom(state, layout, data, max(0, first-at), n, rows, q, part, true)
		}
	}
	s.attends.scratch.give(scratch)
}

// joinJob joins the pages of a wave for one head of one token.
func (r *attentionRun) joinJob(job int) {
	t, head := job/r.kvHeads, job%r.kvHeads
	s, x := r.s, &r.s.attends.apart
	first, last := r.first(t)/kv.PageSize, s.pos[t]/kv.PageSize
	layout := s.cache(t).Layout(r.layer)
	for four := range r.fours {
		rows, _, out := r.four(t, head, four)
		state := r.state(t, head, four)
		for page := max(first, x.from); page <= min(last, x.from+x.wave-1); page++ {
			o, part := r.part(t, head, four, page)
			if page == first {
				*state = *o
				copy(out, part[:rows*r.valueDim()])
			} else {
				state.Join(o, layout, rows, out, part)
			}
		}
	}
	if last >= x.from && last < x.from+x.wave {
		r.end(t, head)
	}
}

// part is where a page's result goes for a four of heads of token t.
func (r *attentionRun) part(t, head, four, page int) (*kernel.AttentionState, []float32) {
	x, size := &r.s.attends.apart, kernel.Heads*r.valueDim()
	slot := ((t*r.kvHeads+head)*r.fours+four)*x.wave + page - x.from
	return &x.states[slot], x.outs[slot*size:][:size]
}
