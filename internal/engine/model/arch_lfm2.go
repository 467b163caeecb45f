package model

import "fmt"

// lfm2 reads LFM2 with experts: short convolutions and attention, a plain
// feed-forward in the first layers and experts, routed by sigmoids, in the others.
func lfm2(b *builder) family {
	kvHeads := b.numbers("attention.head_count_kv", b.Layers, 0, 1<<12)
	heads := heads{n: b.number("attention.head_count", 1, 1<<12)}
	heads.dim = b.numberOr("attention.key_length", max(2, b.Width/heads.n), 2, 1<<12)
	rope := b.ropeSpec(heads.dim, heads.dim, false).make()
	plain := b.numberOr("leading_dense_block_count", 0, 0, b.Layers)
	return family{outputNorm: "token_embd_norm.weight", layer: func(i int) layer {
		p := fmt.Sprintf("blk.%d.", i)
		l := &residual{
			mix: branch{norm: b.vector(p+"attn_norm.weight", b.Width)},
			ffn: branch{norm: b.vector(p+"ffn_norm.weight", b.Width)},
		}
		if heads.kv = kvHeads[i]; heads.kv == 0 {
			l.mix.part = &shortConv{
				in: b.linear(p+"shortconv.in_proj", 3*b.Width, b.Width), out: b.linear(p+"shortconv.out_proj", b.Width, b.Width),
				taps: b.taps(p+"shortconv.conv.weight", b.Width, b.number("shortconv.l_cache", 1, mostTaps)),
			}
		} else {
			if heads.n%heads.kv != 0 {
				b.fail("attention.head_count_kv", "%d, for layer %d, does not divide the %d query heads", heads.kv, i, heads.n)
				heads.kv = heads.n
			}
			a := b.attention(p, heads)
			a.rope = rope
			a.qNorm, a.kNorm = b.vector(p+"attn_q_norm.weight", heads.dim), b.vector(p+"attn_k_norm.weight", heads.dim)
			l.mix.part = a
		}
		if i < plain {
			d := b.dense(p, "", b.number("feed_forward_length", 1, 1<<17))
			l.ffn.part = d
		} else {
			e := b.experts(i, "expert_feed_forward_length")
			if b.numberOr("expert_gating_func", 1, 1, 2) == 2 {
				e.gating = gateSigmoid
			}
			l.ffn.part = e
		}
		return l
	}}
}
