package quant

import "assay/internal/gguf"

// DotF32 is the canonical dot product of float32: 64 partial sums, k modulo 64;
// sums 0-15 and 16-31 are added, then 32-47 and 48-63, then both; the 16 that
// remain fold in halves. (Four AVX-512 registers hold the partial sums.)
func DotF32(x, y []float32) float32 {
	var s [64]float32
	for k, v := range x {
		s[k%64] += float32(v * y[k])
	}
	for i := range 16 {
		s[i] = float32(s[i]+s[16+i]) + float32(s[32+i]+s[48+i])
	}
	for n := 8; n > 0; n /= 2 {
		for i := range n {
			s[i] += s[n+i]
		}
	}
	return s[0]
}

// Dot is the definition of a row of weights, in the blocks of format w, times
// token t of a: the order of accumulation that every kernel keeps.
func Dot(w gguf.Type, row []byte, a *Acts, t int) float32 {
	_, size := w.Block()
	acc := float32(0)
	switch {
	case RoundingOf(w) < RoundQ8_0:
		values := make([]float32, a.K)
		Decode(w, values, row)
		return DotF32(values, a.X[t*a.K:][:a.K])
	case RoundingOf(w) == RoundQ8_0:
		for b := range a.K / 32 {
			block, d := unpack32(w, row[b*size:])
			isum := int32(0)
			for i, v := range block {
				isum += int32(v) * int32(a.Q[t*a.K+32*b+i])
			}
			acc += float32(float32(isum) * float32(d*a.D[t*a.K/32+b]))
		}
	default:
		for b := range a.K / 256 {
			block, q := unpack(w, row[b*size:]), a.Q[t*a.K+256*b:]
			isum, imin := int32(0), int32(0)
			for k, v := range block.w {
				isum += block.scale[k/16] * v * int32(q[k])
				imin += block.min[k/16] * int32(q[k])
			}
			dx := a.D[t*a.K/256+b]
			s := float32(float32(isum) * float32(block.d*dx))
			if hasMinima(w) {
				s = float32(s - float32(float32(imin)*float32(block.dmin*dx)))
			}
			acc += s
		}
	}
	return acc
}

// hasMinima says whether blocks of the format subtract a minimum.
func hasMinima(t gguf.Type) bool { return t == gguf.Q2_K || t == gguf.Q4_K || t == gguf.Q5_K }
