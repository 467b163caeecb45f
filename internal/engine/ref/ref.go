// Package ref is the forward pass of every architecture in the plainest Go: each
// weight decoded to float32, all else in float64, no cache, no batch, no threads.
// It is what the serving pass is compared with.
//
// Shapes are [rows, cols]; T is the number of positions, D the width of the
// stream, V the vocabulary, H and K the query and key-value heads, S the head
// size, E the experts, F their inner width. The descriptions that it follows are
// the project's own notes on llama.cpp's forward passes.
package ref

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/internal/gguf"
)

// Model is a decoded model.
type Model struct {
	d, layers int
	eps       float64

	embed      matrix    // [V, D]
	embedScale float64   // of the embedding
	norm       []float32 // [D]
	output     matrix    // [V, D]
	logitScale float64   // that logits are divided by
	residual   float64   // that both branches of a block are multiplied by
	blocks     []block
	next       *nextToken // the block that drafts; nil: there is none
	hyper      *hyper     // not nil: a stream of several, and no norms of blocks

	// Trace, if not nil, is told how each layer routed each position: the chosen
	// experts, best first, and by how much the last of them beat the next, in
	// router logits.
	Trace func(layer, position int, experts []int, margin float64)
	// Stream, if not nil, is told the residual stream of every position after a
	// layer's mixer and after its feed-forward part.
	Stream func(layer int, part string, x [][]float64)
}

// block is one layer: x += mixer(norm(x)), x += ffn(norm(x)).
type block struct {
	mixNorm  []float32
	mixer    mixer
	mixPost  []float32 // norm of what the mixer gave; nil: none
	ffnNorm  []float32
	ffn      feedForward
	ffnPost  []float32
	hyperMix [2]*streamMixer // qwen4exp: before the mixer, before the experts
}

// mixer is the part of a layer that looks at other positions.
type mixer interface {
	// mix takes the normalised stream [T, D] and returns what is added to it.
	mix(h [][]float64) [][]float64
}

// feedForward is the part of a layer that looks at one position.
type feedForward interface {
	// forward takes the normalised stream of one position [D].
	forward(m *Model, layer, position int, h []float64) []float64
}

// architectures are by general.architecture.
var architectures = map[string]func(l *loader, m *Model){
	"llama": plain, "qwen2": plain, "qwen3": plain, "qwen3moe": plain, "gemma3": plain, "gpt-oss": plain,
	"glm4moe": plain, "deepseek2": plain, "olmoe": plain, "granitemoe": plain, "lfm2moe": plain,
	"qwen35moe": delta, "qwen3next": delta, "qwen4exp": hyperDelta,
}

// Load decodes a model.
func Load(f *gguf.File) (*Model, error) {
	arch, err := f.String("general.architecture")
	if err != nil {
		return nil, err
	}
	build, ok := architectures[arch]
	if !ok {
		return nil, fmt.Errorf("%s: architecture %q is not supported; supported are %s", f.Name(), arch, strings.Join(slices.Sorted(maps.Keys(architectures)), ", "))
	}
	l := &loader{f: f, arch: arch}
	m := &Model{
		d: l.int("embedding_length"), layers: l.int("block_count") - l.intOr("nextn_predict_layers", 0),
		eps:   l.float("attention.layer_norm_rms_epsilon"),
		embed: l.matrix("token_embd.weight"), embedScale: 1, logitScale: 1, residual: 1,
	}
	if m.output = m.embed; l.has("output.weight") {
		m.output = l.matrix("output.weight")
	}
	build(l, m)
	return m, l.err
}

// Logits runs the whole sequence and returns the logits of every position:
// [len(ids)][V].
func (m *Model) Logits(ids []int32) [][]float32 {
	hidden := m.Hidden(ids)
	out := make([][]float32, len(ids))
	for t, h := range hidden {
		out[t] = m.head(h)
	}
	return out
}

// head is the logits [V] of a normalised stream.
func (m *Model) head(h []float64) []float32 {
	out := make([]float32, m.output.rows)
	for i, v := range m.output.mul(h) {
		out[i] = float32(v / m.logitScale)
	}
	return out
}

