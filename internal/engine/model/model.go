package model

import (
	"fmt"
	"math"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/quant"
	"assay/internal/engine/weights"
	"assay/internal/gguf"
)

// Model is a model's weights, ready for passes. Shapes are [rows, cols].
type Model struct {
	Config
	embed      *kernel.Matrix // [vocabulary, width], only for its rows
	output     *kernel.Matrix // [vocabulary, width]; the embeddings where the file ties them
	outputNorm []float32      // [width]
	layers     []layer
	freqs      []float64 // [ropeDims/2]: radians a position
}

type layer struct {
	attnNorm      []float32        // [width]
	q             *kernel.Matrix   // [heads*headDim, width]
	k, v          *kernel.Matrix   // [kvHeads*headDim, width]
	qNorm, kNorm  []float32        // [headDim]
	attnOut       *kernel.Matrix   // [width, heads*headDim]
	ffnNorm       []float32        // [width]
	router        *kernel.Matrix   // [experts, width]
	gate, up      []*kernel.Matrix // experts x [expertWidth, width]
	down          []*kernel.Matrix // experts x [width, expertWidth]
	attnRoundings roundings        // what q, k and v need of their input
	outRoundings  roundings
	ffnRoundings  roundings // what router, gate and up need
	downRoundings roundings
}

const embeddings = "token_embd.weight"

// WeightOptions says how the tensors of f are to be kept for New.
func WeightOptions(f *gguf.File) weights.Options {
	_, untied := f.Tensor("output.weight")
	return weights.Options{Lookup: []string{embeddings}, Both: !untied}
}

// New finds the tensors of c in w and checks their dimensions.
func New(c *Config, w *weights.Set) (*Model, error) {
	g := getter{w: w}
	m := &Model{
		Config:     *c,
		embed:      g.rows(embeddings, c.Vocabulary, c.Width),
		outputNorm: g.vector("output_norm.weight", c.Width),
	}
	output := "output.weight"
	if !w.Has(output) {
		output = embeddings
	}
	m.output = g.matrix(output, c.Vocabulary, c.Width)
	for i := range c.Layers {
		p := fmt.Sprintf("blk.%d.", i)
		l := layer{
			attnNorm: g.vector(p+"attn_norm.weight", c.Width),
			q:        g.matrix(p+"attn_q.weight", c.Heads*c.HeadDim, c.Width),
			k:        g.matrix(p+"attn_k.weight", c.KVHeads*c.HeadDim, c.Width),
			v:        g.matrix(p+"attn_v.weight", c.KVHeads*c.HeadDim, c.Width),
			qNorm:    g.vector(p+"attn_q_norm.weight", c.HeadDim),
			kNorm:    g.vector(p+"attn_k_norm.weight", c.HeadDim),
			attnOut:  g.matrix(p+"attn_output.weight", c.Width, c.Heads*c.HeadDim),
			ffnNorm:  g.vector(p+"ffn_norm.weight", c.Width),
			router:   g.matrix(p+"ffn_gate_inp.weight", c.Experts, c.Width),
			gate:     g.experts(p+"ffn_gate_exps.weight", c.Experts, c.ExpertWidth, c.Width),
			up:       g.experts(p+"ffn_up_exps.weight", c.Experts, c.ExpertWidth, c.Width),
			down:     g.experts(p+"ffn_down_exps.weight", c.Experts, c.Width, c.ExpertWidth),
		}
		if g.err != nil {
			return nil, g.err
		}
		l.attnRoundings = roundingsOf(l.q, l.k, l.v)
		l.outRoundings = roundingsOf(l.attnOut)
		l.ffnRoundings = roundingsOf(l.router, l.gate[0], l.up[0])
		l.downRoundings = roundingsOf(l.down[0])
		m.layers = append(m.layers, l)
	}
	if g.err != nil {
		return nil, g.err
	}
	for j := range c.RopeDims / 2 {
		m.freqs = append(m.freqs, math.Pow(c.RopeBase, -2*float64(j)/float64(c.RopeDims)))
	}
	return m, nil
}

// KVShape is what a position needs in a cache of that format.
func (c *Config) KVShape(f kernel.KVFormat) kv.Shape {
	return kv.Shape{Layers: c.Layers, Heads: c.KVHeads, Layout: kernel.KVLayout{Dim: c.HeadDim, Format: f}}
}

// getter reads tensors and keeps the first error.
type getter struct {
	w   *weights.Set
	err error
}

func (g *getter) keep(err error) {
	if g.err == nil {
		g.err = err
	}
}

func (g *getter) matrix(name string, rows, cols int) *kernel.Matrix {
	m, err := g.w.Matrix(name, rows, cols)
	g.keep(err)
	return m
}

func (g *getter) rows(name string, rows, cols int) *kernel.Matrix {
	m, err := g.w.Rows(name, rows, cols)
	g.keep(err)
	return m
}

func (g *getter) experts(name string, n, rows, cols int) []*kernel.Matrix {
	m, err := g.w.Experts(name, n, rows, cols)
	g.keep(err)
	return m
}

func (g *getter) vector(name string, n int) []float32 {
	v, err := g.w.Vector(name, n)
	g.keep(err)
	return v
}

// roundings is a set of quant.Rounding.
type roundings uint

func roundingsOf(matrices ...*kernel.Matrix) roundings {
	var s roundings
	for _, m := range matrices {
		s |= 1 << quant.RoundingOf(m.Type)
	}
	return s
}

// acts holds the same activations in every rounding that is asked for.
type acts [quant.Roundings]*kernel.Acts

// newActs makes room for n tokens of k values, in all roundings of the set.
func newActs(set roundings, n, k int) (a acts) {
	for r := range quant.Roundings {
		if set>>r&1 != 0 {
			a[r] = kernel.NewActs(r, n, k)
		}
	}
	return a
}

// set rounds x, the values of token t, for every rounding of the set.
func (a *acts) set(set roundings, t int, x []float32) {
	for r, to := range a {
		if set>>r&1 != 0 {
			to.Set(t, x)
		}
	}
}

// of is the activations as m wants them.
func (a *acts) of(m *kernel.Matrix) *kernel.Acts { return a[quant.RoundingOf(m.Type)] }
