package model

import (
	"math"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
)

// attend is one query head of one token over all positions up to its own. The
// positions are taken in pages of kv.PageSize. Within a page: scores, their
// maximum, weights relative to it, their sum (16 partial sums, position modulo
// 16, folded in halves) and the weighted values, in order of position. Pages
// merge in order, each scaled by the exponential of its maximum less the
// common one. So the bits don't depend on how the prompt was batched.
func (s *Pass) attend(job int) {
	m := s.m
	t, head := job/m.Heads, job%m.Heads
	kvHead := head / (m.Heads / m.KVHeads)
	scale := float32(1 / math.Sqrt(float64(m.HeadDim)))
	q, out := row(s.q, job, m.HeadDim), row(s.mixed, job, m.HeadDim)
	var w [kv.PageSize]float32
	var sum, top float32
	last := s.start + t
	for page := 0; page*kv.PageSize <= last; page++ {
		n := min(kv.PageSize, last+1-page*kv.PageSize)
		keys, values := s.cache.Keys(s.li, kvHead, page), s.cache.Values(s.li, kvHead, page)
		pageTop := float32(math.Inf(-1))
		for i := range n {
			w[i] = float32(kernel.Dot(q, row(keys, i, m.HeadDim)) * scale)
			pageTop = max(pageTop, w[i])
		}
		newTop := pageTop
		if page > 0 {
			newTop = max(top, pageTop)
		}
		var part [16]float32
		for i := range n {
			w[i] = kernel.Exp(w[i] - pageTop)
			part[i%16] += w[i]
		}
		for half := 8; half > 0; half /= 2 {
			for i := range half {
				part[i] += part[half+i]
			}
		}
		if page == 0 {
			clear(out)
			weighValues(out, values, w[:n], m.HeadDim)
			sum, top = part[0], newTop
			continue
		}
		before, here := kernel.Exp(top-newTop), kernel.Exp(pageTop-newTop)
		sum = float32(sum*before) + float32(part[0]*here)
		top = newTop
		s.mergePage(job, out, values, w[:n], before, here)
	}
	for i := range out {
		out[i] /= sum
	}
}

// mergePage sets out to out*before + here*(the weighted values of a page).
func (s *Pass) mergePage(job int, out, values, w []float32, before, here float32) {
	mine := row(s.pages, job, s.m.HeadDim)
	clear(mine)
	weighValues(mine, values, w, s.m.HeadDim)
	for i, v := range mine {
		out[i] = float32(out[i]*before) + float32(v*here)
	}
}

// weighValues adds w[i] times value i to out, in order.
func weighValues(out, values, w []float32, dim int) {
	for i, v := range w {
		kernel.Axpy(out, row(values, i, dim), v)
	}
}
