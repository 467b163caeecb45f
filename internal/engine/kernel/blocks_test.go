package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

var floatFormats = []gguf.Type{gguf.F32, gguf.F16, gguf.BF16}

var quantFormats = []gguf.Type{
	gguf.Q8_0, gguf.Q4_0, gguf.Q5_0, gguf.IQ4_NL, gguf.MXFP4,
	gguf.Q2_K, gguf.Q3_K, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K, gguf.IQ3_XXS, gguf.IQ3_S, gguf.IQ4_XS,
}

// Formats that are decoded before they are multiplied.
var decodedFormats = []gguf.Type{
	gguf.Q4_1, gguf.Q5_1, gguf.Q1_0, gguf.Q2_0, gguf.NVFP4, gguf.TQ1_0, gguf.TQ2_0,
	gguf.IQ2_XXS, gguf.IQ2_XS, gguf.IQ2_S, gguf.IQ1_S, gguf.IQ1_M,
}

// halfScales are where a format's blocks hold half floats.
var halfScales = map[gguf.Type][]int{
	gguf.Q8_0: {0}, gguf.Q4_0: {0}, gguf.Q5_0: {0}, gguf.IQ4_NL: {0}, gguf.Q2_K: {80, 82}, gguf.Q3_K: {108},
	gguf.Q4_K: {0, 2}, gguf.Q5_K: {0, 2}, gguf.Q6_K: {208}, gguf.IQ3_XXS: {0}, gguf.IQ3_S: {0}, gguf.IQ4_XS: {0},
	gguf.Q4_1: {0, 2}, gguf.Q5_1: {0, 2}, gguf.Q1_0: {0}, gguf.Q2_0: {0}, gguf.TQ1_0: {52}, gguf.TQ2_0: {64},
	gguf.IQ2_XXS: {0}, gguf.IQ2_XS: {0}, gguf.IQ2_S: {0}, gguf.IQ1_S: {0},
}

// randomRows are random blocks: every code, index, sign and scale occurs. Half
// floats are finite; some are zero, negative, subnormal or the largest.
func randomRows(r *rand.Rand, t gguf.Type, rows, cols int) []byte {
	elements, size := t.Block()
	data := make([]byte, rows*cols/elements*size)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	for b := 0; b < len(data); b += size {
		block := data[b:][:size]
		switch t {
		case gguf.F32:
			binary.LittleEndian.PutUint32(block, math.Float32bits(float32(r.NormFloat64())))
		case gguf.F16:
			binary.LittleEndian.PutUint16(block, quant.ToHalf(float32(r.NormFloat64())))
		case gguf.BF16:
			binary.LittleEndian.PutUint16(block, quant.ToBF16(float32(r.NormFloat64())))
		case gguf.MXFP4:
			if r.IntN(8) > 0 {
				block[0] = byte(110 + r.IntN(20))
			}
			block[0] = min(block[0], 200) // larger ones overflow beside the largest activations
		}
		for _, at := range halfScales[t] {
			binary.LittleEndian.PutUint16(block[at:], randomHalf(r))
		}
	}
	return data
}

func randomHalf(r *rand.Rand) uint16 {
	h := uint16(r.Uint32())
	switch r.IntN(16) {
	case 0:
		return h & 0x83ff // subnormal
	case 1:
		return h & 0x8000 // zero
	case 2:
		return h&0x8000 | 0x7bff // the largest
	}
	return h&0x83ff | uint16(4+r.IntN(14))<<10
}

// randomActs are the activations of a token, of one of several kinds.
func randomActs(r *rand.Rand, n, kind int) []float32 {
	x := make([]float32, n)
	for i := range x {
		switch kind % 9 {
		case 1: // zeros
		case 2: // extremes of both signs
			x[i] = float32(1-2*r.IntN(2)) * 1e4
		case 3:
			x[i] = float32(r.NormFloat64()) * 1e-20
		case 4: // subnormal, and around the smallest that a reciprocal allows
			x[i] = float32(r.NormFloat64()) * float32(math.Pow(10, -42+float64(i/32%14)))
		case 5: // one large value among small ones
			x[i] = float32(r.NormFloat64()) * 0.01
			if i%77 == 5 {
				x[i] = -300
			}
		case 6: // all the same, so that all are the largest
			x[i] = -1.5
		case 7: // halves, to see ties
			x[i] = float32(r.IntN(509)-254) / 2
		case 8: // blocks of zeros between others
			if i/64%2 == 0 {
				x[i] = float32(r.NormFloat64())
			}
		default:
			x[i] = float32(r.NormFloat64())
		}
	}
	return x
}
