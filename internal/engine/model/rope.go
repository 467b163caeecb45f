package model

import (
	"math"

	"assay/internal/engine/quant"
)

// rope turns pairs of a head's elements by the position. Layers that turn alike
// share one, since a pass computes cosines and sines once for each.
type rope struct {
	adjacent  bool      // pairs are 2j and 2j+1; else j and j + len(freqs)
	freqs     []float64 // of each pair: radians a position
	magnitude float64   // that cosine and sine are multiplied by
}

// ropeSpec is how a file describes a rope.
type ropeSpec struct {
	dims     int // leading elements of a head that are turned
	base     float64
	adjacent bool
	factors  []float32 // that frequencies are divided by, pair by pair; nil: nothing
	linear   float64   // that all frequencies are divided by; 0: nothing
	yarn     *yarn
}

// yarn stretches the frequencies of slow pairs.
type yarn struct {
	factor    float64
	context   float64 // positions that the model was trained with
	magnitude bool    // cosine and sine grow with the factor
}

// ropeSpec reads the keys of a rope for heads of dim elements, of which n turn
// unless the file says otherwise.
func (b *builder) ropeSpec(dim, n int, adjacent bool) ropeSpec {
	s := ropeSpec{
		dims: b.numberOr("rope.dimension_count", n, 2, dim), adjacent: adjacent,
		base: b.realOr("rope.freq_base", 10000, 1, 1e12),
	}
	if s.dims%2 != 0 {
		b.fail("rope.dimension_count", "%d is odd", s.dims)
	}
	s.factors = b.vectorIf("rope_freqs.weight", s.dims/2)
	switch kind := b.textOr("rope.scaling.type", "none"); kind {
	case "none":
	case "linear":
		s.linear = b.real("rope.scaling.factor", 1e-3, 1e6)
	case "yarn":
		s.yarn = &yarn{
			factor:  b.real("rope.scaling.factor", 1e-3, 1e6),
			context: b.real("rope.scaling.original_context_length", 1, 1e9), magnitude: true,
		}
	default:
		b.fail("rope.scaling.type", "%q is not supported yet", kind)
	}
	return s
}

// make computes the frequencies.
func (s ropeSpec) make() *rope {
	q := quant.Rope{Dims: s.dims, Base: s.base, Linear: s.linear, Factors: s.factors}
	r := &rope{adjacent: s.adjacent, magnitude: 1}
	if s.yarn != nil {
		q.Yarn = &quant.Yarn{Factor: s.yarn.factor, Context: s.yarn.context}
		if s.yarn.magnitude {
			r.magnitude = q.Yarn.Magnitude()
		}
	}
	r.freqs = q.Frequencies()
	return r
}

// turnAt turns a head as a turning does, at any position.
func (r *rope) turnAt(x []float32, position int) {
	for j, f := range r.freqs {
		a, b := j, j+len(r.freqs)
		if r.adjacent {
			a, b = 2*j, 2*j+1
		}
		s, c := math.Sincos(float64(position) * f)
		sin, cos := float32(r.magnitude*s), float32(r.magnitude*c)
		u, v := x[a], x[b]
		x[a] = float32(u*cos) - float32(v*sin)
		x[b] = float32(u*sin) + float32(v*cos)
	}
}

// turning is the cosines and sines of the tokens of a pass.
type turning struct {
	*rope
	cos, sin []float32 // [n, pairs]
}

// set computes those of token t, at a position.
func (r *turning) set(t, position int) {
	at := t * len(r.freqs)
	for j, f := range r.freqs {
		sin, cos := math.Sincos(float64(position) * f)
		r.cos[at+j], r.sin[at+j] = float32(r.magnitude*cos), float32(r.magnitude*sin)
	}
}
