// Package ref is the forward pass of qwen3moe in the plainest Go: every weight
// decoded to float32, every product summed in float64, no cache, no batch, no
// threads. It is what the serving pass is compared with.
package ref

import (
	"fmt"
	"math"
	"sort"

	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

// Model is a decoded model. Shapes are [rows, cols]; D is the width of the
// stream, V the vocabulary, H and K the query and key-value heads, S the head
// size, E the experts, F their inner width.
type Model struct {
	layers, d, heads, kvHeads, size int
	experts, used, f                int
	eps, base                       float64

	embed  matrix    // [V, D]
	norm   []float32 // [D]
	output matrix    // [V, D]
	blocks []block

	// Trace, if not nil, is told how each layer routed each position: the chosen
	// experts, best first, and by how much the last of them beat the next, in
	// router logits.
	Trace func(layer, position int, experts []int, margin float64)
}

type block struct {
	attnNorm     []float32 // [D]
	q            matrix    // [H*S, D]
	k, v         matrix    // [K*S, D]
	qNorm, kNorm []float32 // [S]
	attnOut      matrix    // [D, H*S]
	ffnNorm      []float32 // [D]
	router       matrix    // [E, D]
	gate, up     []matrix  // E x [F, D]
	down         []matrix  // E x [D, F]
}

type matrix struct {
	rows, cols int
	w          []float32 // row by row
}

// Load decodes the model of f, a qwen3moe.
func Load(f *gguf.File) (*Model, error) {
	l := loader{f: f}
	m := &Model{
		layers: l.int("block_count"), d: l.int("embedding_length"),
		heads: l.int("attention.head_count"), kvHeads: l.int("attention.head_count_kv"), size: l.int("attention.key_length"),
		experts: l.int("expert_count"), used: l.int("expert_used_count"), f: l.int("expert_feed_forward_length"),
		eps: l.float("attention.layer_norm_rms_epsilon"), base: l.float("rope.freq_base"),
		embed: l.matrix("token_embd.weight"), norm: l.vector("output_norm.weight"), output: l.matrix("output.weight"),
	}
	for i := range m.layers {
		p := fmt.Sprintf("blk.%d.", i)
		m.blocks = append(m.blocks, block{
			attnNorm: l.vector(p + "attn_norm.weight"),
			q:        l.matrix(p + "attn_q.weight"), k: l.matrix(p + "attn_k.weight"), v: l.matrix(p + "attn_v.weight"),
			qNorm: l.vector(p + "attn_q_norm.weight"), kNorm: l.vector(p + "attn_k_norm.weight"),
			attnOut: l.matrix(p + "attn_output.weight"),
			ffnNorm: l.vector(p + "ffn_norm.weight"), router: l.matrix(p + "ffn_gate_inp.weight"),
			gate: l.experts(p + "ffn_gate_exps.weight"), up: l.experts(p + "ffn_up_exps.weight"), down: l.experts(p + "ffn_down_exps.weight"),
		})
	}
	if l.err == nil && m.used >= m.experts {
		l.err = fmt.Errorf("%s: %d of %d experts used; this needs one to spare", f.Name(), m.used, m.experts)
	}
	return m, l.err
}

// Logits runs the whole sequence and returns the logits of every position:
// [len(ids)][V].
func (m *Model) Logits(ids []int32) [][]float32 {
	x := make([][]float32, len(ids)) // [T, D]
	for t, id := range ids {
		x[t] = append([]float32(nil), m.embed.row(int(id))...)
	}
	for i := range m.blocks {
		m.attention(&m.blocks[i], x)
		for t, xt := range x {
			add(xt, m.moe(i, t, rms(xt, m.blocks[i].ffnNorm, m.eps)))
		}
	}
	out := make([][]float32, len(ids))
	for t, xt := range x {
		out[t] = m.output.mul(rms(xt, m.norm, m.eps)) // [V]
	}
	return out
}

// attention adds causal self-attention to every x[t].
func (m *Model) attention(b *block, x [][]float32) {
	var keys, values [][]float32 // [T, K*S]
	for t, xt := range x {
		h := rms(xt, b.attnNorm, m.eps)               // [D]
		q, k, v := b.q.mul(h), b.k.mul(h), b.v.mul(h) // [H*S], [K*S], [K*S]
		m.normAndTurn(q, b.qNorm, t)
		m.normAndTurn(k, b.kNorm, t)
		keys, values = append(keys, k), append(values, v)
		mixed := make([]float32, m.heads*m.size)
		for head := range m.heads {
			at := head / (m.heads / m.kvHeads) * m.size // of the head's keys and values
			mine := q[head*m.size:][:m.size]
			p := make([]float64, t+1)
			for s := range p {
				p[s] = dot(mine, keys[s][at:][:m.size]) / math.Sqrt(float64(m.size))
			}
			softmax(p)
			for j := range m.size {
				sum := 0.0
				for s, ps := range p {
					sum += ps * float64(values[s][at+j])
				}
				mixed[head*m.size+j] = float32(sum)
			}
		}
		add(xt, b.attnOut.mul(mixed)) // [D]; later positions only read keys and values
	}
}

// normAndTurn normalises every head of x and turns it by its position: elements
// j and j + S/2 by the angle t * base^(-2j/S).
func (m *Model) normAndTurn(x, gamma []float32, t int) {
	for ; len(x) > 0; x = x[m.size:] {
		h := rms(x[:m.size], gamma, m.eps)
		for j := range m.size / 2 {
			sin, cos := math.Sincos(float64(t) * math.Pow(m.base, -2*float64(j)/float64(m.size)))
			a, b := float64(h[j]), float64(h[j+m.size/2])
			x[j], x[j+m.size/2] = float32(a*cos-b*sin), float32(a*sin+b*cos)
		}
	}
}

// moe is the weighted sum of the experts that layer i chooses for h [D], the
// normalised stream of position t.
func (m *Model) moe(i, t int, h []float32) []float32 {
	b := &m.blocks[i]
	p := make([]float64, m.experts)
	for e, r := range b.router.mul(h) { // [E]
		p[e] = float64(r)
	}
	softmax(p)
	order := make([]int, m.experts)
	for e := range order {
		order[e] = e
	}
	sort.SliceStable(order, func(i, j int) bool { return p[order[i]] > p[order[j]] })
	if m.Trace != nil {
		m.Trace(i, t, order[:m.used], math.Log(p[order[m.used-1]]/p[order[m.used]]))
	}
	total := 0.0
	for _, e := range order[:m.used] {
		total += p[e]
	}
	out := make([]float32, m.d)
	for _, e := range order[:m.used] {
		gate, up := b.gate[e].mul(h), b.up[e].mul(h) // [F]
		for j, g := range gate {
			gate[j] = float32(float64(g) / (1 + math.Exp(-float64(g))) * float64(up[j]))
		}
		for j, y := range b.down[e].mul(gate) { // [D]
			out[j] += y * float32(p[e]/total)
		}
	}
	return out
}

// rms is x / sqrt(mean(x^2) + eps) * gamma.
func rms(x, gamma []float32, eps float64) []float32 {
	scale := 1 / math.Sqrt(dot(x, x)/float64(len(x))+eps)
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(float64(v) * scale * float64(gamma[i]))
	}
	return out
}

