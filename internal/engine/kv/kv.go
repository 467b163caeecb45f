// Package kv holds what a sequence keeps of the tokens that it has seen: keys and
// values, in pages of 256 positions, and the state of recurrent layers. Pages and
// states are reference-counted, so that a Snapshot or a Checkpoint costs nothing
// until one side writes on.
package kv

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"assay/internal/engine/kernel"
)

// PageSize is how many positions a page holds. Attention merges its results
// page by page, so it is part of the engine's arithmetic.
const PageSize = kernel.PagePositions

// Shape is what a sequence keeps, layer by layer.
type Shape struct{ Layers []Layer }

// Layer is what one layer keeps. The zero value keeps nothing.
type Layer struct {
	Heads  int             // key-value heads; 0: no keys and values
	Layout kernel.KVLayout // of each
	Floats int             // further numbers of each position
	Memory []MemoryShape   // what its recurrent parts remember of all positions so far
}

func (l Layer) bytes() int { return l.headBytes() + 4*l.Floats*PageSize }

func (l Layer) headBytes() int {
	if l.Heads == 0 {
		return 0
	}
	return l.Heads * l.Layout.Bytes()
}

// PageBytes is the size of one page of all layers.
func (s Shape) PageBytes() int {
	n := 0
	for _, l := range s.Layers {
		n += l.bytes()
	}
	return n
}

// StateBytes is about the size of what all recurrent layers remember. A sequence
// holds it once, once more while it reads a long prompt, and once for each Checkpoint
// and Snapshot.
func (s Shape) StateBytes() int {
	n := 0
	for _, l := range s.Layers {
		for _, m := range l.Memory {
			n += 4 * m.floats()
		}
	}
	return n
}

// Store hands out pages and states and takes them back. It may be used from
// several goroutines.
type Store struct {
	shape    Shape
	pageAt   []int         // of each layer, in bytes of a page
	memories []MemoryShape // of all layers
	memoryAt []int         // the first of each layer
	zero     *state        // what all sequences begin with; nil: no layer is recurrent
	mu       sync.Mutex
	free     []*page
	states   []*state
}

// page is keys and values of 256 positions, layer by layer: [heads], each as
// Layer.Layout has it, then [256, Floats].
type page struct {
	refs atomic.Int32
	data []byte
}

// NewStore makes an empty store.
func NewStore(shape Shape) *Store {
	s := &Store{shape: shape}
	page := 0
	for _, l := range shape.Layers {
		s.pageAt, s.memoryAt = append(s.pageAt, page), append(s.memoryAt, len(s.memories))
		page += l.bytes()
		s.memories = append(s.memories, l.Memory...)
	}
	if len(s.memories) > 0 {
		s.zero = s.newState()
		s.zero.refs.Store(1) // the store's own: it is never written to
	}
	return s
}

func (s *Store) take() *page {
	s.mu.Lock()
	var p *page
	if n := len(s.free); n > 0 {
		p, s.free = s.free[n-1], s.free[:n-1]
	}
	s.mu.Unlock()
	if p == nil {
		p = &page{data: pageMemory(s.shape.PageBytes())}
	}
	p.refs.Store(1)
	return p
}

func (s *Store) drop(p *page) {
	if p.refs.Add(-1) == 0 {
		s.mu.Lock()
		s.free = append(s.free, p)
		s.mu.Unlock()
	}
}

// Free is how many pages are there for sequences to take.
func (s *Store) Free() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.free)
}

// Cache is one sequence. It belongs to one goroutine at a time.
type Cache struct {
	store  *Store
	pages  []*page
	spare  []*page // see Reserve
	n      int
	before int          // positions before Extend; -1: no extension is under way
	state  *state       // knows of n positions, or of before of them; nil: no layer is recurrent
	next   *state       // what a long pass under way writes
	kept   []checkpoint // in order of their lengths
}

// checkpoint is the state after n positions.
type checkpoint struct {
	n     int
	state *state
}

// NewCache makes an empty sequence.
func (s *Store) NewCache() *Cache {
	return &Cache{store: s, before: -1, state: s.hold(s.zero)}
}

// Layout is how the sequence's pages keep keys and values of a layer.
func (c *Cache) Layout(layer int) kernel.KVLayout { return c.store.shape.Layers[layer].Layout }

// Len is how many positions the sequence has.
func (c *Cache) Len() int { return c.n }

// Extend adds n positions, which the caller then writes: keys and values with
// Put, what recurrent layers remember with Memory. Commit or Abort follows. Pages
// that a Snapshot shares are copied first.
func (c *Cache) Extend(n int) {
	c.settled("extending")
	c.before = c.n
	c.extendState(n)
	if used := c.n % PageSize; n > 0 && used != 0 {
		if last := len(c.pages) - 1; c.pages[last].refs.Load() > 1 {
			own := c.take()
			copy(own.data, c.pages[last].data)
			c.store.drop(c.pages[last])
			c.pages[last] = own
		}
	}
	c.n += n
	for len(c.pages)*PageSize < c.n {
		c.pages = append(c.pages, c.take())
	}
}

