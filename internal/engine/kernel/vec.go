package kernel

import (
	"math"

	"assay/internal/engine/quant"
)

// RMSNorm sets out to x / sqrt(mean(x^2) + eps) * gamma. out may be x.
func RMSNorm(out, x, gamma []float32, eps float32) {
	mean := dot(x, x) / float32(len(x))
	scale := float32(1 / math.Sqrt(float64(mean+eps)))
	scaled(out[:len(x)], x, gamma[:len(x)], scale)
}

// SiLUMul sets gate to silu(gate)*up.
func SiLUMul(gate, up []float32) { siluMul(gate, up[:len(gate)]) }

// GELUMul sets gate to gelu(gate)*up.
func GELUMul(gate, up []float32) { geluMul(gate, up[:len(gate)]) }

// ClampedSwiGLU sets gate to quant.ClampedSwiGLU of gate and up.
func ClampedSwiGLU(gate, up []float32, limit float32) {
	clampedSwiGLU(gate, up[:len(gate)], limit)
}

// Axpy adds w*x to out, element by element.
func Axpy(out, x []float32, w float32) { axpy(out, x[:len(out)], w) }

// Add adds x to out.
func Add(out, x []float32) { added(out, x[:len(out)]) }

// Rope turns pairs: x[j], y[j] by the angle whose cosine and sine are given.
func Rope(x, y, cos, sin []float32) {
	n := len(x)
	rope(x, y[:n], cos[:n], sin[:n])
}

// RopeAdjacent turns pairs: x[2j], x[2j+1] by the angle whose cosine and sine are
// given.
func RopeAdjacent(x, cos, sin []float32) {
	x, sin = x[:2*len(cos)], sin[:len(cos)]
	for j, c := range cos {
		u, v := x[2*j], x[2*j+1]
		x[2*j] = float32(u*c) - float32(v*sin[j])
		x[2*j+1] = float32(u*sin[j]) + float32(v*c)
	}
}

// Scale multiplies x by s.
func Scale(x []float32, s float32) {
	for i, v := range x {
		x[i] = v * s
	}
}

// dotGeneric is quant.DotF32, the canonical dot product of float32, arranged so
// that the partial sums stay in registers.
func dotGeneric(x, y []float32) float32 {
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

func scaledGeneric(out, x, gamma []float32, scale float32) {
	for i, v := range x {
		out[i] = float32(v*scale) * gamma[i]
	}
}

func siluMulGeneric(gate, up []float32) {
	for i, u := range up {
		gate[i] = float32(quant.SiLU(gate[i]) * u)
	}
}

func geluMulGeneric(gate, up []float32) {
	for i, u := range up {
		gate[i] = float32(quant.GELU(gate[i]) * u)
	}
}

func clampedSwiGLUGeneric(gate, up []float32, limit float32) {
	for i, u := range up {
		gate[i] = quant.ClampedSwiGLU(gate[i], u, limit)
	}
}

func axpyGeneric(out, x []float32, w float32) {
	for i, v := range x {
		out[i] += float32(w * v)
	}
}

func addedGeneric(out, x []float32) {
	for i, v := range x {
		out[i] += v
	}
}

func mergeGeneric(out, x []float32, before, here float32) {
	for i, v := range x {
		out[i] = float32(out[i]*before) + float32(v*here)
	}
}

func divideGeneric(out []float32, by float32) {
	for i := range out {
		out[i] /= by
	}
}

func ropeGeneric(x, y, cos, sin []float32) {
	for j, c := range cos {
		u, v := x[j], y[j]
		x[j] = float32(u*c) - float32(v*sin[j])
		y[j] = float32(u*sin[j]) + float32(v*c)
	}
}

func toHalfGeneric(to []uint16, x []float32) {
	for i, v := range x {
		to[i] = quant.ToHalf(v)
	}
}

func fromHalfGeneric(to []float32, x []uint16) {
	table := halves()
	for i, h := range x {
		to[i] = table[h]
	}
}
