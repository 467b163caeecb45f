package reuse

import (
	"context"
	"errors"
	"io/fs"

	"assay/internal/engine/kv"
)

// worth is how many tokens more than memory a file must have to be read.
const worth = 16

// takeFile makes the cache a sequence of the prompt's first tokens from a file, if
// one has enough more of them than memory has. A file that can't be used is as good
// as none; where one is gone, the next best is looked for.
func (c *Cache) takeFile(ctx context.Context, prompt []int32, inMemory int, into *kv.Cache) int {
	state, n, missing, err := c.readBest(ctx, prompt, inMemory+worth)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.DiskMissing += missing
	if state == nil {
		if err != nil && ctx.Err() == nil {
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

// readBest reads the file that has most of the prompt, if it has at least so many
// tokens. missing were in the list and had been removed by somebody else; reading
// them has taken them out of it.
func (c *Cache) readBest(ctx context.Context, prompt []int32, least int) (state *kv.Snapshot, n int, missing int64, err error) {
	for ; ; missing++ {
		f, n := c.disk.find(prompt, len(prompt)-1)
		if f == nil || n < least {
			return nil, 0, missing, nil
		}
		state, err := c.disk.read(ctx, f, n)
		if ctx.Err() != nil || !errors.Is(err, fs.ErrNotExist) {
			return state, n, missing, err
		}
	}
}

// writeSpilled writes what had to leave memory, one entry after another, until Close
// has no time left.
func (c *Cache) writeSpilled() {
	for e := range c.spill {
		if c.hurried() == nil {
			c.write(e)
		}
		e.state.Release()
	}
}

// hurried says that there is no time left for files.
func (c *Cache) hurried() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing == nil || c.closing.Err() == nil {
		return nil
	}
	return errors.New("there was no time left at the end")
}

func (c *Cache) write(e *entry) {
	wrote, err := c.disk.write(e.tokens, e.state, c.hurried)
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
