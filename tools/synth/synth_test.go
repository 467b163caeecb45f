package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	enginemodel "assay/internal/engine/model"
	"assay/internal/engine/quant"
	"assay/internal/engine/ref"
	"assay/internal/gguf"
	"assay/internal/tokenizer"
)

// tiny is the preset with changes.
func tiny(t *testing.T, quant string, change ...func(*model)) *model {
	t.Helper()
	m := &model{shape: presets["tiny"], quant: quant, seed: 1, skew: 1}
	for _, f := range change {
		f(m)
	}
	var err error
	if m.vocab, err = chooseVocabulary("", m.shape.vocab); err != nil {
		t.Fatal(err)
	}
	return m
}

func layers(n int) func(*model) { return func(m *model) { m.layers, m.experts = n, 8 } }

// small is a shape for the reference pass, which is slow.
func small(m *model) {
	m.layers, m.width, m.heads, m.kvHeads, m.headDim, m.expertWidth = 3, 128, 2, 1, 32, 32
}

func made(t *testing.T, m *model) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := m.write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func parsed(t *testing.T, m *model) *gguf.File {
	t.Helper()
	f, err := gguf.Parse("synth.gguf", made(t, m))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:8])
}

// A seed means the same bytes on every machine, for any number of processors.
// Whoever changes this hash changes every file that was made before: benchmarks
// of old and new files can't be compared any more.
func TestSameSeedSameBytes(t *testing.T) {
	want := "7acd66fc3185ec3d"
	first := made(t, tiny(t, "Q4_K", layers(1)))
	if got := sum(first); got != want {
		t.Errorf("seed 1 gives %s, want %s", got, want)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if got := made(t, tiny(t, "Q4_K", layers(1))); !bytes.Equal(got, first) {
		t.Error("one processor gives other bytes")
	}
	if got := made(t, tiny(t, "Q4_K", layers(1), func(m *model) { m.seed = 2 })); bytes.Equal(got, first) {
		t.Error("another seed gives the same bytes")
	}
}

// Weights of every format have mean 0 and the size that their matrix is to
// have, as the engine decodes them.
func TestBlocks(t *testing.T) {
	for kind, fill := range fillers {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			const n = 1 << 20
			elements, size := kind.Block()
			b := make([]byte, n/elements*size)
			const std = 0.03
			fill(&source{rand.NewChaCha8([32]byte{1})}, b, std)
			if !quant.Supported(kind) {
				t.Skip("the engine can't decode it yet")
			}
			x := make([]float32, n)
			quant.Decode(kind, x, b)
			sum, squares := 0.0, 0.0
			for _, v := range x {
				sum += float64(v)
				squares += float64(v) * float64(v)
			}
			if got := math.Sqrt(squares / n); math.Abs(got/std-1) > 0.02 {
				t.Errorf("standard deviation %g, want %g", got, std)
			}
			if mean := sum / n; math.Abs(mean) > 0.02*std {
				t.Errorf("mean %g, want 0", mean)
			}
		})
	}
}

// A file of every format has what llama.cpp and our engine ask for.
func TestFiles(t *testing.T) {
	names := []string{"Q4_K_M"}
	for kind := range fillers {
		names = append(names, kind.String())
	}
	slices.Sort(names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := parsed(t, tiny(t, name, layers(1)))
			defer f.Close()
			wanted, err := mixOf(name)
			if err != nil {
				t.Fatal(err)
			}
			w, _ := f.Tensor("blk.0.ffn_gate_exps.weight")
			if kind := wanted(&shape{layers: 1}, &tensor{kind: weight}); w == nil || w.Type != kind {
				t.Errorf("the experts are %v, want %s", w, kind)
			}
			if _, err := enginemodel.ReadConfig(f); err != nil {
				t.Error(err)
			}
			if _, err := tokenizer.New(f); err != nil {
				t.Error(err)
			}
		})
	}
}

