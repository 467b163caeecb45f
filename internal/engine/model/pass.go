package model

import (
	"fmt"
	"math"
	"time"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/pool"
	"assay/internal/engine/quant"
)

// MaxBatch is how many tokens one pass takes at most. It bounds the time
// between two looks at whether a request was cancelled.
const MaxBatch = 512

// Pass runs forward passes of one model on one pool. It owns all memory that a
// pass needs, so that a pass allocates nothing. One pass at a time.
type Pass struct {
	m     *Model
	pool  *pool.Pool
	cache *kv.Cache

	n        int       // tokens of this pass
	start    int       // position of the first
	l        *layer    // the layer at work
	li       int       // its number
	ids      []int32   // [n]
	x        []float32 // [n, width]: the residual stream
	normed   []float32 // [n, width]: scratch of each token
	q        []float32 // [n, heads*headDim]
	k, v     []float32 // [n, kvHeads*headDim]
	mixed    []float32 // [n, heads*headDim]: what attention gives
	halves   []uint16  // [n, headDim]: scratch of the cache
	delta    []float32 // [n, width]: what attnOut gives
	cos, sin []float32 // [n, ropeDims/2]
	in       acts      // [n, width]: input of q, k, v, router, gate and up, and of output
	mid      acts      // [n, heads*headDim]: input of attnOut

	attention attention

	moe   moe
	trace func(layer int) // for tests: called when a layer has routed its tokens

	wanted int       // tokens at the end of the pass whose logits are wanted
	logits []float32 // [wanted, vocabulary]

	all       []kernel.Route // token i to row i
	outRoutes []kernel.Route // the wanted tokens to rows 0, 1 ...
	stages    stages
}

// stages are the functions that the pool runs, bound once.
type stages struct {
	embed, attnIn, qkv, turn, attend, mixIn, attnOut, ffnIn, router, choose, gateUp, act, down, finish, outputIn, output func(int)
}

// NewPass makes a Pass. The pool may serve several, one after another.
func NewPass(m *Model, p *pool.Pool) *Pass {
	n, heads, kvHeads := MaxBatch, m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	in, mid := roundingsOf(m.output), roundings(0)
	for i := range m.layers {
		in |= m.layers[i].attnRoundings | m.layers[i].ffnRoundings
		mid |= m.layers[i].outRoundings
	}
	s := &Pass{
		m: m, pool: p,
		ids:       make([]int32, n),
		x:         make([]float32, n*m.Width),
		normed:    make([]float32, n*m.Width),
		q:         make([]float32, n*heads),
		k:         make([]float32, n*kvHeads),
		v:         make([]float32, n*kvHeads),
		mixed:     make([]float32, n*heads),
		halves:    make([]uint16, n*m.HeadDim),
		delta:     make([]float32, n*m.Width),
		cos:       make([]float32, n*m.RopeDims/2),
		sin:       make([]float32, n*m.RopeDims/2),
		in:        newActs(in, n, m.Width),
		mid:       newActs(mid, n, heads),
		moe:       newMoE(m, n),
		attention: attention{fours: (m.Heads/m.KVHeads + kernel.Heads - 1) / kernel.Heads},
		all:       make([]kernel.Route, n), outRoutes: make([]kernel.Route, n),
	}
	s.attention.states = make([]kernel.AttentionState, n*m.KVHeads*s.attention.fours)
	for i := range s.all {
		s.all[i] = kernel.Route{In: int32(i), Out: int32(i)}
	}
	s.stages = stages{
		embed: s.embed, attnIn: s.attnIn, qkv: s.qkv, turn: s.turn, attend: s.attend,
		mixIn: s.mixIn, attnOut: s.attnOut, ffnIn: s.ffnIn, router: s.router, choose: s.choose, gateUp: s.gateUp, act: s.act, down: s.down,
		finish: s.finish, outputIn: s.outputIn, output: s.output,
	}
	return s
}

