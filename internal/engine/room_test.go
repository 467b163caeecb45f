package engine

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"assay/internal/engine/expert"
	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/reuse"
)

// Whatever sequences begin, grow, are kept and end: the pages that the store ever made
// are no more than the bound, and who is refused would really pass it.
func TestRoomHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := kv.NewStore(kv.Shape{Layers: []kv.Layer{{Heads: 1, Layout: kernel.KVLayout{Dim: 1, Format: kernel.KVF32}}}})
		most := rapid.Int64Range(1, 12).Draw(t, "most")
		page := pageBytes(store)
		kept := reuse.New(rapid.Int64Range(1, 12).Draw(t, "for reuse")*page, nil, nil)
		defer kept.Close(context.Background())
		m := &room{page: page, spare: func() (int64, bool) { return 0, true }, store: store, reuse: kept, most: most}
		ceded := int64(0)
		m.cede = func(bytes int64) { ceded += bytes }
		slots := make([]*turn, 3)
		for i := range slots {
			slots[i] = &turn{}
			slots[i].Sequence.Cache = store.NewCache()
		}
		ids := func(n int) []int32 { return make([]int32, n) }
		made := map[any]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			s := rapid.SampledFrom(slots).Draw(t, "slot")
			c := s.Sequence.Cache
			if rapid.IntRange(0, 3).Draw(t, "ends") == 0 {
				if c.Len() > 0 {
					kept.Keep(ids(c.Len()), c)
				}
				c.Release()
				m.leave(s)
				continue
			}
			s.Tokens = ids(rapid.IntRange(1, 700).Draw(t, "tokens"))
			if err := m.grow(s); err != nil {
				var full *MemoryError
				if !errors.As(err, &full) || full.Need+full.Taken <= full.Most || full.Never() != (pagesOf(c.Len()+len(s.Tokens)) > m.most) {
					t.Fatalf("%v", err)
				}
				continue
			}
			if c.Len() == 0 && rapid.Bool().Draw(t, "reuses") {
				kept.Take(context.Background(), s.Tokens, c)
				s.Tokens = s.Tokens[c.Len():]
			}
			m.yield()
			free, before := store.Free(), ceded
			m.provide(s)
			if missing := c.Missing(c.Len() + len(s.Tokens)); missing != 0 {
				t.Fatalf("%d pages are missing after all", missing)
			}
			if store.Free() > free || ceded > before && store.Free() > 0 {
				t.Fatalf("%d bytes were asked for, with %d pages free before and %d after", ceded-before, free, store.Free())
			}
			free = store.Free()
			if c.Extend(len(s.Tokens)); store.Free() < free {
				t.Fatal("a pass took a page that was not in reserve")
			}
			c.Commit()
			snapshot := c.Snapshot()
			for id := range snapshot.Memory() {
				made[id] = true
			}
			snapshot.Release()
			if int64(len(made)) > m.most {
				t.Fatalf("there are %d pages, and may be %d", len(made), m.most)
			}
		}
	})
}

// What sequences may have is what is free and what experts can give, less a reserve.
func TestSpareBeside(t *testing.T) {
	const gib = 1 << 30
	free := expert.Free{Bytes: 3 * gib, Limit: 16 * gib} // of which 1 GiB is left to others
	for _, c := range []struct {
		held, budget, all int64
		auto              bool
		want              int64
	}{
		{0, 8 * gib, 20 * gib, true, 0},
		{6 * gib, 8 * gib, 20 * gib, true, 6 * gib},
		{8 * gib, 8 * gib, 20 * gib, false, 2 * gib},
		{6 * gib, 8 * gib, 20 * gib, false, 0},
		{0, 2 * gib, 40 * gib, true, 0}, // it has never had a tenth
	} {
		if got := spareBeside(free, expert.Stats{Bytes: c.held, Budget: c.budget, AllBytes: c.all}, c.auto); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// Under a bound on memory, requests that have no room end with an error that says so,
// when they begin or when they have grown that far; the others get the same tokens as
// without it, and those that come later find room again.
func TestRequestsWithoutRoom(t *testing.T) {
	f := seedlingFile(t)
	free := opened(t, f, Options{Threads: 1, Context: 2048, Slots: 2})
	e := opened(t, f, Options{Threads: 1, Context: 2048, Slots: 2, ExpertRAM: ExpertAuto, ReuseBytes: 1 << 30})
	m := e.rounds.room
	if m == nil || m.most < 2*8 {
		t.Fatalf("keys and values of two contexts have no room here: %+v", m)
	}
	m.most, m.spare = 3, func() (int64, bool) { return 0, true } // 768 positions
	ask := func(prompt, tokens int) Request {
		r := Request{Prompt: make([]int32, prompt), MaxTokens: tokens, Sampling: greedy(), IgnoreEOS: true, Logprobs: 0}
		for i := range r.Prompt {
			r.Prompt[i] = int32(300 + (i*31+prompt)%900)
		}
		return r
	}
	same := func(r Request) {
		t.Helper()
		want, err := written(free, r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := written(e, r); got != want || err != nil {
			t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
		}
	}
	same(ask(700, 20))
	same(ask(600, 8)) // what is kept of the first gives way
	var full *MemoryError
	if _, err := written(e, ask(800, 8)); !errors.As(err, &full) || !full.Never() || !strings.Contains(err.Error(), "shorten it") {
		t.Errorf("a prompt of 4 pages: %v", err)
	}
	r := ask(760, -1)
	tokens, err := written(e, r)
	if n := strings.Count(tokens, " "); !errors.As(err, &full) || n != 768-760+1 {
		t.Errorf("%d tokens of one that grows without end: %v", n, err)
	}
	// Beside one that has two pages, one of two has none, and one of one page has.
	begun, end := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		once := sync.OnceFunc(func() { close(begun) })
		_, err := e.Generate(context.Background(), ask(400, 5), func(Token) error { once(); <-end; return nil })
		if err != nil {
			t.Error(err)
		}
	})
	<-begun
	if _, err := written(e, ask(300, 5)); !errors.As(err, &full) || full.Never() || !strings.Contains(err.Error(), "try again later") {
		t.Errorf("beside another: %v", err)
	}
	same(ask(100, 5))
	close(end)
	wg.Wait()
	same(ask(300, 5))
	if m.taken != 0 {
		t.Errorf("%d pages are still taken", m.taken)
	}
	// More memory than there was at the start is found when it is needed.
	m.spare = func() (int64, bool) { return 8 * m.page, true }
	same(ask(1000, 5))
	if m.measure(0); m.most < 8 {
		t.Errorf("%d pages may be taken", m.most)
	}
	m.spare = func() (int64, bool) { return 0, false }
	if m.measure(0); m.most < math.MaxInt64/m.page {
		t.Errorf("%d pages may be taken where nobody can tell", m.most)
	}
}
