package model

import (
	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
)

// attentionTokens is how many tokens of a large batch one job of attend takes: a
// page of keys and values stays in the cache while they pass.
const attentionTokens = 8

// attention is the scratch of the attention layers.
type attention struct {
	states  []kernel.AttentionState // [n, kvHeads, fours]: fours of query heads
	fours   int                     // of a key-value head
	scratch chan *kernel.Attention  // one a worker
}

// reserve makes what the layout of the cache needs, unless it is there.
func (a *attention) reserve(l kernel.KVLayout, workers int) {
	if a.scratch != nil {
		return
	}
	a.scratch = make(chan *kernel.Attention, workers)
	for range workers {
		a.scratch <- kernel.NewAttention(l)
	}
}

// tokensAtOnce is how many tokens a job of attend takes.
func (s *Pass) tokensAtOnce() int {
	if s.n < 4*attentionTokens {
		return 1
	}
	return attentionTokens
}

// attendJobs is how many jobs attend has: a block of tokens by a key-value head.
func (s *Pass) attendJobs() int {
	b := s.tokensAtOnce()
	return (s.n + b - 1) / b * s.m.KVHeads
}

// attend is the query heads that share a key-value head, of a block of tokens,
// over all positions up to each token's own. quant.Attend is its definition.
func (s *Pass) attend(job int) {
	m := s.m
	layout := s.cache.Layout()
	b, head := s.tokensAtOnce(), job%m.KVHeads
	from := job / m.KVHeads * b
	to := min(from+b, s.n)
	group := m.Heads / m.KVHeads
	scratch := <-s.attention.scratch
	for page := 0; page*kv.PageSize < s.start+to; page++ {
		data := s.cache.Page(s.li, head, page)
		for t := from; t < to; t++ {
			n := min(kv.PageSize, s.start+t+1-page*kv.PageSize)
			for four := 0; n > 0 && four < s.attention.fours; four++ {
				rows := min(kernel.Heads, group-four*kernel.Heads)
				at := (t*m.Heads + head*group + four*kernel.Heads) * m.HeadDim
				state := &s.attention.states[(t*m.KVHeads+head)*s.attention.fours+four]
				scratch.Add(state, layout, data, n, rows, s.q[at:], s.mixed[at:], page == 0)
			}
		}
	}
	s.attention.scratch <- scratch
	for t := from; t < to; t++ {
		for four := range s.attention.fours {
			rows := min(kernel.Heads, group-four*kernel.Heads)
			at := (t*m.Heads + head*group + four*kernel.Heads) * m.HeadDim
			s.attention.states[(t*m.KVHeads+head)*s.attention.fours+four].Finish(layout, rows, s.mixed[at:])
		}
	}
}
