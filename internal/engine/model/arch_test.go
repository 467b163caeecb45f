package model

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/pool"
	"assay/internal/engine/quant"
	"assay/internal/engine/ref"
	"assay/internal/engine/weights"
	"assay/internal/gguf"
)

// Tiny random models of every architecture with llama.cpp's outputs. They are test
// data of this machine, not of the repository; their README says how near a correct
// engine comes.
const archDir = "../../../../shared/models/arch"

// archModels are those that the pass is held against.
var archModels = []struct {
	model     string
	golden    string  // of another name than the model
	tolerance float64 // of logits; 0: 1e-3
	decoded   bool    // the golden values are those of the model with its quantised tensors decoded
	rounds    bool    // weights are quantised, so activations are rounded: see compareRounded
}{
	{model: "llama"},
	{model: "llama-moe"},
	{model: "qwen2"},
	{model: "qwen3"},
	{model: "olmoe"},
	{model: "granitemoe"},
	{model: "gemma3", tolerance: 2e-2}, // llama.cpp's GELU is a table of half precision
	{model: "deepseek2"},
	{model: "lfm2moe"},
	{model: "qwen35moe"},
	{model: "qwen3next"},
	{model: "qwen4exp"},
	{model: "glm4moe"},
	{model: "gpt-oss", golden: "gpt-oss-experts-decoded-to-f32", decoded: true},
	{model: "gpt-oss", tolerance: 0.2, rounds: true},
	{model: "qwen3moe-quantised", tolerance: 0.2, rounds: true},
}

type archGolden struct {
	Sequences []struct {
		Name  string
		IDs   []int32
		Whole struct {
			MeanNLL float64 `json:"mean_nll"`
			Top5    [][2][]float64
			Greedy  []int32   `json:"greedy_ids"`
			Margins []float64 `json:"greedy_margins"`
			Last    []float64 `json:"last_logits"`
		}
		MTP *struct {
			Top5 [][2][]float64
		}
	}
}

// archPath is the file of a model; the test is skipped where it is not.
func archPath(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(archDir, "models", name+".gguf")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the models of other architectures are not on this machine: %v", err)
	}
	return path
}

func archJSON(t *testing.T, name string) (g archGolden) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(archDir, "golden", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return g
}

// Every architecture gives llama.cpp's logits at every position: the five best
// within the tolerance, the best token and the greedy text where the margin allows,
// the mean loss. In batches of seven tokens it gives the same bits as in one. All
// logits of a short text are those of the reference.
func TestArchitectures(t *testing.T) {
	if testing.Short() {
		t.Skip("compares numbers, which the race detector slows twentyfold")
	}
	for _, c := range archModels {
		if c.golden == "" {
			c.golden = c.model
		}
		if c.tolerance == 0 {
			c.tolerance = 1e-3
		}
		t.Run(c.golden, func(t *testing.T) {
			path := archPath(t, c.model)
			if c.decoded {
				path = decodedCopy(t, path)
			}
			m, p := open(t, path, 2)
			golden, worst, positions := archJSON(t, c.golden), 0.0, 0
			if c.rounds {
				compareRounded(t, m, p, path, golden, c.tolerance)
				return
			}
			for _, s := range golden.Sequences {
				// What follows greedily is checked in the same pass: if every token is the
				// best one after those before it, the text is the same.
				ids := append(append([]int32{}, s.IDs...), s.Whole.Greedy...)
				whole := logits(t, m, p, ids, MaxBatch)
				for pos, got := range logits(t, m, p, ids, 7) {
					sameEnd(t, "logit in batches of 7", got, whole[pos], m.Vocabulary)
				}
				for pos, top := range s.Whole.Top5 {
					positions++
					worst = max(worst, compareTop(t, s.Name, pos, whole[pos], top, c.tolerance))
				}
				for i, id := range s.Whole.Greedy {
					if got := argmax(whole[len(s.IDs)-1+i]); got != id && s.Whole.Margins[i] > c.tolerance {
						t.Errorf("%s, token %d after the prompt: %d, want %d (ahead by %g)", s.Name, i, got, id, s.Whole.Margins[i])
					}
				}
				for i, want := range s.Whole.Last {
					if got := float64(whole[len(s.IDs)-1][i]); math.Abs(got-want) > c.tolerance {
						t.Errorf("%s: last position, logit %d: %g, want %g", s.Name, i, got, want)
					}
				}
				if got, want := meanLoss(whole, s.IDs), s.Whole.MeanNLL; math.Abs(got-want) > c.tolerance {
					t.Errorf("%s: mean loss %g, want %g", s.Name, got, want)
				}
				if s.MTP != nil {
					for pos, got := range drafts(t, m, p, path, s.IDs) {
						worst = max(worst, compareTop(t, s.Name+", drafts", pos, got, s.MTP.Top5[pos], c.tolerance))
					}
				}
			}
			far := compareReference(t, m, p, path, golden.Sequences[0].IDs, c.tolerance)
			t.Logf("%d positions, logits within %.2g of llama.cpp's and %.2g of the reference's", positions, worst, far)
		})
	}
}

