package model

import (
	"fmt"

	"assay/internal/engine/kernel"
	"assay/internal/engine/weights"
	"assay/internal/gguf"
)

// opening is what a head that drafts begins with, in place of an embedding: x =
// project [norm(embedding of a token), norm(hidden state of the position before)].
type opening struct {
	embedNorm, hiddenNorm []float32 // [width]
	project               linear    // [width, 2*width]
}

// NewHead finds the head that drafts (MTP, llama.cpp's nextn tensors) in f, whose
// tensors w holds: the model's own file, or one that holds no more than the head.
// Embeddings and output are m's own where the head brings none.
//
// The head is a Model of one layer: a Sequence gives it, for each token, the hidden
// state of the position before (Before), and gets logits of the token after next,
// and hidden states that take the model's place when it drafts on.
func NewHead(m *Model, f *gguf.File, w *weights.Set) (*Model, error) { return newHead(m, f, w, true) }

// CheckHead says why NewHead could not make a head of f for a model of c, or nil, as
// far as the metadata and the list of tensors tell.
func CheckHead(c *Config, f *gguf.File) error {
	_, err := newHead(&Model{Config: *c}, f, weights.View(f), false)
	return err
}

func newHead(m *Model, f *gguf.File, w *weights.Set, loaded bool) (*Model, error) {
	b, arch, err := newBuilder(f, w, nil)
	if err != nil {
		return nil, err
	}
	b.loaded = loaded
	switch {
	case b.Drafting < 1:
		return nil, fmt.Errorf("%s: %s.nextn_predict_layers is 0 or missing: it has no head that drafts", f.Name(), b.arch)
	case b.arch != m.Architecture || b.Layers != m.Layers || b.Width != m.Width:
		return nil, fmt.Errorf("%s: its head follows %d layers of width %d of %s, but the model has %d of width %d and is %s",
			f.Name(), b.Layers, b.Width, b.arch, m.Layers, m.Width, m.Architecture)
	}
	b.Vocabulary = m.Vocabulary
	h := &Model{embed: m.embed, embedScale: m.embedScale, streams: 1, output: m.output, logitScale: m.logitScale}
	p := fmt.Sprintf("blk.%d.nextn.", b.Layers)
	h.opening = &opening{
		embedNorm: b.vector(p+"enorm.weight", b.Width), hiddenNorm: b.vector(p+"hnorm.weight", b.Width),
		project: b.linear(p+"eh_proj", b.Width, 2*b.Width),
	}
	h.ending = m.ending
	if name := p + "shared_head_norm.weight"; b.has(name) {
		h.ending = &normed{b.vector(name, b.Width)}
	}
	if name := p + "embed_tokens.weight"; b.has(name) {
		h.embed = b.lookup(name, b.Vocabulary, b.Width)
	}
	if name := p + "shared_head_head.weight"; b.has(name) {
		h.output = linear{Matrix: b.matrix(name, b.Vocabulary, b.Width)}
	}
	b.make(h, arch(b), b.Layers, 1)
	h.Config = b.Config
	h.Layers, h.Drafting = 1, 0
	return h, b.err(m.Layers, m.Layers+1)
}

// openRun is opening bound to a pass.
type openRun struct {
	*opening
	s         *Pass
	pair      *acts // [n, 2*width]
	scratch   *buffer
	roundings roundings

	join, mul func(int)
}

func (o *opening) bind(s *Pass) *openRun {
	r := &openRun{opening: o, s: s, scratch: s.floats("pairs", 2*s.m.Width), roundings: roundingsOf(o.project.Matrix)}
	r.pair = s.acts("pairs", r.roundings, 2*s.m.Width)
	r.join, r.mul = r.joinToken, r.mulChunk
	return r
}

func (r *openRun) run() {
	r.s.pool.Run(r.s.n, r.join)
	r.s.pool.Run(r.project.chunks(), r.mul)
}

// joinToken puts the embedding of token t, which lies in the stream, and the hidden
// state before it together.
func (r *openRun) joinToken(t int) {
	s, d := r.s, r.s.m.Width
	i := s.seq[t]
	before := row(s.batch[i].Before, t-s.spans[i].from, d)
	pair := row(r.scratch.data, t, 2*d)
	kernel.RMSNorm(pair[:d], row(s.x, t, d), r.embedNorm, s.m.Eps)
	kernel.RMSNorm(pair[d:], before, r.hiddenNorm, s.m.Eps)
	r.pair.set(r.roundings, t, pair)
}

func (r *openRun) mulChunk(c int) { r.project.mul(c, r.s.x, r.pair, r.s.all[:r.s.n]) }
