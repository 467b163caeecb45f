package model

import (
	"fmt"
	"math"

	"assay/internal/engine/kernel"
)

// gemma3 reads Gemma 3: norms around both parts of a layer, GELU, embeddings times
// sqrt(width). Five layers of six see a window and have a RoPE of their own.
func gemma3(b *builder) family {
	heads := b.heads()
	full := b.ropeSpec(heads.dim, heads.dim, false)
	near := full
	near.base, near.linear, near.yarn = b.realOr("rope.freq_base_swa", 10000, 1, 1e12), 0, nil
	fullRope, nearRope := full.make(), near.make()
	window := b.number("attention.sliding_window", 1, 1<<27)
	every := b.numberOr("attention.sliding_window_pattern", 6, 1, 1<<10)
	scale := float32(0) // 1/sqrt(dim)
	if b.Layers == 62 { // the 27B model, which alone scales by the width of a head's share
		scale = float32(1 / math.Sqrt(float64(b.Width)/float64(heads.n)))
	}
	return family{
		embedScale: float32(math.Sqrt(float64(b.Width))),
		layer: func(i int) layer {
			p := fmt.Sprintf("blk.%d.", i)
			a := b.attention(p, heads)
			a.qNorm, a.kNorm = b.vector(p+"attn_q_norm.weight", heads.dim), b.vector(p+"attn_k_norm.weight", heads.dim)
			a.rope, a.scale = fullRope, scale
			if i%every != every-1 {
				a.rope, a.window = nearRope, window
			}
			f := b.feedForward(p)
			f.act = kernel.GELUMul
			return &residual{
				mix: branch{norm: b.vector(p+"attn_norm.weight", b.Width), part: a, post: b.vector(p+"post_attention_norm.weight", b.Width)},
				ffn: branch{norm: b.vector(p+"ffn_norm.weight", b.Width), part: f, post: b.vector(p+"post_ffw_norm.weight", b.Width)},
			}
		},
	}
}
