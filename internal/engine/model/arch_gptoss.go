package model

import (
	"fmt"

	"assay/internal/engine/kernel"
)

// gptOssLimit is how far from zero the inner values of gpt-oss' experts may be.
const gptOssLimit = 7

// gptOss reads gpt-oss: biases everywhere, sinks, a window in every even layer, YaRN,
// and experts with a clamped SwiGLU whose shares are a softmax over the chosen.
func gptOss(b *builder) family {
	heads := b.heads()
	rope := b.ropeSpec(heads.dim, heads.dim, false).make()
	window := b.number("attention.sliding_window", 1, 1<<27)
	return family{layer: func(i int) layer {
		p := fmt.Sprintf("blk.%d.", i)
		a := b.attention(p, heads)
		a.rope, a.sinks = rope, b.vector(p+"attn_sinks.weight", heads.n)
		if i%2 == 0 {
			a.window = window
		}
		e := b.experts(i, "expert_feed_forward_length")
		e.gating = gateChosen
		e.act = func(gate, up []float32) { kernel.ClampedSwiGLU(gate, up, gptOssLimit) }
		return &residual{
			mix: branch{norm: b.vector(p+"attn_norm.weight", b.Width), part: a},
			ffn: branch{norm: b.vector(p+"post_attention_norm.weight", b.Width), part: e},
		}
	}}
}