// Hidden runs the whole sequence and returns the normalised stream [len(ids), D]
// that the logits are made of.
func (m *Model) Hidden(ids []int32) [][]float64 {
	if m.hyper != nil {
		return m.hyper.hidden(m, ids)
	}
	x := m.embeddings(ids)
	for i := range m.layers {
		m.blocks[i].run(m, i, x)
	}
	for t := range x {
		x[t] = rms(x[t], m.norm, m.eps)
	}
	return x
}

// embeddings are the rows of ids [T, D].
func (m *Model) embeddings(ids []int32) [][]float64 {
	x := make([][]float64, len(ids))
	for t, id := range ids {
		x[t] = wide(m.embed.row(int(id)))
		for i := range x[t] {
			x[t][i] *= m.embedScale
		}
	}
	return x
}

// run adds a layer to the stream x [T, D].
func (b *block) run(m *Model, layer int, x [][]float64) {
	h := make([][]float64, len(x))
	for t := range x {
		h[t] = rms(x[t], b.mixNorm, m.eps)
	}
	for t, y := range b.mixer.mix(h) {
		if b.mixPost != nil {
			y = rms(y, b.mixPost, m.eps)
		}
		addScaled(x[t], m.residual, y)
	}
	m.tell(layer, "mixer", x)
	for t := range x {
		y := b.ffn.forward(m, layer, t, rms(x[t], b.ffnNorm, m.eps))
		if b.ffnPost != nil {
			y = rms(y, b.ffnPost, m.eps)
		}
		addScaled(x[t], m.residual, y)
	}
	m.tell(layer, "ffn", x)
}

func (m *Model) tell(layer int, part string, x [][]float64) {
	if m.Stream != nil {
		m.Stream(layer, part, x)
	}
}

// nextToken is the block that drafts the token after next (MTP).
type nextToken struct {
	layer        int
	block        block
	embedNorm    []float32 // [D]
	hiddenNorm   []float32 // [D]
	project      matrix    // [D, 2D]: the embedding's half first
	norm         []float32 // [D]
	embed, heads matrix    // [V, D]; the model's own unless the block has some
}

// Drafts runs the block that drafts over a whole sequence: entry t is made of the
// stream of position t and of token t+1, and holds the logits of token t+2. nil:
// the model has no such block.
func (m *Model) Drafts(ids []int32) [][]float32 {
	n := m.next
	if n == nil {
		return nil
	}
	hidden := m.Hidden(ids)
	x := make([][]float64, len(ids)-1)
	for t := range x {
		pair := append(rms(wide(n.embed.row(int(ids[t+1]))), n.embedNorm, m.eps), rms(hidden[t], n.hiddenNorm, m.eps)...)
		x[t] = n.project.mul(pair)
	}
	n.block.run(m, n.layer, x)
	out := make([][]float32, len(x))
	for t := range x {
		y := n.heads.mul(rms(x[t], n.norm, m.eps))
		out[t] = make([]float32, len(y))
		for i, v := range y {
			out[t][i] = float32(v)
		}
	}
	return out
}

// nextToken reads the block that drafts, if the file has one. norm is the name of
// the norm before the experts.
func (l *loader) nextToken(m *Model, make func(l *loader, m *Model, layer int) block) {
	if l.intOr("nextn_predict_layers", 0) == 0 {
		return
	}
	p := fmt.Sprintf("blk.%d.nextn.", m.layers)
	n := &nextToken{
		layer: m.layers, block: make(l, m, m.layers),
		embedNorm: l.vector(p + "enorm.weight"), hiddenNorm: l.vector(p + "hnorm.weight"),
		project: l.matrix(p + "eh_proj.weight"), norm: m.norm, embed: m.embed, heads: m.output,
	}
	if name := p + "shared_head_norm.weight"; l.has(name) {
		n.norm = l.vector(name)
	}
	if name := p + "embed_tokens.weight"; l.has(name) {
		n.embed = l.matrix(name)
	}
	if name := p + "shared_head_head.weight"; l.has(name) {
		n.heads = l.matrix(name)
	}
	m.next = n
}
