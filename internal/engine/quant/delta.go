package quant

import "math"

// Sigmoid is 1 / (1 + e^-x).
func Sigmoid(x float32) float32 { return 1 / (1 + Exp(-x)) }

// Softplus is log(1 + e^x), within 3e-7 of the true value: the part above 0 is
// exact, and log(1+y) of the rest is 2*atanh(y/(2+y)) by its series.
func Softplus(x float32) float32 {
	y := Exp(-max(x, -x))
	z := y / (2 + y)
	s := float32(z * z)
	p := float32(1.0 / 15)
	for _, c := range [...]float32{1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1} {
		p = float32(p*s) + c
	}
	return max(x, 0) + 2*float32(p*z)
}

// Unit scales x to length 1, times by: x * (by / sqrt(sum of squares + eps)).
func Unit(x []float32, eps, by float32) {
	scale := UnitScale(DotF32(x, x), eps, by)
	for i, v := range x {
		x[i] = v * scale
	}
}

// UnitScale is what Unit multiplies by.
func UnitScale(squares, eps, by float32) float32 {
	return float32(1/math.Sqrt(float64(squares+eps))) * by
}

// Delta is the definition of a step of a gated DeltaNet: one head with state
// [keys][values], of len(k) keys and len(v) values. What the state predicts of v is
// corrected in part (beta), and all else fades (decay). Sums run in the order of
// keys:
//
//	p = sum of k*state        r = sum of q*state
//	wrong = beta*(v - decay*p)
//	out = decay*r + (k.q)*wrong
//	state = decay*state + k*wrong
//
// out is the state after the step, read by q, without reading it again. Tokens go
// one by one, so that the bits don't depend on how a prompt was cut into batches.
func Delta(state [][]float32, k, q, v []float32, decay, beta float32, out, wrong []float32) {
	kq := DotF32(k, q)
	for j := range v {
		var p, r float32
		for i, row := range state {
			p += float32(k[i] * row[j])
			r += float32(q[i] * row[j])
		}
		w := float32(v[j] - float32(decay*p))
		wrong[j] = beta * w
		out[j] = float32(decay*r) + float32(kq*wrong[j])
		for i, row := range state {
			row[j] = float32(decay*row[j]) + float32(k[i]*wrong[j])
		}
	}
}

// Convolve is the definition of a causal convolution over time, channel by channel:
// the sum of taps[i][c]*rows[i][c], in the order of taps, the oldest position first.
// A position before the start is a row of zeros, or nil.
func Convolve(out []float32, taps, rows [][]float32) {
	clear(out)
	for i, row := range rows {
		for c, x := range row {
			out[c] += float32(x * taps[i][c])
		}
	}
}
