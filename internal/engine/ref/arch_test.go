package ref

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/gguf"
)

// Tiny random models of every architecture with llama.cpp's outputs. They are test
// data of this machine, not of the repository.
const archDir = "../../../../shared/models/arch"

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

func archFile(t *testing.T, name string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(filepath.Join(archDir, "models", name+".gguf"))
	if err != nil {
		t.Skipf("the models of other architectures are not on this machine: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func archJSON(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(archDir, "golden", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// Logits of all positions against llama.cpp's, whose CPU code works in float32.
// Where its weights are quantised it also rounds what they are multiplied with, so
// there the golden values are those of decoded weights.
func TestArchitectures(t *testing.T) {
	if testing.Short() {
		t.Skip("compares numbers, and shares nothing between goroutines")
	}
	for _, c := range []struct {
		model, golden string
		tolerance     float64
		asLlamaCpp    bool
	}{
		{model: "llama"},
		{model: "llama-moe"},
		{model: "qwen2"},
		{model: "qwen3"},
		{model: "olmoe"},
		{model: "granitemoe"},
		{model: "glm4moe"},
		{model: "deepseek2"},
		{model: "lfm2moe"},
		{model: "qwen35moe"},
		{model: "qwen3next"},
		{model: "gemma3", tolerance: 2e-2}, // llama.cpp's GELU is a table of half precision
		{model: "gpt-oss", golden: "gpt-oss-experts-decoded-to-f32"},
		{model: "qwen3moe-quantised", golden: "qwen3moe-quantised-decoded-to-f32"},
		{model: "qwen4exp", asLlamaCpp: true},
		{model: "qwen4exp", golden: "qwen4exp-wholeblocks-own-reference"},
	} {
		if c.golden == "" {
			c.golden = c.model
		}
		if c.tolerance == 0 {
			c.tolerance = 1e-3
		}
		t.Run(c.golden, func(t *testing.T) {
			t.Parallel()
			m, err := Load(archFile(t, c.model))
			if err != nil {
				t.Fatal(err)
			}
			if c.asLlamaCpp {
				m.AsLlamaCpp()
			}
			var g archGolden
			archJSON(t, c.golden, &g)
			positions, worst, drafts := 0, 0.0, 0.0
			for _, s := range g.Sequences {
				// What follows greedily is checked in the same pass: if every token is the
				// best one after those before it, the text is the same.
				ids := append(append([]int32{}, s.IDs...), s.Whole.Greedy...)
				logits := m.Logits(ids)
				for pos, top := range s.Whole.Top5 {
					positions++
					worst = math.Max(worst, compareTop(t, s.Name, pos, logits[pos], top, c.tolerance))
				}
				for i, id := range s.Whole.Greedy {
					if got := argmax(logits[len(s.IDs)-1+i]); got != id && s.Whole.Margins[i] > c.tolerance {
						t.Errorf("%s, token %d after the prompt: %d, want %d (ahead by %g)", s.Name, i, got, id, s.Whole.Margins[i])
					}
				}
				if s.MTP != nil {
					for pos, l := range m.Drafts(s.IDs) {
						drafts = math.Max(drafts, compareTop(t, s.Name+", drafts", pos, l, s.MTP.Top5[pos], c.tolerance))
					}
				}
				for i, want := range s.Whole.Last {
					if got := float64(logits[len(s.IDs)-1][i]); math.Abs(got-want) > c.tolerance {
						t.Errorf("%s: last position, logit %d: %g, want %g", s.Name, i, got, want)
					}
				}
				if want := s.Whole.MeanNLL; want != 0 {
					if got := meanNLL(logits, s.IDs); math.Abs(got-want) > c.tolerance {
						t.Errorf("%s: mean loss %g, want %g", s.Name, got, want)
					}
				}
			}
			t.Logf("%d positions, logits within %.2g, drafts within %.2g", positions, worst, drafts)
		})
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

// meanNLL is the mean of -log p of the token that follows.
func meanNLL(logits [][]float32, ids []int32) float64 {
	sum := 0.0
	for t := range len(ids) - 1 {
		top, total := math.Inf(-1), 0.0
		for _, v := range logits[t] {
			top = math.Max(top, float64(v))
		}
		for _, v := range logits[t] {
			total += math.Exp(float64(v) - top)
		}
		sum += top + math.Log(total) - float64(logits[t][ids[t+1]])
	}
	return sum / float64(len(ids)-1)
}

// An architecture that is not known is named, with those that are.
func TestUnknownArchitecture(t *testing.T) {
	var file bytes.Buffer
	b := gguf.NewBuilder()
	b.Set("general.architecture", "mamba")
	if _, err := b.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse("test.gguf", file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	_, err = Load(f)
	for _, want := range []string{"test.gguf", `"mamba"`, "qwen3moe", "gpt-oss"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}
