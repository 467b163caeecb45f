package kv

import (
	"slices"
	"sync/atomic"
)

// WindowTokens is how many tokens a pass may have for all of them to be forgotten
// again without a checkpoint: one that is sure, and the most guesses
// (spec.MaxDrafts).
const WindowTokens = 17

// MemoryShape is what a part of a recurrent layer remembers of the positions so
// far. It may want both kinds.
type MemoryShape struct {
	Width, Reach          int // a history: floats of each of the last Reach positions
	KeyHeads, Heads, Size int // a DeltaNet: Heads states [Size, Size], of KeyHeads heads of keys
}

// floats is about how many numbers a memory of that shape holds.
func (s MemoryShape) floats() int {
	return s.rows()*s.Width + s.Heads*s.Size*s.Size + 2*s.Heads*s.Size
}

// rows is how many positions a history really holds: so many more that a window's
// tokens can be forgotten.
func (s MemoryShape) rows() int {
	if s.Width == 0 {
		return 0
	}
	return s.Reach + WindowTokens
}

// memory is what a part of a layer remembers.
//
// The states of a DeltaNet can't be cut short as keys and values can, so they stay
// behind: a pass of at most WindowTokens tokens leaves them as they were, and keeps
// what it would have corrected them by. The next pass, which has to read every state
// anyway, first brings it up to date as far as the tokens turned out to be right. So
// a window of drafts costs no copy of the states, and no token is computed twice.
// Only a longer pass corrects states at once, in memory of their own.
type memory struct {
	MemoryShape
	history []float32      // [rows, Width]: position p in row p modulo their number
	end     int            // the position behind the last one that was ever written there
	states  []float32      // [Heads], each as kernel.Delta has it
	at      int            // the position of states: they know of those before it
	kept    [2]Corrections // of positions from at on, in one of the two
	newest  int            // which one that is
}

// Corrections are what the tokens of a pass correct states by, for
// kernel.DeltaRepeat.
type Corrections struct {
	K     []float32 // [n, KeyHeads*Size]
	Wrong []float32 // [n, Heads*Size]
	Decay []float32 // [n, Heads]
}

// room is where n tokens' corrections go.
func (m *memory) room(n int) *Corrections {
	c := &m.kept[1-m.newest]
	if len(c.Decay) < n*m.Heads {
		*c = Corrections{make([]float32, n*m.KeyHeads*m.Size), make([]float32, n*m.Heads*m.Size), make([]float32, n*m.Heads)}
	}
	return c
}

// least is the least position that what was remembered can be cut to.
func (m *memory) least() int {
	if lost := m.end - m.rows(); m.Width > 0 && lost > 0 {
		return max(m.at, lost+m.Reach)
	}
	return m.at
}

// copyFrom makes m what o is after n positions.
func (m *memory) copyFrom(o *memory, n int) {
	copy(m.history, o.history)
	copy(m.states, o.states)
	m.end, m.at = o.end, o.at
	if n -= o.at; n > 0 && m.Heads > 0 {
		to, from := m.room(n), &o.kept[o.newest]
		copy(to.K, from.K[:n*m.KeyHeads*m.Size])
		copy(to.Wrong, from.Wrong[:n*m.Heads*m.Size])
		copy(to.Decay, from.Decay[:n*m.Heads])
		m.newest ^= 1
	}
}

// row is where the history holds a position.
func (m *memory) row(pos int) []float32 {
	return m.history[pos%m.rows()*m.Width:][:m.Width:m.Width]
}

// state is what all recurrent layers remember. Sequences, checkpoints and snapshots
// share it; whoever has it alone may write to it.
type state struct {
	refs  atomic.Int32
	parts []memory
}

func (s *Store) newState() *state {
	t := &state{parts: make([]memory, len(s.memories))}
	for i, shape := range s.memories {
		m := &t.parts[i]
		m.MemoryShape = shape
		m.history = make([]float32, shape.rows()*shape.Width)
		m.states = make([]float32, shape.Heads*shape.Size*shape.Size)
	}
	return t
}

// least is the least number of positions, besides 0, that t can be cut to.
func (t *state) least() int {
	least := 0
	for i := range t.parts {
		least = max(least, t.parts[i].least())
	}
	return least
}

func (s *Store) takeState() *state {
	s.mu.Lock()
	var t *state
	if n := len(s.states); n > 0 {
		t, s.states = s.states[n-1], s.states[:n-1]
	}
	s.mu.Unlock()
	if t == nil {
		t = s.newState()
	}
	t.refs.Store(1)
	return t
}

func (s *Store) dropState(t *state) {
	if t != nil && t.refs.Add(-1) == 0 {
		s.mu.Lock()
		s.states = append(s.states, t)
		s.mu.Unlock()
	}
}

// hold counts one more user of t.
func (s *Store) hold(t *state) *state {
	if t != nil {
		t.refs.Add(1)
	}
	return t
}

