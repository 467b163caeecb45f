package grammar

import (
	"encoding/binary"
	"slices"
)

// frame is where to go on when a rule's graph or a loop's body has ended. Equal
// stacks are one *frame, so that places compare by pointer.
type frame struct {
	id     uint32
	node   int32 // an opCall or opLoop
	need   int32 // of a loop: rounds still to do, the one in work included
	left   int32 // and that may be done; unbounded when there is no limit
	parent *frame
	dist   int32 // bytes from the pop to the end of the whole, at least
}

type frameKey struct {
	node, need, left int32
	parent           *frame
}

// place is a node that reads a byte, and its stack.
type place struct {
	node  int32
	stack *frame
}

// state is every place that a text may have led to. States are made as they are
// reached and are the states of a deterministic automaton.
type state struct {
	places []place
	accept bool // the text is complete
	dist   int32
	next   []*state // by class of bytes; nil where nobody has asked
	mask   []uint64 // tokens that may follow, of a state that is its own twin
	twin   *state   // with long counts cut, so that many states share one mask
}

// machine makes states. It is used by one goroutine at a time.
type machine struct {
	p      *program
	longer int32 // more bytes than any token has
	frames map[frameKey]*frame
	states map[string]*state
	dead   *state
	ids    uint32
	key    []byte
	masks  int
}

// Above these, what was made is forgotten and made again as needed: states in
// use keep working, those that nobody holds are freed.
const (
	maxStates = 50_000
	maxFrames = 400_000
	maxMasks  = 2_000
)

func newMachine(p *program, longestToken int) *machine {
	m := &machine{p: p, longer: int32(longestToken) + 1, dead: &state{dist: endless}}
	m.forget()
	return m
}

func (m *machine) forget() {
	m.frames, m.states, m.masks = map[frameKey]*frame{}, map[string]*state{}, 0
}

func (m *machine) start() *state {
	c := closure{m: m}
	c.reach(m.p.start, nil)
	return c.state()
}

func (m *machine) push(node, need, left int32, parent *frame) *frame {
	k := frameKey{node, need, left, parent}
	if f, ok := m.frames[k]; ok {
		return f
	}
	n := &m.p.nodes[node]
	dist := n.dist
	switch n.op {
	case opCall:
		dist = m.p.nodes[n.next].dist
	case opLoop:
		dist = plus(times(max(need-1, 0), m.p.nodes[n.body].dist), m.p.nodes[n.next].dist)
	}
	if parent != nil {
		dist = plus(dist, parent.dist)
	}
	m.ids++
	f := &frame{id: m.ids, node: node, need: need, left: left, parent: parent, dist: dist}
	m.frames[k] = f
	return f
}

// step is the state after one more byte; dead when there is none.
func (m *machine) step(s *state, b byte) *state {
	if s == m.dead {
		return s
	}
	class := m.p.classOf[b]
	if n := s.next[class]; n != nil {
		return n
	}
	c := closure{m: m}
	for _, pl := range s.places {
		n := &m.p.nodes[pl.node]
		if m.p.sets[n.set].has(b) {
			c.reach(n.next, pl.stack)
		}
	}
	n := c.state()
	s.next[class] = n
	return n
}

// shortest is a class of bytes that leads from s towards the nearest end.
func (m *machine) shortest(s *state) byte {
	best, at := int32(endless), byte(0)
	for _, pl := range s.places {
		n := &m.p.nodes[pl.node]
		if d := m.distance(pl); d < best {
			for class, b := range m.p.sample {
				if m.p.sets[n.set].has(b) {
					best, at = d, m.p.sample[class]
					break
				}
			}
		}
	}
	return at
}

func (m *machine) distance(pl place) int32 {
	d := m.p.nodes[pl.node].dist
	if pl.stack != nil {
		d = plus(d, pl.stack.dist)
	}
	return d
}

