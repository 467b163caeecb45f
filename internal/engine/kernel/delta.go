package kernel

import "assay/internal/engine/quant"

// DeltaColumns is how many values of a DeltaNet's state lie side by side: the state
// of a head of S keys is kept as [values/16][S][16], so that some of its columns
// stay in the first cache while a whole prompt passes over them.
const DeltaColumns = 16

// DeltaRows are the tokens that one head of a DeltaNet takes, one after another, as
// rows of larger matrices: token t has its keys in K[t*KStride:], and so on.
type DeltaRows struct {
	N       int       // tokens
	Size    int       // keys of the state: K and Q are rows of that length
	K, Q    []float32 // of length 1 (Q: as Out is wanted to be scaled)
	V       []float32 // as many as the state has columns
	Out     []float32 // what is read by Q
	Wrong   []float32 // what was corrected; nil: it isn't wanted
	Decay   []float32 // token t's at t*Heads
	Beta    []float32
	KStride int // of K, Q and V
	VStride int // of Out and Wrong
	Heads   int

	// Last leaves the state before the last token as it is: what that token corrects
	// is only told.
	Last bool
}

// Delta runs the tokens of r over a state [columns/16][Size][16]; quant.Delta is
// the definition. The state may be some of a head's columns, if V, Out and Wrong
// begin there too.
func Delta(state []float32, r *DeltaRows) {
	var unused [4 * DeltaColumns]float32
	columns := len(state) / r.Size
	for c := 0; c < columns; {
		n := deltaColumns(columns - c)
		part := state[c*r.Size:][:n*r.Size]
		for t := range r.N {
			at := t * r.KStride
			k, q, v := r.K[at:][:r.Size], r.Q[at:][:r.Size], r.V[at+c:][:n]
			wrong := unused[:n]
			if r.Wrong != nil {
				wrong = r.Wrong[t*r.VStride+c:][:n]
			}
			with := [3]float32{r.Decay[t*r.Heads], r.Beta[t*r.Heads], dot(k, q)}
			if out := r.Out[t*r.VStride+c:][:n]; r.Last && t == r.N-1 {
				deltaRead(part, k, q, v, out, wrong, &with)
			} else {
				deltaStep(part, k, q, v, out, wrong, &with)
			}
		}
		c += n
	}
}

// DeltaRepeat brings a state to where the tokens of r bring it, by what Delta once
// gave as Wrong: only K, Wrong and Decay are looked at. The bits are the same.
func DeltaRepeat(state []float32, r *DeltaRows) {
	columns := len(state) / r.Size
	for c := 0; c < columns; {
		m := deltaColumns(columns - c)
		part := state[c*r.Size:][:m*r.Size]
		for t := range r.N {
			deltaWrite(part, r.K[t*r.KStride:][:r.Size], r.Wrong[t*r.VStride+c:][:m], r.Decay[t*r.Heads])
		}
		c += m
	}
}

// deltaStepGeneric takes 16 columns, or several times as many: with is decay, beta
// and k.q.
func deltaStepGeneric(state, k, q, v, out, wrong []float32, with *[3]float32) {
	deltaReadGeneric(state, k, q, v, out, wrong, with)
	deltaWriteGeneric(state, k, wrong, with[0])
}

func deltaReadGeneric(state, k, q, v, out, wrong []float32, with *[3]float32) {
	for c := 0; c < len(v); c += DeltaColumns {
		part := state[c*len(k):][:DeltaColumns*len(k)]
		var p, r [DeltaColumns]float32
		for i, x := range k {
			row, y := (*[DeltaColumns]float32)(part[DeltaColumns*i:]), q[i]
			for j, m := range row {
				p[j] += float32(x * m)
				r[j] += float32(y * m)
			}
		}
		for j := range p {
			w := v[c+j] - float32(with[0]*p[j])
			w *= with[1]
			wrong[c+j] = w
			out[c+j] = float32(with[0]*r[j]) + float32(with[2]*w)
		}
	}
}

func deltaWriteGeneric(state, k, wrong []float32, decay float32) {
	for c := 0; c < len(wrong); c += DeltaColumns {
		part, w := state[c*len(k):][:DeltaColumns*len(k)], (*[DeltaColumns]float32)(wrong[c:])
		for i, x := range k {
			row := (*[DeltaColumns]float32)(part[DeltaColumns*i:])
			for j, m := range row {
				row[j] = float32(decay*m) + float32(x*w[j])
			}
		}
	}
}

// Dot is quant.DotF32.
func Dot(x, y []float32) float32 { return dot(x, y) }

// Unit scales x to length 1, times by.
func Unit(x []float32, eps, by float32) { scale(x, quant.UnitScale(dot(x, x), eps, by)) }

// Sigmoids multiplies x by the sigmoids of gate, element by element.
func Sigmoids(x, gate []float32) { sigmoidMul(x, gate[:len(x)]) }

// SiLU sets x to x * sigmoid(x), element by element.
func SiLU(x []float32) { silu(x) }

// Mul multiplies x by y, element by element.
func Mul(x, y []float32) { multiply(x, y[:len(x)]) }

// MulAdd adds x*w to out, element by element.
func MulAdd(out, x, w []float32) { mulAdd(out, x[:len(out)], w[:len(out)]) }

// Convolve sets out to the sum of taps[i]*rows[i], element by element, in the order
// of taps; a row that is nil is one of zeros. quant.Convolve is the definition.
func Convolve(out []float32, taps, rows [][]float32) {
	clear(out)
	for i, row := range rows {
		if row != nil {
			MulAdd(out, row, taps[i])
		}
	}
}

func sigmoidMulGeneric(x, gate []float32) {
	for i, g := range gate {
		x[i] *= quant.Sigmoid(g)
	}
}

func siluGeneric(x []float32) {
	for i, v := range x {
		x[i] = quant.SiLU(v)
	}
}

func multiplyGeneric(x, y []float32) {
	for i, v := range y {
		x[i] *= v
	}
}

func mulAddGeneric(out, x, w []float32) {
	for i, v := range x {
		out[i] += float32(v * w[i])
	}
}

func scaleGeneric(x []float32, by float32) {
	for i, v := range x {
		x[i] = v * by
	}
}
