package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

// BenchmarkMul multiplies matrices that stay in the second-level cache.
func BenchmarkMul(b *testing.B) {
	for _, typ := range slices.Concat(floatFormats, quantFormats, []gguf.Type{gguf.Q4_1, gguf.Q5_1}) {
		for _, n := range []int{1, 2, 4, 6, 8, 64} {
			b.Run(fmt.Sprintf("%s/%d", typ, n), func(b *testing.B) {
				benchmarkMul(b, typ, 256, 1024, n)
			})
		}
	}
}

// BenchmarkMulMemory multiplies few tokens by more weights than a small machine's caches hold.
func BenchmarkMulMemory(b *testing.B) {
	for _, typ := range []gguf.Type{gguf.Q8_0, gguf.Q4_K, gguf.IQ3_S} {
		for _, n := range []int{1, 2, 3, 4, 8} {
			b.Run(fmt.Sprintf("%s/%d", typ, n), func(b *testing.B) { benchmarkMul(b, typ, 128<<10, 1024, n) })
		}
	}
}

func benchmarkMul(b *testing.B, typ gguf.Type, rows, cols, n int) {
	r := rand.New(rand.NewPCG(4, 5))
	m := NewMatrix(typ, 256, cols, randomRows(r, typ, 256, cols))
	if Packs(typ) {
		p := NewPanels(typ, rows, cols, aligned(PanelBytes(typ, rows, cols)))
		for i := 0; i < rows; i += 256 {
			p.Pack(m.data, i/PanelRows)
		}
		m = p
	}
	a, routes := NewActs(quant.RoundingOf(typ), n, cols), make([]Route, n)
	for i := range n {
		a.Set(i, randomActs(r, cols, 0))
		routes[i] = Route{int32(i), int32(i)}
	}
	out := make([]float32, n*m.Rows)
	for b.Loop() {
		m.Mul(out, m.Rows, a, 0, m.Rows, routes)
	}
	seconds := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(float64(m.Bytes())/seconds/1e9, "GB/s")
	b.ReportMetric(2*float64(m.Rows*cols*n)/seconds/1e9, "Gop/s")
}
