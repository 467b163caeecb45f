package tokenizer

import (
	"bytes"
	"slices"
	"testing"

	"assay/internal/gguf"
)

// vocab is a file's metadata for tests. The first 256 tokens of base are the
// bytes, so the id of a byte is its value.
type vocab struct {
	tokens []string
	types  []int32
	merges []string
	set    map[string]any // further keys, or other values for the above's keys
	drop   []string       // keys to leave out
}

// base has the byte tokens, merged ones by the lines of merges, and others of
// the given types.
func base(merges []string, others ...typed) vocab {
	v := vocab{merges: merges, set: map[string]any{}}
	add := func(text string, typ int32) {
		v.tokens = append(v.tokens, text)
		v.types = append(v.types, typ)
	}
	for c := range 256 {
		add(string(byteRune[c]), 1)
	}
	for _, m := range merges {
		left, right, _ := bytes.Cut([]byte(m), []byte(" "))
		if text := string(left) + string(right); !slices.Contains(v.tokens, text) {
			add(text, 1)
		}
	}
	for _, o := range others {
		add(o.text, o.typ)
	}
	return v
}

// typed is a token with its number of tokenizer.ggml.token_type.
type typed struct {
	text string
	typ  int32
}

func (v vocab) file(t testing.TB) *gguf.File {
	t.Helper()
	pairs := map[string]any{
		keyModel: "gpt2", keyPre: "qwen2",
		keyTokens: v.tokens, keyTypes: v.types, keyMerges: v.merges,
	}
	for k, x := range v.set {
		pairs[k] = x
	}
	for _, k := range v.drop {
		delete(pairs, k)
	}
	b := gguf.NewBuilder()
	for k, x := range pairs {
		b.Set(k, x)
	}
	var file bytes.Buffer
	if _, err := b.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse("test.gguf", file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (v vocab) load(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := New(v.file(t))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// id of a token by its text.
func (v vocab) id(t testing.TB, text string) int32 {
	t.Helper()
	i := slices.Index(v.tokens, text)
	if i < 0 {
		t.Fatalf("no token %q", text)
	}
	return int32(i)
}

func (v vocab) ids(t testing.TB, texts ...string) []int32 {
	t.Helper()
	ids := []int32{}
	for _, text := range texts {
		ids = append(ids, v.id(t, text))
	}
	return ids
}