// Q4_K_M keeps Q6_K where llama.cpp does: of 24 layers, attn_v and ffn_down of
// the first and last three, and of every third between.
func TestMix(t *testing.T) {
	s := presets["2.5b"]
	var fine []int
	for i := range s.layers {
		if q4KM(&s, &tensor{kind: value, layer: i}) == gguf.Q6_K {
			fine = append(fine, i)
		}
	}
	if want := []int{0, 1, 2, 5, 8, 11, 14, 17, 20, 21, 22, 23}; !slices.Equal(fine, want) {
		t.Errorf("Q6_K in layers %v, want %v", fine, want)
	}
	if q4KM(&s, &tensor{kind: output}) != gguf.Q6_K || q4KM(&s, &tensor{kind: weight, layer: 0}) != gguf.Q4_K {
		t.Error("output or experts are in the wrong format")
	}
}

// The stream keeps its size: logits are about 1 whatever the depth.
func TestActivationsKeepTheirSize(t *testing.T) {
	f := parsed(t, tiny(t, "Q8_0", small, func(m *model) { m.layers = 24 }))
	m, err := ref.Load(f)
	if err != nil {
		t.Fatal(err)
	}
	for i, logits := range m.Logits([]int32{5, 77, 1000, 4000}) {
		squares := 0.0
		for _, v := range logits {
			squares += float64(v) * float64(v)
		}
		if rms := math.Sqrt(squares / float64(len(logits))); rms < 0.8 || rms > 1.25 {
			t.Errorf("position %d: logits of size %g", i, rms)
		}
	}
}

// Experts are used as often as the Zipf distribution asks: measured with the
// reference pass over random tokens, all layers together.
func TestSkew(t *testing.T) {
	for _, skew := range []float64{0, 1} {
		m := tiny(t, "Q8_0", small, func(m *model) { m.skew, m.layers = skew, 16 })
		f := parsed(t, m)
		r, err := ref.Load(f)
		if err != nil {
			t.Fatal(err)
		}
		rank := make([][]int, m.layers) // by layer and expert
		for i := range rank {
			lengths := rowLengths(m.source(routerName(i), -1), m.experts, m.used, skew)
			order := make([]int, m.experts)
			for e := range order {
				order[e] = e
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lengths[b], lengths[a]) })
			rank[i] = make([]int, m.experts)
			for place, e := range order {
				rank[i][e] = place
			}
		}
		got := make([][]float64, m.layers) // by layer and rank
		for i := range got {
			got[i] = make([]float64, m.experts)
		}
		const sequences, length = 2, 96
		r.Trace = func(layer, _ int, experts []int, _ float64) {
			for _, e := range experts {
				got[layer][rank[layer][e]] += 1.0 / (sequences * length)
			}
		}
		random := rand.New(rand.NewPCG(1, 1))
		for range sequences {
			ids := make([]int32, length)
			for i := range ids {
				ids[i] = random.Int32N(int32(m.shape.vocab))
			}
			r.Logits(ids)
		}
		want := shares(m.experts, m.used, skew)
		all, off := make([]float64, m.experts), 0.0
		for _, layer := range got {
			for i, share := range layer {
				all[i] += share / float64(m.layers)
				off += math.Abs(share-want[i]) / 2 / float64(m.layers)
			}
		}
		// off is how many experts of a token are, in an average layer, others
		// than wanted. Chance alone makes it 0.3; were the tokens' streams alike,
		// all of a layer's tokens would choose the same experts.
		if off > 0.2*float64(m.used) {
			t.Errorf("skew %g: of %d experts a token %.2f are others than wanted", skew, m.used, off)
		}
		for i, share := range all {
			if math.Abs(share-want[i]) > 0.2*want[i]+0.01 {
				t.Errorf("skew %g: the expert of rank %d gets %.3f of the tokens, want %.3f", skew, i, share, want[i])
			}
		}
		t.Logf("skew %g: %.2f of %d experts are others\ngot  %.3f\nwant %.3f", skew, off, m.used, all, want)
	}
}

