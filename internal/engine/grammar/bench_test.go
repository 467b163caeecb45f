package grammar

import (
	"os"
	"testing"
	"time"

	"assay/internal/gguf"
	"assay/internal/tokenizer"
)

// BenchmarkMask finds what may follow in a vocabulary of 151,000 tokens, at
// places that nobody has asked about before.
func BenchmarkMask(b *testing.B) {
	const path = "../../../../shared/data/vocab/ggml-vocab-qwen2.gguf" // not in the repository
	raw, err := os.ReadFile(path)
	if err != nil {
		b.Skip(err)
	}
	f, err := gguf.Parse(path, raw)
	if err != nil {
		b.Fatal(err)
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	v := NewVocabulary(tok)
	b.Logf("%d tokens, %d nodes in %v", tok.Size(), len(v.nodes), time.Since(began))
	for _, c := range []struct{ name, schema, text string }{
		{"string", `{"type":"string"}`, `"ab`},
		{"bounded", `{"type":"string","maxLength":30}`, `"ab`},
		{"key", `{"type":"object","properties":{"name":{"type":"string"}},"additionalProperties":true}`, `{"`},
		{"value", `{"type":"array"}`, `[`},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				x, err := Schema([]byte(c.schema))
				if err != nil {
					b.Fatal(err)
				}
				g, err := Compile(x, v)
				if err != nil {
					b.Fatal(err)
				}
				s := g.first
				for i := range len(c.text) {
					s = g.m.step(s, c.text[i])
				}
				g.mask(s)
			}
		})
	}
	b.Run("drawing", func(b *testing.B) { // what a token costs when its mask is known
		x, _ := Schema([]byte(`{"type":"string"}`))
		g, _ := Compile(x, v)
		m := g.Matcher()
		m.Accept(tok.Encode(`"`, tokenizer.Options{})[0])
		id := tok.Encode(`hello`, tokenizer.Options{})[0]
		b.ReportAllocs()
		for b.Loop() {
			m.Allowed()
			m.Fits(id, 100)
			m.Accept(id)
		}
	})
}
