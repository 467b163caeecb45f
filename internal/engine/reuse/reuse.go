// Package reuse keeps the keys and values of earlier requests, so that a request
// whose prompt begins as one of them did need not compute that beginning again.
//
// It changes no token: keys and values depend on the tokens alone.
//
// One Cache serves all slots of an engine. An entry is a list of tokens with a
// kv.Snapshot of what they led to. Snapshots share memory with each other and with
// running sequences, so a page counts once against the limit, however many entries
// hold it. When the limit is passed, the entry that was not used for the longest time
// goes: to a file, if the Cache has a Disk, else for good.
//
// An entry that another one begins with is dropped: any prefix of a sequence can be
// had from the longer one. So the turns of a chat leave one entry, not one each.
// That does not hold where layers are recurrent: their state is of the last position
// and of a few checkpoints only, so such entries are kept side by side, and what can
// be had of one ends at one of these (see kv's Reach).
package reuse

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"assay/internal/engine/kv"
)

// Cache is a number of entries. It may be used from several goroutines.
type Cache struct {
	limit int64
	disk  *Disk // nil: what goes is lost
	log   func(format string, args ...any)

	mu      sync.Mutex
	entries []*entry    // the one that was not used for the longest time first
	holders map[any]int // how many entries hold a piece of memory, by its name
	stats   Stats

	spill   chan *entry // nil without a disk
	spilled sync.WaitGroup
	closing context.Context // of Close; nil until then
}

type entry struct {
	tokens []int32
	state  *kv.Snapshot
}

// Stats are counted since the start, but for what there is now.
type Stats struct {
	Entries int   // now
	Bytes   int64 // of memory that they hold, now
	Limit   int64 // of Bytes

	Lookups int64 // of prompts
	Hits    int64 // that found a token or more
	Evicted int64 // entries that had to make room

	DiskEntries int   // now
	DiskBytes   int64 // of files, now
	Spilled     int64 // entries written to files
	SpillFailed int64 // entries that could not be, or came too fast
	DiskHits    int64 // lookups that were answered from a file
	DiskFailed  int64 // files that could not be used
	DiskMissing int64 // files that somebody else has removed: as good as none
}

// spillQueue is how many entries wait for the disk at most. They are out of the
// limit's count, so there are few.
const spillQueue = 4

// New makes a Cache that holds pages of up to limit bytes. disk may be nil. log gets
// a line for each thing that went wrong; the Cache goes on without.
func New(limit int64, disk *Disk, log func(format string, args ...any)) *Cache {
	c := &Cache{limit: limit, disk: disk, log: log, holders: map[any]int{}}
	if disk != nil {
		c.spill = make(chan *entry, spillQueue)
		c.spilled.Go(c.writeSpilled)
	}
	return c
}

// Take makes the empty cache a sequence of as many of the prompt's first tokens as
// it can, and returns how many. One token is always left to compute, since what
// follows the prompt takes the logits of its last one.
func (c *Cache) Take(ctx context.Context, prompt []int32, into *kv.Cache) int {
	most := len(prompt) - 1
	if c.disk != nil {
		c.mu.Lock()
		_, have := c.best(prompt, most)
		c.mu.Unlock()
		if n := c.takeFile(ctx, prompt, have, into); n > 0 {
			return n
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Lookups++
	i, n := c.best(prompt, most)
	if n == 0 {
		return 0
	}
	into.Restore(c.entries[i].state)
	into.Truncate(n)
	c.touch(i)
	c.stats.Hits++
	return n
}

// best is the entry of which most of the prompt's first tokens can be had, and how
// many, at most most.
func (c *Cache) best(prompt []int32, most int) (at, n int) {
	for i, e := range c.entries {
		if m := e.state.Reach(min(commonPrefix(e.tokens, prompt), most)); m > n {
			at, n = i, m
		}
	}
	return at, n
}

// touch makes entry i the one used last.
func (c *Cache) touch(i int) {
	e := c.entries[i]
	c.entries = append(slices.Delete(c.entries, i, i+1), e)
}

// commonPrefix is how many tokens a and b have in common before they differ.
func commonPrefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// Keep remembers the sequence in from, which is that of the tokens. Both stay the
// caller's.
func (c *Cache) Keep(tokens []int32, from *kv.Cache) {
	if len(tokens) != from.Len() {
		panic(fmt.Sprintf("reuse: %d tokens of a sequence of %d", len(tokens), from.Len()))
	}
	if len(tokens) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.entries) - 1; i >= 0; i-- {
		e := c.entries[i]
		switch n := commonPrefix(e.tokens, tokens); {
		case n == len(tokens) && e.state.Reach(n) == n: // it is there, perhaps with more behind it
			c.touch(i)
			return
		case n == len(e.tokens) && !e.state.Recurrent():
			c.drop(i)
		}
	}
	e := &entry{slices.Clone(tokens), from.Snapshot()}
	if size(e.state) > c.limit { // it would drive all others out, and go itself
		e.state.Release()
		return
	}
	c.entries = append(c.entries, e)
	c.count(e, 1)
	for c.stats.Bytes > c.limit {
		c.evict()
	}
}

// size is the bytes of a snapshot's memory.
func size(s *kv.Snapshot) (n int64) {
	for _, bytes := range s.Memory() {
		n += int64(bytes)
	}
	return n
}

// count adds the entry's memory to the count, or with -1 takes it off.
func (c *Cache) count(e *entry, by int) {
	for id, bytes := range e.state.Memory() {
		before := c.holders[id]
		c.holders[id] = before + by
		switch {
		case before == 0:
			c.stats.Bytes += int64(bytes)
		case before+by == 0:
			delete(c.holders, id)
			c.stats.Bytes -= int64(bytes)
		}
	}
}

// remove takes entry i out; its state is the caller's to release.
func (c *Cache) remove(i int) *entry {
	e := c.entries[i]
	c.entries = slices.Delete(c.entries, i, i+1)
	c.count(e, -1)
	return e
}

func (c *Cache) drop(i int) { c.remove(i).state.Release() }

// evict makes room, by the entry that was not used for the longest time.
func (c *Cache) evict() {
	e := c.remove(0)
	c.stats.Evicted++
	if c.spill == nil {
		e.state.Release()
		return
	}
	select {
	case c.spill <- e:
	default:
		c.stats.SpillFailed++
		e.state.Release()
	}
}

// Shrink gives memory back until entries hold no more than so many bytes, at once:
// files would need it till they are written.
func (c *Cache) Shrink(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.stats.Bytes > max(0, bytes) {
		c.stats.Evicted++
		c.drop(0)
	}
}

// Stats are what the Cache did so far.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	s := c.stats
	s.Entries, s.Limit = len(c.entries), c.limit
	c.mu.Unlock()
	if c.disk != nil {
		s.DiskEntries, s.DiskBytes = c.disk.holds()
	}
	return s
}

// Close writes what is in memory to the disk, if there is one, the latest first,
// until ctx ends, and gives all memory back. A file that is being written then is
// given up and removed. No other call may follow.
func (c *Cache) Close(ctx context.Context) {
	if c.spill != nil {
		c.mu.Lock()
		c.closing = ctx
		c.mu.Unlock()
		close(c.spill)
		c.spilled.Wait()
	}
	for len(c.entries) > 0 {
		e := c.remove(len(c.entries) - 1)
		if c.disk != nil && ctx.Err() == nil {
			c.write(e)
		}
		e.state.Release()
	}
}
