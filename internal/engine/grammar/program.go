package grammar

import (
	"errors"
	"math"
)

// A program is an expression as a graph. Each node leads to the next; a rule's
// graph and a loop's body end in a pop, which goes on where the frame on top of
// the stack says. So a place in a text is a node and a stack of frames.
type program struct {
	nodes   []node
	sets    []byteSet
	start   int32
	classOf [256]uint8 // bytes that no node tells apart have one class
	classes int
	sample  []byte // a byte of each class, a readable one where there is one
}

type node struct {
	op   op
	set  int32   // of opSet
	next int32   // of opSet, opCall and opLoop
	body int32   // the first node of a rule or loop
	alts []int32 // of opSplit
	min  int32   // of opLoop
	max  int32
	dist int32 // bytes to the nearest pop, at least; endless when there is no way
}

type op uint8

const (
	opSet op = iota
	opSplit
	opCall
	opLoop
	opPop
)

// endless is the length of what can't be completed.
const endless = math.MaxInt32

// maxNodes bounds a program, to 32 MiB or so.
const maxNodes = 1 << 18

var errTooLarge = errors.New("the grammar is too large; use fewer alternatives, shorter patterns or smaller bounds")

type assembler struct {
	p      program
	isMark func(name string) bool
	bySet  map[byteSet]int32
	rules  map[*Rule]int32 // their first nodes; of those in work a split that is filled in later
	known  map[use]int32   // what was emitted already: alternatives often end alike
	err    error
}

// use is an expression and where its graph goes on.
type use struct {
	e    *Expr
	next int32
}

func assemble(e *Expr, isMark func(string) bool) (program, error) {
	a := assembler{isMark: isMark, bySet: map[byteSet]int32{}, rules: map[*Rule]int32{}, known: map[use]int32{}}
	a.p.start = a.emit(e, a.add(node{op: opPop}))
	if a.err != nil {
		return program{}, a.err
	}
	a.p.measure()
	a.p.classify()
	if a.p.nodes[a.p.start].dist == endless {
		return program{}, errNothing
	}
	return a.p, a.p.checkLeft()
}

var errNothing = errors.New("no finite value can satisfy it")

func (a *assembler) add(n node) int32 {
	if len(a.p.nodes) >= maxNodes {
		a.err = errTooLarge
		return 0
	}
	n.dist = endless
	a.p.nodes = append(a.p.nodes, n)
	return int32(len(a.p.nodes) - 1)
}

func (a *assembler) setNode(s byteSet, next int32) int32 {
	i, ok := a.bySet[s]
	if !ok {
		i = int32(len(a.p.sets))
		a.p.sets = append(a.p.sets, s)
		a.bySet[s] = i
	}
	return a.add(node{op: opSet, set: i, next: next})
}

// emit adds e's graph, which goes on at next, and returns its first node.
func (a *assembler) emit(e *Expr, next int32) int32 {
	if a.err != nil {
		return 0
	}
	at, ok := a.known[use{e, next}]
	if !ok {
		at = a.emitNew(e, next)
		a.known[use{e, next}] = at
	}
	return at
}

func (a *assembler) emitNew(e *Expr, next int32) int32 {
	switch e.kind {
	case kindSet:
		return a.setNode(e.set, next)
	case kindText:
		return a.text(e.text, next)
	case kindMark:
		return a.text(a.spelled(e.text), next)
	case kindSeq:
		for i := len(e.list) - 1; i >= 0; i-- {
			next = a.emit(e.list[i], next)
		}
		return next
	case kindAlt:
		alts := make([]int32, len(e.list))
		for i, o := range e.list {
			alts[i] = a.emit(o, next)
		}
		return a.add(node{op: opSplit, alts: alts})
	case kindRule:
		return a.add(node{op: opCall, body: a.rule(e.rule), next: next})
	case kindUntil:
		return a.until(a.spelled(e.text), next)
	case kindWithout:
		return a.without(e.text, next)
	}
	return a.repeat(e, next)
}

func (a *assembler) rule(r *Rule) int32 {
	at, ok := a.rules[r]
	if !ok {
		at = a.add(node{op: opSplit})
		a.rules[r] = at
		body := a.emit(r.Body, a.add(node{op: opPop}))
		a.p.nodes[at].alts = []int32{body}
	}
	return at
}

func (a *assembler) repeat(e *Expr, next int32) int32 {
	switch {
	case e.max == 0:
		return next
	case e.min > e.max:
		return a.add(node{op: opSplit}) // no way on
	case e.max == 1 && e.min == 1:
		return a.emit(e.list[0], next)
	case e.max == 1:
		return a.add(node{op: opSplit, alts: []int32{a.emit(e.list[0], next), next}})
	case e.max == unbounded && e.min == 0:
		at := a.add(node{op: opSplit})
		body := a.emit(e.list[0], at)
		a.p.nodes[at].alts = []int32{body, next}
		return at
	}
	body := a.emit(e.list[0], a.add(node{op: opPop}))
	return a.add(node{op: opLoop, body: body, next: next, min: int32(e.min), max: int32(e.max)})
}

func (a *assembler) text(s string, next int32) int32 {
	for i := len(s) - 1; i >= 0; i-- {
		var one byteSet
		one.add(s[i])
		next = a.setNode(one, next)
	}
	return next
}

func (a *assembler) spelled(name string) string {
	if a.isMark != nil && a.isMark(name) {
		return string([]byte{markByte}) + name
	}
	return name
}