// take is a page of those in reserve, or of the store's.
func (c *Cache) take() *page {
	if n := len(c.spare); n > 0 {
		p := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return p
	}
	return c.store.take()
}

// Missing is how many pages Reserve(n) would take.
func (c *Cache) Missing(n int) int {
	more := (n+PageSize-1)/PageSize - len(c.pages) - len(c.spare)
	if last := len(c.pages) - 1; last >= 0 && n > c.n && c.n%PageSize != 0 && c.pages[last].refs.Load() > 1 {
		more++ // it will be copied
	}
	return max(0, more)
}

// Reserve takes the pages that n positions will need, and has the system give their
// memory now. Release gives back what was not used.
func (c *Cache) Reserve(n int) {
	for range c.Missing(n) {
		p := c.store.take()
		for i := 0; i < len(p.data); i += 4096 {
			p.data[i] = 0
		}
		c.spare = append(c.spare, p)
	}
}

// Commit ends an extension: its positions belong to the sequence.
func (c *Cache) Commit() {
	if c.next != nil {
		c.store.dropState(c.state)
		c.state, c.next = c.next, nil
	}
	c.before = -1
}

// Abort ends an extension as if it had not begun.
func (c *Cache) Abort() {
	if c.before < 0 {
		return
	}
	c.store.dropState(c.next)
	c.cut(c.before)
	c.next, c.before = nil, -1
}

// settled panics while an extension is under way.
func (c *Cache) settled(what string) {
	if c.before >= 0 {
		panic("kv: " + what + " a sequence that a pass is extending")
	}
}

// cut gives the pages from position n on back.
func (c *Cache) cut(n int) {
	c.n = n
	keep := (n + PageSize - 1) / PageSize
	for _, p := range c.pages[keep:] {
		c.store.drop(p)
	}
	clear(c.pages[keep:])
	c.pages = c.pages[:keep]
}

// Truncate forgets all positions from n on, and the checkpoints behind it. n must
// be one that Reach names.
func (c *Cache) Truncate(n int) {
	c.settled("truncating")
	if n < 0 || n > c.n || c.Reach(n) != n {
		panic(fmt.Sprintf("kv: truncating %d positions to %d", c.n, n))
	}
	c.truncateState(n)
	c.cut(n)
}

// Release forgets the whole sequence; the cache can be used again.
func (c *Cache) Release() {
	c.Truncate(0)
	for _, p := range c.spare {
		c.store.drop(p)
	}
	clear(c.spare)
	c.spare = c.spare[:0]
}

// Page is the keys and values of one head in one page, of which the sequence's
// own positions are filled.
func (c *Cache) Page(layer, head, page int) []byte {
	l := &c.store.shape.Layers[layer]
	size := l.Layout.Bytes()
	return c.pages[page].data[c.store.pageAt[layer]+head*size:][:size:size]
}

// Put keeps the key and the value of one position. scratch has room for a key.
func (c *Cache) Put(layer, head, pos int, key, value []float32, scratch []uint16) {
	c.store.shape.Layers[layer].Layout.Put(c.Page(layer, head, pos/PageSize), pos%PageSize, key, value, scratch)
}

// Floats are the further numbers of one position.
func (c *Cache) Floats(layer, pos int) []float32 {
	l := &c.store.shape.Layers[layer]
	if l.Floats == 0 {
		return nil
	}
	at := c.store.pageAt[layer] + l.headBytes() + 4*l.Floats*(pos%PageSize)
	return unsafe.Slice((*float32)(unsafe.Pointer(&c.pages[pos/PageSize].data[at])), l.Floats)
}

// Snapshot is a sequence as it was, with its checkpoints; it shares its pages and
// states with caches.
type Snapshot struct {
	store *Store
	pages []*page
	n     int
	state *state
	kept  []checkpoint
}

// Len is how many positions the snapshot has.
func (s *Snapshot) Len() int { return s.n }

// Snapshot keeps the sequence as it is now.
func (c *Cache) Snapshot() *Snapshot {
	c.settled("keeping")
	s := &Snapshot{c.store, append([]*page(nil), c.pages...), c.n, c.store.hold(c.state), append([]checkpoint(nil), c.kept...)}
	for _, p := range s.pages {
		p.refs.Add(1)
	}
	for _, k := range s.kept {
		c.store.hold(k.state)
	}
	return s
}

// Restore makes the sequence what the snapshot is. The snapshot stays valid.
func (c *Cache) Restore(s *Snapshot) {
	c.settled("restoring")
	for _, p := range s.pages {
		p.refs.Add(1)
	}
	for _, k := range s.kept {
		c.store.hold(k.state)
	}
	c.Release()
	c.forget(0)
	c.store.dropState(c.state)
	c.pages, c.n, c.state, c.kept = append(c.pages, s.pages...), s.n, c.store.hold(s.state), append(c.kept, s.kept...)
}

// Release gives the snapshot's pages and states back.
func (s *Snapshot) Release() {
	for _, p := range s.pages {
		s.store.drop(p)
	}
	for _, k := range s.kept {
		s.store.dropState(k.state)
	}
	s.store.dropState(s.state)
	s.pages, s.kept, s.state, s.n = nil, nil, nil, 0
}
