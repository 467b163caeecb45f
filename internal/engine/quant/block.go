package quant

import (
	"encoding/binary"
	"math"
	"math/bits"

	"assay/internal/gguf"
)

// Supported says whether this package can decode and multiply the format.
func Supported(t gguf.Type) bool { return common(t) || rare[t] != nil }

// common says whether the format has an order of accumulation of its own.
func common(t gguf.Type) bool {
	switch t {
	case gguf.F32, gguf.F16, gguf.BF16,
		gguf.Q8_0, gguf.Q4_0, gguf.Q5_0, gguf.IQ4_NL, gguf.MXFP4,
		gguf.Q2_K, gguf.Q3_K, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K, gguf.IQ3_XXS, gguf.IQ3_S, gguf.IQ4_XS:
		return true
	}
	return false
}

// block256 is a super-block of 256 weights taken apart. Weight k is
// d*scale[k/16]*w[k] - dmin*min[k/16].
type block256 struct {
	w       [256]int32
	scale   [16]int32
	min     [16]int32 // zero in formats without minima
	d, dmin float32
}

func half(b []byte) float32 { return FromHalf(binary.LittleEndian.Uint16(b)) }

// unpack takes one super-block of src apart. Layouts: ggml's block_q4_K,
// block_q5_K and so on.
func unpack(t gguf.Type, src []byte) *block256 {
	b := new(block256)
	switch t {
	case gguf.Q2_K: // 16 bytes of scales (low nibbles) and minima, 64 bytes of pairs, d, dmin
		b.d, b.dmin = half(src[80:]), half(src[82:])
		for j := range b.scale {
			b.scale[j], b.min[j] = int32(src[j]&15), int32(src[j]>>4)
		}
		for k := range b.w {
			b.w[k] = int32(pair(src[16:], k))
		}
	case gguf.Q3_K: // 32 bytes of third bits, 64 of pairs, 12 of 6-bit scales, d
		b.d = half(src[108:])
		x := src[96:108]
		for j := range b.scale {
			low := x[j%8] >> (4 * (j / 8)) & 15
			b.scale[j] = int32(low|x[8+j%4]>>(2*(j/4))&3<<4) - 32
		}
		for k := range b.w {
			third := src[k%32] >> (k / 32) & 1
			b.w[k] = int32(pair(src[32:], k)|third<<2) - 4
		}
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
	case gguf.IQ3_XXS: // d, 64 grid indices, for each 32 weights: four times 7 signs, and a scale
		b.d = half(src) / 4
		for j := range 8 {
			x := binary.LittleEndian.Uint32(src[66+4*j:])
			b.scale[2*j], b.scale[2*j+1] = 1+2*int32(x>>28), 1+2*int32(x>>28)
			for i := range 32 {
				sign := EvenSigns(x >> (7 * (i / 8)) & 127)
				w := iq3xxsMagnitudes[IQ3XXSGrid(int(src[2+8*j+i/4]))[i%4]]
				if sign>>(i%8)&1 != 0 {
					w = -w
				}
				b.w[32*j+i] = w
			}
		}
	case gguf.IQ4_XS: // d, 16 bits of scales' upper pairs, 4 bytes of lower nibbles, 128 of codes
		b.d = half(src)
		high := binary.LittleEndian.Uint16(src[2:])
		for j := range 8 {
			s := int32(src[4+j/2]>>(4*(j%2))&15|byte(high>>(2*j))&3<<4) - 32
			b.scale[2*j], b.scale[2*j+1] = s, s
			for i := range 32 {
				b.w[32*j+i] = int32(iq4Values[halves32(src[8+16*j:], i)])
			}
		}
	default:
		panic("quant: no 256-blocks in " + t.String())
	}
	return b
}

var iq3xxsMagnitudes = [8]int32{4, 12, 20, 28, 36, 44, 52, 62}

// The values of the 16 codes of IQ4_NL and IQ4_XS, and of MXFP4, those doubled.
var (
	iq4Values   = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	mxfp4Values = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
)

// pair is weight k of Q2_K's order: in each half of 128, four runs of 32 from
// the same 32 bytes.
func pair(qs []byte, k int) byte { return qs[k/128*32+k%32] >> (2 * (k % 128 / 32)) & 3 }

