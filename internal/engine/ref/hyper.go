package ref

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// hyperDelta reads qwen4exp: DeltaNet layers and layers of sparse attention on a
// residual stream of several (hyper-connections), with one layer that looks up
// n-grams of tokens.
func hyperDelta(l *loader, m *Model) {
	h := &hyper{streams: l.int("hyper_connection.count"), table: l.matrix("per_layer_token_embd.weight")}
	m.hyper = h
	h.output = l.streamMixer(m, "output_hc")
	interval, ratios := l.intOr("full_attention_interval", 4), l.ints("attention.compress_ratios")
	grams := l.ints("ple.layers")
	for i := range m.layers {
		p := fmt.Sprintf("blk.%d.", i)
		b := block{ffn: sharedExperts(l, p), hyperMix: [2]*streamMixer{l.streamMixer(m, p+"hc_attn"), l.streamMixer(m, p+"hc_ffn")}}
		if (i+1)%interval == 0 {
			a := gatedAttention(l, m, p)
			if i < len(ratios) && ratios[i] > 0 {
				x := l.indexer(m, p, int(ratios[i]), a.rope)
				a.allow = func(h [][]float64) [][]bool { return x.allow(h, m.hyper.AsLlamaCpp) }
			}
			b.mixer = a
		} else {
			b.mixer = deltaNet(l, m, p, sigmoid)
		}
		if slices.Contains(grams, int64(i)) {
			h.grams, h.gramLayer = l.grams(m, p), i
		}
		m.blocks = append(m.blocks, b)
	}
	if h.grams == nil && l.err == nil {
		l.keep(fmt.Errorf("%s: %s.ple.layers names no layer of the model", l.f.Name(), l.arch))
	}
}

// hyper is what qwen4exp has beside its layers.
type hyper struct {
	streams   int
	output    *streamMixer
	table     matrix // [rows, e]
	grams     *grams
	gramLayer int
	// AsLlamaCpp chooses cells as llama.cpp does, which adds a few single ones to
	// the best blocks.
	AsLlamaCpp bool
}

// AsLlamaCpp makes sparse attention see what llama.cpp lets it see: beside the
// best blocks a few cells of the next one. It has no effect on models without.
func (m *Model) AsLlamaCpp() {
	if m.hyper != nil {
		m.hyper.AsLlamaCpp = true
	}
}

// hidden runs the whole sequence: [T, D].
func (h *hyper) hidden(m *Model, ids []int32) [][]float64 {
	x := m.embeddings(ids)
	for t := range x { // [T, streams*D]
		one := x[t]
		for range h.streams - 1 {
			x[t] = append(x[t], one...)
		}
	}
	for i := range m.layers {
		if i == h.gramLayer {
			h.grams.add(m, h, ids, x)
		}
		b := &m.blocks[i]
		in, share := b.hyperMix[0].mixAll(x)
		for t, y := range b.mixer.mix(in) {
			spread(x[t], share[t], y)
		}
		m.tell(i, "mixer", x)
		in, share = b.hyperMix[1].mixAll(x)
		for t := range x {
			spread(x[t], share[t], b.ffn.forward(m, i, t, in[t]))
		}
		m.tell(i, "ffn", x)
	}
	out, _ := h.output.mixAll(x)
	return out
}

// spread adds a layer's output [D] to every stream, each by its share.
func spread(x, share, y []float64) {
	for c, w := range share {
		addScaled(x[c*len(y):][:len(y)], w, y)
	}
}

// streamMixer makes one vector of the streams, and the shares by which a layer's
// output goes back to them.
type streamMixer struct {
	d, streams int
	eps        float64
	norm       []float32 // [streams*D]
	down, up   matrix    // [R, streams*D], [streams*D, R]
	inject     *matrix   // [streams, streams*D]; nil: nothing goes back
}

func (l *loader) streamMixer(m *Model, p string) *streamMixer {
	s := &streamMixer{
		d: m.d, streams: l.int("hyper_connection.count"), eps: m.eps,
		norm: l.vector(p + "_norm.weight"), down: l.matrix(p + "_down.weight"), up: l.matrix(p + "_up.weight"),
	}
	if l.has(p + "_inject.weight") {
		w := l.matrix(p + "_inject.weight")
		s.inject = &w
	}
	return s
}

func (s *streamMixer) mixAll(x [][]float64) (mixed, share [][]float64) {
	mixed, share = make([][]float64, len(x)), make([][]float64, len(x))
	for t := range x {
		mixed[t], share[t] = s.mix(x[t])
	}
	return mixed, share
}

