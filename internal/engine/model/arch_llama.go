package model

import "fmt"

// llama reads Llama 2 and 3, Mistral, and with experts Mixtral: RoPE of adjacent
// pairs, whose frequencies Llama 3 divides by factors in the file.
func llama(b *builder) family {
	h := b.heads()
	rope := b.ropeSpec(h.dim, h.dim, true).make()
	scale := float32(b.realOr("attention.scale", 0, 0, 1e6))
	return family{layer: func(i int) layer {
		p := fmt.Sprintf("blk.%d.", i)
		a := b.attention(p, h)
		a.rope, a.scale = rope, scale
		if b.has(p + "ffn_gate_inp.weight") {
			return b.residual(p, a, b.experts(i, "feed_forward_length"))
		}
		return b.residual(p, a, b.feedForward(p))
	}}
}

// granite reads IBM's Granite with experts: Mixtral with an expert that is always
// used, and four numbers that scale embeddings, scores, both branches of a layer and
// logits.
func granite(b *builder) family {
	f := llama(b)
	f.embedScale = float32(b.realOr("embedding_scale", 0, 0, 1e6))
	f.logitScale = float32(b.realOr("logit_scale", 0, 0, 1e6))
	branches := float32(b.realOr("residual_scale", 0, 0, 1e6))
	shared := b.numberOr("expert_shared_feed_forward_length", 0, 0, 1<<17)
	plain := f.layer
	f.layer = func(i int) layer {
		l := plain(i).(*residual)
		l.mix.scale, l.ffn.scale = branches, branches
		if e, ok := l.ffn.part.(*experts); ok && shared > 0 {
			e.shared = b.dense(fmt.Sprintf("blk.%d.", i), "_shexp", shared)
		}
		return l
	}
	return f
}
