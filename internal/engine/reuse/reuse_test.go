package reuse

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"assay/internal/engine/kv"
)

// What is taken is the longest beginning that any of the kept texts has, holds what
// computing it would give, leaves a token to compute, and pages never pass the limit.
// Texts have few tokens and long runs, so that they often begin alike.
func TestTakesTheLongestBeginning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := kv.NewStore(plain)
		limit := rapid.Int64Range(0, 12).Draw(t, "pages") * pageBytes
		c := New(limit, nil, nil)
		run := rapid.Custom(func(t *rapid.T) []int32 {
			return slices.Repeat([]int32{rapid.Int32Range(0, 2).Draw(t, "id")}, rapid.IntRange(1, 300).Draw(t, "times"))
		})
		texts := rapid.Custom(func(t *rapid.T) []int32 {
			return slices.Concat(rapid.SliceOfN(run, 1, 3).Draw(t, "runs")...)
		})
		var kept [][]int32
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			prompt := texts.Draw(t, "prompt")
			seq := store.NewCache()
			n := c.Take(context.Background(), prompt, seq)
			if err := check(seq, prompt[:n]); err != nil {
				t.Fatal(err)
			}
			longest := 0
			for _, k := range kept {
				longest = max(longest, min(commonPrefix(k, prompt), len(prompt)-1))
			}
			switch evicted := c.Stats().Evicted > 0; {
			case n > longest || n >= len(prompt):
				t.Fatalf("%d of %d tokens were taken, and %d are known", n, len(prompt), longest)
			case n < longest && !evicted && limit >= 12*pageBytes:
				t.Fatalf("%d tokens were taken of %d that are known, and nothing had to go", n, longest)
			}
			extend(seq, prompt)
			c.Keep(prompt, seq)
			seq.Release()
			kept = append(kept, prompt)
			if s := c.Stats(); s.Bytes > limit || s.Entries > len(kept) || s.Bytes != held(c) {
				t.Fatalf("%+v; the entries hold %d bytes", s, held(c))
			}
		}
		c.Close(context.Background())
		if s := c.Stats(); s.Entries != 0 || s.Bytes != 0 {
			t.Fatalf("after Close: %+v", s)
		}
	})
}

// held counts the bytes of all entries' pages, each page once.
func held(c *Cache) (n int64) {
	seen := map[any]bool{}
	for _, e := range c.entries {
		for id, bytes := range e.state.Memory() {
			if !seen[id] {
				seen[id] = true
				n += int64(bytes)
			}
		}
	}
	return n
}

// The turns of a chat: each reads only what is new, they leave one entry, and pages
// that two chats begin with are there once.
func TestTurnsOfAChat(t *testing.T) {
	store := kv.NewStore(plain)
	c := New(100*pageBytes, nil, nil)
	turn := func(prompt []int32) (taken int) {
		seq := store.NewCache()
		taken = c.Take(context.Background(), prompt, seq)
		extend(seq, prompt)
		c.Keep(prompt, seq)
		seq.Release()
		return taken
	}
	system := text(1, 600)
	first := slices.Concat(system, text(2, 50))
	second := slices.Concat(first, text(3, 70))
	for i, step := range []struct {
		prompt  []int32
		taken   int
		entries int
		pages   int64
	}{
		{first, 0, 1, 3},
		{second, 650, 1, 3},
		{second, 719, 1, 3}, // the same again: one token is computed
		{slices.Concat(system, text(4, 200)), 600, 2, 3 + 2}, // shares two pages, and the third as far as it goes
		{slices.Concat(first, text(5, 10)), 650, 3, 5 + 1},
	} {
		if got := turn(step.prompt); got != step.taken {
			t.Errorf("turn %d: %d tokens were taken, want %d", i, got, step.taken)
		}
		if s := c.Stats(); s.Entries != step.entries || s.Bytes != step.pages*pageBytes {
			t.Errorf("turn %d: %d entries of %d pages, want %d of %d", i, s.Entries, s.Bytes/pageBytes, step.entries, step.pages)
		}
	}
	if s := c.Stats(); s.Lookups != 5 || s.Hits != 4 || s.Evicted != 0 {
		t.Errorf("%+v", s)
	}
	c.Close(context.Background())
}

