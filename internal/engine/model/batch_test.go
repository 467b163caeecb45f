package model

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
)

// text is a sequence for tests, with what each of its positions should give.
type text struct {
	ids    []int32
	logits []float32 // [len(ids), vocabulary]
	hidden []float32 // [len(ids), width]
}

// alone computes texts one by one, each in one pass.
func alone(t *testing.T, m *Model, pass *Pass, store *kv.Store, lengths ...int) []text {
	t.Helper()
	texts := make([]text, len(lengths))
	for i, n := range lengths {
		x := text{make([]int32, n), make([]float32, n*m.Vocabulary), make([]float32, n*m.Width)}
		for j := range x.ids {
			x.ids[j] = int32((j*j*5 + 17*j + 31*i + 2) % (m.Vocabulary - 6))
		}
		c := store.NewCache()
		run(t, pass, Sequence{Cache: c, Tokens: x.ids, Logits: x.logits, Hidden: x.hidden})
		c.Release()
		texts[i] = x
	}
	return texts
}

// checkBatches computes the texts together, some tokens of some of them in each
// pass, and holds what comes out against the texts, bit for bit.
func checkBatches(t *testing.T, r *rand.Rand, m *Model, pass *Pass, store *kv.Store, texts []text) {
	t.Helper()
	caches, done := make([]*kv.Cache, len(texts)), make([]int, len(texts))
	for i := range caches {
		caches[i] = store.NewCache()
		defer caches[i].Release()
	}
	for {
		var batch []Sequence
		var who []int
		for _, i := range r.Perm(len(texts)) {
			left := len(texts[i].ids) - done[i]
			if left == 0 || r.IntN(4) == 0 {
				continue
			}
			n := min(left, 1+r.IntN([]int{1, 8, 90}[r.IntN(3)]))
			q := Sequence{Cache: caches[i], Tokens: texts[i].ids[done[i]:][:n]}
			if k := r.IntN(n + 1); k > 0 {
				q.Logits = make([]float32, k*m.Vocabulary)
			}
			if k := r.IntN(n + 1); k > 0 {
				q.Hidden = make([]float32, k*m.Width)
			}
			batch, who = append(batch, q), append(who, i)
		}
		if len(batch) == 0 {
			if slices.EqualFunc(done, texts, func(n int, x text) bool { return n == len(x.ids) }) {
				return
			}
			continue
		}
		if r.IntN(4) == 0 { // a pass that is given up leaves nothing behind
			layers := r.IntN(m.Layers)
			stop := func() bool { layers--; return layers < 0 }
			if err := pass.Run(stop, batch); !errors.Is(err, ErrStopped) {
				t.Fatalf("stopped: %v", err)
			}
		}
		run(t, pass, batch...)
		for j, i := range who {
			done[i] += len(batch[j].Tokens)
			sameEnd(t, "logit", batch[j].Logits, texts[i].logits[:done[i]*m.Vocabulary], m.Vocabulary)
			sameEnd(t, "hidden value", batch[j].Hidden, texts[i].hidden[:done[i]*m.Width], m.Width)
			if caches[i].Len() != done[i] {
				t.Fatalf("text %d has %d positions, want %d", i, caches[i].Len(), done[i])
			}
		}
	}
}

// sameEnd checks that got has the bits of want's end.
func sameEnd(t *testing.T, what string, got, want []float32, width int) {
	t.Helper()
	want = want[len(want)-len(got):]
	for i, v := range got {
		if math.Float32bits(v) != math.Float32bits(want[i]) {
			t.Fatalf("%s %d of wanted row %d is %g, alone %g", what, i%width, i/width, v, want[i])
		}
	}
}

// A sequence's logits and hidden states have the same bits alone and beside others,
// with any number of threads.
func TestSequencesShareAPass(t *testing.T) {
	lengths := []int{330, 290, 100, 1}
	if testing.Short() {
		lengths = []int{20, 5, 9, 1}
	}
	r := rand.New(rand.NewPCG(8, 15))
	for i, format := range formats {
		if testing.Short() && i < 3 {
			continue
		}
		t.Run(format.name, func(t *testing.T) {
			m, p := open(t, format.path, 1)
			store := kv.NewStore(m.KVShape(kernel.KVFormat(i % 3)))
			texts := alone(t, m, NewPass(m, p), store, lengths...)
			for threads := 1; threads <= 3; threads++ {
				m, p := open(t, format.path, threads)
				checkBatches(t, r, m, NewPass(m, p), store, texts[:1+r.IntN(len(texts))])
			}
		})
	}
}
