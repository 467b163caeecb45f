package quant

import (
	"encoding/binary"
	"math"

	"assay/internal/gguf"
)

// Supported says whether this package can decode and multiply the format.
func Supported(t gguf.Type) bool {
	switch t {
	case gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K, gguf.IQ3_S:
		return true
	}
	return false
}

// block256 is a super-block of 256 weights taken apart. Weight k is
// d*scale[k/16]*w[k] - dmin*min[k/32].
type block256 struct {
	w       [256]int32
	scale   [16]int32
	min     [8]int32 // zero in formats without minima
	d, dmin float32
}

func half(b []byte) float32 { return FromHalf(binary.LittleEndian.Uint16(b)) }

// unpack takes one super-block of src apart. Layouts: ggml's block_q4_K,
// block_q5_K, block_q6_K and block_iq3_s.
func unpack(t gguf.Type, src []byte) *block256 {
	b := new(block256)
	switch t {
	case gguf.Q4_K: // d, dmin, 12 bytes of scales and minima, 128 bytes of nibbles
		b.d, b.dmin = half(src), half(src[2:])
		b.scalesAndMins(src[4:16])
		for k := range b.w {
			b.w[k] = int32(nibble(src[16:], k))
		}
	case gguf.Q5_K: // d, dmin, scales and minima, 32 bytes of fifth bits, nibbles
		b.d, b.dmin = half(src), half(src[2:])
		b.scalesAndMins(src[4:16])
		for k := range b.w {
			fifth := src[16+k%32] >> (k / 32) & 1
			b.w[k] = int32(nibble(src[48:], k) | fifth<<4)
		}
	case gguf.Q6_K: // 128 bytes of low nibbles, 64 of high pairs, 16 scales, d
		b.d = half(src[208:])
		for j := range b.scale {
			b.scale[j] = int32(int8(src[192+j]))
		}
		for k := range b.w {
			n, r := k/128, k%128 // halves of 128; within one, four runs of 32
			low := src[64*n+r%64] >> (4 * (r / 64)) & 15
			high := src[128+32*n+r%32] >> (2 * (r / 32)) & 3
			b.w[k] = int32(low|high<<4) - 32
		}
	case gguf.IQ3_S: // d, 64 low bytes of grid indices, 8 of ninth bits, 32 of signs, 4 of scales
		b.d = half(src)
		qs, qh, sign, sc := src[2:66], src[66:74], src[74:106], src[106:110]
		for j := range b.scale {
			b.scale[j] = 1 + 2*int32(sc[j/4]>>(4*(j/2%2))&15)
		}
		for k := range b.w {
			i := k / 4
			g := iq3sGrid[int(qs[i])|int(qh[i/8]>>(i%8)&1)<<8]
			b.w[k] = int32(g >> (8 * (k % 4)) & 255)
			if sign[k/8]>>(k%8)&1 != 0 {
				b.w[k] = -b.w[k]
			}
		}
	default:
		panic("quant: no 256-blocks in " + t.String())
	}
	return b
}

// nibble is weight k of Q4_K's order: 32 low nibbles, then the 32 high ones of
// the same bytes, and so on.
func nibble(qs []byte, k int) byte { return qs[k/64*32+k%32] >> (4 * (k / 32 % 2)) & 15 }

// scalesAndMins reads eight 6-bit scales and eight 6-bit minima from 12 bytes:
// the first four of each in the low six bits of bytes 0-3 and 4-7, the others
// split into nibbles (bytes 8-11) and the two top bits of the first eight.
func (b *block256) scalesAndMins(x []byte) {
	for j := range 8 {
		var s, m byte
		if j < 4 {
			s, m = x[j]&63, x[j+4]&63
		} else {
			s = x[j+4]&15 | x[j-4]>>6<<4
			m = x[j+4]>>4 | x[j]>>6<<4
		}
		b.scale[2*j], b.scale[2*j+1], b.min[j] = int32(s), int32(s), int32(m)
	}
}

// Decode fills dst with the values of a row of blocks. src holds exactly
// len(dst) values of a supported format.
func Decode(t gguf.Type, dst []float32, src []byte) {
	switch t {
	case gguf.F32:
		for k := range dst {
			dst[k] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*k:]))
		}
	case gguf.F16:
		for k := range dst {
			dst[k] = half(src[2*k:])
		}
	case gguf.BF16:
		for k := range dst {
			dst[k] = FromBF16(binary.LittleEndian.Uint16(src[2*k:]))
		}
	case gguf.Q8_0:
		for k := range dst {
			b := src[k/32*34:]
			dst[k] = half(b) * float32(int8(b[2+k%32]))
		}
	default:
		_, size := t.Block()
		for ; len(dst) > 0; dst, src = dst[256:], src[size:] {
			b := unpack(t, src)
			for k := range 256 {
				dst[k] = float32(float32(b.d*float32(b.scale[k/16]))*float32(b.w[k])) - float32(b.dmin*float32(b.min[k/32]))
			}
		}
	}
}

// IQ3SGrid is the format's constant table of 512 quadruples of magnitudes, the
// odd numbers 1 to 15; the low byte belongs to the first weight.
func IQ3SGrid() *[512]uint32 { return &iq3sGrid }
