// Package grammar keeps a model's answer in a form: a JSON Schema, a tool call.
//
// A form is an Expr over bytes: texts, repetitions, alternatives and rules that
// may contain one another. Compiled it is a graph (program), and a text so far
// is a set of places in it (state): the states of a deterministic automaton
// that is made as it is needed, because rules within one another, and counts,
// have no end of them. Which tokens may come next is found by walking the
// vocabulary, as a tree of bytes, along with the automaton. A token that holds
// only a part of a character is like any other.
//
// Every state knows how many bytes are needed to complete the text. So near the
// limit of tokens only those are let through that leave room to end, and when
// none of them does the shortest end is written: an answer is complete whenever
// the limit allows it at all.
package grammar

import (
	"fmt"
	"sync"

	"assay/internal/engine/sample"
)

// Grammar is a compiled form, for one vocabulary. It may be used by several
// goroutines; what one finds out about it, all know.
type Grammar struct {
	v *Vocabulary
	p program

	mu    sync.Mutex
	m     *machine
	first *state
}

// Compile makes a grammar of an expression.
func Compile(e *Expr, v *Vocabulary) (*Grammar, error) {
	p, err := assemble(e, v.isMark)
	if err != nil {
		return nil, fmt.Errorf("grammar: %w", err)
	}
	g := &Grammar{v: v, p: p}
	g.m = newMachine(&g.p, v.longest)
	g.first = g.m.start()
	return g, nil
}

// Match says whether text is a complete answer.
func (g *Grammar) Match(text string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.first
	for i := range len(text) {
		s = g.m.step(s, text[i])
	}
	return s.accept
}

// maxEnding is the longest end that is worked out. What needs a longer one is
// cut where the tokens end.
const maxEnding = 1 << 13

// ending is a shortest text that completes a state.
func (g *Grammar) ending(s *state) []byte {
	var out []byte
	for s.dist > 0 && s.dist != endless {
		b := g.m.shortest(s)
		out = append(out, b)
		s = g.m.step(s, b)
	}
	return out
}

// mask is a bit for each token that may follow a state, end tokens included.
func (g *Grammar) mask(s *state) []uint64 {
	s = g.m.clamped(s)
	if s.mask != nil {
		return s.mask
	}
	if g.m.masks >= maxMasks {
		g.m.forget()
	}
	g.m.masks++
	mask := make([]uint64, (g.v.tok.Size()+63)/64)
	if s.accept {
		for _, id := range g.v.eog {
			mask[id>>6] |= 1 << (id & 63)
		}
	}
	var path [maxToken + 1]*state
	path[0] = s
	nodes := g.v.nodes
	var one [1]int32
	for at := int32(0); int(at) < len(nodes); {
		n := &nodes[at]
		from := path[n.depth-1]
		to := from.next[g.p.classOf[n.b]]
		if to == nil {
			to = g.m.step(from, n.b)
		}
		if to == g.m.dead {
			at = n.after
			continue
		}
		path[n.depth] = to
		if n.token != -1 {
			for _, id := range g.v.tokens(n, &one) {
				mask[id>>6] |= 1 << (id & 63)
			}
		}
		at++
	}
	s.mask = mask
	return mask
}

// Matcher follows one answer. It is for one goroutine.
type Matcher struct {
	g    *Grammar
	at   *state
	plan []int32 // once the end is near: the tokens that are left
}

var _ sample.Constraint = (*Matcher)(nil)

// Matcher begins an answer.
func (g *Grammar) Matcher() *Matcher { return &Matcher{g: g, at: g.first} }

// Allowed is a bit a token: those that may come next. It must not be written to.
func (m *Matcher) Allowed() []uint64 {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	return m.g.mask(m.at)
}

// Allows says whether a token may come next.
func (m *Matcher) Allows(id int32) bool {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	return m.after(id) != m.g.m.dead
}

// Need is a number of tokens that suffices to complete the answer.
func (m *Matcher) Need() int {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	plan, ok := m.g.tokens(m.at)
	if !ok {
		return endless
	}
	return len(plan)
}

// Fits says whether the answer can be completed by left tokens after this one.
func (m *Matcher) Fits(id int32, left int) bool {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	s := m.after(id)
	if s == m.g.m.dead {
		return false
	}
	switch {
	case left >= endless, m.g.v.bytewise && int(s.dist) <= left: // a token a byte would do
		return true
	case int(s.dist)/m.g.v.longest > left:
		return false
	}
	plan, ok := m.g.tokens(s)
	return ok && len(plan) <= left
}

// Shortest is the next token of the shortest end; all that follow are, too.
func (m *Matcher) Shortest() (int32, bool) {
	if m.plan == nil {
		m.g.mu.Lock()
		defer m.g.mu.Unlock()
		plan, ok := m.g.tokens(m.at)
		if !ok || len(plan) == 0 {
			return 0, false
		}
		m.plan = plan
	}
	return m.plan[0], true
}

// Forced is the next token when the shortest end has been begun.
func (m *Matcher) Forced() (int32, bool) {
	if len(m.plan) == 0 {
		return 0, false
	}
	return m.plan[0], true
}

// Accept goes on by a token, which must be allowed.
func (m *Matcher) Accept(id int32) {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	if len(m.plan) > 0 {
		if m.plan[0] == id {
			m.plan = m.plan[1:]
		} else {
			m.plan = nil
		}
	}
	m.at = m.after(id)
}

// Ended says that the answer is complete and nothing can follow.
func (m *Matcher) Ended() bool {
	return m.at.accept && len(m.at.places) == 0 || m.at == m.g.m.dead
}

// after is the state behind a token; an end token changes nothing where it is
// allowed.
func (m *Matcher) after(id int32) *state {
	s := m.at
	if m.g.v.tok.IsEOG(id) {
		if !s.accept {
			return m.g.m.dead
		}
		return s
	}
	prefix, piece := m.g.v.bytesOf(id)
	if len(piece) == 0 {
		return m.g.m.dead
	}
	for _, b := range prefix {
		s = m.g.m.step(s, b)
	}
	for _, b := range piece {
		s = m.g.m.step(s, b)
	}
	return s
}

// tokens spells the shortest end of a state with as few tokens as can be.
func (g *Grammar) tokens(s *state) (plan []int32, ok bool) {
	if s.dist > maxEnding {
		return nil, false
	}
	text := g.ending(s)
	// best[i]: the fewest tokens for text[i:], and the first of them.
	type step struct{ n, id, length int32 }
	best := make([]step, len(text)+1)
	for i := len(text) - 1; i >= 0; i-- {
		best[i].n = endless
		g.v.starts(text[i:], func(id int32, length int) {
			if n := plus(best[i+length].n, 1); n < best[i].n {
				best[i] = step{n, id, int32(length)}
			}
		})
	}
	if len(text) > 0 && best[0].n == endless {
		return nil, false
	}
	for i := 0; i < len(text); i += int(best[i].length) {
		plan = append(plan, best[i].id)
	}
	return plan, true
}