// extendState makes ready to write to the state: a short pass writes to the one that
// is there, if nobody shares it; a long one to another.
func (c *Cache) extendState(n int) {
	switch {
	case c.state == nil:
	case n > WindowTokens:
		c.next = c.store.takeState()
	case c.state.refs.Load() > 1:
		own := c.store.takeState()
		for i := range own.parts {
			own.parts[i].copyFrom(&c.state.parts[i], c.n)
		}
		c.store.dropState(c.state)
		c.state = own
	}
}

// Memory is what a part of a recurrent layer remembers, while a pass extends the
// sequence.
type Memory struct {
	old, now *memory
	start, n int // of the extension
}

// Memory is that of part i of a layer, as Layer.Memory lists them.
func (c *Cache) Memory(layer, i int) Memory {
	i += c.store.memoryAt[layer]
	m := Memory{&c.state.parts[i], &c.state.parts[i], c.before, c.n - c.before}
	if c.next != nil {
		m.now = &c.next.parts[i]
	}
	return m
}

// Row is what the history holds of a position before the pass, one of the last
// Reach; nil: it lies before the start of the sequence.
func (m Memory) Row(pos int) []float32 {
	if pos < 0 {
		return nil
	}
	return m.old.row(pos)
}

// Write puts the rows of the pass's tokens, Width floats every stride ones, into the
// history. Nobody may need Row any more.
func (m Memory) Write(rows []float32, stride int) {
	if m.now != m.old && m.n < m.now.rows() {
		copy(m.now.history, m.old.history)
	}
	for i := max(0, m.n-m.now.rows()); i < m.n; i++ {
		copy(m.now.row(m.start+i), rows[i*stride:][:m.now.Width])
	}
	m.now.end = max(m.old.end, m.start+m.n)
}

// Keep is where the pass has to keep its corrections; nil: it has too many tokens,
// and corrects states at once. It may allocate, so it comes before State.
func (m Memory) Keep() *Corrections {
	if m.now != m.old {
		return nil
	}
	return m.now.room(m.n)
}

// State is the state of head h, to be read and brought up to date: it lacks the
// first n of the corrections.
func (m Memory) State(h int) (state []float32, lacks *Corrections, n int) {
	size := m.now.Size * m.now.Size
	state = m.now.states[h*size:][:size:size]
	if m.now != m.old {
		copy(state, m.old.states[h*size:])
	}
	return state, &m.old.kept[m.old.newest], m.start - m.old.at
}

// Corrected says that the states of all heads know of all positions before the pass,
// and what Keep said is done.
func (m Memory) Corrected() {
	if m.now.at = m.start; m.now != m.old {
		m.now.at += m.n
	} else {
		m.now.newest ^= 1
	}
}

// Recurrent says whether the sequence remembers what can't be cut short anywhere.
func (c *Cache) Recurrent() bool { return c.store.zero != nil }

// Checkpoint keeps what recurrent layers remember now, so that Truncate can come
// back to this length and a few positions before it, wherever a prompt may be
// continued another way. It copies nothing now, but the next short pass copies the
// state, and each checkpoint holds memory (see Shape.StateBytes). Windows of drafts
// need none. Without recurrent layers it does nothing.
func (c *Cache) Checkpoint() {
	c.settled("keeping the state of")
	if last := len(c.kept) - 1; c.store.zero == nil || c.n == 0 || last >= 0 && c.kept[last].n == c.n {
		return
	}
	c.kept = append(c.kept, checkpoint{c.n, c.store.hold(c.state)})
}

// Keep forgets all checkpoints but the latest n.
func (c *Cache) Keep(n int) {
	old := max(0, len(c.kept)-n)
	for _, k := range c.kept[:old] {
		c.store.dropState(k.state)
	}
	rest := copy(c.kept, c.kept[old:])
	clear(c.kept[rest:])
	c.kept = c.kept[:rest]
}

// Reach is the greatest length up to n that Truncate can be asked for: n itself
// where no layer is recurrent, in the last WindowTokens of a short pass, and where a
// checkpoint still knows of it; else that of a checkpoint before, or 0. Whoever needs
// n positions truncates there and computes the others again.
func (c *Cache) Reach(n int) int {
	n = min(n, c.n)
	if c.store.zero == nil || n == 0 || n >= c.state.least() {
		return n
	}
	for _, k := range slices.Backward(c.kept) {
		if to := min(n, k.n); to >= k.state.least() {
			return to
		}
	}
	return 0
}

// truncateState makes the state one that knows of n positions, which Reach named.
func (c *Cache) truncateState(n int) {
	if c.store.zero == nil || n == c.n && n > 0 {
		return
	}
	to := c.state
	if n == 0 {
		to = c.store.zero
	} else if n < to.least() {
		for _, k := range slices.Backward(c.kept) {
			if k.n >= n && n >= k.state.least() {
				to = k.state
				break
			}
		}
	}
	c.store.hold(to)
	c.store.dropState(c.state)
	c.state = to
	for i, k := range c.kept {
		if k.n > n {
			c.forget(i)
			break
		}
	}
}

// forget drops the checkpoints from number i on.
func (c *Cache) forget(i int) {
	for _, k := range c.kept[i:] {
		c.store.dropState(k.state)
	}
	clear(c.kept[i:])
	c.kept = c.kept[:i]
}