func (s *streamMixer) mix(x []float64) (mixed, share []float64) {
	n := normStreams(x, s.norm, s.d, s.eps)
	hc := float64(s.streams)
	low := s.down.mul(n)
	for i := range low {
		low[i] = silu(low[i] / hc)
	}
	gate := s.up.mul(low)
	mixed = make([]float64, s.d)
	for i, v := range n {
		mixed[i%s.d] += v * sigmoid(gate[i]) / hc
	}
	if s.inject != nil {
		share = s.inject.mul(n)
		for i := range share {
			share[i] = 2 * sigmoid(share[i]/hc)
		}
	}
	return mixed, share
}

// normStreams norms every stream by itself.
func normStreams(x []float64, gamma []float32, d int, eps float64) []float64 {
	var out []float64
	for c := 0; c < len(x); c += d {
		out = append(out, rms(x[c:c+d], gamma[c:c+d], eps)...)
	}
	return out
}

// indexer chooses the blocks of positions that sparse attention sees.
type indexer struct {
	heads, size, topK, ratio int
	eps                      float64
	q, k                     matrix    // [heads*size, D], [size, D]
	qNorm, kNorm             []float32 // [size]
	rope                     rope
}

func (l *loader) indexer(m *Model, p string, ratio int, r rope) *indexer {
	return &indexer{
		heads: l.int("attention.indexer.head_count"), size: l.int("attention.indexer.key_length"), topK: l.int("attention.indexer.top_k"), ratio: ratio, eps: m.eps,
		q: l.matrix(p + "indexer.q_proj.weight"), k: l.matrix(p + "indexer.k_proj.weight"),
		qNorm: l.vector(p + "indexer.q_norm.weight"), kNorm: l.vector(p + "indexer.k_norm.weight"), rope: r,
	}
}

// allow says for each position which ones it sees [T][T]: the last, incomplete
// block, and the best of those before it.
func (x *indexer) allow(h [][]float64, asLlamaCpp bool) [][]bool {
	blocks := x.blockKeys(h)
	out := make([][]bool, len(h))
	for t := range h {
		q := rmsHeads(x.q.mul(h[t]), x.qNorm, x.eps)
		x.rope.turnHeads(q, x.size, t)
		tail := (t + 1) / x.ratio * x.ratio
		score := make([]float64, tail/x.ratio)
		for b := range score {
			for head := range x.heads {
				score[b] += max(0, dot(q[head*x.size:][:x.size], blocks[b]))
			}
		}
		out[t] = make([]bool, len(h))
		for s := tail; s <= t; s++ {
			out[t][s] = true
		}
		if asLlamaCpp {
			for _, s := range x.cells(score, tail, t, len(h)) {
				out[t][s] = true
			}
			continue
		}
		order := make([]int, len(score))
		for i := range order {
			order[i] = i
		}
		sort.SliceStable(order, func(i, j int) bool { return score[order[i]] > score[order[j]] })
		for _, b := range order[:min(len(order), x.topK/x.ratio)] {
			for i := range x.ratio {
				out[t][b*x.ratio+i] = true
			}
		}
	}
	return out
}

// blockKeys are the keys of the complete blocks.
func (x *indexer) blockKeys(h [][]float64) [][]float64 {
	var out [][]float64
	for b := 0; (b+1)*x.ratio <= len(h); b++ {
		mean := make([]float64, x.size)
		for i := range x.ratio {
			addScaled(mean, 1/float64(x.ratio), x.k.mul(h[b*x.ratio+i]))
		}
		key := rms(mean, x.kNorm, x.eps)
		x.rope.turn(key, b*x.ratio)
		out = append(out, key)
	}
	return out
}

// cells are the positions that llama.cpp takes: the best single cells, of which
// those of the tail come first. Which of equal ones are taken follows from the
// order in which C++'s partial_sort leaves them.
func (x *indexer) cells(score []float64, tail, t, positions int) []int {
	const page = 256 // llama.cpp's cache grows by this many cells
	n := (positions + page - 1) / page * page
	cell := make([]float32, n)
	for s := range cell {
		switch {
		case s < tail:
			cell[s] = float32(score[s/x.ratio])
		case s <= t:
			cell[s] = 1e9
		default:
			cell[s] = float32(math.Inf(-1))
		}
	}
	width := min(n, x.topK+x.ratio-1)
	heap := make([]int, width)
	for i := range heap {
		heap[i] = i
	}
	sink := func(hole, value int) {
		top, c := hole, hole
		for c < (width-1)/2 {
			c = 2*c + 2
			if cell[heap[c]] > cell[heap[c-1]] {
				c--
			}
			heap[hole], hole = heap[c], c
		}
		if width%2 == 0 && c == (width-2)/2 {
			c = 2*c + 2
			heap[hole], hole = heap[c-1], c-1
		}
		for hole > top && cell[heap[(hole-1)/2]] > cell[value] {
			heap[hole], hole = heap[(hole-1)/2], (hole-1)/2
		}
		heap[hole] = value
	}
	if width > 1 {
		for i := (width - 2) / 2; i >= 0; i-- {
			sink(i, heap[i])
		}
	}
	for c := width; c < n; c++ {
		if cell[c] > cell[heap[0]] {
			sink(0, c)
		}
	}
	return slices.DeleteFunc(heap, func(s int) bool { return s > t })
}

