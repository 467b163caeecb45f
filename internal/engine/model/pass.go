package model

import (
	"errors"
	"fmt"
	"time"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/pool"
)

// MaxBatch is how many tokens one pass takes at most. It bounds the time
// between two looks at whether a request was cancelled.
const MaxBatch = 512

// ErrStopped is what Run returns when stop said so.
var ErrStopped = errors.New("model: the pass was stopped")

// Sequence is a stretch of tokens that a pass computes, and what is wanted of it.
type Sequence struct {
	Cache  *kv.Cache // what came before; the tokens join it
	Tokens []int32   // at least one, each within the vocabulary
	// Before is only for a model that drafts: for each token, the hidden state of the
	// position before it, [tokens, width].
	Before []float32
	// Logits, [rows, vocabulary], is filled for the last tokens: as many as it has
	// room for. May be nil.
	Logits []float32
	// Hidden, [rows, width], is filled with the stream after the output norm of the
	// last tokens. May be nil.
	Hidden []float32
}

// Pass runs forward passes of one model on one pool. It owns all memory that a
// pass needs, so that a pass allocates nothing. One pass at a time.
//
// Parts of layers are bound to it (see layer) and read its fields.
type Pass struct {
	m    *Model
	pool *pool.Pool

	batch  []Sequence
	spans  []span // of each sequence of the batch
	blocks []block
	outs   []out

	n      int       // tokens of this pass, of all sequences
	ids    []int32   // [n]
	pos    []int     // [n]: positions in their sequences
	seq    []int32   // [n]: numbers of their sequences
	x      []float32 // [n, streams*width]: the residual stream
	normed []float32 // [n, width]: scratch of each token
	delta  []float32 // [n, width]: what a part of a layer gave
	branch *branch   // that delta is of and the stream has not taken up; nil: none
	in     *acts     // [n, width]: what parts and the output multiply

	buffers  map[string]*buffer
	rounded  map[rounded]*acts
	turnings []*turning // one for each rope
	attends  attends    // shared by the layers of attention
	moe      moe        // shared by the layers of experts
	runners  []runner   // the layers
	opens    *openRun   // of a head that drafts; nil: none
	ends     runner

	firsts []*kernel.Matrix // what each branch of the layers multiplies first; nil: unknown
	coming *kernel.Matrix   // that of the branch after the one at work

	logits []float32 // [len(outRoutes), vocabulary]: where the output goes
	joined []float32 // logits of several sequences, before they are copied to them
	copied []outRow  // where they are copied

	all       []kernel.Route // token i to row i
	outRoutes []kernel.Route // tokens whose logits are wanted to rows 0, 1 ...
	stages    struct{ embed, output, copy func(int) }

	early        []func(t int)           // run for every token before the first layer
	indexes      *indexes                // shared by layers of sparse attention
	stateScratch map[int]lent[[]float32] // by size: one a worker

	trace func(layer int, chosen []int32) // for tests: the experts of each token, [n, used]
}

// span is where a sequence's tokens lie in the pass.
type span struct {
	from, to int // tokens
	start    int // position of the first
}

// block is a stretch of one sequence's tokens that workers take together.
type block struct{ seq, from, to int }

// out is a token of which something is wanted.
type out struct {
	token  int
	hidden []float32 // [width]; nil: not wanted
	logits bool
}

// outRow is where a row of joined logits goes.
type outRow struct{ to []float32 }

// blockTokens is how many tokens a block has at most: a page of keys and values is
// decoded once for them, and stays in the cache while they pass.
const blockTokens = 32

// buffer is floats of each token that layers share, [n, per token].
type buffer struct{ data []float32 }

// rounded names activations that layers share.
type rounded struct {
	use string
	k   int
}

// NewPass makes a Pass. The pool may serve several, one after another.
func NewPass(m *Model, p *pool.Pool) *Pass {
	n := MaxBatch
	s := &Pass{
		m: m, pool: p,
		spans: make([]span, 0, n), blocks: make([]block, 0, n), outs: make([]out, 0, n), copied: make([]outRow, 0, n),
		ids: make([]int32, n), pos: make([]int, n), seq: make([]int32, n),
		x:       make([]float32, n*m.Width*m.streams),
		normed:  make([]float32, n*m.Width),
		delta:   make([]float32, n*m.Width),
		buffers: map[string]*buffer{}, rounded: map[rounded]*acts{},
		all: make([]kernel.Route, n), outRoutes: make([]kernel.Route, 0, n),
	}
	for i := range s.all {
		s.all[i] = kernel.Route{In: int32(i), Out: int32(i)}
	}
	s.want(roundingsOf(m.output.Matrix))
	if m.opening != nil {
		s.opens = m.opening.bind(s)
	}
	for i, l := range m.layers {
		s.runners = append(s.runners, l.bind(s, i))
	}
	s.foresee()
	s.ends = m.ending.bind(s)
	s.stages.embed, s.stages.output, s.stages.copy = s.embed, s.output, s.copyLogits
	return s
}