func softmax(x []float64) {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = math.Max(top, v)
	}
	for i, v := range x {
		x[i] = math.Exp(v - top)
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}

func dot(x, y []float32) float64 {
	sum := 0.0
	for i, v := range x {
		sum += float64(v) * float64(y[i])
	}
	return sum
}

func add(x, y []float32) {
	for i, v := range y {
		x[i] += v
	}
}

func (w *matrix) row(r int) []float32 { return w.w[r*w.cols:][:w.cols] }

// mul is the matrix [rows, cols] times x [cols].
func (w *matrix) mul(x []float32) []float32 {
	out := make([]float32, w.rows)
	for r := range out {
		out[r] = float32(dot(w.row(r), x))
	}
	return out
}

// loader keeps the first error.
type loader struct {
	f   *gguf.File
	err error
}

func (l *loader) keep(err error) {
	if l.err == nil {
		l.err = err
	}
}

func (l *loader) int(key string) int {
	v, err := l.f.Uint("qwen3moe." + key)
	l.keep(err)
	return int(v)
}

func (l *loader) float(key string) float64 {
	v, err := l.f.Float("qwen3moe." + key)
	l.keep(err)
	return v
}

// experts decodes a tensor [E, rows, cols].
func (l *loader) experts(name string) []matrix {
	t, ok := l.f.Tensor(name)
	if !ok || len(t.Dims) < 2 || !quant.Supported(t.Type) {
		l.keep(fmt.Errorf("%s: tensor %s: missing, not a matrix, or in a format that can't be decoded", l.f.Name(), name))
		return make([]matrix, 1)
	}
	cols, rows := int(t.Dims[0]), int(t.Dims[1])
	n := int(t.Elements()) / (rows * cols)
	out, size := make([]matrix, n), len(t.Data())/n
	for i := range out {
		out[i] = matrix{rows, cols, make([]float32, rows*cols)}
		quant.Decode(t.Type, out[i].w, t.Data()[i*size:][:size])
	}
	return out
}

func (l *loader) matrix(name string) matrix { return l.experts(name)[0] }

func (l *loader) vector(name string) []float32 {
	t, ok := l.f.Tensor(name)
	if !ok || t.Type != gguf.F32 {
		l.keep(fmt.Errorf("%s: tensor %s: missing, or not F32", l.f.Name(), name))
		return nil
	}
	out := make([]float32, t.Elements())
	quant.Decode(t.Type, out, t.Data())
	return out
}
