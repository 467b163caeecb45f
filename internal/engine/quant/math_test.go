package quant

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestFMA compares with sums of unlimited precision: numbers of all sizes, and sums
// that nearly cancel or nearly lie between two floats, where two roundings differ
// from one.
func TestFMA(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	number := func() float32 {
		for {
			if v := math.Float32frombits(r.Uint32()); v-v == 0 {
				return v
			}
		}
	}
	near := func() float32 { return float32(int32(r.Uint32())>>8) * float32(math.Ldexp(1, r.IntN(5)-26)) }
	twice := 0 // sums that two roundings get wrong
	for i := range 1_000_000 {
		x, y, z := number(), number(), number()
		switch i % 4 {
		case 1: // the product almost taken away
			x, y = near(), near()
			z = -x * y
		case 2: // the product all but half a unit of z: 1 - e*e of it
			e := math.Ldexp(1, -15-r.IntN(9))
			z = 1 + float32(r.IntN(1<<10))*0x1p-23
			x, y = float32(1+e), float32(1-e)*0x1p-24
		case 3:
			x, y, z = near(), near(), near()
		}
		exact := new(big.Float).SetPrec(2000).Mul(big.NewFloat(float64(x)), big.NewFloat(float64(y)))
		exact.Add(exact, big.NewFloat(float64(z)))
		want, _ := exact.Float32()
		if got := FMA(x, y, z); got != want {
			t.Fatalf("%g*%g + %g: got %g, want %g", x, y, z, got, want)
		}
		if float32(float64(float64(x)*float64(y))+float64(z)) != want {
			twice++
		}
	}
	if twice == 0 {
		t.Error("no sum told one rounding from two")
	}
	inf := float32(math.Inf(1))
	for _, c := range [...][4]float32{{inf, 1, 1, inf}, {1, 1, -inf, -inf}, {3e38, 3e38, -3e38, inf}} {
		if got := FMA(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("%g*%g + %g: got %g, want %g", c[0], c[1], c[2], got, c[3])
		}
	}
}