// clamped is s with every count of a loop that no single token can use up made
// the same. What one token may be next does not depend on the rest.
func (m *machine) clamped(s *state) *state {
	if s.twin != nil {
		return s.twin
	}
	c := closure{m: m, accept: s.accept}
	same := true
	for _, pl := range s.places {
		f := m.clampStack(pl.stack)
		same = same && f == pl.stack
		c.add(place{pl.node, f})
	}
	if same {
		s.twin = s
	} else {
		s.twin = c.state()
		s.twin.twin = s.twin
	}
	return s.twin
}

func (m *machine) clampStack(f *frame) *frame {
	if f == nil {
		return nil
	}
	parent := m.clampStack(f.parent)
	need, left := min(f.need, m.longer), f.left
	if left > m.longer {
		// The limit must not be mistaken for the last rounds, nor reached while
		// rounds are still to do.
		left = unbounded
	}
	if parent == f.parent && need == f.need && left == f.left {
		return f
	}
	return m.push(f.node, need, left, parent)
}

// closure gathers the places that are reached without reading a byte.
type closure struct {
	m      *machine
	places []place
	accept bool
	seen   map[place]bool
}

func (c *closure) add(pl place) {
	if c.m.distance(pl) != endless {
		c.places = append(c.places, pl)
	}
}

// reach follows the graph from a node. Its recursion is as deep as the graph is
// without reading a byte.
func (c *closure) reach(at int32, stack *frame) {
	n := &c.m.p.nodes[at]
	if n.op == opSet {
		c.add(place{at, stack})
		return
	}
	if n.op == opSplit || n.op == opLoop || n.op == opPop {
		if c.seen == nil {
			c.seen = map[place]bool{}
		}
		if c.seen[place{at, stack}] {
			return
		}
		c.seen[place{at, stack}] = true
	}
	switch n.op {
	case opSplit:
		for _, a := range n.alts {
			if c.m.p.nodes[a].dist != endless {
				c.reach(a, stack)
			}
		}
	case opCall:
		c.reach(n.body, c.m.push(at, 0, 0, stack))
	case opLoop:
		if n.min == 0 {
			c.reach(n.next, stack)
		}
		c.reach(n.body, c.m.push(at, n.min, n.max, stack))
	case opPop:
		c.pop(stack)
	}
}

func (c *closure) pop(f *frame) {
	if f == nil {
		c.accept = true
		return
	}
	n := &c.m.p.nodes[f.node]
	if n.op == opCall {
		c.reach(n.next, f.parent)
		return
	}
	need, left := max(f.need-1, 0), f.left
	if left != unbounded {
		left--
	}
	if need == 0 {
		c.reach(n.next, f.parent)
	}
	if left > 0 {
		c.reach(n.body, c.m.push(f.node, need, left, f.parent))
	}
}

// state is the one state of these places.
func (c *closure) state() *state {
	m := c.m
	if len(c.places) == 0 && !c.accept {
		return m.dead
	}
	slices.SortFunc(c.places, func(a, b place) int {
		if a.node != b.node {
			return int(a.node) - int(b.node)
		}
		return int(int64(a.stack.number()) - int64(b.stack.number()))
	})
	c.places = slices.Compact(c.places)
	m.key = m.key[:0]
	if c.accept {
		m.key = append(m.key, 1)
	}
	for _, pl := range c.places {
		m.key = binary.LittleEndian.AppendUint32(m.key, uint32(pl.node))
		m.key = binary.LittleEndian.AppendUint32(m.key, pl.stack.number())
	}
	if s, ok := m.states[string(m.key)]; ok {
		return s
	}
	if len(m.states) >= maxStates || len(m.frames) >= maxFrames {
		m.forget()
	}
	s := &state{places: c.places, accept: c.accept, next: make([]*state, m.p.classes), dist: endless}
	for _, pl := range c.places {
		s.dist = min(s.dist, m.distance(pl))
	}
	if c.accept {
		s.dist = 0
	}
	m.states[string(m.key)] = s
	return s
}

func (f *frame) number() uint32 {
	if f == nil {
		return 0
	}
	return f.id
}
