package main

import (
	"fmt"

	"assay/internal/gguf"
)

// Of gpt-oss all sizes but the shape's are those of the released models.
const (
	gptOssWindow  = 128  // positions that every other layer sees
	gptOssContext = 4096 // that YaRN stretches from
	gptOssStretch = 32
)

func metaGptOss(s *shape, b *gguf.Builder) {
	for key, v := range ordered(
		"block_count", s.layers,
		"context_length", s.context,
		"embedding_length", s.width,
		"feed_forward_length", s.expertWidth,
		"vocab_size", s.vocab,
		"attention.head_count", s.heads,
		"attention.head_count_kv", s.kvHeads,
		"attention.key_length", s.headDim,
		"attention.value_length", s.headDim,
		"attention.sliding_window", gptOssWindow,
		"rope.scaling.original_context_length", gptOssContext,
		"expert_count", s.experts,
		"expert_used_count", s.used,
		"expert_feed_forward_length", s.expertWidth,
	) {
		b.Set("gpt-oss."+key, uint32(v))
	}
	b.Set("gpt-oss.attention.layer_norm_rms_epsilon", float32(1e-5))
	b.Set("gpt-oss.rope.freq_base", float32(150000))
	b.Set("gpt-oss.rope.scaling.type", "yarn")
	b.Set("gpt-oss.rope.scaling.factor", float32(gptOssStretch))
}

// bias is numbers of size 0.1, beside products of size 1.
func bias(r *source, _ int, out []float32) {
	for i := range out {
		out[i] = float32(0.1 * r.unit())
	}
}

// sinks are about as large as the scores of attention.
func sinks(r *source, _ int, out []float32) {
	for i := range out {
		out[i] = float32(r.unit())
	}
}

// none leaves the router's bias at zero, so that the rows alone decide the skew.
func none(_ *source, _ int, out []float32) { clear(out) }

func tensorsGptOss(s *shape) []tensor {
	t := []tensor{
		{name: "token_embd.weight", dims: dims(s.width, s.vocab), kind: embedding, layer: -1},
		{name: "output_norm.weight", dims: dims(s.width), kind: norm, layer: -1},
		{name: "output.weight", dims: dims(s.width, s.vocab), kind: output, layer: -1},
	}
	q, kv := s.heads*s.headDim, s.kvHeads*s.headDim
	for i := range s.layers {
		p := fmt.Sprintf("blk.%d.", i)
		t = append(
			t,
			tensor{name: p + "attn_norm.weight", dims: dims(s.width), kind: norm, layer: i},
			tensor{name: p + "attn_q.weight", dims: dims(s.width, q), kind: weight, layer: i},
			tensor{name: p + "attn_q.bias", dims: dims(q), kind: numbers, layer: i, draw: bias},
			tensor{name: p + "attn_k.weight", dims: dims(s.width, kv), kind: weight, layer: i},
			tensor{name: p + "attn_k.bias", dims: dims(kv), kind: numbers, layer: i, draw: bias},
			tensor{name: p + "attn_v.weight", dims: dims(s.width, kv), kind: value, layer: i},
			tensor{name: p + "attn_v.bias", dims: dims(kv), kind: numbers, layer: i, draw: bias},
			tensor{name: p + "attn_output.weight", dims: dims(q, s.width), kind: weight, layer: i, gain: attentionGain},
			tensor{name: p + "attn_output.bias", dims: dims(s.width), kind: numbers, layer: i, draw: bias},
			tensor{name: p + "attn_sinks.weight", dims: dims(s.heads), kind: numbers, layer: i, draw: sinks},
			tensor{name: p + "post_attention_norm.weight", dims: dims(s.width), kind: norm, layer: i},
			tensor{name: p + "ffn_gate_inp.weight", dims: dims(s.width, s.experts), kind: router, layer: i},
			tensor{name: p + "ffn_gate_inp.bias", dims: dims(s.experts), kind: numbers, layer: i, draw: none},
			tensor{name: p + "ffn_gate_exps.weight", dims: dims(s.width, s.expertWidth, s.experts), kind: weight, layer: i},
			tensor{name: p + "ffn_gate_exps.bias", dims: dims(s.expertWidth, s.experts), kind: numbers, layer: i, draw: bias},
			tensor{name: p + "ffn_up_exps.weight", dims: dims(s.width, s.expertWidth, s.experts), kind: weight, layer: i},
			tensor{name: p + "ffn_up_exps.bias", dims: dims(s.expertWidth, s.experts), kind: numbers, layer: i, draw: bias},
			tensor{name: p + "ffn_down_exps.weight", dims: dims(s.expertWidth, s.width, s.experts), kind: value, layer: i},
			tensor{name: p + "ffn_down_exps.bias", dims: dims(s.width, s.experts), kind: numbers, layer: i, draw: bias},
		)
	}
	return t
}