// want sees to it that s.in has these roundings.
func (s *Pass) want(set roundings) { s.in = s.acts("in", set, s.m.Width) }

// acts is activations of k values a token. Those who ask for the same use and
// size share them, so what is in there lasts as long as one part runs.
func (s *Pass) acts(use string, set roundings, k int) *acts {
	return s.slots(use, set, MaxBatch, k)
}

// slots is acts for n rows.
func (s *Pass) slots(use string, set roundings, n, k int) *acts {
	key := rounded{use, k}
	if s.rounded[key] == nil {
		s.rounded[key] = new(acts)
	}
	s.rounded[key].reserve(set, n, k)
	return s.rounded[key]
}

// floats is a buffer of so many floats a token. Those who ask for the same use
// share it; its memory is there once all are bound.
func (s *Pass) floats(use string, each int) *buffer { return s.shared(use, MaxBatch*each) }

// shared is a buffer of n floats for all who ask for the same use.
func (s *Pass) shared(use string, n int) *buffer {
	b := s.buffers[use]
	if b == nil {
		b = new(buffer)
		s.buffers[use] = b
	}
	if len(b.data) < n {
		b.data = make([]float32, n)
	}
	return b
}

// Touch has the system give the pass's memory now. Else it comes when a long prompt
// first wants it, and until then looks free to who fills what is free.
func (s *Pass) Touch() {
	for _, b := range s.buffers {
		clear(b.data)
	}
	for _, a := range s.rounded {
		for _, r := range a {
			if r != nil {
				r.Clear()
			}
		}
	}
	for _, x := range [][]float32{s.x, s.normed, s.delta} {
		clear(x)
	}
	clear(s.attends.states)
	clear(s.attends.apart.states)
	clear(s.attends.apart.outs)
}

// turning is the cosines and sines of a rope; nil for none.
func (s *Pass) turning(r *rope) *turning {
	if r == nil {
		return nil
	}
	for _, t := range s.turnings {
		if t.rope == r {
			return t
		}
	}
	n := MaxBatch * len(r.freqs)
	t := &turning{rope: r, cos: make([]float32, n), sin: make([]float32, n)}
	s.turnings = append(s.turnings, t)
	return t
}

// Run computes the tokens of all sequences, at most MaxBatch together, as if each
// sequence were alone: what shares a pass never changes a bit. No two may have the
// same cache. stop, if not nil, is asked before each layer.
//
// When stop says true (ErrStopped), or an expert can't be read, every cache is left
// as it was and no output is of use. One error ends the pass for all its
// sequences; run again one by one, only those that it concerns fail.
func (s *Pass) Run(stop func() bool, batch []Sequence) error {
	began := time.Now()
	s.begin(batch)
	err := s.compute(stop)
	for i := range batch {
		if err == nil {
			batch[i].Cache.Commit()
		} else {
			batch[i].Cache.Abort()
		}
	}
	s.batch, s.logits = nil, nil
	if s.n == 1 && err == nil {
		s.pool.Observe(time.Since(began))
	}
	return err
}

// near has workers that wait, from the next Run of the pool on, bring near what Mul
// will read first of m; nil: of nothing.
func (s *Pass) near(m *kernel.Matrix) {
	if m == nil || s.n > nearTokens {
		s.pool.Ahead(nil)
		return
	}
	s.pool.Ahead(m.Head(nearBytes))
}

const (
	nearTokens = 8 // with more, computing takes longer than reading
	nearBytes  = 256 << 10
)

func (s *Pass) compute(stop func() bool) error {
	s.pool.Run(s.n, s.stages.embed)
	if s.opens != nil {
		s.opens.run()
	}
	s.branch = nil
	for _, l := range s.runners {
		if stop != nil && stop() {
			return ErrStopped
		}
		if err := l.run(); err != nil {
			return err
		}
	}
	if len(s.outs) == 0 {
		return nil
	}
	if err := s.ends.run(); err != nil {
		return err
	}
	if len(s.outRoutes) > 0 {
		s.pool.Run(s.m.output.chunks(), s.stages.output)
		s.pool.Run(len(s.copied), s.stages.copy)
	}
	return nil
}

// begin lays the tokens of the batch out and extends its caches.
func (s *Pass) begin(batch []Sequence) {
	s.check(batch)
	s.batch, s.n = batch, 0
	s.spans, s.outs, s.copied, s.outRoutes = s.spans[:0], s.outs[:0], s.copied[:0], s.outRoutes[:0]
	for i := range batch {
		q := &batch[i]
		p := span{from: s.n, to: s.n + len(q.Tokens), start: q.Cache.Len()}
		copy(s.ids[p.from:], q.Tokens)
		for t := p.from; t < p.to; t++ {
			s.pos[t], s.seq[t] = p.start+t-p.from, int32(i)
		}
		q.Cache.Extend(len(q.Tokens))
		s.spans, s.n = append(s.spans, p), p.to
	}
	s.cut()
	s.wanted(batch)
}

