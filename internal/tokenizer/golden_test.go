package tokenizer

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"assay/internal/gguf"
	"assay/models/seedling"
)

const (
	goldenDir = "../../models/seedling/formats/golden"
	vocabDir  = "../../../shared/data/vocab" // not in the repository
)

// builtin is the vocabulary of the built-in model, which the golden ids are of.
func builtin(t testing.TB) *Tokenizer {
	t.Helper()
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// qwen2 is Qwen2's own vocabulary, with 151,936 tokens.
func qwen2(t testing.TB) *Tokenizer {
	t.Helper()
	path := filepath.Join(vocabDir, "ggml-vocab-qwen2.gguf")
	f, err := gguf.Open(path)
	if err != nil {
		t.Skipf("the real vocabularies are not on this machine: %v", err)
	}
	defer f.Close()
	tok, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func readJSON(t *testing.T, name string, v any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(goldenDir, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
}

func TestLlamaCppIDs(t *testing.T) {
	var golden []struct {
		Text  string
		IDs   []int32
		Parse []int32 `json:"ids_parse_special"` // where it differs
	}
	readJSON(t, "tokenizer.json", &golden)
	if len(golden) != 270 {
		t.Fatalf("%d golden texts, want 270", len(golden))
	}
	tok := builtin(t)
	for _, g := range golden {
		if got := tok.Encode(g.Text, Options{}); !slices.Equal(got, g.IDs) {
			t.Errorf("Encode(%q) = %v, want %v", g.Text, got, g.IDs)
		}
		want := g.IDs
		if g.Parse != nil {
			want = g.Parse
		}
		got := tok.Encode(g.Text, Options{ParseSpecial: true})
		if !slices.Equal(got, want) {
			t.Errorf("Encode(%q, ParseSpecial) = %v, want %v", g.Text, got, want)
		}
		if back := tok.Decode(got, true); back != g.Text {
			t.Errorf("Decode(Encode(%q)) = %q", g.Text, back)
		}
		// The file asks for no BOS or EOS.
		if added := tok.Encode(g.Text, Options{AddSpecial: true, ParseSpecial: true}); !slices.Equal(added, got) {
			t.Errorf("Encode(%q, AddSpecial) = %v, want %v", g.Text, added, got)
		}
	}
}

func TestLlamaCppIDsOfInvalidUTF8(t *testing.T) {
	var golden []struct {
		Hex   string
		IDs   []int32
		Error string
	}
	readJSON(t, "tokenizer-bytes.json", &golden)
	if len(golden) != 26 {
		t.Fatalf("%d golden byte strings, want 26", len(golden))
	}
	tok := builtin(t)
	for _, g := range golden {
		text, err := hex.DecodeString(g.Hex)
		if err != nil {
			t.Fatal(err)
		}
		want := g.IDs
		if g.Error != "" {
			// llama.cpp throws at a code point past U+10FFFF. Here its bytes are
			// like any others that start nothing.
			want = tok.Encode(strings.Repeat("\uFFFD", len(text)), Options{})
		}
		if got := tok.Encode(string(text), Options{}); !slices.Equal(got, want) {
			t.Errorf("Encode(% x) = %v, want %v", text, got, want)
		}
	}
}

// The real vocabularies with llama.cpp's ids for its test texts. They are test data
// of this machine, not of the repository.
func TestLlamaCppIDsOfRealVocabularies(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(vocabDir, "*.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("the real vocabularies are not on this machine: %s is empty", vocabDir)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "ggml-vocab-"), ".gguf"), func(t *testing.T) {
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			tok, err := New(f)
			if err != nil {
				t.Fatal(err)
			}
			testVectors(t, tok, path)
		})
	}
}

func testVectors(t *testing.T, tok *Tokenizer, path string) {
	inputs, err := os.ReadFile(path + ".inp")
	if err != nil {
		t.Fatal(err)
	}
	outputs, err := os.ReadFile(path + ".out")
	if err != nil {
		t.Fatal(err)
	}
	const mark = "\n__ggml_vocab_test__\n"
	texts := strings.Split(strings.TrimSuffix(string(inputs), mark), mark)
	lines := strings.Split(strings.TrimSuffix(string(outputs), "\n"), "\n")
	if len(texts) != len(lines) || len(texts) < 40 {
		t.Fatalf("%d texts and %d lines of ids", len(texts), len(lines))
	}
	for i, text := range texts {
		var want []int32
		for _, s := range strings.Fields(lines[i]) {
			id, err := strconv.ParseInt(s, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, int32(id))
		}
		got := tok.Encode(text, Options{})
		if !slices.Equal(got, want) {
			t.Errorf("Encode(%q)\n got %v\nwant %v", text, got, want)
		}
		back := tok.Decode(got, false)
		if tok.spm != nil { // it puts a blank before every text
			back = strings.TrimPrefix(back, " ")
		}
		if back != text {
			t.Errorf("Decode(Encode(%q)) = %q", text, back)
		}
	}
}
