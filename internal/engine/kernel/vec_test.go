package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"assay/internal/engine/quant"
)

func same(t *testing.T, what string, n int, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s of %d: element %d is %g, want %g", what, n, i, got[i], want[i])
		}
	}
}

// The functions on rows have the bits of plain loops, at every level and length.
func TestVectorsHaveTheBitsOfLoops(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(2, 3))
		for _, n := range []int{1, 15, 16, 17, 63, 64, 65, 128, 192, 200, 1024} {
			row := func() []float32 { return randomActs(r, n, r.IntN(9)) }
			clone := func(x []float32) []float32 { return append([]float32(nil), x...) }
			x, y, gamma := row(), row(), row()

			same(t, "dot", n, []float32{dot(x, y)}, []float32{quant.DotF32(x, y)})

			mean := quant.DotF32(x, x) / float32(n)
			scale := float32(1 / math.Sqrt(float64(mean+1e-6)))
			want := clone(x)
			for i := range want {
				want[i] = float32(x[i]*scale) * gamma[i]
			}
			got := clone(x)
			RMSNorm(got, got, gamma, 1e-6)
			same(t, "RMSNorm", n, got, want)

			got, want = clone(x), clone(x)
			for i := range want {
				want[i] += float32(0.3 * y[i])
			}
			Axpy(got, y, 0.3)
			same(t, "Axpy", n, got, want)

			got, want = clone(x), clone(x)
			for i := range want {
				want[i] += y[i]
			}
			Add(got, y)
			same(t, "Add", n, got, want)

			got, want = clone(x), clone(x)
			for i := range want {
				want[i] = float32(x[i]*0.7) + float32(y[i]*0.2)
			}
			merge(got, y, 0.7, 0.2)
			same(t, "merge", n, got, want)

			got, want = clone(x), clone(x)
			for i := range want {
				want[i] /= 7
			}
			divide(got, 7)
			same(t, "divide", n, got, want)

			got, want = clone(x), clone(x)
			for i := range want {
				want[i] = float32(quant.SiLU(x[i]) * y[i])
			}
			SiLUMul(got, y)
			same(t, "SiLUMul", n, got, want)

			got, want = clone(x), clone(x)
			for i := range want {
				want[i] = float32(quant.GELU(x[i]) * y[i])
			}
			GELUMul(got, y)
			same(t, "GELUMul", n, got, want)

			got, want = clone(x), clone(x)
			for i := range want {
				want[i] = quant.ClampedSwiGLU(x[i], y[i], 7)
			}
			ClampedSwiGLU(got, y, 7)
			same(t, "ClampedSwiGLU", n, got, want)

			cos, sin := row(), row()
			a, b := clone(x), clone(y)
			wantA, wantB := clone(x), clone(y)
			for i := range cos {
				wantA[i] = float32(x[i]*cos[i]) - float32(y[i]*sin[i])
				wantB[i] = float32(x[i]*sin[i]) + float32(y[i]*cos[i])
			}
			Rope(a, b, cos, sin)
			same(t, "Rope", n, a, wantA)
			same(t, "Rope", n, b, wantB)

			pairs, wantPairs := make([]float32, 2*n), make([]float32, 2*n)
			for i := range x {
				pairs[2*i], pairs[2*i+1] = x[i], y[i]
				wantPairs[2*i], wantPairs[2*i+1] = wantA[i], wantB[i]
			}
			RopeAdjacent(pairs, cos, sin)
			same(t, "RopeAdjacent", 2*n, pairs, wantPairs)

			halves := make([]uint16, n)
			toHalf(halves, x)
			for i, h := range halves {
				if w := quant.ToHalf(x[i]); h != w {
					t.Fatalf("half of %g is %#04x, want %#04x", x[i], h, w)
				}
			}
		}
	})
}

// The exponential has the bits of quant.Exp, over its whole range.
func TestExpHasTheBitsOfQuant(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		w := make([]float32, 16)
		for x := float32(-100); x < 0; x += 0.0717 {
			for i := range w {
				w[i] = x * (1 + float32(i)/16)
			}
			w[0] = 0 // the largest
			want := append([]float32(nil), w...)
			top, sum := softmaxPage(w)
			wantTop, wantSum := softmaxPageGeneric(want)
			same(t, "softmaxPage", 16, append(w, top, sum), append(want, wantTop, wantSum))
		}
	})
}