// Run appends tokens (at most MaxBatch) to the sequence in cache and fills
// logits, [wanted, vocabulary], for the last of them: as many as it has room
// for, none when it is empty. Token ids must lie within the vocabulary.
func (s *Pass) Run(cache *kv.Cache, tokens []int32, logits []float32) {
	s.RunUnless(nil, cache, tokens, logits)
}

// RunUnless is Run, but asks stop (if not nil) before each layer, and when that
// says true leaves the cache as it was and returns false.
func (s *Pass) RunUnless(stop func() bool, cache *kv.Cache, tokens []int32, logits []float32) bool {
	m := s.m
	wanted := len(logits) / m.Vocabulary
	if len(tokens) == 0 || len(tokens) > MaxBatch || wanted > len(tokens) {
		panic(fmt.Sprintf("model: a pass of %d tokens with %d logits wanted (at most %d)", len(tokens), wanted, MaxBatch))
	}
	s.cache, s.n, s.start, s.wanted, s.logits = cache, len(tokens), cache.Len(), wanted, logits
	defer func() { s.cache, s.logits = nil, nil }()
	began := time.Now()
	copy(s.ids, tokens)
	s.attention.reserve(cache.Layout(), s.pool.Threads())
	cache.Extend(s.n)
	s.angles()
	s.pool.Run(s.n, s.stages.embed)
	for i := range m.layers {
		if stop != nil && stop() {
			cache.Truncate(s.start)
			return false
		}
		s.l, s.li = &m.layers[i], i
		// attention: x += attnOut(attend(q, k, v of norm(x)))
		s.pool.Run(s.n, s.stages.attnIn)
		s.pool.Run(chunks(s.l.q)+chunks(s.l.k)+chunks(s.l.v), s.stages.qkv)
		s.pool.Run(s.n, s.stages.turn)
		s.pool.Run(s.attendJobs(), s.stages.attend)
		s.pool.Run(s.n, s.stages.mixIn)
		s.pool.Run(chunks(s.l.attnOut), s.stages.attnOut)
		// experts: x += sum of the chosen experts of norm(x), weighted
		s.pool.Run(s.n, s.stages.ffnIn)
		s.pool.Run(s.routerJobs(), s.stages.router)
		s.pool.Run(s.n, s.stages.choose)
		s.moe.group(s.n, m.Used)
		if s.trace != nil {
			s.trace(i)
		}
		s.pool.Run(len(s.moe.busy)*(chunks(s.l.gate[0])+chunks(s.l.up[0])), s.stages.gateUp)
		s.pool.Run(s.n*m.Used, s.stages.act)
		s.pool.Run(len(s.moe.busy)*chunks(s.l.down[0]), s.stages.down)
		s.pool.Run(s.n, s.stages.finish)
	}
	for i := range wanted {
		s.outRoutes[i] = kernel.Route{In: int32(s.n - wanted + i), Out: int32(i)}
	}
	if wanted > 0 {
		s.pool.Run(wanted, s.stages.outputIn)
		s.pool.Run(chunks(m.output), s.stages.output)
	}
	if s.n == 1 {
		s.pool.Observe(time.Since(began))
	}
	return true
}

// chunks is in how many pieces workers take the rows of m.
func chunks(m *kernel.Matrix) int { return (m.Rows + m.ChunkRows() - 1) / m.ChunkRows() }

// rows multiplies chunk c of m's rows by the routed tokens of a.
func rows(m *kernel.Matrix, c int, out []float32, a *acts, routes []kernel.Route) {
	n := m.ChunkRows()
	m.Mul(out, m.Rows, a.of(m), c*n, min((c+1)*n, m.Rows), routes)
}

// row is row t of a matrix of floats with the given width.
func row(x []float32, t, width int) []float32 { return x[t*width:][:width:width] }

