package model

import "fmt"

// qwen3 reads Qwen3, dense or with experts: as Qwen2, with norms of each query and
// key head.
func qwen3(b *builder) family { return qwen(b, true) }

// qwen2 reads Qwen2 and 2.5: half-split RoPE, biases on q, k and v.
func qwen2(b *builder) family { return qwen(b, false) }

func qwen(b *builder, norms bool) family {
	h := b.heads()
	rope := b.ropeSpec(h.dim, h.dim, false).make()
	return family{layer: func(i int) layer {
		p := fmt.Sprintf("blk.%d.", i)
		a := b.attention(p, h)
		a.rope = rope
		if norms {
			a.qNorm, a.kNorm = b.vector(p+"attn_q_norm.weight", h.dim), b.vector(p+"attn_k_norm.weight", h.dim)
		}
		if b.Architecture == "qwen3moe" {
			return b.residual(p, a, b.experts(i, "expert_feed_forward_length"))
		}
		return b.residual(p, a, b.feedForward(p))
	}}
}
