package quant

import (
	"encoding/binary"
	"math"

	"assay/internal/gguf"
)

// rare decodes one block of the formats that have no arithmetic of their own:
// their weights are decoded to float32 before they are multiplied. dst has the
// block's number of weights.
var rare = map[gguf.Type]func(dst []float32, src []byte){
	gguf.Q4_1: decodeQ4_1, gguf.Q5_1: decodeQ5_1,
	gguf.Q1_0: decodeQ1_0, gguf.Q2_0: decodeQ2_0, gguf.NVFP4: decodeNVFP4,
	gguf.TQ1_0: decodeTQ1_0, gguf.TQ2_0: decodeTQ2_0,
	gguf.IQ2_XXS: decodeIQ2XXS, gguf.IQ2_XS: decodeIQ2XS, gguf.IQ2_S: decodeIQ2S,
	gguf.IQ1_S: decodeIQ1S, gguf.IQ1_M: decodeIQ1M,
}

// decodeQ4_1: d, m, 16 bytes of nibbles; d*q + m.
func decodeQ4_1(dst []float32, src []byte) {
	d, m := half(src), half(src[2:])
	for k := range dst {
		dst[k] = float32(float32(halves32(src[4:], k))*d) + m
	}
}

// fifth is the fifth bit of weight k, from 32 of them.
func fifth(src []byte, k int) int32 {
	return int32(binary.LittleEndian.Uint32(src)>>k&1) << 4
}

// decodeQ5_1: d, m, 32 fifth bits, 16 bytes of nibbles; d*q + m.
func decodeQ5_1(dst []float32, src []byte) {
	d, m := half(src), half(src[2:])
	for k := range dst {
		dst[k] = float32(float32(int32(halves32(src[8:], k))|fifth(src[4:], k))*d) + m
	}
}

// decodeQ1_0: d, 128 bits; d where one is set, else -d.
func decodeQ1_0(dst []float32, src []byte) {
	d := half(src)
	for k := range dst {
		if dst[k] = d; src[2+k/8]>>(k%8)&1 == 0 {
			dst[k] = -d
		}
	}
}

// decodeQ2_0: d, 64 pairs of bits; d*(q - 1).
func decodeQ2_0(dst []float32, src []byte) {
	d := half(src)
	for k := range dst {
		dst[k] = float32(int32(src[2+k/4]>>(2*(k%4))&3)-1) * d
	}
}

// decodeNVFP4: four scales of 8 bits for 16 weights each, then 32 bytes of codes,
// 8 for each 16 weights: low nibbles first.
func decodeNVFP4(dst []float32, src []byte) {
	for k := range dst {
		group, i := k/16, k%16
		code := src[4+8*group+i%8] >> (4 * (i / 8)) & 15
		dst[k] = float32(mxfp4Values[code]) * float8(src[group])
	}
}

// float8 is half of an unsigned number of 4 bits of exponent and 3 of mantissa,
// whose sign bit is ignored. The one that stands for no number is 0 without a sign
// bit only, as ggml has it.
func float8(b byte) float32 {
	exponent, mantissa := int(b>>3&15), float64(b&7)
	switch {
	case b == 127:
		return 0
	case exponent == 0:
		return float32(math.Ldexp(mantissa, -9-1))
	}
	return float32(math.Ldexp(1+mantissa/8, exponent-7-1))
}

// decodeTQ1_0: 48 bytes of five and 4 of four ternary digits, then d. A byte holds
// its digits as a fraction of 256: times 3, what exceeds a byte is the first.
func decodeTQ1_0(dst []float32, src []byte) {
	d := half(src[52:])
	at := 0
	for _, part := range []struct{ from, bytes, digits int }{{0, 32, 5}, {32, 16, 5}, {48, 4, 4}} {
		power := byte(1)
		for range part.digits {
			for i := range part.bytes {
				digit := uint16(src[part.from+i]*power) * 3 >> 8
				dst[at] = float32(int32(digit)-1) * d
				at++
			}
			power *= 3
		}
	}
}

