package mtp

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/model"
	"assay/internal/engine/pool"
	"assay/internal/engine/spec"
	"assay/internal/engine/weights"
	"assay/internal/gguf"
)

const formats = "../../../models/seedling/formats/"

// pair is a model and its head.
type pair struct {
	m    *model.Model
	pass *model.Pass
	head *Head
}

func open(t testing.TB, format string, threads int, kvFormat kernel.KVFormat) pair {
	t.Helper()
	file := func(name string) (*gguf.File, *weights.Set) {
		f, err := gguf.Open(formats + name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		w, err := weights.Load(context.Background(), f, model.WeightOptions(f))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Close() })
		return f, w
	}
	f, w := file("seedling-15m-" + format + ".gguf")
	c, err := model.ReadConfig(f)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.New(c, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, hw := file("seedling-15m-mtp-" + format + ".gguf")
	hm, err := model.NewHead(m, h, hw)
	if err != nil {
		t.Fatal(err)
	}
	p := pool.New(threads)
	t.Cleanup(p.Close)
	return pair{m, model.NewPass(m, p), New(hm, p, kvFormat, new(sync.Mutex))}
}

// states are the model's hidden states along a text, [len(ids), width].
func (p pair) states(t testing.TB, ids []int32) []float32 {
	t.Helper()
	cache := kv.NewStore(p.m.KVShape(kernel.KVF32)).NewCache()
	out := make([]float32, len(ids)*p.m.Width)
	if err := p.pass.Run(nil, []model.Sequence{{Cache: cache, Tokens: ids, Hidden: out}}); err != nil {
		t.Fatal(err)
	}
	return out
}

// text is a golden text with what the head drafts along it: Drafts[t] is its guess
// of token t+2, right when it equals Main[t+1].
type text struct {
	Name     string
	IDs      []int32
	Main     []int32   `json:"main_argmax"`
	Drafts   []int32   `json:"draft_argmax"`
	Margins  []float64 `json:"draft_margins"`
	Prompt   int       `json:"prompt_len"`
	Accepted int
	Count    int `json:"drafts"`
}

func texts(t testing.TB, format string) []text {
	t.Helper()
	raw, err := os.ReadFile(formats + "golden/mtp-" + format + ".float32.json")
	if err != nil {
		t.Fatal(err)
	}
	var g struct{ Cases []text }
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	return g.Cases
}

// The fast head drafts what PyTorch's does, at every position of every text: but for
// near ties, since the activations of quantised matrices are rounded to 8 bits.
func TestGoldenDrafts(t *testing.T) {
	if testing.Short() {
		t.Skip("compares numbers, and shares nothing between goroutines")
	}
	for format, margin := range map[string]float64{"f16": 0.004, "q8_0": 0.06} {
		t.Run(format, func(t *testing.T) {
			p := open(t, format, 2, kernel.KVF32)
			positions, ties, drafts, accepted, want := 0, 0, 0, 0, 0
			to := make([]spec.Guess, 1)
			for _, text := range texts(t, format) {
				d, states := p.head.NewDrafter(len(text.IDs)), p.states(t, text.IDs)
				d.Begin(text.IDs[:1])
				for pos, golden := range text.Drafts {
					d.Accept(text.IDs[pos+1:pos+2], states[pos*p.m.Width:][:p.m.Width])
					if d.Draft(to, 0) != 1 {
						t.Fatalf("%s, position %d: nothing was drafted", text.Name, pos)
					}
					switch got := to[0].ID; {
					case got == golden:
					case text.Margins[pos] < margin:
						ties++
					default:
						t.Errorf("%s, position %d: drafted %d, want %d (ahead by %g)", text.Name, pos, got, golden, text.Margins[pos])
					}
					if pos >= text.Prompt-1 && to[0].ID == text.Main[pos+1] {
						accepted++
					}
					positions++
				}
				drafts, want = drafts+text.Count, want+text.Accepted
			}
			t.Logf("%d drafts, %d differ at near ties; of %d along the model's own text %d are right, by PyTorch %d", positions, ties, drafts, accepted, want)
			if ties > positions/100 || accepted < want-ties || accepted > want+ties {
				t.Errorf("%d near ties; %d drafts right, want %d", ties, accepted, want)
			}
		})
	}
}

