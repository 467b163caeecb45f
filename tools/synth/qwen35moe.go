package main

import (
	"fmt"
	"math"

	"assay/internal/gguf"
)

// Of qwen35moe all sizes but the shape's are those of the released models, or follow
// from the width as they do there: a DeltaNet has a key head for each 128 of it, and
// two value heads for each of these.
const (
	deltaSize     = 128 // of a DeltaNet's head
	deltaTaps     = 4
	deltaInterval = 4 // every so many layers attend
	turnedShare   = 4 // a head turns one part in so many
)

func deltaHeads(s *shape) (keys, values int) {
	keys = max(1, s.width/deltaSize)
	return keys, 2 * keys
}

func checkQwen35MoE(s *shape) error {
	if s.headDim%(2*turnedShare) != 0 {
		return fmt.Errorf("-head-dim %d is no multiple of %d", s.headDim, 2*turnedShare)
	}
	return checkQwen3MoE(s)
}

func metaQwen35MoE(s *shape, b *gguf.Builder) {
	keys, values := deltaHeads(s)
	for key, v := range ordered(
		"block_count", s.layers,
		"context_length", s.context,
		"embedding_length", s.width,
		"vocab_size", s.vocab,
		"attention.head_count", s.heads,
		"attention.head_count_kv", s.kvHeads,
		"attention.key_length", s.headDim,
		"attention.value_length", s.headDim,
		"rope.dimension_count", s.headDim/turnedShare,
		"expert_count", s.experts,
		"expert_used_count", s.used,
		"expert_feed_forward_length", s.expertWidth,
		"expert_shared_feed_forward_length", s.expertWidth,
		"full_attention_interval", deltaInterval,
		"ssm.conv_kernel", deltaTaps,
		"ssm.inner_size", values*deltaSize,
		"ssm.state_size", deltaSize,
		"ssm.time_step_rank", values,
		"ssm.group_count", keys,
	) {
		b.Set("qwen35moe."+key, uint32(v))
	}
	pairs := s.headDim / turnedShare / 2
	b.Set("qwen35moe.rope.dimension_sections", []int32{int32(pairs+2) / 3, int32(pairs+1) / 3, int32(pairs) / 3, 0})
	b.Set("qwen35moe.attention.layer_norm_rms_epsilon", float32(1e-6))
	b.Set("qwen35moe.rope.freq_base", float32(1e7))
}

// taps are the weights of a convolution, whose result is as large as what it is of.
func taps(r *source, _ int, out []float32) {
	for i := range out {
		out[i] = float32(r.unit() / math.Sqrt(float64(len(out))))
	}
}

// rates are those at which states fade, as models begin with them.
func rates(r *source, _ int, out []float32) {
	for i := range out {
		out[i] = float32(-1 - 15*r.float())
	}
}

// steps are biases of what the rates are multiplied by, whose softplus is between
// 0.001 and 0.1.
func steps(r *source, _ int, out []float32) {
	for i := range out {
		out[i] = float32(math.Log(math.Expm1(0.001 * math.Pow(100, r.float()))))
	}
}

// gateRow is a row that gives numbers of size 1.
func gateRow(r *source, _ int, out []float32) { taps(r, 0, out) }

func tensorsQwen35MoE(s *shape) []tensor {
	t := []tensor{
		{name: "token_embd.weight", dims: dims(s.width, s.vocab), kind: embedding, layer: -1},
		{name: "output_norm.weight", dims: dims(s.width), kind: norm, layer: -1},
		{name: "output.weight", dims: dims(s.width, s.vocab), kind: output, layer: -1},
	}
	q, kv := s.heads*s.headDim, s.kvHeads*s.headDim
	keys, values := deltaHeads(s)
	channels, inner := (2*keys+values)*deltaSize, values*deltaSize
	for i := range s.layers {
		p := fmt.Sprintf("blk.%d.", i)
		t = append(
			t,
			tensor{name: p + "attn_norm.weight", dims: dims(s.width), kind: norm, layer: i},
			tensor{name: p + "post_attention_norm.weight", dims: dims(s.width), kind: norm, layer: i},
		)
		if (i+1)%deltaInterval == 0 {
			t = append(
				t,
				tensor{name: p + "attn_q.weight", dims: dims(s.width, 2*q), kind: weight, layer: i},
				tensor{name: p + "attn_k.weight", dims: dims(s.width, kv), kind: weight, layer: i},
				tensor{name: p + "attn_v.weight", dims: dims(s.width, kv), kind: value, layer: i},
				tensor{name: p + "attn_q_norm.weight", dims: dims(s.headDim), kind: norm, layer: i},
				tensor{name: p + "attn_k_norm.weight", dims: dims(s.headDim), kind: norm, layer: i},
				tensor{name: p + "attn_output.weight", dims: dims(q, s.width), kind: weight, layer: i, gain: attentionGain},
			)
		} else {
			t = append(
				t,
				tensor{name: p + "attn_qkv.weight", dims: dims(s.width, channels), kind: weight, layer: i},
				tensor{name: p + "attn_gate.weight", dims: dims(s.width, inner), kind: weight, layer: i},
				tensor{name: p + "ssm_conv1d.weight", dims: dims(deltaTaps, channels), kind: numbers, layer: i, draw: taps},
				tensor{name: p + "ssm_dt.bias", dims: dims(values), kind: numbers, layer: i, draw: steps},
				tensor{name: p + "ssm_a", dims: dims(values), kind: numbers, layer: i, draw: rates},
				tensor{name: p + "ssm_beta.weight", dims: dims(s.width, values), kind: weight, layer: i},
				tensor{name: p + "ssm_alpha.weight", dims: dims(s.width, values), kind: weight, layer: i},
				tensor{name: p + "ssm_norm.weight", dims: dims(deltaSize), kind: norm, layer: i},
				tensor{name: p + "ssm_out.weight", dims: dims(inner, s.width), kind: weight, layer: i, gain: attentionGain},
			)
		}
		t = append(
			t,
			tensor{name: p + "ffn_gate_inp.weight", dims: dims(s.width, s.experts), kind: router, layer: i},
			tensor{name: p + "ffn_gate_exps.weight", dims: dims(s.width, s.expertWidth, s.experts), kind: weight, layer: i},
			tensor{name: p + "ffn_up_exps.weight", dims: dims(s.width, s.expertWidth, s.experts), kind: weight, layer: i},
			tensor{name: p + "ffn_down_exps.weight", dims: dims(s.expertWidth, s.width, s.experts), kind: value, layer: i},
			tensor{name: p + "ffn_gate_inp_shexp.weight", dims: dims(s.width), kind: numbers, layer: i, draw: gateRow},
			tensor{name: p + "ffn_gate_shexp.weight", dims: dims(s.width, s.expertWidth), kind: weight, layer: i},
			tensor{name: p + "ffn_up_shexp.weight", dims: dims(s.width, s.expertWidth), kind: weight, layer: i},
			tensor{name: p + "ffn_down_shexp.weight", dims: dims(s.expertWidth, s.width), kind: value, layer: i},
		)
	}
	return t
}
