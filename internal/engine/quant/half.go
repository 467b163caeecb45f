package quant

import "math"

// FromHalf is the value of an IEEE half float: exact, subnormals, infinities
// and NaN included.
func FromHalf(h uint16) float32 {
	s, e, m := uint32(h&0x8000)<<16, uint32(h>>10)&31, uint32(h&0x3ff)
	switch e {
	case 0: // m * 2^-24 is a normal float32
		return math.Float32frombits(s | math.Float32bits(float32(m)/(1<<24)))
	case 31:
		return math.Float32frombits(s | 0x7f800000 | m<<13)
	}
	return math.Float32frombits(s | (e+112)<<23 | m<<13)
}

// ToHalf rounds to the nearest half float, ties to even, as VCVTPS2PH does.
func ToHalf(f float32) uint16 {
	b := math.Float32bits(f)
	s, b := uint16(b>>16&0x8000), b&0x7fffffff
	switch {
	case b > 0x7f800000:
		return s | 0x7e00 | uint16(b>>13&0x3ff)
	case b >= 0x477ff000: // 65520 and more
		return s | 0x7c00
	case b >= 0x38800000: // normal
		b += 0xfff + b>>13&1
		return s | uint16(b>>13-112<<10)
	}
	// Subnormal: adding 2^-1 leaves m * 2^-24, rounded, in the low bits.
	return s | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
}

// FromBF16 is the value of a bfloat16: the upper half of a float32.
func FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// ToBF16 rounds to the nearest bfloat16, ties to even; a NaN stays one.
func ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 64
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
