package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"assay/internal/engine/expert"
	"assay/internal/engine/kv"
	"assay/internal/engine/reuse"
	"assay/internal/gguf"
)

// closeWrites is how long Close writes to ReuseDir what is in memory.
const closeWrites = 10 * time.Second

// reuseBytes is the limit that was asked for, in bytes.
func reuseBytes(asked int64) int64 {
	if asked != ReuseAuto {
		return asked
	}
	free, err := expert.Machine(string(os.PathSeparator)).Free()
	return autoReuse(asked, free.Bytes, err == nil)
}

// autoReuse is that, where so much is free.
func autoReuse(asked, free int64, known bool) int64 {
	const most, unknown = 1 << 30, 256 << 20
	switch {
	case asked != ReuseAuto:
		return asked
	case !known:
		return unknown
	}
	return min(free/8, most)
}

func openReuse(f *gguf.File, store *kv.Store, o Options) (*reuse.Cache, error) {
	if o.ReuseBytes == 0 {
		return nil, nil
	}
	log := o.Log
	if log == nil {
		log = func(string, ...any) {}
	}
	var disk *reuse.Disk
	if o.ReuseDir != "" {
		var err error
		id := reuse.Identity{Model: fingerprint(f), Layout: store.Layout()}
		if disk, err = reuse.OpenDisk(o.ReuseDir, o.ReuseDiskBytes, id, store, log); err != nil {
			return nil, fmt.Errorf("the folder for reuse: %w", err)
		}
	}
	return reuse.New(o.ReuseBytes, disk, log), nil
}

func (e *Engine) closeReuse(ctx context.Context) {
	if e.reuse == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, closeWrites)
	defer cancel()
	e.reuse.Close(ctx)
}

// reuses says whether the request takes part in reuse.
func (g *generation) reuses() bool { return g.e.reuse != nil && !g.r.NoReuse }

// recall begins the sequence with what earlier requests computed of it.
func (g *generation) recall(ctx context.Context) {
	if !g.reuses() {
		return
	}
	g.slot.ids = append(g.slot.ids[:0], g.r.Prompt...)
	t, room := g.slot.turn, g.e.rounds.room
	t.Tokens = g.r.Prompt
	if room.grow(t) != nil {
		return // its first pass will say so
	}
	if g.e.options.ReuseDir != "" {
		room.load(t) // a file is read into pages of its own
	}
	n := g.e.reuse.Take(ctx, g.r.Prompt, g.slot.cache)
	room.yield() // not before, since it may be that which was taken
	for _, id := range g.r.Prompt[:n] {
		g.sampler.Accept(id)
	}
	g.result.Timings.Cached = n
	g.window.start = n
}

// promptCheckpoints is how many of a prompt's chunks can be gone back to, where layers
// are recurrent.
const promptCheckpoints = 4

// mark keeps what recurrent layers remember behind a chunk of the prompt: another
// request may go on from there.
func (g *generation) mark() {
	if c := g.slot.cache; c.Recurrent() && g.reuses() {
		c.Checkpoint()
		c.Keep(promptCheckpoints)
	}
}

// keep leaves the sequence, as far as it was computed, to later requests.
func (g *generation) keep() {
	if !g.reuses() {
		return
	}
	c := g.slot.cache
	n := c.Reach(min(c.Len(), g.position())) // behind that are drafts, which may be wrong
	c.Truncate(n)
	g.e.reuse.Keep(g.slot.ids[:n], c)
}

// fingerprint tells models apart: a hash of the metadata, of the tensors' names,
// types and dimensions, and of some of each one's data: all of it up to 64 KiB, else 16
// pieces of 4 KiB, evenly spread. Reading all of a model would take longer than most
// prompts that it saves.
func fingerprint(f *gguf.File) string {
	const piece, pieces = 4 << 10, 16
	h := sha256.New()
	for _, kv := range f.KVs() {
		fmt.Fprintf(h, "%q %v\n", kv.Key, kv.Value)
	}
	for _, t := range f.Tensors() {
		fmt.Fprintf(h, "%q %s %v\n", t.Name, t.Type, t.Dims)
		data := t.Data()
		_ = binary.Write(h, binary.LittleEndian, uint64(len(data))) // to a hash
		if len(data) <= piece*pieces {
			h.Write(data)
			continue
		}
		for i := range pieces {
			h.Write(data[(len(data)-piece)/(pieces-1)*i:][:piece])
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
