package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"assay/internal/engine/quant"
)

// Attention over pages has the bits of quant.Look.Attend: for every format, sizes
// of keys and values, numbers of rows, positions, windows and sinks, at every
// level, pages as they are kept and as Wide makes them. Pages before the first
// position that is seen are never touched.
func TestAttentionHasTheBitsOfQuant(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for _, l := range []KVLayout{
			{64, KVF16, 0},
			{128, KVF16, 0},
			{80, KVF16, 0},
			{32, KVQ8, 0},
			{64, KVQ8, 0},
			{96, KVQ8, 0},
			{128, KVQ8, 0},
			{128, KVF32, 0},
			{20, KVF32, 0},
			{80, KVF16, 64},
			{96, KVQ8, 64},
			{48, KVF32, 32},
			{64, KVQ8, 160},
		} {
			t.Run(fmt.Sprintf("%s/%d-%d", l.Format, l.Dim, l.ValueDim()), func(t *testing.T) {
				r := rand.New(rand.NewPCG(5, uint64(l.Dim)))
				n := 2*PagePositions + 37
				var pages [][]byte
				keys, values := make([][]float32, n), make([][]float32, n)
				for pos := range n {
					if pos%PagePositions == 0 {
						pages = append(pages, aligned(l.Bytes()))
					}
					k, v := randomActs(r, l.Dim, []int{0, 5, 7}[pos%3]), randomActs(r, l.ValueDim(), pos%3)
					page := pages[pos/PagePositions]
					l.Put(page, pos%PagePositions, k, v, make([]uint16, l.Dim))
					keys[pos], values[pos] = kept(l, k), kept(l, v)
					for d, want := range keys[pos] {
						if got := l.Key(page, pos%PagePositions, d); got != want {
							t.Fatalf("position %d keeps %g in dimension %d of the key, want %g", pos, got, d, want)
						}
					}
					for d, want := range values[pos] {
						if got := l.Value(page, pos%PagePositions, d); got != want {
							t.Fatalf("position %d keeps %g in dimension %d of the value, want %g", pos, got, d, want)
						}
					}
				}
				a := NewAttention(l)
				for rows := 1; rows <= Heads; rows++ {
					for _, see := range []struct {
						n, window int
						sink      bool
					}{
						{n: 1},
						{n: 2},
						{n: 16},
						{n: 17},
						{n: 64},
						{n: 65},
						{n: 255},
						{n: 256},
						{n: 257},
						{n: n},
						{n: 1, window: 24},
						{n: 300, window: 24},
						{n: 300, window: 44},
						{n: n, window: 100},
						{n: n, window: 256},
						{n: n, window: 293},
						{n: 256, window: 1},
						{n: 1, sink: true},
						{n: 40, window: 16, sink: true},
						{n: n, window: 300, sink: true},
						{n: n, sink: true},
					} {
						look := quant.Look{Scale: quant.AttentionScale(l.Dim)}
						if see.window > 0 {
							look.First = max(0, see.n-see.window)
						}
						q, sinks := randomActs(r, rows*l.Dim, 0), []float32{-40, 0.5, 3, 30}
						want := make([]float32, rows*l.ValueDim())
						for i := range rows {
							if see.sink {
								look.Sink = &sinks[i]
							}
							look.Attend(want[i*l.ValueDim():][:l.ValueDim()], q[i*l.Dim:][:l.Dim], keys[:see.n], values[:see.n])
						}
						Scale(q, look.Scale)
						for _, wide := range []bool{false, true} {
							got := make([]float32, len(want))
							var state AttentionState
							start := look.First / PagePositions
							for p := start; p*PagePositions < see.n; p++ {
								from, n := max(0, look.First-p*PagePositions), min(PagePositions, see.n-p*PagePositions)
								l, page := l, pages[p]
								if wide {
									l, page = a.Wide(l, page, n)
								}
								a.AddFrom(&state, l, page, from, n, rows, q, got, p == start)
							}
							if see.sink {
								state.Sink(l, rows, sinks, got)
							}
							state.Finish(l, rows, got)
							for i := range want {
								if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
									t.Fatalf("%d rows, %+v, wide %v: row %d dimension %d is %g, want %g", rows, see, wide, i/l.ValueDim(), i%l.ValueDim(), got[i], want[i])
								}
							}
						}
					}
				}
			})
		}
	})
}

// A sink and a window do what they say, in plain numbers: weights of 1/4 and 3/4.
func TestSinksAndWindows(t *testing.T) {
	third := float32(math.Log(3))
	keys, values := [][]float32{{9}, {0}, {third}}, [][]float32{{100}, {4}, {8}}
	out := make([]float32, 1)
	quant.Look{Scale: 1, First: 1}.Attend(out, []float32{1}, keys, values)
	if math.Abs(float64(out[0])-7) > 1e-5 { // 4/4 + 8*3/4
		t.Errorf("a window gives %g, want 7", out[0])
	}
	quant.Look{Scale: 1, First: 1, Sink: new(float32)}.Attend(out, []float32{1}, keys, values)
	if math.Abs(float64(out[0])-5.6) > 1e-5 { // (4 + 8*3)/5
		t.Errorf("with a sink: %g, want 5.6", out[0])
	}
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
	for _, l := range []KVLayout{{128, KVF16, 0}, {128, KVQ8, 0}, {576, KVF16, 512}} {
		b.Run(fmt.Sprintf("%s/%d-%d", l.Format, l.Dim, l.ValueDim()), func(b *testing.B) {
			page, a := aligned(l.Bytes()), NewAttention(l)
			q, out := make([]float32, 4*l.Dim), make([]float32, 4*l.ValueDim())
			var state AttentionState
			for b.Loop() {
				a.Add(&state, l, page, PagePositions, 4, q, out, false)
			}
			b.ReportMetric(2*4*float64((l.Dim+l.ValueDim())*PagePositions)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gflop/s")
		})
	}
}
