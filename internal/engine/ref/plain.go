package ref

import (
	"fmt"
	"math"
)

// plain reads the architectures whose blocks are attention (or a short
// convolution) and a feed-forward part or experts.
func plain(l *loader, m *Model) {
	switch l.arch {
	case "gemma3":
		m.embedScale = math.Sqrt(float64(m.d))
	case "granitemoe":
		m.embedScale, m.residual, m.logitScale = l.floatOr("embedding_scale", 1), l.floatOr("residual_scale", 1), l.floatOr("logit_scale", 1)
	}
	name := "output_norm.weight"
	if l.arch == "lfm2moe" {
		name = "token_embd_norm.weight"
	}
	m.norm = l.vector(name)
	for i := range m.layers {
		m.blocks = append(m.blocks, plainBlock(l, m, i))
	}
	l.nextToken(m, plainBlock)
}

func plainBlock(l *loader, m *Model, i int) block {
	p := fmt.Sprintf("blk.%d.", i)
	b := block{mixNorm: l.vector(p + "attn_norm.weight"), mixer: plainMixer(l, m, p, i), ffn: plainFFN(l, p)}
	ffnNorm := "ffn_norm.weight"
	switch l.arch {
	case "gpt-oss", "glm4moe":
		ffnNorm = "post_attention_norm.weight"
	case "gemma3":
		b.mixPost, b.ffnPost = l.vector(p+"post_attention_norm.weight"), l.vector(p+"post_ffw_norm.weight")
	}
	b.ffnNorm = l.vector(p + ffnNorm)
	return b
}

func plainMixer(l *loader, m *Model, p string, i int) mixer {
	if l.arch == "deepseek2" {
		return mla(l, m, p)
	}
	heads, kvHeads := l.int("attention.head_count"), 0
	if l.arch == "lfm2moe" {
		if kvHeads = int(l.ints("attention.head_count_kv")[i]); kvHeads == 0 {
			return &shortConv{l.matrix(p + "shortconv.in_proj.weight"), l.matrix(p + "shortconv.out_proj.weight"), l.matrix(p + "shortconv.conv.weight")}
		}
	} else {
		kvHeads = l.int("attention.head_count_kv")
	}
	size := l.intOr("attention.key_length", m.d/heads)
	a := &attention{
		heads: heads, kvHeads: kvHeads, size: size, eps: m.eps,
		q: l.linear(p + "attn_q"), k: l.linear(p + "attn_k"), v: l.linear(p + "attn_v"), out: l.linear(p + "attn_output"),
		qNorm: l.vectorIf(p + "attn_q_norm.weight"), kNorm: l.vectorIf(p + "attn_k_norm.weight"),
		rope:  l.rope(size, l.arch == "llama" || l.arch == "granitemoe"),
		scale: 1 / math.Sqrt(float64(size)),
		sinks: l.vectorIf(p + "attn_sinks.weight"),
	}
	switch l.arch {
	case "granitemoe", "llama":
		a.scale = l.floatOr("attention.scale", a.scale)
	case "gemma3":
		if i%6 != 5 {
			a.window, a.rope.base, a.rope.linear = l.int("attention.sliding_window"), l.floatOr("rope.freq_base_swa", 10000), 0
		}
	case "gpt-oss":
		if i%2 == 0 {
			a.window = l.int("attention.sliding_window")
		}
	}
	return a
}

func mla(l *loader, m *Model, p string) mixer {
	size, rank := l.int("attention.key_length_mla"), l.int("attention.kv_lora_rank")
	a := &latent{
		heads: l.int("attention.head_count"), turned: l.int("rope.dimension_count"), vSize: l.int("attention.value_length_mla"), eps: m.eps,
		kvA: l.linear(p + "attn_kv_a_mqa"), kvNorm: l.vector(p + "attn_kv_a_norm.weight"),
		kB: l.stack(p + "attn_k_b.weight"), vB: l.stack(p + "attn_v_b.weight"), out: l.linear(p + "attn_output"),
		scale: 1 / math.Sqrt(float64(size)),
	}
	a.nope = size - a.turned
	a.rope = l.rope(a.turned, true)
	if y := a.rope.yarn; y != nil {
		y.magnitude = false
		grow := 1 + l.floatOr("rope.scaling.yarn_log_multiplier", 0)*math.Log(y.factor)
		a.scale *= grow * grow
	}
	if l.has(p + "attn_q.weight") {
		a.q = l.linear(p + "attn_q")
	} else {
		a.qA, a.qB, a.qANorm = l.linear(p+"attn_q_a"), l.linear(p+"attn_q_b"), l.vector(p+"attn_q_a_norm.weight")
	}
	if len(a.kvNorm) != rank {
		l.keep(fmt.Errorf("%s: %sattn_kv_a_norm.weight has %d elements, attention.kv_lora_rank is %d", l.f.Name(), p, len(a.kvNorm), rank))
	}
	return a
}

func plainFFN(l *loader, p string) feedForward {
	if !l.has(p + "ffn_gate_inp.weight") {
		act := silu
		if l.arch == "gemma3" {
			act = gelu
		}
		return l.swiGLU(p, ".weight", act)
	}
	e := l.experts(p)
	e.sigmoid = l.intOr("expert_gating_func", 1) == 2
	switch l.arch {
	case "gpt-oss":
		e.chosenOnly, e.act = true, gptOss
	case "olmoe":
		e.normed = false
	case "glm4moe", "deepseek2":
		e.sigmoid = l.intOr("expert_gating_func", map[string]int{"glm4moe": 2}[l.arch]) == 2
		e.normed = l.boolOr("expert_weights_norm", false)
		e.groups, e.groupsUsed = l.intOr("expert_group_count", 0), l.intOr("expert_group_used_count", 0)
	}
	if s := l.floatOr("expert_weights_scale", 0); s != 0 {
		e.scale = s
	}
	if l.has(p + "ffn_up_shexp.weight") {
		e.shared = l.swiGLU(p, "_shexp.weight", silu)
	}
	return e
}
