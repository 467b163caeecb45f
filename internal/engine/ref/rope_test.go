package ref

import (
	"fmt"
	"math"
	"testing"

	"assay/internal/engine/quant"
)

// The serving engine's table of frequencies gives the reference's angles.
func TestFrequenciesAreTheReferences(t *testing.T) {
	factors := make([]float32, 64)
	for j := range factors {
		factors[j] = 1 + float32(j)/8
	}
	for _, r := range []rope{
		{n: 128, base: 10000},
		{n: 64, base: 1e6, linear: 8},
		{n: 128, base: 5e5, factors: factors},
		{n: 64, base: 150000, yarn: &yarn{factor: 32, context: 4096, magnitude: true}},
		{n: 32, base: 10000, yarn: &yarn{factor: 32, context: 128, magnitude: true}},
		{n: 16, base: 10000, yarn: &yarn{factor: 40, context: 4096}},
	} {
		t.Run(fmt.Sprintf("%+v", r), func(t *testing.T) {
			q, magnitude := quant.Rope{Dims: r.n, Base: r.base, Linear: r.linear, Factors: r.factors}, 1.0
			if r.yarn != nil {
				q.Yarn = &quant.Yarn{Factor: r.yarn.factor, Context: r.yarn.context}
				if r.yarn.magnitude {
					magnitude = q.Yarn.Magnitude()
				}
			}
			got := q.Frequencies()
			if len(got) != r.n/2 {
				t.Fatalf("%d frequencies, want %d", len(got), r.n/2)
			}
			for j, f := range got {
				for _, position := range []int{1, 77, 100000} {
					want, m := r.angle(j, position)
					if math.Abs(f*float64(position)-want) > 1e-12*want || m != magnitude {
						t.Errorf("pair %d at %d: %g times %g, want %g times %g", j, position, f*float64(position), magnitude, want, m)
					}
				}
			}
		})
	}
}
