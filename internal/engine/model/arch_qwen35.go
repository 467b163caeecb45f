package model

import "fmt"

// qwen35 reads qwen35moe and qwen3next: gated DeltaNet layers with a layer of gated
// attention every so often, experts and a gated shared expert. A block that drafts
// is one of attention, whatever its number.
func qwen35(b *builder) family {
	attention := b.gatedAttention()
	interval := b.numberOr("full_attention_interval", 4, 1, 1<<10)
	return family{layer: func(i int) layer {
		p := fmt.Sprintf("blk.%d.", i)
		l := &residual{
			mix: branch{norm: b.vector(p+"attn_norm.weight", b.Width)},
			ffn: branch{norm: b.vector(p+"post_attention_norm.weight", b.Width), part: b.gatedExperts(i)},
		}
		if i >= b.Layers || (i+1)%interval == 0 {
			l.mix.part = attention(p)
		} else {
			l.mix.part = b.deltaNet(p)
		}
		return l
	}}
}

// gatedAttention is how to read a layer of attention with a gate beside each query.
func (b *builder) gatedAttention() func(prefix string) *attention {
	heads := b.heads()
	heads.gated = true
	spec := b.ropeSpec(heads.dim, heads.dim, false)
	b.sections(spec.dims / 2)
	rope := spec.make()
	return func(p string) *attention {
		a := b.attention(p, heads)
		a.rope = rope
		a.qNorm, a.kNorm = b.vector(p+"attn_q_norm.weight", heads.dim), b.vector(p+"attn_k_norm.weight", heads.dim)
		return a
	}
}

// sections checks that a multi-section RoPE of so many pairs is a plain one for text,
// for which time, height and width are all the position: pair j has the time's
// position if j%3 is 0, the height's if it is 1 and the width's if it is 2, up to the
// end of each section. A pair behind that would not turn.
func (b *builder) sections(pairs int) {
	const key = "rope.dimension_sections"
	if !b.reader.has(key) {
		return
	}
	sections := b.numbers(key, 3, 0, 1<<12)
	for j := range pairs {
		if j >= 3*sections[j%3] {
			b.fail(key, "%v leave pair %d of %d aside, which this engine can't run", sections, j, pairs)
			return
		}
	}
}

// gatedExperts are experts and one that is always used, as far as its gate says.
func (b *builder) gatedExperts(layer int) *experts {
	p := fmt.Sprintf("blk.%d.", layer)
	e := b.experts(layer, "expert_feed_forward_length")
	shared := b.dense(p, "_shexp", b.number("expert_shared_feed_forward_length", 1, 1<<17))
	e.shared, e.sharedGate = shared, b.vector(p+"ffn_gate_inp_shexp.weight", b.Width)
	return e
}

// deltaNet reads a gated DeltaNet.
func (b *builder) deltaNet(p string) *deltaNet {
	d := &deltaNet{
		size: b.number("ssm.state_size", 16, 1<<10), keyHeads: b.number("ssm.group_count", 1, 1<<10), heads: b.number("ssm.time_step_rank", 1, 1<<10),
	}
	inner := b.numberOr("ssm.inner_size", d.heads*d.size, 1, 1<<20)
	switch {
	case d.heads%d.keyHeads != 0:
		b.fail("ssm.group_count", "%d does not divide the %d value heads", d.keyHeads, d.heads)
		d.keyHeads = d.heads
	case d.size%16 != 0:
		b.fail("ssm.state_size", "%d is no multiple of 16, which this engine needs", d.size)
	case inner != d.heads*d.size:
		b.fail("ssm.inner_size", "%d is not the %d value heads of %d", inner, d.heads, d.size)
	}
	d.qkv, d.gate = b.linear(p+"attn_qkv", d.channels(), b.Width), b.linear(p+"attn_gate", d.heads*d.size, b.Width)
	if d.grouped = b.has(p + "ssm_ba.weight"); d.grouped {
		both := b.linear(p+"ssm_ba", 2*d.heads, b.Width)
		d.both = &both
	} else {
		d.beta, d.alpha = b.linear(p+"ssm_beta", d.heads, b.Width), b.linear(p+"ssm_alpha", d.heads, b.Width)
	}
	d.taps = b.taps(p+"ssm_conv1d.weight", d.channels(), b.number("ssm.conv_kernel", 1, mostTaps))
	d.dt, d.decay, d.norm = b.vector(p+"ssm_dt.bias", d.heads), b.vector(p+"ssm_a", d.heads), b.vector(p+"ssm_norm.weight", d.size)
	d.out = b.linear(p+"ssm_out", b.Width, d.heads*d.size)
	return d
}
