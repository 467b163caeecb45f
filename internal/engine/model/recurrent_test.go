package model

import (
	"errors"
	"math/rand/v2"
	"testing"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
)

// recurrentModels are the architectures that remember more than keys and values.
var recurrentModels = []string{"lfm2moe", "qwen35moe", "qwen3next", "qwen4exp"}

// Whatever happens on the way, a text's logits have the bits of one pass over all of
// it: guesses that were wrong and are forgotten, passes that are given up, going back
// to a checkpoint or a snapshot and on from there, with other threads and levels of
// SIMD.
func TestRecurrentLayersForget(t *testing.T) {
	n, rounds := 120, 3
	if testing.Short() {
		n, rounds = 40, 1
	}
	r := rand.New(rand.NewPCG(27, 18))
	seen := map[string]int{}
	for _, name := range recurrentModels {
		t.Run(name, func(t *testing.T) {
			path := archPath(t, name)
			m, p := open(t, path, 1)
			store := kv.NewStore(m.KVShape(kernel.KVF16))
			want := alone(t, m, NewPass(m, p), store, n)[0]
			for threads := 1; threads <= rounds; threads++ {
				levels := kernel.Levels()
				before := kernel.Use(levels[r.IntN(len(levels))])
				m, p := open(t, path, threads)
				w := walk{t: t, r: r, m: m, pass: NewPass(m, p), cache: store.NewCache(), want: want, seen: seen}
				w.run()
				kernel.Use(before)
			}
		})
	}
	for _, what := range []string{"forgotten", "given up", "gone back to", "restored"} {
		if len(seen) > 0 && seen[what] < 2 && !testing.Short() {
			t.Errorf("%d times something was %s: the test proves nothing", seen[what], what)
		}
	}
}

// walk is a way through a text.
type walk struct {
	t        *testing.T
	r        *rand.Rand
	m        *Model
	pass     *Pass
	cache    *kv.Cache
	want     text
	snapshot *kv.Snapshot
	seen     map[string]int
}

func (w *walk) run() {
	for steps := 0; w.cache.Len() < len(w.want.ids) || steps < 60; steps++ {
		left := len(w.want.ids) - w.cache.Len()
		switch what := w.r.IntN(10); {
		case what == 0:
			w.cache.Checkpoint()
			w.cache.Keep(3)
		case what == 1 && steps < 60:
			w.seen["gone back to"]++
			w.cache.Truncate(w.cache.Reach(w.r.IntN(w.cache.Len() + 1)))
		case what == 2:
			if w.snapshot != nil {
				w.snapshot.Release()
			}
			w.snapshot = w.cache.Snapshot()
		case what == 3 && w.snapshot != nil && steps < 60:
			w.seen["restored"]++
			w.cache.Restore(w.snapshot)
		case left == 0:
		case what == 4:
			w.seen["given up"]++
			layers := w.r.IntN(w.m.Layers)
			stop := func() bool { layers--; return layers < 0 }
			q := Sequence{Cache: w.cache, Tokens: w.want.ids[w.cache.Len():][:1+w.r.IntN(left)]}
			if err := w.pass.Run(stop, []Sequence{q}); !errors.Is(err, ErrStopped) {
				w.t.Fatalf("stopped: %v", err)
			}
		case what < 8:
			w.guess(min(left, 1+w.r.IntN(kv.WindowTokens)))
		default:
			w.compute(min(left, 1+w.r.IntN(60)), 0)
		}
	}
	if w.snapshot != nil {
		w.snapshot.Release()
	}
	w.cache.Release()
	w.cache.Keep(0)
}

// guess is a window, of which right tokens are right; fewer may be kept.
func (w *walk) guess(right int) {
	at, wrong := w.cache.Len(), w.r.IntN(kv.WindowTokens-right+1)
	w.compute(right, wrong)
	keep := at + w.r.IntN(right+1)
	if wrong > 0 || keep < at+right {
		w.seen["forgotten"]++
	}
	w.cache.Truncate(keep)
}

// compute runs right tokens of the text and some wrong ones.
func (w *walk) compute(right, wrong int) {
	at, v := w.cache.Len(), w.m.Vocabulary
	ids := append([]int32(nil), w.want.ids[at:at+right]...)
	for range wrong {
		ids = append(ids, int32(w.r.IntN(v)))
	}
	got := make([]float32, len(ids)*v)
	run(w.t, w.pass, Sequence{Cache: w.cache, Tokens: ids, Logits: got})
	sameEnd(w.t, "logit", got[:right*v], w.want.logits[:(at+right)*v], v)
}

// A pass allocates nothing, be it of one token or of a window that is forgotten.
func TestRecurrentPassesAllocateNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("under the race detector a sync.Pool forgets at random")
	}
	for _, name := range recurrentModels {
		t.Run(name, func(t *testing.T) {
			m, p := open(t, archPath(t, name), 2)
			pass, cache := NewPass(m, p), kv.NewStore(m.KVShape(kernel.KVF32)).NewCache()
			ids := []int32{4, 900, 17, 30, 1200}
			logits := make([]float32, len(ids)*m.Vocabulary)
			one := []Sequence{{Cache: cache, Tokens: ids[:1], Logits: logits[:m.Vocabulary]}}
			window := []Sequence{{Cache: cache, Tokens: ids, Logits: logits}}
			for range 20 { // beyond what sparse attention sees at once
				run(t, pass, window...)
			}
			run(t, pass, one...)
			if n := testing.AllocsPerRun(50, func() {
				run(t, pass, window...)
				cache.Truncate(cache.Len() - 4)
				run(t, pass, one...)
			}); n > 0 {
				t.Errorf("%.1f allocations a round", n)
			}
		})
	}
}
