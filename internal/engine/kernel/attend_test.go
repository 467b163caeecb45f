package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"assay/internal/engine/quant"
)

// Attention over pages has the bits of quant.Attend: for both formats, several
// sizes of heads, numbers of rows and positions, at every level.
func TestAttentionHasTheBitsOfQuant(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for _, l := range []KVLayout{{64, KVF16}, {128, KVF16}, {80, KVF16}, {32, KVQ8}, {64, KVQ8}, {96, KVQ8}, {128, KVQ8}, {128, KVF32}, {20, KVF32}} {
			t.Run(fmt.Sprintf("%s/%d", l.Format, l.Dim), func(t *testing.T) {
				r := rand.New(rand.NewPCG(5, uint64(l.Dim)))
				n := 2*PagePositions + 37
				var pages [][]byte
				keys, values := make([][]float32, n), make([][]float32, n)
				for pos := range n {
					if pos%PagePositions == 0 {
						pages = append(pages, aligned(l.Bytes()))
					}
					k, v := randomActs(r, l.Dim, []int{0, 5, 7}[pos%3]), randomActs(r, l.Dim, pos%3)
					page := pages[pos/PagePositions]
					l.Put(page, pos%PagePositions, k, v, make([]uint16, l.Dim))
					keys[pos], values[pos] = kept(l, k), kept(l, v)
					for d := range l.Dim {
						if x, y := l.At(page, pos%PagePositions, d); x != keys[pos][d] || y != values[pos][d] {
							t.Fatalf("position %d dimension %d keeps %g and %g, want %g and %g", pos, d, x, y, keys[pos][d], values[pos][d])
						}
					}
				}
				a := NewAttention(l)
				for rows := 1; rows <= Heads; rows++ {
					for _, seen := range []int{1, 2, 16, 17, 64, 65, 255, 256, 257, n} {
						q := randomActs(r, rows*l.Dim, 0)
						want := make([]float32, len(q))
						for i := range rows {
							quant.Attend(want[i*l.Dim:][:l.Dim], q[i*l.Dim:][:l.Dim], keys[:seen], values[:seen])
						}
						Scale(q, quant.AttentionScale(l.Dim))
						got := make([]float32, len(q))
						var state AttentionState
						for p := 0; p*PagePositions < seen; p++ {
							a.Add(&state, l, pages[p], min(PagePositions, seen-p*PagePositions), rows, q, got, p == 0)
						}
						state.Finish(l, rows, got)
						for i := range want {
							if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
								t.Fatalf("%d rows, %d positions: row %d dimension %d is %g, want %g", rows, seen, i/l.Dim, i%l.Dim, got[i], want[i])
							}
						}
					}
				}
			})
		}
	})
}

// kept is x as a cache keeps it.
func kept(l KVLayout, x []float32) []float32 {
	out := make([]float32, len(x))
	switch l.Format {
	case KVF32:
		copy(out, x)
		return out
	case KVF16:
		for i, v := range x {
			out[i] = quant.FromHalf(quant.ToHalf(v))
		}
		return out
	}
	a := quant.NewActs(quant.RoundQ8_0, 1, len(x))
	a.Set(0, x)
	for i, q := range a.Q {
		out[i] = float32(a.D[i/32] * float32(q))
	}
	return out
}

func BenchmarkAttention(b *testing.B) {
	for _, l := range []KVLayout{{128, KVF16}, {128, KVQ8}} {
		b.Run(l.Format.String(), func(b *testing.B) {
			page, a := aligned(l.Bytes()), NewAttention(l)
			q, out := make([]float32, 4*l.Dim), make([]float32, 4*l.Dim)
			var state AttentionState
			for b.Loop() {
				a.Add(&state, l, page, PagePositions, 4, q, out, false)
			}
			b.ReportMetric(4*4*float64(l.Dim*PagePositions)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gflop/s")
		})
	}
}
