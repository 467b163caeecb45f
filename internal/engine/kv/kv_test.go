package kv

import (
	"testing"

	"pgregory.net/rapid"

	"assay/internal/engine/kernel"
)

// A cache behaves as a plain list of numbers would, through any sequence of
// extending, truncating, keeping and restoring, and no page is lost.
func TestCacheIsAList(t *testing.T) {
	shape := Shape{Layers: 2, Heads: 2, Layout: kernel.KVLayout{Dim: 1, Format: kernel.KVF32}}
	rapid.Check(t, func(t *rapid.T) {
		store := NewStore(shape)
		c := store.NewCache()
		var model []float32
		type kept struct {
			s     *Snapshot
			model []float32
		}
		var snapshots []kept
		next := float32(1)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1:
				n := rapid.IntRange(0, 300).Draw(t, "extend")
				at := c.Len()
				c.Extend(n)
				for pos := at; pos < at+n; pos++ {
					for l := range shape.Layers {
						for h := range shape.Heads {
							c.Put(l, h, pos, []float32{next + float32(l)}, []float32{-next - float32(h)}, make([]uint16, 1))
						}
					}
					model = append(model, next)
					next = float32(int(next)%1000 + 1) // exact in F16
				}
			case 2:
				n := rapid.IntRange(0, c.Len()).Draw(t, "truncate")
				c.Truncate(n)
				model = model[:n]
			case 3:
				snapshots = append(snapshots, kept{c.Snapshot(), append([]float32(nil), model...)})
			case 4:
				if len(snapshots) > 0 {
					k := snapshots[rapid.IntRange(0, len(snapshots)-1).Draw(t, "restore")]
					c.Restore(k.s)
					model = append([]float32(nil), k.model...)
				}
			}
			if c.Len() != len(model) {
				t.Fatalf("length %d, want %d", c.Len(), len(model))
			}
			for pos, v := range model {
				k, _ := shape.Layout.At(c.Page(1, 1, pos/PageSize), pos%PageSize, 0)
				_, w := shape.Layout.At(c.Page(0, 1, pos/PageSize), pos%PageSize, 0)
				if k != v+1 || w != -v-1 {
					t.Fatalf("position %d: key %g value %g, want %g %g", pos, k, w, v+1, -v-1)
				}
			}
		}
		c.Release()
		for _, k := range snapshots {
			k.s.Release()
		}
		for _, p := range store.free {
			if p.refs.Load() != 0 {
				t.Fatalf("a free page has %d references", p.refs.Load())
			}
		}
	})
}