// decodedCopy is a copy of a file with its quantised tensors in F32.
func decodedCopy(t *testing.T, path string) string {
	t.Helper()
	file := editedBytes(t, path, edit{tensors: func(b *gguf.Builder, t *gguf.Tensor) {
		if t.Type == gguf.F32 {
			copied(b, t)
			return
		}
		values := make([]float32, t.Elements())
		quant.Decode(t.Type, values, t.Data())
		b.TensorFunc(t.Name, gguf.F32, t.Dims, func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, values) })
	}})
	path = filepath.Join(t.TempDir(), "decoded.gguf")
	if err := os.WriteFile(path, file, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// compareRounded is for quantised weights, with which both engines round what they
// multiply, at different places. The logits of a position are compared where both
// chose the same experts: where the pass chose those of the reference, and no
// router of the reference was near a tie. There must be many of these.
func compareRounded(t *testing.T, m *Model, p *pool.Pool, path string, golden archGolden, tolerance float64) {
	t.Helper()
	const tie = 0.05 // of router logits
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	reference, err := ref.Load(f)
	if err != nil {
		t.Fatal(err)
	}
	compared, positions, worst := 0, 0, 0.0
	for _, s := range golden.Sequences {
		_, other := otherExperts(t, m, p, reference, s.IDs, tie)
		ours := logits(t, m, p, s.IDs, MaxBatch)
		for pos, top := range s.Whole.Top5 {
			if positions++; other[pos] {
				continue
			}
			compared++
			worst = max(worst, compareTop(t, s.Name, pos, ours[pos], top, tolerance))
		}
		if got, want := meanLoss(ours, s.IDs), s.Whole.MeanNLL; math.Abs(got-want) > tolerance {
			t.Errorf("%s: mean loss %g, want %g", s.Name, got, want)
		}
		for pos, got := range logits(t, m, p, s.IDs, 7) {
			sameEnd(t, "logit in batches of 7", got, ours[pos], m.Vocabulary)
		}
	}
	t.Logf("%d of %d positions compared, logits within %.2g of llama.cpp's", compared, positions, worst)
	if float64(compared) < 0.75*float64(positions) {
		t.Errorf("only %d of %d positions could be compared", compared, positions)
	}
}

// compareTop holds the five best logits of a position against golden ones, and
// returns by how much they differ at most.
func compareTop(t *testing.T, what string, pos int, logits []float32, top [2][]float64, tolerance float64) float64 {
	t.Helper()
	worst := 0.0
	for i, id := range top[0] {
		worst = math.Max(worst, math.Abs(float64(logits[int(id)])-top[1][i]))
	}
	if worst > tolerance {
		t.Errorf("%s, position %d: logits differ by %g", what, pos, worst)
	}
	if got := argmax(logits); got != int32(top[0][0]) && top[1][0]-top[1][1] > tolerance {
		t.Errorf("%s, position %d: best token %d, want %g", what, pos, got, top[0][0])
	}
	return worst
}

// compareReference returns by how much logits differ at most from the reference's.
func compareReference(t *testing.T, m *Model, p *pool.Pool, path string, ids []int32, tolerance float64) float64 {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	reference, err := ref.Load(f)
	if err != nil {
		t.Fatal(err)
	}
	want, worst := reference.Logits(ids), 0.0
	for pos, ours := range logits(t, m, p, ids, MaxBatch) {
		for i, v := range ours {
			worst = max(worst, math.Abs(float64(v)-float64(want[pos][i])))
		}
	}
	if worst > tolerance {
		t.Errorf("logits differ by %g from the reference's", worst)
	}
	return worst
}

// meanLoss is the mean of -log p of the token that follows.
func meanLoss(logits [][]float32, ids []int32) float64 {
	sum := 0.0
	for t, id := range ids[1:] {
		sum -= logSoftmax(logits[t])[id]
	}
	return sum / float64(len(ids)-1)
}

// drafts are the logits of the model's head along a text: entry t is made of the
// hidden state of position t and of token t+1. It runs in batches of 40.
func drafts(t *testing.T, m *Model, p *pool.Pool, path string, ids []int32) [][]float32 {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := NewHead(m, f, weights.View(f))
	if err != nil {
		t.Fatal(err)
	}
	hidden := make([]float32, len(ids)*m.Width)
	run(t, NewPass(m, p), Sequence{Cache: kv.NewStore(m.KVShape(kernel.KVF32)).NewCache(), Tokens: ids, Hidden: hidden})
	pass, cache, n := NewPass(h, p), kv.NewStore(h.KVShape(kernel.KVF32)).NewCache(), len(ids)-1
	out := make([]float32, n*h.Vocabulary)
	for at := 0; at < n; at += 40 {
		k := min(40, n-at)
		run(t, pass, Sequence{
			Cache: cache, Tokens: ids[1+at:][:k], Before: hidden[at*m.Width:][:k*m.Width],
			Logits: out[at*h.Vocabulary:][:k*h.Vocabulary],
		})
	}
	rows := make([][]float32, n)
	for i := range rows {
		rows[i] = row(out, i, h.Vocabulary)
	}
	return rows
}

// Sequences have the same bits alone and beside others in every architecture, with
// any number of threads, at every level of SIMD, with every format of the cache.
func TestArchitecturesShareAPass(t *testing.T) {
	lengths := []int{290, 33, 70, 1}
	if testing.Short() {
		lengths = []int{20, 5, 9, 1}
	}
	r := rand.New(rand.NewPCG(16, 23))
	for i, c := range archModels {
		t.Run(c.model, func(t *testing.T) {
			path := archPath(t, c.model)
			m, p := open(t, path, 1)
			store := kv.NewStore(m.KVShape(cacheFormat(m, i)))
			texts := alone(t, m, NewPass(m, p), store, lengths...)
			for threads := 1; threads <= 3; threads++ {
				levels := kernel.Levels()
				before := kernel.Use(levels[r.IntN(len(levels))])
				m, p := open(t, path, threads)
				checkBatches(t, r, m, NewPass(m, p), store, texts[:1+r.IntN(len(texts))])
				kernel.Use(before)
			}
		})
	}
}

// No architecture allocates while it decodes.
func TestArchitecturesAllocateNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("under the race detector a sync.Pool forgets at random")
	}
	for _, c := range archModels {
		t.Run(c.model, func(t *testing.T) {
			m, p := open(t, archPath(t, c.model), 2)
			batch := []Sequence{{
				Cache: kv.NewStore(m.KVShape(kernel.KVF16)).NewCache(), Tokens: []int32{1, 2, 3}, Logits: make([]float32, m.Vocabulary),
			}}
			pass := NewPass(m, p)
			run(t, pass, batch...)
			batch[0].Tokens = []int32{4}
			if n := testing.AllocsPerRun(100, func() { run(t, pass, batch...) }); n > 0 {
				t.Errorf("%.1f allocations a token", n)
			}
		})
	}
}

// cacheFormat is format number i of the cache, or F16 where Q8_0 can't hold heads of
// that size.
func cacheFormat(m *Model, i int) kernel.KVFormat {
	f := kernel.KVFormat(i % 3)
	for _, l := range m.KVShape(f).Layers {
		if f == kernel.KVQ8 && (l.Layout.Dim%32 != 0 || l.Layout.ValueDim()%32 != 0) {
			return kernel.KVF16
		}
	}
	return f
}
