package gguf_test

import (
	"testing"

	"assay/internal/gguf"
)

// FuzzParse looks for files that crash the reader or make it contradict itself.
func FuzzParse(f *testing.F) {
	f.Add(sample(f))
	f.Add(header(0, 0).Bytes())
	f.Add(header(2, 0).tensor("new", 99, 0, 256, 4).tensor("old", gguf.F32, 64, 2).pad(32, 96).Bytes())
	f.Add(header(1, 1).str("general.alignment").kind(gguf.KindUint32).u32(1).tensor("t", gguf.IQ3_S, 0, 256).pad(1, 110).Bytes())
	f.Add(header(0, 1).str("a").kind(gguf.KindArray).kind(gguf.KindString).u64(2).str("x").str("yz").Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := gguf.Parse("fuzz.gguf", data)
		if err != nil {
			return
		}
		use(t, g, len(data))
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		for _, x := range g.Tensors() {
			if x.Data() != nil {
				t.Fatal("data after Close")
			}
		}
		for _, kv := range g.KVs() {
			_ = kv.Value.String()
			_, _ = kv.Value.Strings()
		}
	})
}
