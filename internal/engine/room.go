package engine

import (
	"fmt"
	"math"
	"os"
	"sync"

	"assay/internal/engine/expert"
	"assay/internal/engine/kv"
	"assay/internal/engine/reuse"
)

// room bounds the keys and values of all requests together, where experts share the
// memory with them.
//
// Pages are allocated when sequences grow, and are never given back to the system, so
// what counts is the most that there ever are. Experts give way as that grows, down to
// a tenth of them; what is kept for reuse gives way too. A request that would need
// more is refused: the system would end the program, and all others with it.
//
// Each sequence counts in full, also what it shares with others, so the bound holds
// whatever they share.
type room struct {
	page  int64 // bytes
	spare func() (bytes int64, known bool)
	cede  func(bytes int64) // has experts leave so much free
	store *kv.Store
	reuse *reuse.Cache // nil: nothing is kept

	mu    sync.Mutex
	taken int64 // pages, of all turns
	most  int64 // that may be taken, those for reuse included
}

// MemoryError says that there is no memory for the keys and values of a request.
type MemoryError struct {
	Need  int64 // bytes that it needs
	Taken int64 // by other requests
	Most  int64 // that there are for all together
}

func (e *MemoryError) Error() string {
	const mib = 1 << 20
	what := "try again later, or start with a smaller -c or less for --cache-ram"
	if e.Never() {
		what = "shorten it, or start with more memory or --cache-type-k q8_0"
	}
	return fmt.Sprintf("keys and values of this request need %.1f MiB, other requests have %.1f MiB, and there are %.1f MiB for all of them beside the experts; %s",
		float64(e.Need)/mib, float64(e.Taken)/mib, float64(e.Most)/mib, what)
}

// Never says that the request would need too much alone.
func (e *MemoryError) Never() bool { return e.Need > e.Most }

// pagesOf is how many pages n positions take.
func pagesOf(n int) int64 { return int64(n+kv.PageSize-1) / kv.PageSize }

// pageBytes is what a page of the store takes. The page that it makes to find out is
// the first that a request will get.
func pageBytes(store *kv.Store) (bytes int64) {
	c := store.NewCache()
	c.Extend(1)
	c.Commit()
	s := c.Snapshot()
	for _, n := range s.Memory() {
		bytes = int64(n)
		break // pages come first
	}
	s.Release()
	c.Release()
	return bytes
}

// grow takes pages for the tokens that t is to compute: of a prompt, all that are left.
// yield has to follow before they are used.
func (m *room) grow(t *turn) error {
	if m == nil {
		return nil
	}
	want := pagesOf(t.Sequence.Cache.Len() + len(t.Tokens))
	if want <= t.pages {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	others := m.taken - t.pages
	if others+want > m.most {
		m.measure(t.pages)
	}
	if others+want > m.most {
		return &MemoryError{Need: want * m.page, Taken: others * m.page, Most: m.most * m.page}
	}
	m.taken, t.pages = others+want, want
	return nil
}

// yield has what is kept for reuse give way to what sequences have.
func (m *room) yield() {
	if m == nil || m.reuse == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reuse.Shrink((m.most - m.taken) * m.page)
}

// provide takes from the system what grow gave t, all at once and before a pass wants
// it: until memory is written to it looks free, and experts would fill it.
func (m *room) provide(t *turn) {
	if m == nil {
		return
	}
	c := t.Sequence.Cache
	n := c.Len() + len(t.Tokens)
	missing := c.Missing(n)
	if missing == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.makeRoom(missing)
	c.Reserve(n)
}

// makeRoom has experts make room for so many pages, as far as none are at hand.
func (m *room) makeRoom(pages int) {
	if fresh := pages - m.store.Free(); fresh > 0 {
		m.cede(int64(fresh) * m.page)
	}
}

// load is called before up to all pages of t are read from a file.
func (m *room) load(t *turn) {
	if m == nil {
		return
	}
	m.yield()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.makeRoom(int(t.pages))
}

// leave gives the pages of t back.
func (m *room) leave(t *turn) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken -= t.pages
	t.pages = 0
}

// measure raises the bound to what there is now. known are pages that are there for
// sure, as one sequence has them; those for reuse are too.
func (m *room) measure(known int64) {
	bytes, ok := m.spare()
	if !ok { // nobody can tell
		m.most = math.MaxInt64 / m.page
		return
	}
	if m.reuse != nil {
		known = max(known, m.reuse.Stats().Bytes/m.page)
	}
	m.most = max(m.most, known+max(0, bytes)/m.page)
}

// spareBytes is what is free for keys and values once experts have given way.
func (e *Engine) spareBytes() (bytes int64, known bool) {
	free, err := expert.Machine(string(os.PathSeparator)).Free()
	if err != nil {
		return 0, false
	}
	st := e.store.Stats()
	return spareBeside(free, st, e.options.ExpertRAM == ExpertAuto), true
}

// spareBeside is that, of what is free and what experts have. Under auto they keep a
// tenth, as they must have at the start; else they may take all that they were given.
func spareBeside(free expert.Free, st expert.Stats, auto bool) int64 {
	const slab = 32 << 20 // which is as little as a kind of experts has, where they are small
	keep := min(st.Budget, st.AllBytes+slab)
	if auto {
		keep = min(keep, max(st.AllBytes/10, slab))
	}
	return free.Bytes + st.Bytes - max(keep, 0) - expert.Reserve(free.Limit)
}

// boundContexts makes the room, and says so when it does not hold all contexts.
func (e *Engine) boundContexts(store *kv.Store) {
	if e.store == nil {
		return
	}
	m := &room{page: pageBytes(store), spare: e.spareBytes, cede: e.store.Cede, store: store, reuse: e.reuse}
	if m.page == 0 { // the model keeps no keys and values
		return
	}
	m.measure(0)
	e.rounds.room = m
	if all := int64(e.options.Slots) * pagesOf(e.options.Context); all > m.most && e.options.Log != nil {
		const mib = 1 << 20
		e.options.Log("keys and values of %d contexts of %d positions take %d MiB, and there are %d MiB for them once experts have given way: what needs more will be refused; a smaller -c or --parallel avoids that",
			e.options.Slots, e.options.Context, all*m.page/mib, m.most*m.page/mib)
	}
}