// What is drafted depends on the pairs alone: not on how they came, on what was asked
// in between, on an earlier sequence of which a part is kept, or on threads.
func TestDraftsDependOnPairsOnly(t *testing.T) {
	if testing.Short() {
		t.Skip("compares numbers")
	}
	var pairs []pair
	for i := range 3 {
		pairs = append(pairs, open(t, "q8_0", 1+i, kernel.KVF16))
	}
	w := pairs[0].m.Width
	r := rand.New(rand.NewPCG(4, 9))
	long := make([]int32, 400)
	for i := range long {
		long[i] = r.Int32N(4000)
	}
	states := pairs[0].states(t, long)
	whole, pieces := pairs[0].head.NewDrafter(400), []*Drafter{}
	for _, p := range pairs {
		pieces = append(pieces, p.head.NewDrafter(400))
	}
	want, got := make([]spec.Guess, spec.MaxDrafts), make([]spec.Guess, spec.MaxDrafts)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, len(long)).Draw(t, "n")
		k := rapid.IntRange(1, len(want)).Draw(t, "drafts")
		whole.Begin(nil) // forgets all
		whole.Begin(long[:1])
		whole.Accept(long[1:n], states[:(n-1)*w])
		least := rapid.SampledFrom([]float32{0, 0, 0.02, 0.3}).Draw(t, "least")
		wanted := whole.Draft(want[:k], least)
		for _, g := range want[:wanted] {
			if !(g.P >= least && g.P <= 1 && g.P > 0) {
				t.Fatalf("probability %g, least %g", g.P, least)
			}
		}

		d := pieces[rapid.IntRange(0, 2).Draw(t, "threads")]
		at := rapid.IntRange(1, n).Draw(t, "begin") // the text before is what this one saw last, maybe
		if at > len(d.at) || !rapid.Bool().Draw(t, "keep") {
			d.Begin(nil)
			at = 1
		}
		d.Begin(long[:at])
		for at < n {
			step := rapid.SampledFrom([]int{1, 2, 9, 65, 200}).Draw(t, "step")
			step = min(step, n-at)
			d.Accept(long[at:at+step], states[(at-1)*w:][:step*w])
			at += step
			if at < n && rapid.IntRange(0, 3).Draw(t, "ask") == 0 {
				d.Draft(got, 0)
			}
		}
		if len(d.at)+len(d.tokens) < n-1 {
			return // pairs were skipped
		}
		if len(d.tokens) == 0 { // Begin kept all
			return
		}
		if m := d.Draft(got[:k], least); m != wanted || !slices.Equal(got[:m], want[:wanted]) {
			t.Fatalf("drafted %v, want %v", got[:m], want[:wanted])
		}
		if d.cache.Len() != n-1 || len(d.known) != n {
			t.Fatalf("%d pairs and %d tokens are kept of %d tokens", d.cache.Len(), len(d.known), n)
		}
	})
}

// While nobody asks for drafts, pairs of what is written wait, and only the last of
// them are kept; those of a prompt are all learnt.
func TestPairsThatWait(t *testing.T) {
	p := open(t, "q8_0", 1, kernel.KVF16)
	ids := make([]int32, 300)
	for i := range ids {
		ids[i] = int32(i * 13 % 4000)
	}
	states, w, to := p.states(t, ids), p.m.Width, make([]spec.Guess, 2)
	d := p.head.NewDrafter(300)
	d.Begin(ids[:1])
	d.Accept(ids[1:101], states[:100*w])
	d.Accept(ids[101:111], states[100*w:110*w])
	if d.Draft(to, 0); len(d.at) != 110 {
		t.Errorf("%d pairs were learnt of a prompt of 111 tokens", len(d.at))
	}
	for at := 111; at < 211; at++ {
		d.Accept(ids[at:at+1], states[(at-1)*w:][:w])
	}
	last := len(d.tokens)
	if len(d.at) != 110 || last < waiting/2 || last > waiting {
		t.Errorf("%d pairs were learnt, %d wait", len(d.at), last)
	}
	if n := d.Draft(to, 0); n != 2 || len(d.at) != 110+last || int(d.at[110]) != 211-last || d.at[len(d.at)-1] != 210 {
		t.Errorf("%d drafts; %d pairs were learnt, those after the gap stand at %v", n, len(d.at), d.at[110:])
	}
	if n := d.Draft(to, 0); n != 0 {
		t.Errorf("%d drafts without a new token", n)
	}
	// The next sequence has the first 120 tokens in common: the pairs among them stay.
	if d.Begin(append(slices.Clone(ids[:120]), 4000, 4001)); len(d.at) != 110 || d.cache.Len() != 110 || len(d.known) != 122 {
		t.Errorf("%d pairs are kept of %d tokens", len(d.at), len(d.known))
	}
}

// Drafting allocates nothing.
func TestDraftingAllocatesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("under the race detector a sync.Pool forgets at random")
	}
	p := open(t, "q8_0", 2, kernel.KVF16)
	ids := make([]int32, 200)
	states, w, to := p.states(t, ids), p.m.Width, make([]spec.Guess, 4)
	d := p.head.NewDrafter(200)
	if n := testing.AllocsPerRun(3, func() {
		d.Begin(nil)
		d.Begin(ids[:1])
		for at := 1; at < len(ids); at++ {
			d.Accept(ids[at:at+1], states[(at-1)*w:][:w])
			d.Draft(to, 0)
		}
	}); n > 2 { // a page, now and then
		t.Errorf("%g allocations", n)
	}
}

func BenchmarkDraft(b *testing.B) {
	p := open(b, "q8_0", 2, kernel.KVF16)
	ids := make([]int32, 500)
	states, w, to := p.states(b, ids), p.m.Width, make([]spec.Guess, 1)
	d := p.head.NewDrafter(500)
	at := 500
	for b.Loop() {
		if at == 500 {
			d.Begin(nil)
			d.Begin(ids[:1])
			at = 1
		}
		d.Accept(ids[at:at+1], states[(at-1)*w:][:w])
		d.Draft(to, 0)
		at++
	}
}
