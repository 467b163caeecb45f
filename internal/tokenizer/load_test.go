package tokenizer

import (
	"errors"
	"strings"
	"testing"

	"assay/internal/gguf"
)

func TestLoadErrorsNameFileKeyAndPlace(t *testing.T) {
	good := func() vocab { return base([]string{"a b"}, typed{"<|im_end|>", 3}) }
	if tok := good().load(t); tok.Size() != 258 {
		t.Fatalf("the vocabulary that the cases below spoil has %d tokens", tok.Size())
	}
	tests := []struct {
		name  string
		spoil func(*vocab)
		want  []string // parts of the error
	}{
		{"other model", func(v *vocab) { v.set[keyModel] = "bert" }, []string{keyModel, `"bert"`, `"gpt2"`, `"llama"`}},
		{"no model", func(v *vocab) { v.drop = []string{keyModel} }, []string{keyModel}},
		{"other pre-tokenizer", func(v *vocab) { v.set[keyPre] = "bloom" }, []string{keyPre, `"bloom"`, "qwen2", "deepseek-r1-qwen"}},
		{"SentencePiece without scores", func(v *vocab) { v.set[keyModel] = "llama" }, []string{keyScores}},
		{"a score too few", func(v *vocab) { v.set[keyModel], v.set[keyScores] = "llama", []float32{1} }, []string{keyScores, "1 scores", "258 tokens"}},
		{"no pre-tokenizer", func(v *vocab) { v.drop = []string{keyPre} }, []string{keyPre}},
		{"no tokens", func(v *vocab) { v.drop = []string{keyTokens} }, []string{keyTokens}},
		{"empty tokens", func(v *vocab) { v.tokens = []string{} }, []string{keyTokens, "0 tokens"}},
		{"tokens not strings", func(v *vocab) { v.set[keyTokens] = []int32{1} }, []string{keyTokens, "int32"}},
		{"a token twice", func(v *vocab) { v.tokens[200] = v.tokens[100] }, []string{keyTokens, "tokens 100 and 200", `"d"`}},
		{"a type too few", func(v *vocab) { v.types = v.types[:257] }, []string{keyTypes, "257 types", "258 tokens"}},
		{"a type too many", func(v *vocab) { v.types = append(v.types, 1) }, []string{keyTypes, "259 types"}},
		{"types not integers", func(v *vocab) { v.set[keyTypes] = []string{"x"} }, []string{keyTypes, "string"}},
		{"no merges", func(v *vocab) { v.drop = []string{keyMerges} }, []string{keyMerges}},
		{"merge without blank", func(v *vocab) { v.merges = []string{"a b", "ab"} }, []string{keyMerges, "merge 1", `"ab"`}},
		{"merge of nothing", func(v *vocab) { v.merges = []string{"a "} }, []string{keyMerges, "merge 0", `"a "`}},
		{"merge of three", func(v *vocab) { v.merges = []string{"a b c"} }, []string{keyMerges, "merge 0", `"b c"`}},
		{"merge of no token", func(v *vocab) { v.merges = []string{"a bc"} }, []string{keyMerges, "merge 0", `"bc"`}},
		{"merge to no token", func(v *vocab) { v.merges = []string{"a b", "b c"} }, []string{keyMerges, "merge 1", `"bc" is not in`}},
		{"long merge is cut", func(v *vocab) { v.merges = []string{strings.Repeat("x", 1000)} }, []string{keyMerges, "... (1000 bytes)"}},
		{"BOS out of range", func(v *vocab) { v.set[keyBOS] = uint32(258) }, []string{keyBOS, "258", "0 to 257"}},
		{"EOS out of range", func(v *vocab) { v.set[keyEOS] = uint32(1 << 31) }, []string{keyEOS, "2147483648"}},
		{"EOS negative", func(v *vocab) { v.set[keyEOS] = int32(-1) }, []string{keyEOS, "-1"}},
		{"EOT out of range", func(v *vocab) { v.set["tokenizer.ggml.eot_token_id"] = uint32(300) }, []string{"eot_token_id", "300"}},
		{"fill-in id out of range", func(v *vocab) { v.set["tokenizer.ggml.middle_token_id"] = uint32(300) }, []string{"middle_token_id", "300"}},
		{"BOS wanted but not named", func(v *vocab) { v.set[keyAddBOS] = true }, []string{keyAddBOS, keyBOS}},
		{"EOS wanted but not named", func(v *vocab) { v.set[keyAddEOS] = true }, []string{keyAddEOS, keyEOS}},
		{"add_bos_token no bool", func(v *vocab) { v.set[keyAddBOS] = uint32(1) }, []string{keyAddBOS, "bool"}},
		{"byte token of two bytes", func(v *vocab) { v.tokens[257], v.types[257] = "<0x123>", 6 }, []string{keyTokens, "token 257", `"<0x123>"`}},
		{"byte token without a byte", func(v *vocab) { v.types[256] = 6 }, []string{keyTokens, "token 256", `"ab"`, "<0x0A>"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := good()
			tt.spoil(&v)
			_, err := New(v.file(t))
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range append(tt.want, "test.gguf") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is missing in: %v", part, err)
				}
			}
			if len(err.Error()) > 800 {
				t.Errorf("error of %d bytes: %v", len(err.Error()), err)
			}
		})
	}
}

func TestAbsentKeyIsErrMissing(t *testing.T) {
	v := base(nil)
	v.drop = []string{keyMerges}
	if _, err := New(v.file(t)); !errors.Is(err, gguf.ErrMissing) {
		t.Errorf("error %v is not gguf.ErrMissing", err)
	}
}

func TestLabelsWithTheSameRule(t *testing.T) {
	for pre := range rules {
		v := base(nil)
		v.set[keyPre] = pre
		v.load(t)
	}
}

func TestTypesMayBeAbsent(t *testing.T) {
	v := base([]string{"a b"}, typed{"<|im_end|>", 3}, typed{"<tool>", 4})
	v.drop = []string{keyTypes}
	tok := v.load(t)
	// Without types a token is normal, except for what its text says.
	if !tok.IsControl(v.id(t, "<|im_end|>")) || tok.IsControl(v.id(t, "<tool>")) {
		t.Error("<|im_end|> should be a control token and <tool> should not")
	}
}

// The same pair twice: the first rank holds, as in llama.cpp.
func TestMergeListedTwice(t *testing.T) {
	v := base([]string{"a b", "b c", "a b"})
	if got, want := v.load(t).Encode("abc", Options{}), v.ids(t, "ab", "c"); !equalIDs(got, want) {
		t.Errorf("Encode(abc) = %v, want %v", got, want)
	}
}

// A byte without a token is dropped, and doesn't join its neighbours.
func TestVocabularyWithoutAllBytes(t *testing.T) {
	v := base([]string{"a b"})
	v.tokens['x'] = "not x"
	tok := v.load(t)
	if got, want := tok.Encode("axb xab x", Options{}), v.ids(t, "a", "b", "Ġ", "ab", "Ġ"); !equalIDs(got, want) {
		t.Errorf("Encode = %v, want %v", got, want)
	}
}

func TestEmptyToken(t *testing.T) {
	v := base(nil, typed{"", 3}, typed{"", 4})
	tok := v.load(t)
	if got, want := tok.Encode("ab", Options{ParseSpecial: true}), v.ids(t, "a", "b"); !equalIDs(got, want) {
		t.Errorf("Encode = %v, want %v", got, want)
	}
	if p := tok.Piece(256); p == nil || len(p) != 0 {
		t.Errorf("Piece of an empty token = %#v, want empty", p)
	}
}