// What was not used for the longest time goes first, and what alone is too large is
// not kept, and drives nothing out.
func TestOldestGoesFirst(t *testing.T) {
	store := kv.NewStore(plain)
	c := New(4*pageBytes, nil, nil)
	keep := func(tokens []int32) {
		seq := store.NewCache()
		extend(seq, tokens)
		c.Keep(tokens, seq)
		seq.Release()
	}
	has := func(seed int) bool {
		seq := store.NewCache()
		defer seq.Release()
		return c.Take(context.Background(), text(seed, 40), seq) > 0
	}
	for seed := range 4 {
		keep(text(seed, 30))
	}
	has(0) // is used
	keep(text(4, 30))
	keep(text(5, 5*kv.PageSize))
	for seed, want := range []bool{true, false, true, true, true, false} {
		if has(seed) != want {
			t.Errorf("text %d: kept is %v, want %v", seed, !want, want)
		}
	}
	c.Close(context.Background())
}

// Where layers are recurrent, what is taken ends where a state is known: that of a kept
// text, or of a checkpoint in it, or as little before as states know of.
func TestRecurrentLayers(t *testing.T) {
	store := kv.NewStore(recurrent)
	c := New(1<<20, nil, nil)
	defer c.Close(context.Background())
	take := func(prompt []int32) int {
		seq := store.NewCache()
		defer seq.Release()
		n := c.Take(context.Background(), prompt, seq)
		if err := check(seq, prompt[:n]); err != nil {
			t.Error(err)
		}
		return n
	}
	long := text(1, 500)
	seq := store.NewCache()
	for _, n := range []int{120, 300} {
		extend(seq, long[:n])
		seq.Checkpoint()
	}
	extend(seq, long[:400])
	c.Keep(long[:400], seq)
	if got := take(long[:350]); got != 300 {
		t.Errorf("%d tokens of the checkpoints at 120 and 300, want 300", got)
	}
	if got := take(text(1, 99)); got != 0 {
		t.Errorf("%d tokens of what no state knows", got)
	}
	extend(seq, long)
	c.Keep(long, seq)
	seq.Release()
	for prompt, want := range map[int]int{501: 500, 500: 499, 450: 400, 399: 398, 350: 300, 300: 299, 200: 120, 119: 118, 100: 0} {
		whole := append(slices.Clone(long), 7)
		if got := take(whole[:prompt]); got != want {
			t.Errorf("%d tokens of a prompt of %d, want %d", got, prompt, want)
		}
	}
	if s := c.Stats(); s.Entries != 2 || s.Bytes != held(c) {
		t.Errorf("%+v; the entries hold %d bytes", s, held(c))
	}
}

// What the limit bounds is what is really held, each page and state once, also where a
// sequence's state is a checkpoint of it too, and where entries share them.
func TestCountsEachStateOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := kv.NewStore(recurrent)
		limit := rapid.Int64Range(1, 12).Draw(t, "pages") * (pageBytes + int64(recurrent.StateBytes()))
		c := New(limit, nil, nil)
		defer c.Close(context.Background())
		for range rapid.IntRange(1, 8).Draw(t, "requests") {
			all := text(rapid.IntRange(0, 2).Draw(t, "text"), 900)
			seq := store.NewCache()
			n := c.Take(context.Background(), all, seq)
			for range rapid.IntRange(0, 3).Draw(t, "chunks") {
				n = min(n+rapid.IntRange(1, 300).Draw(t, "tokens"), len(all))
				extend(seq, all[:n])
				seq.Checkpoint()
			}
			if rapid.Bool().Draw(t, "goes on") {
				n = min(n+rapid.IntRange(0, 20).Draw(t, "tokens"), len(all))
				extend(seq, all[:n])
			}
			if n == 0 {
				seq.Release()
				continue
			}
			snapshot := seq.Snapshot()
			alone := &Cache{entries: []*entry{{nil, snapshot}}}
			if got, want := size(snapshot), held(alone); got != want {
				t.Fatalf("a sequence of %d tokens is said to take %d bytes, and holds %d", n, got, want)
			}
			fits := held(alone) <= limit
			snapshot.Release()
			c.Keep(all[:n], seq)
			seq.Release()
			if s := c.Stats(); s.Bytes != held(c) || s.Bytes > limit || s.Entries != len(c.entries) || fits && s.Entries == 0 {
				t.Fatalf("%+v; the entries hold %d bytes", s, held(c))
			}
		}
	})
}
