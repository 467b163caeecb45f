package model

import (
	"math"

	"assay/internal/engine/kernel"
	"assay/internal/engine/quant"
)

// moe is the scratch of the expert layers. A slot is one of a token's chosen
// experts: slot t*used + rank, the best expert first.
type moe struct {
	probs  []float32        // [n, experts]: the router's softmax
	chosen []int32          // [slots]: expert numbers
	weight []float32        // [slots]
	tokens [][]kernel.Route // by expert: token to slot
	slots  [][]kernel.Route // by expert: slot to slot
	busy   []int32          // experts that have tokens
	gate   []float32        // [slots, expertWidth]; then the product of both
	up     []float32        // [slots, expertWidth]
	hidden acts             // [slots, expertWidth]: input of down
	out    []float32        // [slots, width]
}

func newMoE(m *Model, n int) moe {
	slots := n * m.Used
	var down roundings
	for i := range m.layers {
		down |= m.layers[i].downRoundings
	}
	e := moe{
		probs:  make([]float32, n*m.Experts),
		chosen: make([]int32, slots),
		weight: make([]float32, slots),
		tokens: make([][]kernel.Route, m.Experts),
		slots:  make([][]kernel.Route, m.Experts),
		busy:   make([]int32, 0, m.Experts),
		gate:   make([]float32, slots*m.ExpertWidth),
		up:     make([]float32, slots*m.ExpertWidth),
		hidden: newActs(down, slots, m.ExpertWidth),
		out:    make([]float32, slots*m.Width),
	}
	for i := range e.tokens {
		e.tokens[i] = make([]kernel.Route, 0, n)
		e.slots[i] = make([]kernel.Route, 0, n)
	}
	return e
}

// leastSum is the smallest sum that chosen probabilities are divided by: the
// smallest normal half float, as llama.cpp has it.
const leastSum = 6.103515625e-5

// routerTokens is how many tokens one job of router takes.
const routerTokens = 48

func (s *Pass) routerJobs() int {
	return (s.n + routerTokens - 1) / routerTokens * chunks(s.l.router)
}

// router computes some rows of the router for some tokens.
func (s *Pass) router(job int) {
	c, from := job%chunks(s.l.router), job/chunks(s.l.router)*routerTokens
	rows(s.l.router, c, s.moe.probs, &s.in, s.all[from:min(from+routerTokens, s.n)])
}

// choose finds the experts of token t: softmax over all, the best of them (the
// lower number among equals), their probabilities scaled to sum to one.
func (s *Pass) choose(t int) {
	m := s.m
	p := row(s.moe.probs, t, m.Experts)
	best := p[0]
	for _, v := range p[1:] {
		best = max(best, v)
	}
	sum := float32(0)
	for i, v := range p {
		p[i] = quant.Exp(v - best)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	chosen, weight := s.moe.chosen[t*m.Used:][:m.Used], row(s.moe.weight, t, m.Used)
	sum = 0
	for rank := range chosen {
		e := 0
		for i, v := range p {
			if v > p[e] {
				e = i
			}
		}
		chosen[rank], weight[rank] = int32(e), p[e]
		sum += p[e]
		p[e] = float32(math.Inf(-1)) // taken
	}
	sum = max(sum, leastSum)
	for rank := range weight {
		weight[rank] /= sum
	}
}

// group lists, for every expert, the tokens of the pass that chose it.
func (e *moe) group(n, used int) {
	for _, i := range e.busy {
		e.tokens[i], e.slots[i] = e.tokens[i][:0], e.slots[i][:0]
	}
	e.busy = e.busy[:0]
	for slot, i := range e.chosen[:n*used] {
		if len(e.tokens[i]) == 0 {
			e.busy = append(e.busy, i)
		}
		e.tokens[i] = append(e.tokens[i], kernel.Route{In: int32(slot / used), Out: int32(slot)})
		e.slots[i] = append(e.slots[i], kernel.Route{In: int32(slot), Out: int32(slot)})
	}
}

// gateUp computes a chunk of the rows of one expert's gate or up.
func (s *Pass) gateUp(c int) {
	gates, ups := chunks(s.l.gate[0]), chunks(s.l.up[0])
	e := s.moe.busy[c/(gates+ups)]
	if c %= gates + ups; c < gates {
		rows(s.l.gate[e], c, s.moe.gate, &s.in, s.moe.tokens[e])
	} else {
		rows(s.l.up[e], c-gates, s.moe.up, &s.in, s.moe.tokens[e])
	}
}

// act makes silu(gate)*up of one slot, and rounds it for down.
func (s *Pass) act(slot int) {
	gate, up := row(s.moe.gate, slot, s.m.ExpertWidth), row(s.moe.up, slot, s.m.ExpertWidth)
	kernel.SiLUMul(gate, up)
	s.moe.hidden.set(s.l.downRoundings, slot, gate)
}

// down computes a chunk of the rows of one expert's down.
func (s *Pass) down(c int) {
	n := chunks(s.l.down[0])
	e := s.moe.busy[c/n]
	rows(s.l.down[e], c%n, s.moe.out, &s.moe.hidden, s.moe.slots[e])
}

// finish adds the experts of token t to its stream, in the order of their rank.
func (s *Pass) finish(t int) {
	x, h := row(s.x, t, s.m.Width), row(s.normed, t, s.m.Width)
	clear(h)
	for rank := range s.m.Used {
		slot := t*s.m.Used + rank
		kernel.Axpy(h, row(s.moe.out, slot, s.m.Width), s.moe.weight[slot])
	}
	kernel.Add(x, h)
}