// decodeTQ2_0: 64 bytes of pairs of bits, then d; d*(q - 1).
func decodeTQ2_0(dst []float32, src []byte) {
	d := half(src[64:])
	for k := range dst {
		dst[k] = float32(int32(pair(src, k))-1) * d
	}
}

// eight writes eight weights of a row of an IQ2 table, with their signs.
func eight(dst []float32, scale float32, row uint16, signs uint32) {
	magnitudes := [3]float32{8, 25, 43}
	for j := range 8 {
		v := scale * magnitudes[row>>(2*j)&3]
		if signs>>j&1 != 0 {
			v = -v
		}
		dst[j] = v
	}
}

// decodeIQ2XXS: d, and for each 32 weights four bytes of rows, then four times 7
// signs and a scale.
func decodeIQ2XXS(dst []float32, src []byte) {
	d := half(src)
	for g := range 8 {
		b := src[2+8*g:]
		x := binary.LittleEndian.Uint32(b[4:])
		scale := float32(d*(0.5+float32(x>>28))) * 0.25
		for i := range 4 {
			eight(dst[32*g+8*i:], scale, iq2xxsGrid[b[i]], EvenSigns(x>>(7*i)&127))
		}
	}
}

// decodeIQ2XS: d, 32 times a row of 9 bits and 7 signs, then 16 scales of 4 bits.
func decodeIQ2XS(dst []float32, src []byte) {
	d := half(src)
	for i := range 32 {
		x := uint32(binary.LittleEndian.Uint16(src[2+2*i:]))
		scale := float32(d*(0.5+float32(src[66+i/4]>>(4*(i/2%2))&15))) * 0.25
		eight(dst[8*i:], scale, iq2xsGrid[x&511], EvenSigns(x>>9))
	}
}

// decodeIQ2S: d, 32 low bytes of rows, 32 bytes of signs, 8 of the rows' upper
// bits, 8 of scales.
func decodeIQ2S(dst []float32, src []byte) {
	d := half(src)
	for i := range 32 {
		row := int(src[2+i]) | int(src[66+i/4]>>(2*(i%4))&3)<<8
		scale := float32(d*(0.5+float32(src[74+i/4]>>(4*(i/2%2))&15))) * 0.25
		eight(dst[8*i:], scale, iq2sGrid[row], uint32(src[34+i]))
	}
}

// ternary writes eight weights of a row of the IQ1 table: scale*(w + delta).
func ternary(dst []float32, scale float32, row uint16, delta float32) {
	for j := range 8 {
		dst[j] = scale * (float32(int32(row>>(2*j)&3)-1) + delta)
	}
}

// iq1Delta is what shifts the weights of IQ1, down where the bit is set.
func iq1Delta(down bool) float32 {
	if down {
		return -0.125
	}
	return 0.125
}

// decodeIQ1S: d, 32 low bytes of rows, 8 times four upper triples of rows, a scale
// and the sign of the shift.
func decodeIQ1S(dst []float32, src []byte) {
	d := half(src)
	for g := range 8 {
		h := binary.LittleEndian.Uint16(src[34+2*g:])
		scale := d * float32(2*(h>>12&7)+1)
		for i := range 4 {
			row := int(src[2+4*g+i]) | int(h>>(3*i)&7)<<8
			ternary(dst[32*g+8*i:], scale, iq1Grid[row], iq1Delta(h&0x8000 != 0))
		}
	}
}

// decodeIQ1M: 32 low bytes of rows, 16 of the rows' upper bits and shifts, four
// words of four scales, whose upper nibbles together are d.
func decodeIQ1M(dst []float32, src []byte) {
	var word [4]uint16
	bits := uint16(0)
	for i := range word {
		word[i] = binary.LittleEndian.Uint16(src[48+2*i:])
		bits |= word[i] >> 12 << (4 * i)
	}
	d := FromHalf(bits)
	for i := range 32 {
		high := src[32+i/2] >> (4 * (i % 2))
		group := i / 2 // of 16 weights, one scale
		scale := d * float32(2*(word[group/4]>>(3*(group%4))&7)+1)
		row := int(src[i]) | int(high&7)<<8
		ternary(dst[8*i:], scale, iq1Grid[row], iq1Delta(high&8 != 0))
	}
}
