package ref

import (
	"strings"
	"testing"

	"assay/internal/gguf"
)

// drafted is a text with what the head drafts along it: Drafts[t] is its best
// guess of token t+2, and is accepted when it equals Main[t+1].
type drafted struct {
	Name     string
	IDs      []int32
	Main     []int32   `json:"main_argmax"`
	Drafts   []int32   `json:"draft_argmax"`
	Margins  []float64 `json:"draft_margins"`
	Prompt   int       `json:"prompt_len"`
	Accepted int
	Count    int `json:"drafts"`
}

func draftTexts(t *testing.T, format string) []drafted {
	t.Helper()
	var g struct{ Cases []drafted }
	golden(t, "mtp-"+format+".float32.json", &g)
	return g.Cases
}

// Seedling's head, in its own file, drafts what PyTorch's drafts are, at every
// position of every text; so as many are accepted.
func TestHeadAgreesWithPyTorch(t *testing.T) {
	if testing.Short() {
		t.Skip("compares numbers, and shares nothing between goroutines")
	}
	for _, format := range []string{"f16", "q8_0"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			m := open(t, files[format])
			if err := m.LoadHead(file(t, seedling+"formats/seedling-15m-mtp-"+format+".gguf")); err != nil {
				t.Fatal(err)
			}
			positions, drafts, accepted := 0, 0, 0
			for _, text := range draftTexts(t, format) {
				here := 0
				for pos, logits := range m.Drafts(text.IDs) {
					got := argmax(logits)
					if got != text.Drafts[pos] {
						t.Errorf("%s, position %d: drafted %d, want %d (ahead by %g)", text.Name, pos, got, text.Drafts[pos], text.Margins[pos])
					}
					if pos >= text.Prompt-1 && got == text.Main[pos+1] {
						here++
					}
					positions++
				}
				if here != text.Accepted {
					t.Errorf("%s: %d drafts are accepted, want %d", text.Name, here, text.Accepted)
				}
				drafts, accepted = drafts+text.Count, accepted+here
			}
			t.Logf("%d drafts equal; of %d along the models' own text, %d are accepted", positions, drafts, accepted)
		})
	}
}

func file(t *testing.T, path string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func open(t *testing.T, path string) *Model {
	t.Helper()
	m, err := Load(file(t, path))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A file that is no head, or another model's, is refused by name.
func TestHeadThatDoesNotFit(t *testing.T) {
	m := open(t, files["q8_0"])
	err := m.LoadHead(file(t, files["q8_0"]))
	if err == nil || !strings.Contains(err.Error(), "nextn_predict_layers") {
		t.Errorf("a file without a head: %v", err)
	}
	m.layers++
	err = m.LoadHead(file(t, seedling+"formats/seedling-15m-mtp-q8_0.gguf"))
	if err == nil || !strings.Contains(err.Error(), "4 layers") {
		t.Errorf("a head of another model: %v", err)
	}
}