func (s *Pass) check(batch []Sequence) {
	n := 0
	for i := range batch {
		q := &batch[i]
		n += len(q.Tokens)
		rows := max(len(q.Logits)/s.m.Vocabulary, len(q.Hidden)/s.m.Width)
		if len(q.Tokens) == 0 || rows > len(q.Tokens) || (s.m.opening != nil) != (q.Before != nil) || len(q.Before)%s.m.Width != 0 {
			panic(fmt.Sprintf("model: sequence %d has %d tokens, of which %d are wanted, and %d hidden states", i, len(q.Tokens), rows, len(q.Before)/s.m.Width))
		}
		for _, o := range batch[:i] {
			if o.Cache == q.Cache {
				panic("model: two sequences of a pass have the same cache")
			}
		}
	}
	if n == 0 || n > MaxBatch {
		panic(fmt.Sprintf("model: a pass of %d tokens (1 to %d)", n, MaxBatch))
	}
}

// cut makes blocks: several for each thread, so single tokens where there are few.
func (s *Pass) cut() {
	step := max(1, min(blockTokens, s.n/(8*s.pool.Threads())))
	s.blocks = s.blocks[:0]
	for i, p := range s.spans {
		for t := p.from; t < p.to; t += step {
			s.blocks = append(s.blocks, block{i, t, min(t+step, p.to)})
		}
	}
}

// wanted lists the tokens of which something is wanted. The logits of a single
// sequence are computed where they are wanted.
func (s *Pass) wanted(batch []Sequence) {
	v, w := s.m.Vocabulary, s.m.Width
	asking, rows := 0, 0
	for i := range batch {
		if n := len(batch[i].Logits) / v; n > 0 {
			asking, rows, s.logits = asking+1, rows+n, batch[i].Logits
		}
	}
	if asking > 1 {
		if len(s.joined) < rows*v {
			s.joined = make([]float32, rows*v)
		}
		s.logits = s.joined
	}
	for i := range batch {
		q, p := &batch[i], s.spans[i]
		logits, hidden := len(q.Logits)/v, len(q.Hidden)/w
		for back := max(logits, hidden); back > 0; back-- {
			o := out{token: p.to - back, logits: back <= logits}
			if back <= hidden {
				o.hidden = row(q.Hidden, hidden-back, w)
			}
			if o.logits {
				if asking > 1 {
					s.copied = append(s.copied, outRow{row(q.Logits, logits-back, v)})
				}
				s.outRoutes = append(s.outRoutes, kernel.Route{In: int32(o.token), Out: int32(len(s.outRoutes))})
			}
			s.outs = append(s.outs, o)
		}
	}
}

// cache is the sequence that token t joins.
func (s *Pass) cache(t int) *kv.Cache { return s.batch[s.seq[t]].Cache }

// embed looks token t up, and computes what its position turns by.
func (s *Pass) embed(t int) {
	x := row(s.x, t, s.m.Width*s.m.streams)
	first := x[:s.m.Width]
	s.m.embed.DecodeRow(first, int(s.ids[t]))
	if s.m.embedScale != 0 {
		kernel.Scale(first, s.m.embedScale)
	}
	for i := 1; i < s.m.streams; i++ {
		copy(x[i*s.m.Width:], first)
	}
	for _, r := range s.turnings {
		r.set(t, s.pos[t])
	}
	for _, f := range s.early {
		f(t)
	}
}

// deliver hands out row i of outs, which lies in s.normed.
func (s *Pass) deliver(i int) {
	o := &s.outs[i]
	h := row(s.normed, o.token, s.m.Width)
	if o.hidden != nil {
		copy(o.hidden, h)
	}
	if o.logits {
		s.in.set(roundingsOf(s.m.output.Matrix), o.token, h)
	}
}

// output computes a chunk of the logits.
func (s *Pass) output(c int) {
	m := s.m.output
	m.mul(c, s.logits, s.in, s.outRoutes)
	if s.m.logitScale == 0 {
		return
	}
	n := m.ChunkRows()
	for i := range s.outRoutes {
		logits := row(s.logits, i, m.Rows)[c*n : min((c+1)*n, m.Rows)]
		for j, v := range logits {
			logits[j] = v / s.m.logitScale
		}
	}
}

// copyLogits gives row i of the joined logits to its sequence.
func (s *Pass) copyLogits(i int) { copy(s.copied[i].to, row(s.joined, i, s.m.Vocabulary)) }
