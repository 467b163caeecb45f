package model

import (
	"math"
	"sync"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/quant"
	"assay/internal/engine/weights"
)

// gramTable is the tensor of n-grams. It may be larger than memory, so it stays in
// the file and is read row by row.
const gramTable = "per_layer_token_embd.weight"

// grams looks up what follows from the last few tokens, and adds it to the streams:
//
//	e = rows of the table, one for each head of each length of n-gram
//	v[c] = gate[c] * value(e), gate by how well key(e)[c] and the stream agree
//	x += v + silu(convolution of norm(v))
//
// Rows are asked for when a pass begins, and read when their layer comes.
type grams struct {
	n, heads    int // longest n-gram; rows of each length
	eos         int32
	multipliers []uint64 // [n]
	offsets     []uint64 // [(n-1)*heads]
	sizes       []uint64 // [(n-1)*heads]
	table       *weights.Table
	key, value  linear    // [streams*width, width], [width, width]
	keyNorm     []float32 // [streams*width]
	queryNorm   []float32
	convNorm    []float32
	taps        [][]float32 // [taps][streams*width]
}

// keeps: the last tokens, and what the convolution looks back at.
func (g *grams) keeps() kept {
	return kept{memory: []kv.MemoryShape{
		{Width: 1, Reach: g.n - 1},
		{Width: len(g.convNorm), Reach: (len(g.taps) - 1) * g.n},
	}}
}

// row is the number of the table's row for a head: tokens are the last ones, the
// newest first.
func (g *grams) row(head int, tokens []uint64) int {
	x := uint64(0)
	for j := range head/g.heads + 2 {
		x ^= tokens[j] * g.multipliers[j]
	}
	return int(x%g.sizes[head] + g.offsets[head])
}

// gramsRun is grams bound to a pass.
type gramsRun struct {
	*grams
	spreading
	layer, part int // its memory: tokens in part, the convolution's in the next
	settles     bool
	wide        convolution

	rows     []int32      // [n, (n-1)*heads]
	scratch  lent[[]byte] // one a worker: a row of the table
	embedded *buffer      // [n, width]: e
	keys     *buffer      // [n, streams*width]; then what the convolution gives
	vs       *buffer      // [n, width]
	values   *buffer      // [n, streams*width]: v
	normed   *buffer      // [n, streams*width]: what is convolved
	in       *acts        // [n, width]
	set      roundings

	mu  sync.Mutex
	err error // of reading the table

	lookup, project, agree, convolve, remember func(int)
}

func (g *grams) bind(s *Pass, layer, part int, settles bool) *gramsRun {
	n := s.m.streams * s.m.Width
	r := &gramsRun{
		grams: g, spreading: s.spreading(), layer: layer, part: part, settles: settles, rows: make([]int32, MaxBatch*len(g.sizes)),
		embedded: s.floats("n-grams", s.m.Width), keys: s.floats("streams", n), vs: s.floats("values of n-grams", s.m.Width),
		values: s.floats("gates of streams", n), normed: s.floats("convolved streams", n),
		set: roundingsOf(g.key.Matrix, g.value.Matrix),
	}
	r.scratch = lend(s.pool.Threads(), func() *[]byte { x := make([]byte, g.table.RowBytes()); return &x })
	r.wide = convolution{s: s, layer: layer, part: part + 1, taps: g.taps, step: g.n, rows: r.normed, width: n}
	r.in = s.acts("n-grams", r.set, s.m.Width)
	r.lookup, r.project, r.agree, r.convolve, r.remember = r.lookupToken, r.projectChunk, r.agreeToken, r.convolveToken, r.rememberSequence
	s.early = append(s.early, r.wantToken)
	return r
}

func (r *gramsRun) run() error {
	p, s := r.s.pool, r.s
	r.err = nil
	p.Run(s.n, r.lookup)
	if r.err != nil {
		return r.err
	}
	p.Run(r.key.chunks()+r.value.chunks(), r.project)
	p.Run(s.n, r.agree)
	p.Run(s.n, r.convolve)
	p.Run(len(s.spans), r.remember)
	return nil
}

