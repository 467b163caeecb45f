package model

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/pool"
	"assay/internal/engine/ref"
	"assay/internal/engine/weights"
	"assay/internal/gguf"
)

const seedling = "../../../models/seedling/"

// formats are Seedling's files, with the margin between llama.cpp's two best
// logits below which the other may win: activations are rounded at different
// places, so near ties fall either way.
var formats = []struct {
	name, path string
	margin     float32
}{
	{"f16", seedling + "formats/seedling-15m-f16.gguf", 0.002},
	{"q8_0", seedling + "formats/seedling-15m-q8_0.gguf", 0.03},
	{"q4_k_m", seedling + "formats/seedling-15m-q4_k_m.gguf", 0.2},
	{"iq3_s", seedling + "seedling-15m-iq3_s.gguf", 0.2},
}

func golden(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(seedling, "formats", "golden", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// open loads a model with a pool of the given number of threads.
func open(t testing.TB, path string, threads int) (*Model, *pool.Pool) {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := ReadConfig(f)
	if err != nil {
		t.Fatal(err)
	}
	w, err := weights.Load(context.Background(), f, WeightOptions(f))
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(c, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := pool.New(threads)
	t.Cleanup(func() {
		p.Close()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return m, p
}

// logits runs ids in batches of at most n tokens and returns the logits of
// every position: [len(ids)][vocabulary].
func logits(t testing.TB, m *Model, p *pool.Pool, ids []int32, n int) [][]float32 {
	pass, cache := NewPass(m, p), kv.NewStore(m.KVShape(kernel.KVF32)).NewCache()
	var out [][]float32
	for batch := range slices.Chunk(ids, n) {
		all := make([]float32, len(batch)*m.Vocabulary)
		run(t, pass, Sequence{Cache: cache, Tokens: batch, Logits: all})
		for i := range batch {
			out = append(out, slices.Clone(row(all, i, m.Vocabulary)))
		}
	}
	return out
}

// run runs a pass that nothing stops.
func run(t testing.TB, pass *Pass, batch ...Sequence) {
	t.Helper()
	if err := pass.Run(nil, batch); err != nil {
		t.Fatal(err)
	}
}

func argmax(x []float32) int32 {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return int32(best)
}

// logSoftmax is exact enough to compare losses: float64.
func logSoftmax(x []float32) []float64 {
	top, sum := float64(x[argmax(x)]), 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v) - top - math.Log(sum)
	}
	return out
}

type teacherText struct {
	Name string
	IDs  []int32
	NLL  float64 `json:"mean_nll"`
	Top5 []struct {
		IDs    []int32
		Logits []float32
	}
}

// The pass agrees with llama.cpp along fixed texts: the best token is the same
// at every position, but for near ties of two tokens (each format's margin) and
// positions where another expert was chosen (see otherExperts; at most 6 % of
// positions), and the mean loss over all texts is within 0.005.
func TestAgreesWithLlamaCpp(t *testing.T) {
	if testing.Short() {
		t.Skip("compares numbers, which the race detector slows twentyfold")
	}
	for _, format := range formats {
		t.Run(format.name, func(t *testing.T) {
			m, p := open(t, format.path, 2)
			f, err := gguf.Open(format.path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			reference, err := ref.Load(f)
			if err != nil {
				t.Fatal(err)
			}
			var texts []teacherText
			golden(t, "teacher-"+format.name+".llamacpp.json", &texts)
			positions, ties, experts := 0, 0, 0
			var loss, want, kl, losses float64 // sums over positions
			for _, text := range texts {
				theirs, other := otherExperts(t, m, p, reference, text.IDs, float64(format.margin))
				for pos, ours := range logits(t, m, p, text.IDs, MaxBatch) {
					positions++
					lp := logSoftmax(ours)
					if pos+1 < len(text.IDs) {
						loss -= lp[text.IDs[pos+1]]
						losses++
					}
					for i, r := range logSoftmax(theirs[pos]) {
						kl += math.Exp(r) * (r - lp[i])
					}
					top := text.Top5[pos]
					switch got := argmax(ours); {
					case got == top.IDs[0]:
					case got == top.IDs[1] && top.Logits[0]-top.Logits[1] < format.margin:
						ties++
					case other[pos]:
						experts++
					default:
						t.Errorf("%s position %d: best token %d, llama.cpp's are %d with logits %.4f, and no router is near a tie",
							text.Name, pos, got, top.IDs, top.Logits)
					}
				}
				want += text.NLL * float64(len(text.IDs)-1)
			}
			loss, want = loss/losses, want/losses
			t.Logf("%d positions, %d near ties of tokens, %d of experts; mean loss %.4f, llama.cpp %.4f; mean KL from the float32 reference %.6f",
				positions, ties, experts, loss, want, kl/float64(positions))
			if math.Abs(loss-want) > 0.005 {
				t.Errorf("mean loss %.4f, llama.cpp %.4f", loss, want)
			}
			if float64(experts) > 0.06*float64(positions) {
				t.Errorf("%d of %d positions differ by a choice of experts, more than 6 %%", experts, positions)
			}
		})
	}
}

// otherExperts returns the reference's logits and says at which positions, in
// any layer, the pass chose other experts than the reference, or the
// reference's last chosen expert beat the next by less than margin: there
// llama.cpp, whose choice isn't recorded, may have gone the other way.
func otherExperts(t testing.TB, m *Model, p *pool.Pool, reference *ref.Model, ids []int32, margin float64) (want [][]float32, other []bool) {
	other = make([]bool, len(ids))
	chosen := map[[2]int][]int{}
	reference.Trace = func(layer, position int, experts []int, lead float64) {
		chosen[[2]int{layer, position}] = slices.Clone(experts)
		other[position] = other[position] || lead < margin
	}
	want = reference.Logits(ids)
	pass, cache := NewPass(m, p), kv.NewStore(m.KVShape(kernel.KVF32)).NewCache()
	at := 0
	pass.trace = func(layer int, ours []int32) {
		for t := range pass.n {
			for rank, e := range chosen[[2]int{layer, at + t}] {
				if ours[t*m.Used+rank] != int32(e) {
					other[at+t] = true
				}
			}
		}
	}
	for batch := range slices.Chunk(ids, MaxBatch) {
		run(t, pass, Sequence{Cache: cache, Tokens: batch})
		at += len(batch)
	}
	return want, other
}

// F16 and Q8_0 write llama.cpp's greedy text, all 64 tokens of all 8 prompts.
func TestGreedyTextIsLlamaCpps(t *testing.T) {
	if testing.Short() {
		t.Skip("compares numbers, which the race detector slows twentyfold")
	}
	for _, format := range formats[:2] {
		t.Run(format.name, func(t *testing.T) {
			m, p := open(t, format.path, 2)
			var texts []struct {
				Name   string
				Prompt []int32 `json:"prompt_ids"`
				Greedy []int32 `json:"greedy_ids"`
			}
			golden(t, "generate-"+format.name+".llamacpp.json", &texts)
			if len(texts) != 8 {
				t.Fatalf("%d prompts, want 8", len(texts))
			}
			pass, store, logits := NewPass(m, p), kv.NewStore(m.KVShape(kernel.KVF32)), make([]float32, m.Vocabulary)
			for _, text := range texts {
				cache := store.NewCache()
				run(t, pass, Sequence{Cache: cache, Tokens: text.Prompt, Logits: logits})
				for i, want := range text.Greedy {
					next := argmax(logits)
					if next != want {
						t.Errorf("%s: token %d is %d, want %d", text.Name, i, next, want)
						break
					}
					run(t, pass, Sequence{Cache: cache, Tokens: []int32{next}, Logits: logits})
				}
				cache.Release()
			}
		})
	}
}

// A pass allocates nothing, so that no token waits for the collector.
func TestPassAllocatesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("under the race detector a sync.Pool forgets at random")
	}
	m, p := open(t, formats[3].path, 2)
	pass, cache := NewPass(m, p), kv.NewStore(m.KVShape(kernel.KVF32)).NewCache()
	logits := make([]float32, m.Vocabulary)
	run(t, pass, Sequence{Cache: cache, Tokens: []int32{1, 2, 3}, Logits: logits})
	batch := []Sequence{{Cache: cache, Tokens: []int32{4}, Logits: logits}}
	if n := testing.AllocsPerRun(100, func() { run(t, pass, batch...) }); n > 0 {
		t.Errorf("%.1f allocations a token", n)
	}
}

func BenchmarkDecode(b *testing.B) {
	m, p := open(b, formats[3].path, 2)
	pass, store := NewPass(m, p), kv.NewStore(m.KVShape(kernel.KVF32))
	cache, logits := store.NewCache(), make([]float32, m.Vocabulary)
	batch := []Sequence{{Cache: cache, Tokens: []int32{42}, Logits: logits}}
	for b.Loop() {
		if cache.Len() > 500 {
			cache.Truncate(0)
		}
		run(b, pass, batch...)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tok/s")
}

func BenchmarkPrefill(b *testing.B) {
	m, p := open(b, formats[3].path, 2)
	pass, store := NewPass(m, p), kv.NewStore(m.KVShape(kernel.KVF32))
	ids := make([]int32, MaxBatch)
	cache := store.NewCache()
	for b.Loop() {
		if cache.Len() > 2000 {
			cache.Truncate(0)
		}
		run(b, pass, Sequence{Cache: cache, Tokens: ids})
	}
	b.ReportMetric(float64(b.N*MaxBatch)/b.Elapsed().Seconds(), "tok/s")
}
