package kv

import (
	"fmt"
	"sync"
	"testing"

	"assay/internal/engine/kernel"
)

// BenchmarkAttention is the attention of one token behind 4096 others: more keys and
// values than caches hold, read by one thread and by two, a head each.
func BenchmarkAttention(b *testing.B) {
	const layers, heads, positions = 24, 4, 4096
	layout := kernel.KVLayout{Dim: 128, Format: kernel.KVF16}
	shape := Shape{Layers: make([]Layer, layers)}
	for i := range shape.Layers {
		shape.Layers[i] = Layer{Heads: heads, Layout: layout}
	}
	c := NewStore(shape).NewCache()
	defer c.Release()
	c.Extend(positions)
	c.Commit()
	for page := range positions / PageSize {
		for at := range layers * heads {
			data := c.Page(at/heads, at%heads, page)
			for i := 1; i < len(data); i += 64 {
				data[i] = 0x3c // memory that was never written is not read
			}
		}
	}
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprint(threads), func(b *testing.B) {
			b.SetBytes(int64(positions / PageSize * shape.PageBytes()))
			for b.Loop() {
				var wg sync.WaitGroup
				for first := range threads {
					wg.Go(func() {
						a, q, out := kernel.NewAttention(layout), make([]float32, kernel.Heads*layout.Dim), make([]float32, kernel.Heads*layout.Dim)
						var state kernel.AttentionState
						for at := first; at < layers*heads; at += threads {
							for page := range positions / PageSize {
								a.Add(&state, layout, c.Page(at/heads, at%heads, page), PageSize, kernel.Heads, q, out, page == 0)
							}
						}
					})
				}
				wg.Wait()
			}
		})
	}
}
