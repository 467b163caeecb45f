package model

import (
	"fmt"
	"math"
)

// deepseek2 reads DeepSeek V2, V3 and R1: attention over short vectors (latent.go),
// dense layers first, then experts in groups and shared ones.
func deepseek2(b *builder) family {
	heads := b.number("attention.head_count", 1, 1<<12)
	size := b.number("attention.key_length_mla", 2, 1<<12) // of a head's query
	turned := b.number("rope.dimension_count", 2, size-1)
	rank := b.number("attention.kv_lora_rank", 1, 1<<14)
	values := b.number("attention.value_length_mla", 1, 1<<12)
	low := b.numberOr("attention.q_lora_rank", 0, 0, 1<<16)
	spec := b.ropeSpec(turned, turned, true)
	scale := 1 / math.Sqrt(float64(size))
	if spec.yarn != nil { // the scores grow, where others let cosine and sine grow
		spec.yarn.magnitude = false
		grow := 1 + b.realOr("rope.scaling.yarn_log_multiplier", 0, 0, 100)*math.Log(spec.yarn.factor)
		scale *= grow * grow
	}
	rope := spec.make()
	ffn := b.deepExperts(gateSoftmax)
	return family{layer: func(i int) layer {
		p := fmt.Sprintf("blk.%d.", i)
		l := &latent{
			heads: heads, nope: size - turned, turned: turned, rank: rank, values: values, rope: rope, scale: float32(scale),
			kv: b.linear(p+"attn_kv_a_mqa", rank+turned, b.Width), kvNorm: b.vector(p+"attn_kv_a_norm.weight", rank),
			kB: b.stack(p+"attn_k_b.weight", heads, rank, size-turned), vB: b.stack(p+"attn_v_b.weight", heads, values, rank),
			out: b.linear(p+"attn_output", b.Width, heads*values),
		}
		if low == 0 || b.has(p+"attn_q.weight") {
			q := b.linear(p+"attn_q", heads*size, b.Width)
			l.q = &q
		} else {
			l.qA, l.qB = b.linear(p+"attn_q_a", low, b.Width), b.linear(p+"attn_q_b", heads*size, low)
			l.qNorm = b.vector(p+"attn_q_a_norm.weight", low)
		}
		return &residual{
			mix: branch{norm: b.vector(p+"attn_norm.weight", b.Width), part: l},
			ffn: branch{norm: b.vector(p+"ffn_norm.weight", b.Width), part: ffn(i)},
		}
	}}
}
