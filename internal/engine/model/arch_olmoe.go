package model

import "fmt"

// olmoe reads OLMoE: half-split RoPE, norms over all queries and all keys together,
// and shares of experts that are not normalised.
func olmoe(b *builder) family {
	h := b.heads()
	rope := b.ropeSpec(h.dim, h.dim, false).make()
	return family{layer: func(i int) layer {
		p := fmt.Sprintf("blk.%d.", i)
		a := b.attention(p, h)
		a.rope = rope
		a.qNorm, a.kNorm = b.vector(p+"attn_q_norm.weight", h.n*h.dim), b.vector(p+"attn_k_norm.weight", h.kv*h.dim)
		e := b.experts(i, "feed_forward_length")
		e.normalised = false
		return b.residual(p, a, e)
	}}
}