// grams looks up what follows from the last few tokens.
type grams struct {
	n, heads    int // longest n-gram; table rows of each length
	eos         int32
	multipliers []uint64 // [n]
	offsets     []uint64 // [(n-1)*heads]
	sizes       []uint64
	key, value  matrix // [streams*D, D], [D, D]
	keyNorm     []float32
	queryNorm   []float32
	convNorm    []float32
	conv        matrix // [streams*D, K]
}

func (l *loader) grams(_ *Model, p string) *grams {
	u64 := func(key string) []uint64 {
		v, ok := l.f.Lookup(l.arch + "." + key)
		if !ok {
			l.keep(fmt.Errorf("%s: key %q is missing", l.f.Name(), l.arch+"."+key))
			return nil
		}
		out, ok := v.Uints()
		if !ok {
			l.keep(fmt.Errorf("%s: key %q is no array of whole numbers", l.f.Name(), l.arch+"."+key))
		}
		return out
	}
	return &grams{
		n: l.int("ple.ngram_size"), heads: l.int("ple.heads_per_ngram"), eos: int32(l.int("ple.eos_token_id")),
		multipliers: u64("ple.layer_multipliers"), offsets: u64("ple.head_offsets"), sizes: u64("ple.head_vocab_sizes"),
		key: l.matrix(p + "ple_key.weight"), value: l.matrix(p + "ple_value.weight"),
		keyNorm: l.vector(p + "ple_norm_key.weight"), queryNorm: l.vector(p + "ple_norm_query.weight"), convNorm: l.vector(p + "ple_norm_conv.weight"),
		conv: l.matrix(p + "ple_conv1d.weight"),
	}
}

// rows are the rows of the table for position t.
func (g *grams) rows(ids []int32, t int) []int {
	last := make([]uint64, g.n) // the token itself, then those before it
	cut := false
	for s := range last {
		switch {
		case s == 0:
			last[0] = uint64(ids[t])
			continue
		case t-s < 0 || ids[t-s] == g.eos:
			cut = true
		}
		if last[s] = uint64(g.eos); !cut {
			last[s] = uint64(ids[t-s])
		}
	}
	var out []int
	for n := 2; n <= g.n; n++ {
		x := uint64(0)
		for j := range n {
			x ^= last[j] * g.multipliers[j]
		}
		for h := (n - 2) * g.heads; h < (n-1)*g.heads; h++ {
			out = append(out, int(x%g.sizes[h]+g.offsets[h]))
		}
	}
	return out
}

// add adds the n-gram part to the streams x [T, streams*D].
func (g *grams) add(m *Model, h *hyper, ids []int32, x [][]float64) {
	d := m.d
	values, normed := make([][]float64, len(x)), make([][]float64, len(x))
	for t := range x {
		var e []float64
		for _, r := range g.rows(ids, t) {
			e = append(e, wide(h.table.row(r))...)
		}
		key, query := normStreams(g.key.mul(e), g.keyNorm, d, m.eps), normStreams(x[t], g.queryNorm, d, m.eps)
		v := g.value.mul(e)
		values[t] = make([]float64, h.streams*d)
		for c := range h.streams {
			s := dot(key[c*d:][:d], query[c*d:][:d]) / math.Sqrt(float64(d))
			gate := 0.5
			if s != 0 {
				gate = sigmoid(math.Copysign(math.Sqrt(max(math.Abs(s), 1e-6)), s))
			}
			addScaled(values[t][c*d:][:d], gate, v)
		}
		normed[t] = normStreams(values[t], g.convNorm, d, m.eps)
	}
	for t, c := range convolve(normed, g.conv, g.n) {
		for i := range c {
			x[t][i] += values[t][i] + silu(c[i])
		}
	}
}
