package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"assay/internal/engine/quant"
)

// A state's columns in sixteens, and back, for comparing with quant.Delta's rows.
func columnsOf(state [][]float32) []float32 {
	var out []float32
	for c := 0; c < len(state[0]); c += DeltaColumns {
		for _, row := range state {
			out = append(out, row[c:][:DeltaColumns]...)
		}
	}
	return out
}

// deltaCase is a head of a DeltaNet and some tokens for it.
func deltaCase(r *rand.Rand, tokens, keys, columns int) (state [][]float32, rows DeltaRows) {
	for range keys {
		state = append(state, randomActs(r, columns, 0))
	}
	rows = DeltaRows{
		N: tokens, Size: keys, Heads: 3, KStride: 2*keys + columns + 5, VStride: columns + 3,
		Decay: make([]float32, 3*tokens), Beta: make([]float32, 3*tokens),
		Out: make([]float32, tokens*(columns+3)), Wrong: make([]float32, tokens*(columns+3)),
	}
	all := randomActs(r, tokens*rows.KStride, 0)
	rows.K, rows.Q, rows.V = all, all[keys:], all[2*keys:]
	for t := range tokens {
		Unit(rows.K[t*rows.KStride:][:keys], 1e-6, 1)
		rows.Decay[3*t], rows.Beta[3*t] = quant.Sigmoid(float32(r.NormFloat64())), quant.Sigmoid(float32(r.NormFloat64()))
	}
	return state, rows
}

// A DeltaNet's state, its results and what it corrects have the bits of quant.Delta,
// at every level, whether tokens come together or one by one.
func TestDeltaHasTheBitsOfQuant(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for _, c := range []struct{ keys, columns int }{{128, 128}, {64, 64}, {32, 32}, {16, 16}, {48, 80}, {20, 112}} {
			r := rand.New(rand.NewPCG(8, uint64(c.keys)))
			state, rows := deltaCase(r, 5, c.keys, c.columns)
			what := fmt.Sprintf("%d keys, column", c.keys)
			got, before := columnsOf(state), columnsOf(state)
			singly := columnsOf(state)
			Delta(got, &rows)
			together := append([]float32(nil), rows.Out...)
			for i := range rows.N {
				out, wrong := make([]float32, c.columns), make([]float32, c.columns)
				at := i * rows.KStride
				quant.Delta(state, rows.K[at:][:c.keys], rows.Q[at:][:c.keys], rows.V[at:][:c.columns], rows.Decay[3*i], rows.Beta[3*i], out, wrong)
				same(t, what, c.columns, together[i*rows.VStride:], out)
				same(t, "what is wrong, "+what, c.columns, rows.Wrong[i*rows.VStride:], wrong)

				one := rows
				one.N, one.Wrong = 1, nil
				one.K, one.Q, one.V = rows.K[at:], rows.Q[at:], rows.V[at:]
				one.Decay, one.Beta = rows.Decay[3*i:], rows.Beta[3*i:]
				one.Out = make([]float32, c.columns)
				Delta(singly, &one)
				same(t, "one by one, "+what, c.columns, one.Out, out)
			}
			same(t, "state, "+what, c.columns, got, columnsOf(state))
			same(t, "state one by one, "+what, c.columns, singly, got)

			kept := columnsOf(state)
			copy(kept, before)
			last := rows
			last.Last, last.Out, last.Wrong = true, make([]float32, len(rows.Out)), make([]float32, len(rows.Wrong))
			Delta(kept, &last)
			same(t, "without the last correction, "+what, c.columns, last.Out, rows.Out)
			same(t, "what it corrects, "+what, c.columns, last.Wrong, rows.Wrong)

			DeltaRepeat(before, &rows)
			same(t, "state repeated, "+what, c.columns, before, got)
			last.K, last.Decay, last.Wrong, last.N = rows.K[4*rows.KStride:], rows.Decay[12:], rows.Wrong[4*rows.VStride:], 1
			DeltaRepeat(kept, &last)
			same(t, "state and its last correction, "+what, c.columns, kept, got)
		}
	})
}

// What a prompt's recurrence converges to is right: a state that is told the same
// key and value again and again predicts the value.
func TestDeltaLearns(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	state, rows := deltaCase(r, 40, 32, 32)
	for i := 1; i < rows.N; i++ {
		copy(rows.K[i*rows.KStride:], rows.K[:rows.Size+rows.Size+32])
	}
	for i := range rows.Decay {
		rows.Decay[i], rows.Beta[i] = 1, 0.5
	}
	copy(rows.Q[39*rows.KStride:][:32], rows.K[:32])
	Delta(columnsOf(state), &rows)
	for j := range 32 {
		if got, want := rows.Out[39*rows.VStride+j], rows.V[39*rows.KStride+j]; math.Abs(float64(got-want)) > 1e-4 {
			t.Fatalf("column %d reads %g, want %g", j, got, want)
		}
	}
}

// The functions on rows that recurrent layers need have the bits of plain loops.
func TestRecurrentRowsHaveTheBitsOfLoops(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(2, 4))
		for _, n := range []int{1, 15, 16, 17, 64, 128, 200} {
			x, y, w := randomActs(r, n, 0), randomActs(r, n, 3), randomActs(r, n, 0)
			check := func(what string, do func(got []float32), want func(i int) float32) {
				t.Helper()
				got, all := append([]float32(nil), x...), make([]float32, n)
				for i := range all {
					all[i] = want(i)
				}
				do(got)
				same(t, what, n, got, all)
			}
			check("Sigmoids", func(got []float32) { Sigmoids(got, y) }, func(i int) float32 { return x[i] * quant.Sigmoid(y[i]) })
			check("SiLU", SiLU, func(i int) float32 { return quant.SiLU(x[i]) })
			check("Mul", func(got []float32) { Mul(got, y) }, func(i int) float32 { return x[i] * y[i] })
			check("MulAdd", func(got []float32) { MulAdd(got, y, w) }, func(i int) float32 { return x[i] + float32(y[i]*w[i]) })
			unit := append([]float32(nil), x...)
			quant.Unit(unit, 1e-6, 0.25)
			check("Unit", func(got []float32) { Unit(got, 1e-6, 0.25) }, func(i int) float32 { return unit[i] })
			want := make([]float32, n)
			quant.Convolve(want, [][]float32{x, y, w}, [][]float32{nil, w, x})
			check("Convolve", func(got []float32) { Convolve(got, [][]float32{x, y, w}, [][]float32{nil, w, x}) }, func(i int) float32 { return want[i] })
		}
	})
}

func BenchmarkDelta(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			state, rows := deltaCase(rand.New(rand.NewPCG(1, 1)), n, 128, 128)
			m := columnsOf(state)
			for b.Loop() {
				Delta(m, &rows)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/token")
		})
	}
}