// anyText is every byte but the mark.
var anyText = span(0, markByte-1).set

// until adds the automaton of Knuth, Morris and Pratt: a node for each length
// of end that has been seen.
func (a *assembler) until(end string, next int32) int32 {
	if end[0] == markByte {
		at := a.add(node{op: opSplit})
		a.p.nodes[at].alts = []int32{a.setNode(anyText, at), a.text(end, next)}
		return at
	}
	at := a.search(end)
	// The last byte of end leads out.
	last := at[len(at)-1]
	var one byteSet
	one.add(end[len(end)-1])
	out := a.setNode(one, next)
	a.p.nodes[last].alts = append(a.p.nodes[last].alts, out)
	return at[0]
}

func (a *assembler) without(text string, next int32) int32 {
	at := a.search(text)
	for _, n := range at {
		a.p.nodes[n].alts = append(a.p.nodes[n].alts, next)
	}
	return at[0]
}

// search adds a split for each length of text that has just been read, less
// than the whole, with a way on for each byte that does not complete it.
func (a *assembler) search(text string) []int32 {
	at := make([]int32, len(text))
	for i := range at {
		at[i] = a.add(node{op: opSplit})
	}
	for i := range at {
		to := make([]byteSet, len(text)) // by the length that follows
		for b := range markByte {
			n := overlap(text, i, byte(b))
			if n < len(text) {
				to[n].add(byte(b))
			}
		}
		for n, set := range to {
			if set != (byteSet{}) {
				n := a.setNode(set, at[n])
				a.p.nodes[at[i]].alts = append(a.p.nodes[at[i]].alts, n)
			}
		}
	}
	return at
}

// overlap is the length of the longest start of text that text[:seen]+b ends with.
func overlap(text string, seen int, b byte) int {
	read := text[:seen] + string([]byte{b})
	for n := len(read); n > 0; n-- {
		if n <= len(text) && read[len(read)-n:] == text[:n] {
			return n
		}
	}
	return 0
}

// measure sets every node's dist: it lowers them until nothing changes.
func (p *program) measure() {
	for changed := true; changed; {
		changed = false
		for i := range p.nodes {
			n := &p.nodes[i]
			d := int32(endless)
			switch n.op {
			case opPop:
				d = 0
			case opSet:
				d = plus(1, p.nodes[n.next].dist)
			case opSplit:
				for _, a := range n.alts {
					d = min(d, p.nodes[a].dist)
				}
			case opCall:
				d = plus(p.nodes[n.body].dist, p.nodes[n.next].dist)
			case opLoop:
				d = plus(times(n.min, p.nodes[n.body].dist), p.nodes[n.next].dist)
			}
			if d < n.dist {
				n.dist = d
				changed = true
			}
		}
	}
}

func plus(a, b int32) int32 { return int32(min(int64(a)+int64(b), endless)) }

func times(n, a int32) int32 { return int32(min(int64(n)*int64(a), endless)) }

// classify finds the bytes that every set treats alike.
func (p *program) classify() {
	for _, s := range p.sets {
		// Each class splits into those in the set and those outside it.
		var split [256]int16
		for i := range split {
			split[i] = -1
		}
		seenOut := [256]bool{}
		classes := p.classes
		for b := range 256 {
			c := p.classOf[b]
			if !s.has(byte(b)) {
				seenOut[c] = true
			}
		}
		for b := range 256 {
			c := p.classOf[b]
			if !s.has(byte(b)) || !seenOut[c] {
				continue
			}
			if split[c] < 0 {
				classes++
				split[c] = int16(classes)
			}
			p.classOf[b] = uint8(split[c])
		}
		p.classes = classes
	}
	p.classes++ // from the highest to how many
	p.sample = make([]byte, p.classes)
	for b := 255; b >= 0; b-- {
		p.sample[p.classOf[b]] = byte(b)
	}
	for _, b := range []byte("zyxwvutsrqponmlkjihgfedcba9876543210 ") {
		p.sample[p.classOf[b]] = b
	}
}

// checkLeft finds a rule that begins with itself, which would never read a
// byte. No rule matches the empty text, so what follows a call does not matter.
func (p *program) checkLeft() error {
	const inWork, done = 1, 2
	state := map[int32]int{} // by the rule's first node
	var visit func(rule int32) error
	visit = func(rule int32) error {
		switch state[rule] {
		case inWork:
			return errLeft
		case done:
			return nil
		}
		state[rule] = inWork
		for _, called := range p.firstCalls(rule) {
			if err := visit(called); err != nil {
				return err
			}
		}
		state[rule] = done
		return nil
	}
	for i := range p.nodes {
		if p.nodes[i].op == opCall {
			if err := visit(p.nodes[i].body); err != nil {
				return err
			}
		}
	}
	return nil
}

var errLeft = errors.New("a part of it refers to itself with nothing in between")

// firstCalls are the rules that a graph may call before it reads a byte.
func (p *program) firstCalls(from int32) (rules []int32) {
	seen := map[int32]bool{}
	todo := []int32{from}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[at] {
			continue
		}
		seen[at] = true
		switch n := &p.nodes[at]; n.op {
		case opSplit:
			todo = append(todo, n.alts...)
		case opLoop:
			todo = append(todo, n.body, n.next)
		case opCall:
			rules = append(rules, n.body)
		}
	}
	return rules
}
