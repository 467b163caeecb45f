package ref

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/gguf"
)

const seedling = "../../../models/seedling/"

var files = map[string]string{
	"f16":    seedling + "formats/seedling-15m-f16.gguf",
	"q8_0":   seedling + "formats/seedling-15m-q8_0.gguf",
	"q4_k_m": seedling + "formats/seedling-15m-q4_k_m.gguf",
	"iq3_s":  seedling + "seedling-15m-iq3_s.gguf",
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

// The reference agrees with an independent one (PyTorch, float32, on the same
// decoded weights) about the best token at every position of every text, and
// about the best logits to 1e-4. MODEL.md describes the files.
func TestAgreesWithPyTorch(t *testing.T) {
	if testing.Short() {
		t.Skip("compares numbers, and shares nothing between goroutines")
	}
	for format, path := range files {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			m, err := Load(f)
			if err != nil {
				t.Fatal(err)
			}
			positions, worst := 0, float32(0)
			check := func(what string, logits []float32, best int32, value float32) {
				positions++
				if got := argmax(logits); got != best {
					t.Errorf("%s: best token %d (%g), want %d (%g)", what, got, logits[got], best, logits[best])
				}
				if value != 0 {
					worst = max(worst, value-logits[best], logits[best]-value)
				}
			}
			var teacher []struct {
				Name string
				IDs  []int32
				Top5 []struct {
					IDs    []int32
					Logits []float32
				}
			}
			golden(t, "teacher-"+format+".float32.json", &teacher)
			for _, text := range teacher {
				for pos, logits := range m.Logits(text.IDs) {
					check(text.Name, logits, text.Top5[pos].IDs[0], text.Top5[pos].Logits[0])
				}
			}
			var generate []struct {
				Name   string
				Prompt []int32 `json:"prompt_ids"`
				Greedy []int32 `json:"greedy_ids"`
			}
			golden(t, "generate-"+format+".float32.json", &generate)
			for _, text := range generate {
				all := append(text.Prompt, text.Greedy...)
				logits := m.Logits(all[:len(all)-1])
				for i, want := range text.Greedy {
					check(text.Name, logits[len(text.Prompt)-1+i], want, 0)
				}
			}
			t.Logf("%d positions, largest difference of a best logit %.1e", positions, worst)
			if want := 76 + 78 + 68 + 8*64; positions != want {
				t.Errorf("checked %d positions, want %d", positions, want)
			}
			if worst > 1e-4 {
				t.Errorf("a best logit differs by %g", worst)
			}
		})
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
