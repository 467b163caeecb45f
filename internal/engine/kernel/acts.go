package kernel

import (
	"encoding/binary"
	"math"
	"unsafe"

	"assay/internal/engine/quant"
)

// Acts holds rounded activations of N tokens, K values each, with the bits of
// quant.Acts and what else kernels need, side by side.
//
//	float roundings   the values as float32
//	Q8_0, per 32      the values, -128 times their sum (int32), the scale (float32): 40 bytes
//	Q8_K, per 64      the values; the sums of 32, of both halves; the sums of 16, of runs 0, 2, 1
//	                  and 3 (all int16); the scale of the super-block (float32); -8 times both sums
//	                  of 32 (int32): 88 bytes
type Acts struct {
	Rounding quant.Rounding
	N, K     int
	data     []byte
	stride   int // bytes a token
}

const (
	actsBlock = 40 // of Q8_0
	actsGroup = 88 // of Q8_K
)

// NewActs makes room for n tokens. Set does not allocate afterwards.
func NewActs(r quant.Rounding, n, k int) *Acts {
	a := &Acts{Rounding: r, N: n, K: k}
	switch r {
	case quant.RoundQ8_0:
		a.stride = k / 32 * actsBlock
	case quant.RoundQ8_K:
		a.stride = k / 64 * actsGroup
	default:
		a.stride = 4 * k
	}
	a.data = aligned(n * a.stride)
	return a
}

// Clear sets all bytes to 0, and so has the system give their memory now.
func (a *Acts) Clear() { clear(a.data) }

// Set rounds the K values x of token t, as quant.Acts.Set does. They must be
// finite.
func (a *Acts) Set(t int, x []float32) {
	x, to := x[:a.K], a.token(t)
	switch a.Rounding {
	case quant.RoundF32:
		copy(floats(to), x)
	case quant.RoundF16:
		roundHalf(floats(to), x)
	case quant.RoundBF16:
		y := floats(to)
		for i, v := range x {
			y[i] = quant.FromBF16(quant.ToBF16(v))
		}
	case quant.RoundQ8_0:
		round32(to, x)
	case quant.RoundQ8_K:
		round256(to, x)
	}
}

func (a *Acts) token(t int) []byte { return a.data[t*a.stride:][:a.stride:a.stride] }

func round32Generic(to []byte, x []float32) {
	for ; len(x) >= 32; x, to = x[32:], to[actsBlock:] {
		q := (*[32]int8)(unsafe.Pointer(&to[0]))
		d := quant.RoundBlock32(q[:], x[:32])
		sum := int32(0)
		for _, v := range q {
			sum += int32(v)
		}
		binary.LittleEndian.PutUint32(to[32:], uint32(-128*sum))
		binary.LittleEndian.PutUint32(to[36:], math.Float32bits(d))
	}
}

func round256Generic(to []byte, x []float32) {
	var q [256]int8
	var sums [8]int32
	for ; len(x) >= 256; x, to = x[256:], to[4*actsGroup:] {
		d := quant.RoundBlock256(q[:], sums[:], x[:256])
		for j := range 4 {
			g := to[j*actsGroup:][:actsGroup]
			copy((*[64]int8)(unsafe.Pointer(&g[0]))[:], q[64*j:])
			var s [4]int32
			for i := range s {
				for _, v := range q[64*j+16*i:][:16] {
					s[i] += int32(v)
				}
			}
			for i, v := range [...]int32{s[0] + s[1], s[2] + s[3], s[0], s[2], s[1], s[3]} {
				binary.LittleEndian.PutUint16(g[64+2*i:], uint16(v))
			}
			binary.LittleEndian.PutUint32(g[76:], math.Float32bits(d))
			binary.LittleEndian.PutUint32(g[80:], uint32(-8*(s[0]+s[1])))
			binary.LittleEndian.PutUint32(g[84:], uint32(-8*(s[2]+s[3])))
		}
	}
}

// block32 is a block of Q8_0 activations and its scale.
func (a *Acts) block32(t, b int) (*[32]int8, float32) {
	x := a.data[t*a.stride+b*actsBlock:][:actsBlock]
	return (*[32]int8)(unsafe.Pointer(&x[0])), math.Float32frombits(binary.LittleEndian.Uint32(x[36:]))
}

// group64 is a group of Q8_K activations: values, the sums of 32, the scale.
func (a *Acts) group64(t, g int) (*[64]int8, *[6]int16, float32) {
	x := a.data[t*a.stride+g*actsGroup:][:actsGroup]
	return (*[64]int8)(unsafe.Pointer(&x[0])), (*[6]int16)(unsafe.Pointer(&x[64])), math.Float32frombits(binary.LittleEndian.Uint32(x[76:]))
}
