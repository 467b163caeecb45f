package model

import "assay/internal/engine/kernel"

// residual is the usual layer:
//
//	x += scale * post(mix(norm(x)))
//	x += scale * post(ffn(norm(x)))
type residual struct {
	mix, ffn branch
}

// branch is one of its two parts with what is around it.
type branch struct {
	norm  []float32 // [width], of the input
	part  part
	post  []float32 // [width], norm of the output; nil: none
	scale float32   // of the output; 0: 1
}

// residual is the usual layer with norms of the usual names.
func (b *builder) residual(prefix string, mix, ffn part) *residual {
	return &residual{
		mix: branch{norm: b.vector(prefix+"attn_norm.weight", b.Width), part: mix},
		ffn: branch{norm: b.vector(prefix+"ffn_norm.weight", b.Width), part: ffn},
	}
}

func (l *residual) keeps() kept { return l.mix.part.keeps().and(l.ffn.part.keeps()) }

func (l *residual) bind(s *Pass, i int) runner {
	return &residualRun{s: s, mix: l.mix.bind(s, i), ffn: l.ffn.bind(s, i)}
}

type residualRun struct {
	s        *Pass
	mix, ffn *branchRun
}

func (l *residualRun) run() error {
	if err := l.mix.run(); err != nil {
		return err
	}
	return l.ffn.run()
}

// beginner is a part that says which matrix it multiplies first.
type beginner interface{ begins() *kernel.Matrix }

type branchRun struct {
	*branch
	s     *Pass
	inner runner
	wants roundings
	place int // among the parts of the pass
	enter func(t int)
}

func (b *branch) bind(s *Pass, i int) *branchRun {
	r := &branchRun{branch: b, s: s}
	r.inner, r.wants = b.part.bind(s, i)
	s.want(r.wants)
	r.place = len(s.firsts)
	var first *kernel.Matrix
	if b, ok := r.inner.(beginner); ok {
		first = b.begins()
	}
	s.firsts = append(s.firsts, first)
	r.enter = r.take
	return r
}

func (r *branchRun) run() error {
	r.s.pool.Run(r.s.n, r.enter)
	r.s.branch = nil
	if r.s.coming = r.s.m.output.Matrix; r.place+1 < len(r.s.firsts) {
		r.s.coming = r.s.firsts[r.place+1]
	}
	if err := r.inner.run(); err != nil {
		return err
	}
	r.s.branch = r.branch
	return nil
}

// take adds what the branch before gave to the stream of token t, and normalises
// and rounds it for this one.
func (r *branchRun) take(t int) {
	s := r.s
	s.settle(t)
	h := row(s.normed, t, s.m.Width)
	kernel.RMSNorm(h, row(s.x, t, s.m.Width), r.norm, s.m.Eps)
	s.in.set(r.wants, t, h)
}

// settle adds to the stream of token t what the last branch left in s.delta.
func (s *Pass) settle(t int) {
	b := s.branch
	if b == nil {
		return
	}
	x, d := row(s.x, t, s.m.Width), row(s.delta, t, s.m.Width)
	if b.post != nil {
		kernel.RMSNorm(d, d, b.post, s.m.Eps)
	}
	if b.scale == 0 {
		kernel.Add(x, d)
	} else {
		kernel.Axpy(x, d, b.scale)
	}
}

// normed is the usual ending: a norm.
type normed struct {
	norm []float32 // [width]
}

func (e *normed) bind(s *Pass) runner {
	r := &normedRun{normed: e, s: s}
	r.one = r.end
	return r
}

type normedRun struct {
	*normed
	s   *Pass
	one func(i int)
}

func (r *normedRun) run() error {
	r.s.pool.Run(len(r.s.outs), r.one)
	return nil
}

func (r *normedRun) end(i int) {
	s := r.s
	t := s.outs[i].token
	s.settle(t)
	kernel.RMSNorm(row(s.normed, t, s.m.Width), row(s.x, t, s.m.Width), r.norm, s.m.Eps)
	s.deliver(i)
}
