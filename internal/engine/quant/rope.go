package quant

import "math"

// Rope says by how much pairs of a head's elements are turned a position. What is
// zero is left out.
type Rope struct {
	Dims    int       // elements that are turned, an even number
	Base    float64   // pair j turns by base^(-2j/dims) radians a position
	Linear  float64   // that all angles are divided by
	Factors []float32 // [dims/2]: that those of the pairs are divided by (Llama 3)
	Yarn    *Yarn
}

// Yarn stretches the angles of the slow pairs ("YaRN: Efficient Context Window
// Extension", 2023, with its constants of 32 and 1 turns).
type Yarn struct {
	Factor  float64 // by how much
	Context float64 // positions that the model was first trained with
}

// Magnitude is what YaRN multiplies cosine and sine by, where a model wants it:
// 1 + 0.1 ln(factor).
func (y *Yarn) Magnitude() float64 { return 1 + 0.1*math.Log(y.Factor) }

// Frequencies are the radians a position of every pair, [dims/2].
func (r Rope) Frequencies() []float64 {
	out := make([]float64, r.Dims/2)
	for j := range out {
		f := math.Pow(r.Base, -2*float64(j)/float64(r.Dims))
		if r.Factors != nil {
			f /= float64(r.Factors[j])
		}
		if r.Linear != 0 {
			f /= r.Linear
		}
		if r.Yarn != nil {
			keep := r.Yarn.keep(j, r)
			f = f/r.Yarn.Factor*(1-keep) + f*keep
		}
		out[j] = f
	}
	return out
}

// keep is how much of pair j's own angle stays: all of a pair that turns 32 times
// or more within the first context, nothing of one that turns less than once.
func (y *Yarn) keep(j int, r Rope) float64 {
	pair := func(turns float64) float64 {
		return float64(r.Dims) * math.Log(y.Context/(turns*2*math.Pi)) / (2 * math.Log(r.Base))
	}
	low, high := max(0, math.Floor(pair(32))), min(float64(r.Dims-1), math.Ceil(pair(1)))
	return 1 - min(1, max(0, (float64(j)-low)/max(0.001, high-low)))
}