// halves32 is code i of a block of 32: the low nibbles, then the high ones.
func halves32(qs []byte, i int) byte { return qs[i%16] >> (4 * (i / 16)) & 15 }

// unpack32 takes a block of 32 weights apart: weight k is d*w[k].
func unpack32(t gguf.Type, src []byte) (w [32]int8, d float32) {
	switch t {
	case gguf.Q8_0: // d, 32 bytes
		for k := range w {
			w[k] = int8(src[2+k])
		}
		return w, half(src)
	case gguf.Q4_0: // d, 16 bytes of codes
		for k := range w {
			w[k] = int8(halves32(src[2:], k)) - 8
		}
		return w, half(src)
	case gguf.Q5_0: // d, 32 fifth bits, 16 bytes of codes
		for k := range w {
			w[k] = int8(int32(halves32(src[6:], k))|fifth(src[2:], k)) - 16
		}
		return w, half(src)
	case gguf.IQ4_NL: // d, 16 bytes of codes
		for k := range w {
			w[k] = iq4Values[halves32(src[2:], k)]
		}
		return w, half(src)
	case gguf.MXFP4: // an exponent, 16 bytes of codes
		for k := range w {
			w[k] = mxfp4Values[halves32(src[1:], k)]
		}
		return w, HalfExponent(src[0])
	}
	panic("quant: no 32-blocks in " + t.String())
}

// HalfExponent is 2^(e-128): half of what an exponent byte of the OCP
// microscaling formats stands for.
func HalfExponent(e byte) float32 {
	if e < 2 {
		return math.Float32frombits(0x00200000 << e)
	}
	return math.Float32frombits(uint32(e-1) << 23)
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
		b.scale[2*j], b.scale[2*j+1] = int32(s), int32(s)
		b.min[2*j], b.min[2*j+1] = int32(m), int32(m)
	}
}

// Decode fills dst with the values of a row of blocks. src holds exactly
// len(dst) values of a format that is Supported.
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
	case gguf.Q8_0, gguf.Q4_0, gguf.Q5_0, gguf.IQ4_NL, gguf.MXFP4:
		_, size := t.Block()
		for ; len(dst) > 0; dst, src = dst[32:], src[size:] {
			w, d := unpack32(t, src)
			for k, v := range w {
				dst[k] = d * float32(v)
			}
		}
	default:
		n, size := t.Block()
		if one := rare[t]; one != nil {
			for ; len(dst) > 0; dst, src = dst[n:], src[size:] {
				one(dst[:n], src)
			}
			return
		}
		for ; len(dst) > 0; dst, src = dst[256:], src[size:] {
			b := unpack(t, src)
			for k := range 256 {
				dst[k] = float32(float32(b.d*float32(b.scale[k/16]))*float32(b.w[k])) - float32(b.dmin*float32(b.min[k/16]))
			}
		}
	}
}

// IQ3SGrid is the format's constant table of 512 quadruples of magnitudes, the
// odd numbers 1 to 15; the low byte belongs to the first weight.
func IQ3SGrid() *[512]uint32 { return &iq3sGrid }

// IQ3XXSGrid is entry i of the format's constant table: four numbers of
// magnitudes, 4 + 8n but 62 for 7; the first belongs to the first weight.
func IQ3XXSGrid(i int) [4]uint8 {
	g := iq3xxsGrid[i]
	return [4]uint8{uint8(g & 7), uint8(g >> 3 & 7), uint8(g >> 6 & 7), uint8(g >> 9)}
}

// EvenSigns adds the eighth sign to seven of IQ3_XXS: it makes their number
// even.
func EvenSigns(seven uint32) uint32 { return seven | uint32(bits.OnesCount32(seven))&1<<7 }

// IQ4Values are the values of the 16 codes of IQ4_NL and IQ4_XS.
func IQ4Values() *[16]int8 { return &iq4Values }

// Codes32 are the values of the 16 codes of a format with 4-bit blocks of 32:
// Q4_0, IQ4_NL or MXFP4.
func Codes32(t gguf.Type) [16]int8 {
	switch t {
	case gguf.IQ4_NL:
		return iq4Values
	case gguf.MXFP4:
		return mxfp4Values
	}
	return [16]int8{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}
}
