package kernel

import (
	"math"

	"assay/internal/engine/quant"
)

// Exp is e^x in float32, within 3e-7 of the true value, with the same bits on
// every machine and in every kernel: e^x = 2^n * e^r with |r| <= ln(2)/2, ln 2
// taken off in two parts so that r is exact to the last unit, and e^r by its
// Taylor series. Below -87 it is 0, above 88 it stays at e^88.
func Exp(x float32) float32 {
	if x < -87 {
		return 0
	}
	x = min(x, 88)
	k := float32(x*1.44269504) + 12582912 // rounds: the low bits are the whole part
	n := int32(math.Float32bits(k)) - 0x4b400000
	k -= 12582912
	r := float32(x-float32(k*0.693359375)) - float32(k*-2.12194440e-4)
	p := float32(1.0 / 720)
	p = float32(p*r) + 1.0/120
	p = float32(p*r) + 1.0/24
	p = float32(p*r) + 1.0/6
	p = float32(p*r) + 0.5
	p = float32(p*r) + 1
	p = float32(p*r) + 1
	return math.Float32frombits(uint32(int32(math.Float32bits(p)) + n<<23))
}

// SiLU is x * sigmoid(x).
func SiLU(x float32) float32 { return x / (1 + Exp(-x)) }

// RMSNorm sets out to x / sqrt(mean(x^2) + eps) * gamma. out may be x.
func RMSNorm(out, x, gamma []float32, eps float32) {
	mean := Dot(x, x) / float32(len(x))
	scale := float32(1 / math.Sqrt(float64(mean+eps)))
	for i, v := range x {
		out[i] = float32(v*scale) * gamma[i]
	}
}

// Dot is quant.DotF32, the canonical dot product of float32, arranged so that
// the partial sums stay in registers.
func Dot(x, y []float32) float32 {
	n := len(x)
	if n == 0 || n%64 != 0 {
		return quant.DotF32(x, y)
	}
	y = y[:n]
	var s [64]float32
	for g := 0; g < 64; g += 8 {
		var s0, s1, s2, s3, s4, s5, s6, s7 float32
		for k := g; k < n; k += 64 {
			a, b := (*[8]float32)(x[k:]), (*[8]float32)(y[k:])
			s0 += float32(a[0] * b[0])
			s1 += float32(a[1] * b[1])
			s2 += float32(a[2] * b[2])
			s3 += float32(a[3] * b[3])
			s4 += float32(a[4] * b[4])
			s5 += float32(a[5] * b[5])
			s6 += float32(a[6] * b[6])
			s7 += float32(a[7] * b[7])
		}
		*(*[8]float32)(s[g:]) = [8]float32{s0, s1, s2, s3, s4, s5, s6, s7}
	}
	for i := range 16 {
		s[i] = float32(s[i]+s[16+i]) + float32(s[32+i]+s[48+i])
	}
	for i := range 8 {
		s[i] += s[8+i]
	}
	a, b, c, d := s[0]+s[4], s[1]+s[5], s[2]+s[6], s[3]+s[7]
	return float32(a+c) + float32(b+d)
}

// Axpy adds w*v to out, element by element.
func Axpy(out, v []float32, w float32) {
	v = v[:len(out)]
	for i := range out {
		out[i] += float32(w * v[i])
	}
}
