package kernel

import (
	"math/rand/v2"
	"testing"
)

// They touch nothing behind what they are given.
func TestDeltaStaysInside(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 8))
		end := func(x []float32) []float32 { return as[float32](atPageEnd(t, bytesOf(x))) }
		for _, columns := range []int{16, 48, 64, 128} {
			state := end(randomActs(r, 32*columns, 0))
			rows := DeltaRows{
				N: 1, Size: 32, Heads: 1, K: end(randomActs(r, 32, 0)), Q: end(randomActs(r, 32, 0)), V: end(randomActs(r, columns, 0)),
				Out: end(make([]float32, columns)), Wrong: end(make([]float32, columns)), Decay: end([]float32{0.5}), Beta: end([]float32{0.5}),
			}
			Delta(state, &rows)
			rows.Last = true
			Delta(state, &rows)
			DeltaRepeat(state, &rows)
		}
		for _, n := range []int{1, 16, 40} {
			x, y, z := end(randomActs(r, n, 0)), end(randomActs(r, n, 0)), end(randomActs(r, n, 0))
			Sigmoids(x, y)
			SiLU(x)
			Mul(x, y)
			MulAdd(x, y, z)
			Unit(x, 1, 1)
		}
	})
}
