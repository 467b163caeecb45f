package ref

import "math"

// rope turns pairs of a head's elements by the position. The zero value of what is
// not used leaves it out.
type rope struct {
	n        int     // elements that are turned
	base     float64 // of the angles: pair j turns by position * base^(-2j/n)
	adjacent bool    // pairs are 2j and 2j+1; else j and j + n/2
	linear   float64 // that angles are divided by; 0: nothing
	factors  []float32
	yarn     *yarn
}

// yarn stretches the angles of the slow pairs.
type yarn struct {
	factor, context float64 // how far; positions that the model was trained with
	magnitude       bool    // cosine and sine grow with the factor
}

// rope reads the settings that are common to all layers.
func (l *loader) rope(n int, adjacent bool) rope {
	r := rope{n: l.intOr("rope.dimension_count", n), base: l.floatOr("rope.freq_base", 10000), adjacent: adjacent, factors: l.vectorIf("rope_freqs.weight")}
	switch l.textOr("rope.scaling.type", "none") {
	case "linear":
		r.linear = l.float("rope.scaling.factor")
	case "yarn":
		r.yarn = &yarn{factor: l.float("rope.scaling.factor"), context: l.float("rope.scaling.original_context_length"), magnitude: true}
	}
	return r
}

// angle is by how much pair j is turned at a position, and what cosine and sine
// are multiplied by.
func (r *rope) angle(j, position int) (theta, magnitude float64) {
	theta, magnitude = float64(position)*math.Pow(r.base, -2*float64(j)/float64(r.n)), 1
	if r.factors != nil {
		theta /= float64(r.factors[j])
	}
	if r.linear != 0 {
		theta /= r.linear
	}
	if y := r.yarn; y != nil {
		pair := func(turns float64) float64 {
			return float64(r.n) * math.Log(y.context/(turns*2*math.Pi)) / (2 * math.Log(r.base))
		}
		low, high := max(0, math.Floor(pair(32))), min(float64(r.n-1), math.Ceil(pair(1)))
		keep := 1 - min(1, max(0, (float64(j)-low)/max(0.001, high-low)))
		theta = theta/y.factor*(1-keep) + theta*keep
		if y.magnitude {
			magnitude = 1 + 0.1*math.Log(y.factor)
		}
	}
	return theta, magnitude
}

// turn turns a head [S] in place.
func (r *rope) turn(x []float64, position int) {
	for j := range r.n / 2 {
		theta, magnitude := r.angle(j, position)
		sin, cos := math.Sincos(theta)
		a, b := j, j+r.n/2
		if r.adjacent {
			a, b = 2*j, 2*j+1
		}
		x[a], x[b] = magnitude*(x[a]*cos-x[b]*sin), magnitude*(x[a]*sin+x[b]*cos)
	}
}

// turnHeads turns every head of size s.
func (r *rope) turnHeads(x []float64, s, position int) {
	for ; len(x) > 0; x = x[s:] {
		r.turn(x[:s], position)
	}
}
