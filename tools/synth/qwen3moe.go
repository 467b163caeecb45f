package main

import (
	"fmt"

	"assay/internal/gguf"
)

func checkQwen3MoE(s *shape) error {
	switch {
	case s.heads < 1 || s.kvHeads < 1 || s.heads%s.kvHeads != 0:
		return fmt.Errorf("-kv-heads %d does not divide the %d heads", s.kvHeads, s.heads)
	case s.headDim < 2 || s.headDim%2 != 0:
		return fmt.Errorf("-head-dim %d is not an even number of at least 2", s.headDim)
	case s.used < 1 || s.used >= s.experts:
		return fmt.Errorf("-used %d is not between 1 and %d, one less than the experts", s.used, s.experts-1)
	case s.layers < 1 || s.width < 1 || s.expertWidth < 1:
		return fmt.Errorf("-layers, -width and -expert-width must be at least 1")
	}
	return nil
}

func metaQwen3MoE(s *shape, b *gguf.Builder) {
	for key, v := range ordered(
		"block_count", s.layers,
		"context_length", s.context,
		"embedding_length", s.width,
		"feed_forward_length", s.used*s.expertWidth,
		"vocab_size", s.vocab,
		"attention.head_count", s.heads,
		"attention.head_count_kv", s.kvHeads,
		"attention.key_length", s.headDim,
		"attention.value_length", s.headDim,
		"rope.dimension_count", s.headDim,
		"expert_count", s.experts,
		"expert_used_count", s.used,
		"expert_feed_forward_length", s.expertWidth,
	) {
		b.Set("qwen3moe."+key, uint32(v))
	}
	b.Set("qwen3moe.attention.layer_norm_rms_epsilon", float32(1e-6))
	b.Set("qwen3moe.rope.freq_base", float32(1e6))
}

func tensorsQwen3MoE(s *shape) []tensor {
	t := []tensor{
		{name: "token_embd.weight", dims: dims(s.width, s.vocab), kind: embedding, layer: -1},
		{name: "output_norm.weight", dims: dims(s.width), kind: norm, layer: -1},
		{name: "output.weight", dims: dims(s.width, s.vocab), kind: output, layer: -1},
	}
	for i := range s.layers {
		p := fmt.Sprintf("blk.%d.", i)
		q, kv := s.heads*s.headDim, s.kvHeads*s.headDim
		t = append(
			t,
			tensor{name: p + "attn_norm.weight", dims: dims(s.width), kind: norm, layer: i},
			tensor{name: p + "attn_q.weight", dims: dims(s.width, q), kind: weight, layer: i},
			tensor{name: p + "attn_k.weight", dims: dims(s.width, kv), kind: weight, layer: i},
			tensor{name: p + "attn_v.weight", dims: dims(s.width, kv), kind: value, layer: i},
			tensor{name: p + "attn_q_norm.weight", dims: dims(s.headDim), kind: norm, layer: i},
			tensor{name: p + "attn_k_norm.weight", dims: dims(s.headDim), kind: norm, layer: i},
			tensor{name: p + "attn_output.weight", dims: dims(q, s.width), kind: weight, layer: i, gain: attentionGain},
			tensor{name: p + "ffn_norm.weight", dims: dims(s.width), kind: norm, layer: i},
			tensor{name: p + "ffn_gate_inp.weight", dims: dims(s.width, s.experts), kind: router, layer: i},
			tensor{name: p + "ffn_gate_exps.weight", dims: dims(s.width, s.expertWidth, s.experts), kind: weight, layer: i},
			tensor{name: p + "ffn_up_exps.weight", dims: dims(s.width, s.expertWidth, s.experts), kind: weight, layer: i},
			tensor{name: p + "ffn_down_exps.weight", dims: dims(s.expertWidth, s.width, s.experts), kind: value, layer: i},
		)
	}
	return t
}
