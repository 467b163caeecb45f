package quant

import "math"

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

// GELU is x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), which is x over
// 1 + e^-2u, u being what the tanh is of.
func GELU(x float32) float32 {
	u := float32(float32(x*x)*0.044715) + 1
	u = float32(u*x) * GELUFactor
	return x / (1 + Exp(u))
}

// GELUFactor is -2*sqrt(2/pi).
const GELUFactor = -1.5957691216057308

// ClampedSwiGLU is the inner element of gpt-oss' experts: gate at most limit, up
// at most limit from 0, and gate * sigmoid(1.702 gate) * (up + 1).
func ClampedSwiGLU(gate, up, limit float32) float32 {
	gate, up = min(gate, limit), max(min(up, limit), -limit)
	return float32(gate/(1+Exp(float32(gate*-1.702)))) * float32(up+1)
}

// FMA is x*y + z, rounded once, as the processor's own instruction gives it. The
// product is exact in float64; their sum is rounded there to an odd last bit where it
// isn't exact, and so leaves what the second rounding has to know. (Boldo and
// Melquiond, "Emulation of FMA and correctly rounded sums", 2008)
func FMA(x, y, z float32) float32 {
	p, c := float64(float64(x)*float64(y)), float64(z)
	s := p + c
	t := s - p
	rest := (p - (s - t)) + (c - t) // of the sum, exactly
	if bits := math.Float64bits(s); bits&1 == 0 && (rest > 0 || rest < 0) {
		if (rest > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	return float32(s)
}
