package ref

import (
	"fmt"
	"math"
)

// delta reads qwen35moe and qwen3next: gated DeltaNet layers with a layer of
// gated attention every so often, experts and a gated shared expert.
func delta(l *loader, m *Model) {
	m.norm = l.vector("output_norm.weight")
	for i := range m.layers {
		m.blocks = append(m.blocks, deltaBlock(l, m, i))
	}
	l.nextToken(m, func(l *loader, m *Model, i int) block {
		b := deltaBlock(l, m, i)
		b.mixer = gatedAttention(l, m, fmt.Sprintf("blk.%d.", i))
		return b
	})
}

func deltaBlock(l *loader, m *Model, i int) block {
	p := fmt.Sprintf("blk.%d.", i)
	b := block{mixNorm: l.vector(p + "attn_norm.weight"), ffnNorm: l.vector(p + "post_attention_norm.weight"), ffn: sharedExperts(l, p)}
	// A block that drafts is one of attention, whatever its number.
	if i >= m.layers || (i+1)%l.intOr("full_attention_interval", 4) == 0 {
		b.mixer = gatedAttention(l, m, p)
	} else {
		b.mixer = deltaNet(l, m, p, silu)
	}
	return b
}

func gatedAttention(l *loader, m *Model, p string) *attention {
	size := l.int("attention.key_length")
	return &attention{
		heads: l.int("attention.head_count"), kvHeads: l.int("attention.head_count_kv"), size: size, eps: m.eps,
		q: l.linear(p + "attn_q"), k: l.linear(p + "attn_k"), v: l.linear(p + "attn_v"), out: l.linear(p + "attn_output"),
		qNorm: l.vector(p + "attn_q_norm.weight"), kNorm: l.vector(p + "attn_k_norm.weight"),
		rope: l.rope(size, false), scale: 1 / math.Sqrt(float64(size)), gated: true,
	}
}

// sharedExperts are experts and one that is always used, as far as its gate says.
func sharedExperts(l *loader, p string) *experts {
	e := l.experts(p)
	if s := l.floatOr("expert_weights_scale", 0); s != 0 {
		e.scale = s
	}
	e.shared, e.sharedGate = l.swiGLU(p, "_shexp.weight", silu), l.vector(p+"ffn_gate_inp_shexp.weight")
	return e
}

// deltaMixer is a gated DeltaNet: each value head has a state [S, S] that is
// decayed and corrected at every position. KH and VH are the key and value heads.
type deltaMixer struct {
	size, keyHeads, valueHeads int
	eps                        float64
	qkv, gate                  matrix    // [2*KH*S + VH*S, D], [VH*S, D]
	conv                       matrix    // [channels, K]
	beta, alpha                matrix    // [VH, D]
	dt, decay                  []float32 // [VH]
	norm                       []float32 // [S]
	out                        matrix    // [D, VH*S]
	act                        func(float64) float64
	grouped                    bool // value head h has key head h div (VH/KH); else h mod KH

	last [][]float64 // states after the last position, for tests: [VH, S*S]
}

func deltaNet(l *loader, m *Model, p string, act func(float64) float64) *deltaMixer {
	d := &deltaMixer{
		size: l.int("ssm.state_size"), keyHeads: l.int("ssm.group_count"), valueHeads: l.int("ssm.time_step_rank"), eps: m.eps,
		qkv: l.matrix(p + "attn_qkv.weight"), gate: l.matrix(p + "attn_gate.weight"), conv: l.matrix(p + "ssm_conv1d.weight"),
		dt: l.vector(p + "ssm_dt.bias"), decay: l.vector(p + "ssm_a"), norm: l.vector(p + "ssm_norm.weight"), out: l.matrix(p + "ssm_out.weight"), act: act,
	}
	if l.has(p + "ssm_ba.weight") {
		d.grouped = true
		d.beta, d.alpha = unpack(l.matrix(p+"ssm_ba.weight"), d.keyHeads, d.valueHeads)
	} else {
		d.beta, d.alpha = l.matrix(p+"ssm_beta.weight"), l.matrix(p+"ssm_alpha.weight")
	}
	return d
}

// unpack takes qwen3next's rows apart: per key head, those of beta, then those of
// alpha.
func unpack(ba matrix, keyHeads, valueHeads int) (beta, alpha matrix) {
	each := valueHeads / keyHeads
	beta, alpha = matrix{valueHeads, ba.cols, nil}, matrix{valueHeads, ba.cols, nil}
	for r := range ba.rows {
		to := &beta
		if r/each%2 == 1 {
			to = &alpha
		}
		to.w = append(to.w, ba.row(r)...)
	}
	return beta, alpha
}

func (d *deltaMixer) mix(h [][]float64) [][]float64 {
	s, kh, vh := d.size, d.keyHeads, d.valueHeads
	u := make([][]float64, len(h))
	for t := range h {
		u[t] = d.qkv.mul(h[t])
	}
	states := make([][]float64, vh) // [S key, S value]
	for i := range states {
		states[i] = make([]float64, s*s)
	}
	out := make([][]float64, len(h))
	for t, c := range convolve(u, d.conv, 1) {
		for i := range c {
			c[i] = silu(c[i])
		}
		for i := range 2 * kh {
			unit(c[i*s:][:s], d.eps)
		}
		z, beta, alpha := d.gate.mul(h[t]), d.beta.mul(h[t]), d.alpha.mul(h[t])
		var mixed []float64
		for i := range vh {
			key := i % kh
			if d.grouped {
				key = i / (vh / kh)
			}
			q, k, v := c[key*s:][:s], c[(kh+key)*s:][:s], c[(2*kh+i)*s:][:s]
			g := math.Exp(softplus(alpha[i]+float64(d.dt[i])) * float64(d.decay[i]))
			o := step(states[i], q, k, v, g, sigmoid(beta[i]))
			for j := range o {
				o[j] /= math.Sqrt(float64(s))
			}
			o = rms(o, d.norm, d.eps)
			for j := range o {
				o[j] *= d.act(z[i*s+j])
			}
			mixed = append(mixed, o...)
		}
		out[t] = d.out.mul(mixed)
	}
	d.last = states
	return out
}

// unit makes a vector one of length 1.
func unit(x []float64, eps float64) {
	scale := 1 / math.Sqrt(dot(x, x)+eps)
	for i := range x {
		x[i] *= scale
	}
}

// step decays a state [S key, S value], corrects it by what it predicts wrongly of
// v, and reads it by q.
func step(state, q, k, v []float64, decay, beta float64) []float64 {
	s := len(k)
	wrong := make([]float64, s)
	copy(wrong, v)
	for i := range s {
		row := state[i*s:][:s]
		for j := range row {
			row[j] *= decay
		}
		addScaled(wrong, -k[i], row)
	}
	o := make([]float64, s)
	for i := range s {
		row := state[i*s:][:s]
		addScaled(row, beta*k[i], wrong)
		addScaled(o, q[i], row)
	}
	return o
}