// angles sets cos and sin of every position of the pass: pair j of a head turns
// by position * base^(-2j/ropeDims).
func (s *Pass) angles() {
	half := len(s.m.freqs)
	for t := range s.n {
		for j, f := range s.m.freqs {
			sin, cos := math.Sincos(float64(s.start+t) * f)
			s.cos[t*half+j], s.sin[t*half+j] = float32(cos), float32(sin)
		}
	}
}

func (s *Pass) embed(t int) { s.m.embed.DecodeRow(row(s.x, t, s.m.Width), int(s.ids[t])) }

// attnIn normalises and rounds the stream of token t for q, k and v.
func (s *Pass) attnIn(t int) {
	h := row(s.normed, t, s.m.Width)
	kernel.RMSNorm(h, row(s.x, t, s.m.Width), s.l.attnNorm, s.m.Eps)
	s.in.set(s.l.attnRoundings, t, h)
}

// qkv computes a chunk of the rows of q, then k, then v.
func (s *Pass) qkv(c int) {
	for _, part := range [...]struct {
		w   *kernel.Matrix
		out []float32
	}{{s.l.q, s.q}, {s.l.k, s.k}, {s.l.v, s.v}} {
		if c < chunks(part.w) {
			rows(part.w, c, part.out, &s.in, s.all[:s.n])
			return
		}
		c -= chunks(part.w)
	}
}

// turn normalises the queries and keys of token t head by head, turns them by
// their position, and writes keys and values to the cache.
func (s *Pass) turn(t int) {
	m := s.m
	scale := quant.AttentionScale(m.HeadDim)
	for h := range m.Heads {
		q := row(s.q, t*m.Heads+h, m.HeadDim)
		kernel.RMSNorm(q, q, s.l.qNorm, m.Eps)
		s.rope(q, t)
		kernel.Scale(q, scale)
	}
	for h := range m.KVHeads {
		k := row(s.k, t*m.KVHeads+h, m.HeadDim)
		kernel.RMSNorm(k, k, s.l.kNorm, m.Eps)
		s.rope(k, t)
		s.cache.Put(s.li, h, s.start+t, k, row(s.v, t*m.KVHeads+h, m.HeadDim), s.halves[t*m.HeadDim:])
	}
}

// rope turns one head of token t: elements j and j + ropeDims/2 are a pair.
func (s *Pass) rope(x []float32, t int) {
	half := len(s.m.freqs)
	cos, sin := row(s.cos, t, half), row(s.sin, t, half)
	kernel.Rope(x[:half], x[half:2*half], cos, sin)
}

// mixIn rounds what attention gave for token t.
func (s *Pass) mixIn(t int) {
	s.mid.set(s.l.outRoundings, t, row(s.mixed, t, s.m.Heads*s.m.HeadDim))
}

func (s *Pass) attnOut(c int) { rows(s.l.attnOut, c, s.delta, &s.mid, s.all[:s.n]) }

// ffnIn adds attention's result to the stream of token t and normalises it for
// the experts.
func (s *Pass) ffnIn(t int) {
	m := s.m
	x, h := row(s.x, t, m.Width), row(s.normed, t, m.Width)
	kernel.Add(x, row(s.delta, t, m.Width))
	kernel.RMSNorm(h, x, s.l.ffnNorm, m.Eps)
	s.in.set(s.l.ffnRoundings, t, h)
}

// outputIn normalises and rounds the stream of wanted token i for the output.
func (s *Pass) outputIn(i int) {
	t := s.n - s.wanted + i
	h := row(s.normed, t, s.m.Width)
	kernel.RMSNorm(h, row(s.x, t, s.m.Width), s.m.outputNorm, s.m.Eps)
	s.in.set(roundingsOf(s.m.output), t, h)
}

// output computes a chunk of the logits of the wanted tokens.
func (s *Pass) output(c int) { rows(s.m.output, c, s.logits, &s.in, s.outRoutes[:s.wanted]) }