// wantToken finds the rows of token t, and asks for them.
func (r *gramsRun) wantToken(t int) {
	s := r.s
	var tokens [mostTaps]uint64
	cut, span, memory := false, s.spans[s.seq[t]], s.cache(t).Memory(r.layer, r.part)
	for back := range r.n {
		id := int32(-1)
		if before := t - back; before >= span.from {
			id = s.ids[before]
		} else if kept := memory.Row(s.pos[t] - back); kept != nil {
			id = int32(kept[0])
		}
		// What lies before the start, or before an end of text, is none.
		if cut = cut || back > 0 && (id < 0 || id == r.eos); cut {
			id = r.eos
		}
		tokens[back] = uint64(id)
	}
	for head := range r.sizes {
		i := r.row(head, tokens[:r.n])
		r.rows[t*len(r.sizes)+head] = int32(i)
		r.table.Want(i)
	}
}

// lookupToken reads the rows of token t.
func (r *gramsRun) lookupToken(t int) {
	e := row(r.embedded.data, t, r.s.m.Width)
	scratch := r.scratch.take()
	for head := range r.sizes {
		if err := r.table.Row(int(r.rows[t*len(r.sizes)+head]), e[head*r.table.Cols:], *scratch); err != nil {
			r.mu.Lock()
			r.err = err
			r.mu.Unlock()
			break
		}
	}
	r.scratch.give(scratch)
	r.in.set(r.set, t, e)
}

func (r *gramsRun) projectChunk(c int) {
	if n := r.key.chunks(); c < n {
		r.key.mul(c, r.keys.data, r.in, r.s.all[:r.s.n])
	} else {
		r.value.mul(c-n, r.vs.data, r.in, r.s.all[:r.s.n])
	}
}

// agreeToken makes v of token t, and what is convolved.
func (r *gramsRun) agreeToken(t int) {
	s, d, n := r.s, r.s.m.Width, r.s.m.streams*r.s.m.Width
	if r.settles {
		r.spread(t)
	}
	keys, query, values := row(r.keys.data, t, n), row(r.normed.data, t, n), row(r.values.data, t, n)
	normStreams(keys, keys, r.keyNorm, d, s.m.Eps)
	normStreams(query, row(s.x, t, n), r.queryNorm, d, s.m.Eps)
	scale := float32(1 / math.Sqrt(float64(d)))
	for c := range s.m.streams {
		v := row(values, c, d)
		copy(v, row(r.vs.data, t, d))
		kernel.Scale(v, gramGate(kernel.Dot(row(keys, c, d), row(query, c, d))*scale))
	}
	normStreams(row(r.normed.data, t, n), values, r.convNorm, d, s.m.Eps)
}

// gramGate is the sigmoid of the root of agreement, with its sign.
func gramGate(agreement float32) float32 {
	if agreement == 0 {
		return 0.5
	}
	root := float32(math.Sqrt(max(math.Abs(float64(agreement)), 1e-6)))
	return quant.Sigmoid(float32(math.Copysign(float64(root), float64(agreement))))
}

// convolveToken adds v and its convolution to the streams of token t.
func (r *gramsRun) convolveToken(t int) {
	n := r.s.m.streams * r.s.m.Width
	x, out := row(r.s.x, t, n), row(r.keys.data, t, n)
	r.wide.at(t, 0, out)
	kernel.SiLU(out)
	kernel.Add(out, row(r.values.data, t, n))
	kernel.Add(x, out)
}

func (r *gramsRun) rememberSequence(i int) {
	s, cache := r.s, r.s.batch[i].Cache
	span := s.spans[i]
	r.wide.remember(i, cache.Memory(r.layer, r.part+1))
	ids := r.vs.data[span.from*s.m.Width:]
	for t := span.from; t < span.to; t++ {
		ids[t-span.from] = float32(s.ids[t])
	}
	cache.Memory(r.layer, r.part).Write(ids, 1)
}
