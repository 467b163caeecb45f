// Package kv holds the keys and values of the tokens that a sequence has seen,
// in pages of 256 positions. Pages are reference-counted, so that a Snapshot
// costs nothing until one side writes on.
package kv

import (
	"fmt"
	"sync"
	"sync/atomic"

	"assay/internal/engine/kernel"
)

// PageSize is how many positions a page holds. Attention merges its results
// page by page, so it is part of the engine's arithmetic.
const PageSize = kernel.PagePositions

// Shape is what one position needs.
type Shape struct {
	Layers int
	Heads  int // key-value heads
	Layout kernel.KVLayout
}

// PageBytes is the size of one page.
func (s Shape) PageBytes() int { return s.Layers * s.Heads * s.Layout.Bytes() }

// Store hands out pages and takes them back. It may be used from several
// goroutines.
type Store struct {
	shape Shape
	mu    sync.Mutex
	free  []*page
}

// page is keys and values of 256 positions: [layers, heads], each as Shape.Layout
// has it.
type page struct {
	refs atomic.Int32
	data []byte
}

// NewStore makes an empty store.
func NewStore(shape Shape) *Store { return &Store{shape: shape} }

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

// Cache is one sequence. It belongs to one goroutine at a time.
type Cache struct {
	store *Store
	pages []*page
	n     int
}

// NewCache makes an empty sequence.
func (s *Store) NewCache() *Cache { return &Cache{store: s} }

// Layout is how the sequence's pages keep keys and values.
func (c *Cache) Layout() kernel.KVLayout { return c.store.shape.Layout }

// Len is how many positions the sequence has.
func (c *Cache) Len() int { return c.n }

// Extend adds n positions, whose keys and values the caller then writes. Pages
// that a Snapshot shares are copied first.
func (c *Cache) Extend(n int) {
	if used := c.n % PageSize; n > 0 && used != 0 {
		if last := len(c.pages) - 1; c.pages[last].refs.Load() > 1 {
			own := c.store.take()
			copy(own.data, c.pages[last].data)
			c.store.drop(c.pages[last])
			c.pages[last] = own
		}
	}
	c.n += n
	for len(c.pages)*PageSize < c.n {
		c.pages = append(c.pages, c.store.take())
	}
}

// Truncate forgets all positions from n on.
func (c *Cache) Truncate(n int) {
	if n > c.n {
		panic(fmt.Sprintf("kv: truncating %d positions to %d", c.n, n))
	}
	c.n = n
	keep := (n + PageSize - 1) / PageSize
	for _, p := range c.pages[keep:] {
		c.store.drop(p)
	}
	clear(c.pages[keep:])
	c.pages = c.pages[:keep]
}

// Release forgets the whole sequence; the cache can be used again.
func (c *Cache) Release() { c.Truncate(0) }

// Page is the keys and values of one head in one page, of which the sequence's
// own positions are filled.
func (c *Cache) Page(layer, head, page int) []byte {
	s := &c.store.shape
	size := s.Layout.Bytes()
	return c.pages[page].data[(layer*s.Heads+head)*size:][:size:size]
}

// Put keeps the key and the value of one position. scratch has room for a key.
func (c *Cache) Put(layer, head, pos int, key, value []float32, scratch []uint16) {
	c.store.shape.Layout.Put(c.Page(layer, head, pos/PageSize), pos%PageSize, key, value, scratch)
}

// Snapshot is a sequence as it was; it shares its pages with caches.
type Snapshot struct {
	store *Store
	pages []*page
	n     int
}

// Len is how many positions the snapshot has.
func (s *Snapshot) Len() int { return s.n }

// Snapshot keeps the sequence as it is now.
func (c *Cache) Snapshot() *Snapshot {
	s := &Snapshot{c.store, append([]*page(nil), c.pages...), c.n}
	for _, p := range s.pages {
		p.refs.Add(1)
	}
	return s
}

// Restore makes the sequence what the snapshot is. The snapshot stays valid.
func (c *Cache) Restore(s *Snapshot) {
	for _, p := range s.pages {
		p.refs.Add(1)
	}
	c.Release()
	c.pages, c.n = append(c.pages, s.pages...), s.n
}

// Release gives the snapshot's pages back.
func (s *Snapshot) Release() {
	for _, p := range s.pages {
		s.store.drop(p)
	}
	s.pages, s.n = nil, 0
}