// Shares sum to the experts of a token and never grow with the rank.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		n, used int
		s       float64
	}{{128, 8, 1}, {64, 8, 1}, {64, 8, 0}, {32, 4, 2.5}, {16, 2, 0.5}, {4, 2, 1}, {512, 10, 1.2}} {
		p := shares(c.n, c.used, c.s)
		sum := 0.0
		for i, v := range p {
			sum += v
			if v <= 0 || v > 0.6 || i > 0 && v > p[i-1] {
				t.Errorf("%+v: share %d is %g after %g", c, i, v, p[max(i-1, 0)])
			}
		}
		if math.Abs(sum-float64(c.used)) > 1e-6 {
			t.Errorf("%+v: shares sum to %g", c, sum)
		}
		if c.s == 1 && c.n > 32 && (p[0] < 0.3 || p[0] > topShare+1e-6) {
			t.Errorf("%+v: the first share is %g, want %g", c, p[0], topShare)
		}
	}
}

// A vocabulary is padded; one that is too small is refused.
func TestVocabulary(t *testing.T) {
	f := parsed(t, tiny(t, "F16", layers(1), func(m *model) { m.shape.vocab = 5000 }))
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatal(err)
	}
	if tok.Size() != 5000 {
		t.Errorf("%d tokens, want 5000", tok.Size())
	}
	if _, err := chooseVocabulary("", 1000); err == nil || !strings.Contains(err.Error(), "4096 tokens, more than the 1000") {
		t.Errorf("error %v", err)
	}
}

// What can't be made is told by the flag that is wrong, and leaves no file.
func TestErrors(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.gguf")
	for want, args := range map[string][]string{
		"-quant Q9":                     {"-quant", "Q9"},
		"-preset huge":                  {"-preset", "huge"},
		"-arch llama":                   {"-arch", "llama"},
		"-kv-heads 3":                   {"-kv-heads", "3"},
		"-used 32 is not between":       {"-used", "32"},
		"blocks of 256":                 {"-width", "320", "-quant", "Q4_K"},
		"want -o FILE and no arguments": {"extra"},
	} {
		if err := run(append([]string{"-preset", "tiny", "-o", out}, args...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", args, err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(out), "*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// A writer that fails ends it.
func TestWriteFails(t *testing.T) {
	m := tiny(t, "Q8_0")
	if _, err := m.write(failing{}); err == nil {
		t.Error("no error")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func routerName(layer int) string {
	for _, t := range tensorsQwen3MoE(&shape{layers: layer + 1}) {
		if t.kind == router && t.layer == layer {
			return t.name
		}
	}
	return ""
}

// gpt-oss comes with its experts in MXFP4 and the rest in Q8_0, and its stream
// keeps its size.
func TestGptOss(t *testing.T) {
	m := tiny(t, "MXFP4_MOE", small, func(m *model) { m.arch = "gpt-oss" })
	f := parsed(t, m)
	for name, want := range map[string]gguf.Type{
		"blk.1.ffn_up_exps.weight": gguf.MXFP4, "blk.1.attn_v.weight": gguf.Q8_0, "blk.1.ffn_up_exps.bias": gguf.F32, "blk.1.attn_sinks.weight": gguf.F32,
	} {
		if got, ok := f.Tensor(name); !ok || got.Type != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	checkStream(t, f)
}

// qwen35moe has layers of both kinds, and its stream keeps its size.
func TestQwen35MoE(t *testing.T) {
	m := tiny(t, "Q8_0", small, func(m *model) { m.arch, m.layers = "qwen35moe", 5 })
	f := parsed(t, m)
	for _, want := range []string{"blk.2.ssm_a", "blk.3.attn_q.weight", "blk.4.attn_gate.weight"} {
		if _, ok := f.Tensor(want); !ok {
			t.Errorf("%s is missing", want)
		}
	}
	if _, err := enginemodel.ReadConfig(f); err != nil {
		t.Error(err)
	}
	checkStream(t, f)
}

// checkStream checks that a model's residual stream neither vanishes nor explodes.
func checkStream(t *testing.T, f *gguf.File) {
	t.Helper()
	r, err := ref.Load(f)
	if err != nil {
		t.Fatal(err)
	}
	largest := 0.0
	r.Stream = func(_ int, _ string, x [][]float64) {
		for _, v := range x {
			squares := 0.0
			for _, y := range v {
				squares += y * y
			}
			largest = max(largest, math.Sqrt(squares/float64(len(v))))
		}
	}
	r.Logits([]int32{5, 77, 1000, 4000})
	if largest < 1 || largest > 4 {
		t.Errorf("the stream grows to %g", largest)
	}
}
