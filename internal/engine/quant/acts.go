package quant

import (
	"math"

	"assay/internal/gguf"
)

// Rounding is how activations are rounded before they meet weights.
type Rounding uint8

// The roundings, each named after the ggml type of its result.
const (
	RoundF32  Rounding = iota // none
	RoundF16                  // to half floats
	RoundBF16                 // to bfloat16
	RoundQ8_0                 // to 8 bits in blocks of 32, scales in F16
	RoundQ8_K                 // to 8 bits in blocks of 256, scales in F32
	Roundings                 // how many there are
)

// RoundingOf says how activations are rounded for weights of format t: not at all
// for those that are decoded to float32 before they are multiplied.
func RoundingOf(t gguf.Type) Rounding {
	switch t {
	case gguf.F32:
		return RoundF32
	case gguf.F16:
		return RoundF16
	case gguf.BF16:
		return RoundBF16
	case gguf.Q8_0, gguf.Q4_0, gguf.Q5_0, gguf.IQ4_NL, gguf.MXFP4:
		return RoundQ8_0
	case gguf.Q2_K, gguf.Q3_K, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K, gguf.IQ3_XXS, gguf.IQ3_S, gguf.IQ4_XS:
		return RoundQ8_K
	}
	if rare[t] != nil {
		return RoundF32
	}
	panic("quant: unsupported format " + t.String())
}

// Acts holds rounded activations of N tokens, K values each.
type Acts struct {
	Rounding Rounding
	N, K     int
	X        []float32 // [N, K], the float roundings
	Q        []int8    // [N, K], the 8-bit roundings
	D        []float32 // [N, K/32] or [N, K/256]: the blocks' scales
	Sums     []int32   // [N, K/32], Q8_K only: sums of 32 of Q
}

// NewActs makes room for n tokens. Set does not allocate afterwards.
func NewActs(r Rounding, n, k int) *Acts {
	a := &Acts{Rounding: r, N: n, K: k}
	switch r {
	case RoundQ8_0:
		a.Q, a.D = make([]int8, n*k), make([]float32, n*k/32)
	case RoundQ8_K:
		a.Q, a.D, a.Sums = make([]int8, n*k), make([]float32, n*k/256), make([]int32, n*k/32)
	default:
		a.X = make([]float32, n*k)
	}
	return a
}

// Set rounds the K values x of token t. They must be finite.
func (a *Acts) Set(t int, x []float32) {
	k := a.K
	x = x[:k]
	switch a.Rounding {
	case RoundF32:
		copy(a.X[t*k:], x)
	case RoundF16:
		for i, v := range x {
			a.X[t*k+i] = FromHalf(ToHalf(v))
		}
	case RoundBF16:
		for i, v := range x {
			a.X[t*k+i] = FromBF16(ToBF16(v))
		}
	case RoundQ8_0:
		for b := range k / 32 {
			a.D[t*k/32+b] = RoundBlock32(a.Q[t*k+32*b:][:32], x[32*b:][:32])
		}
	case RoundQ8_K:
		for b := range k / 256 {
			a.D[t*k/256+b] = RoundBlock256(a.Q[t*k+256*b:][:256], a.Sums[t*k/32+8*b:][:8], x[256*b:][:256])
		}
	}
}

// RoundBlock32 rounds 32 values as ggml's quantize_row_q8_0: the largest magnitude
// becomes 127, and the scale, which it returns, is a half float.
func RoundBlock32(q []int8, x []float32) float32 {
	amax := float32(0)
	for _, v := range x {
		amax = max(amax, abs(v))
	}
	d, id := amax/127, float32(0)
	if d != 0 {
		id = 127 / amax
	}
	for i, v := range x {
		q[i] = int8(nearest(float32(v * id)))
	}
	return FromHalf(ToHalf(d))
}

// RoundBlock256 rounds 256 values as ggml's quantize_row_q8_K: the value of the
// largest magnitude (the first, among equals) becomes -127. It returns the scale;
// sums are those of 32 of q.
func RoundBlock256(q []int8, sums []int32, x []float32) float32 {
	m, amax := float32(0), float32(0)
	for _, v := range x {
		if abs(v) > amax {
			m, amax = v, abs(v)
		}
	}
	clear(sums)
	if amax < tiny {
		clear(q)
		return 0
	}
	id := -127 / m
	for i, v := range x {
		n := min(127, nearest(float32(v*id)))
		q[i] = int8(n)
		sums[i/32] += n
	}
	return 1 / id
}

// tiny is a magnitude below which a block of 256 counts as zero: the reciprocal
// of its scale would overflow.
const tiny = 1e-30

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// nearest rounds to the nearest whole number, ties to even, for |x| < 2^22:
// after adding 1.5 * 2^23 the low bits of the sum are the number.
func nearest(x float32) int32 { return int32(math.Float32bits(x+12582912)) - 0x4b400000 }
