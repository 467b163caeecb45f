package reuse

import (
	"context"

	"assay/internal/engine/kv"
)

// worth is how many tokens more than memory a file must have to be read.
const worth = 16

// takeFile makes the cache a sequence of the prompt's first tokens from a file, if
// one has enough more of them than memory has. A file that can't be used is as good
// as none.
func (c *Cache) takeFile(ctx context.Context, prompt []int32, inMemory int, into *kv.Cache) int {
	f, n := c.disk.find(prompt, len(prompt)-1)
	if f == nil || n < inMemory+worth {
		return 0
	}
	state, err := c.disk.read(ctx, f, n)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			c.stats.DiskFailed++
			c.log("reuse: %v; the request goes on without it", err)
		}
		return 0
	}
	into.Restore(state)
	state.Release()
	c.stats.Lookups++
	c.stats.Hits++
	c.stats.DiskHits++
	return n
}

// writeSpilled writes what had to leave memory, one entry after another, until Close
// has no time left.
func (c *Cache) writeSpilled() {
	for e := range c.spill {
		c.mu.Lock()
		hurried := c.closing != nil && c.closing.Err() != nil
		c.mu.Unlock()
		if !hurried {
			c.write(e)
		}
		e.state.Release()
	}
}

func (c *Cache) write(e *entry) {
	wrote, err := c.disk.write(e.tokens, e.state)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.stats.SpillFailed++
		c.log("reuse: %v; %d tokens are forgotten", err, len(e.tokens))
	case wrote:
		c.stats.Spilled++
	}
}
