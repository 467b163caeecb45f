package model

import "fmt"

// glm4moe reads GLM-4.5: half-split RoPE on a part of each head, norms of heads in
// some sizes, dense layers first, then experts with a sigmoid router and a shared
// expert.
func glm4moe(b *builder) family {
	heads := b.heads()
	rope := b.ropeSpec(heads.dim, heads.dim, false).make()
	ffn := b.deepExperts(gateSigmoid)
	return family{layer: func(i int) layer {
		p := fmt.Sprintf("blk.%d.", i)
		a := b.attention(p, heads)
		a.rope = rope
		a.qNorm, a.kNorm = b.vectorIf(p+"attn_q_norm.weight", heads.dim), b.vectorIf(p+"attn_k_norm.weight", heads.dim)
		return &residual{
			mix: branch{norm: b.vector(p+"attn_norm.weight", b.Width), part: a},
			ffn: branch{norm: b.vector(p+"post_attention_norm.weight", b.Width), part: ffn(i)},
		}
	}}
}

// deepExperts reads what GLM-4.5 and DeepSeek have in common: the feed-forward of
// each layer, dense in the first ones. usual is how they are gated if the file
// doesn't say.
func (b *builder) deepExperts(usual gating) func(i int) part {
	first := b.numberOr("leading_dense_block_count", 0, 0, b.Layers)
	shared := b.numberOr("expert_shared_count", 0, 0, 1<<10)
	kind := gating(b.numberOr("expert_gating_func", int(usual), int(gateSoftmax), int(gateSigmoid)))
	normalised := b.flagOr("expert_weights_norm", false)
	groups := b.numberOr("expert_group_count", 0, 0, maxGroups)
	groupsUsed := groups
	if groups > 1 {
		groupsUsed = b.number("expert_group_used_count", 1, groups)
	}
	return func(i int) part {
		p := fmt.Sprintf("blk.%d.", i)
		if i < first {
			return b.feedForward(p)
		}
		e := b.experts(i, "expert_feed_forward_length")
		e.gating, e.normalised, e.groups, e.groupsUsed = kind, normalised, groups, groupsUsed
		if groups > 1 && e.n%groups != 0 {
			b.fail("expert_group_count", "%d does not divide the %d experts", groups, e.n)
		}
		if shared > 0 {
			e.shared = b.dense(p, "_shexp", shared*e.inner)
		}
		return e
	}
}
