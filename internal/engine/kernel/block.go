package kernel

import (
	"encoding/binary"

	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

// super is a super-block of 256 weights, taken apart quickly: weight k is
// d*scale*w[k] - dmin*min, with a scale (and a minimum, where the format has
// them) for each 32 weights or, where by16 is set, for each 16.
type super struct {
	w       [256]int8
	scale   [16]int32 // 8 of them, or 16 where by16 is set
	min     [16]int32
	d, dmin float32
	by16    bool
	hasMin  bool
}

// unpack takes a block of the file apart. Weights never change, so the race
// detector need not look.
//
//go:norace
func (b *super) unpack(t gguf.Type, x []byte) {
	table := halves()
	half := func(i int) float32 { return table[binary.LittleEndian.Uint16(x[i:])] }
	switch t {
	case gguf.Q2_K:
		b.d, b.dmin, b.by16, b.hasMin = half(80), half(82), true, true
		for j := range b.scale {
			b.scale[j], b.min[j] = int32(x[j]&15), int32(x[j]>>4)
		}
		b.pairs((*[64]byte)(x[16:]))
	case gguf.Q3_K:
		b.d, b.by16, b.hasMin = half(108), true, false
		for j := range b.scale {
			low := x[96+j%8] >> (4 * (j / 8)) & 15
			b.scale[j] = int32(low|x[104+j%4]>>(2*(j/4))&3<<4) - 32
		}
		b.pairs((*[64]byte)(x[32:]))
		third := (*[32]byte)(x)
		for j := range 8 {
			for i, h := range third {
				b.w[32*j+i] += int8(h>>j&1<<2) - 4
			}
		}
	case gguf.Q4_K:
		b.d, b.dmin, b.by16, b.hasMin = half(0), half(2), false, true
		b.scalesAndMins((*[12]byte)(x[4:]))
		for j := range 4 {
			w, q := (*[64]int8)(b.w[64*j:]), (*[32]byte)(x[16+32*j:])
			for i, v := range q {
				w[i], w[32+i] = int8(v&15), int8(v>>4)
			}
		}
	case gguf.Q5_K:
		b.d, b.dmin, b.by16, b.hasMin = half(0), half(2), false, true
		b.scalesAndMins((*[12]byte)(x[4:]))
		h := (*[32]byte)(x[16:])
		for j := range 4 {
			w, q := (*[64]int8)(b.w[64*j:]), (*[32]byte)(x[48+32*j:])
			for i, v := range q {
				fifth := h[i] >> (2 * j)
				w[i], w[32+i] = int8(v&15|fifth&1<<4), int8(v>>4|fifth>>1&1<<4)
			}
		}
	case gguf.Q6_K:
		b.d, b.by16, b.hasMin = half(208), true, false
		for j := range b.scale {
			b.scale[j] = int32(int8(x[192+j]))
		}
		for n := range 2 {
			w, low, high := (*[128]int8)(b.w[128*n:]), (*[64]byte)(x[64*n:]), (*[32]byte)(x[128+32*n:])
			for i, h := range high {
				w[i] = int8(low[i]&15|h&3<<4) - 32
				w[32+i] = int8(low[32+i]&15|h>>2&3<<4) - 32
				w[64+i] = int8(low[i]>>4|h>>4&3<<4) - 32
				w[96+i] = int8(low[32+i]>>4|h>>6<<4) - 32
			}
		}
	case gguf.IQ3_S:
		b.d, b.by16, b.hasMin = half(0), false, false
		for j := range 8 {
			b.scale[j] = 1 + 2*int32(x[106+j/2]>>(4*(j%2))&15)
		}
		grid := quant.IQ3SGrid()
		for i := range 32 { // eight weights: two entries of the grid and a byte of signs
			h := uint(x[66+i/4]) >> (2 * (i % 4))
			v := uint64(grid[uint(x[2+2*i])|h&1<<8]) | uint64(grid[uint(x[3+2*i])|h>>1&1<<8])<<32
			// Negating a byte is flipping its bits and adding one; magnitudes are
			// odd, so that nothing carries into the next byte.
			m := signMask[x[74+i]]
			v = v ^ m + m&0x0101010101010101
			binary.LittleEndian.PutUint64(asBytes(&b.w)[8*i:], v)
		}
	case gguf.IQ3_XXS:
		b.d, b.by16, b.hasMin = half(0)/4, false, false
		for j := range 8 {
			v := binary.LittleEndian.Uint32(x[66+4*j:])
			b.scale[j] = 1 + 2*int32(v>>28)
			for i := range 4 {
				sign := quant.EvenSigns(v >> (7 * i) & 127)
				for n := range 8 {
					w := 4 + 8*int8(quant.IQ3XXSGrid(int(x[2+8*j+2*i+n/4]))[n%4])
					if w == 60 {
						w = 62 // the largest magnitude leaves the row
					}
					if sign>>n&1 != 0 {
						w = -w
					}
					b.w[32*j+8*i+n] = w
				}
			}
		}
	case gguf.IQ4_XS:
		b.d, b.by16, b.hasMin = half(0), false, false
		high, values := binary.LittleEndian.Uint16(x[2:]), quant.IQ4Values()
		for j := range 8 {
			b.scale[j] = int32(x[4+j/2]>>(4*(j%2))&15|byte(high>>(2*j))&3<<4) - 32
			for i, q := range x[8+16*j:][:16] {
				b.w[32*j+i], b.w[32*j+16+i] = values[q&15], values[q>>4]
			}
		}
	default:
		panic("kernel: unsupported format " + t.String())
	}
}

// pairs fills w with codes of two bits.
func (b *super) pairs(qs *[64]byte) {
	for n := range 2 {
		w := (*[128]int8)(b.w[128*n:])
		for i, q := range qs[32*n:][:32] {
			w[i], w[32+i], w[64+i], w[96+i] = int8(q&3), int8(q>>2&3), int8(q>>4&3), int8(q>>6)
		}
	}
}

// codes are the weights plus offset: what the file and the panels hold.
func (b *super) codes(offset int8) (c [256]byte) {
	for k, w := range b.w {
		c[k] = byte(w + offset)
	}
	return c
}

// scalesAndMins: see quant's of the same name.
func (b *super) scalesAndMins(x *[12]byte) {
	for j := range 4 {
		b.scale[j], b.min[j] = int32(x[j]&63), int32(x[j+4]&63)
		b.scale[4+j] = int32(x[8+j]&15 | x[j]>>6<<4)
		b.min[4+j] = int32(x[8+j]>>4 | x[4+j]>>6<<4)
	}
}

// dot is the exact sum of scale*w*q, and of min times the sum of q, over token t
// of a, super-block i.
func (b *super) dot(a *Acts, t, i int) (isum, imin int32, d float32) {
	for g := range 4 {
		var q *[64]int8
		var sums *[6]int16
		q, sums, d = a.group64(t, 4*i+g)
		w := (*[64]int8)(b.w[64*g:])
		if b.by16 {
			for r := range 4 {
				isum += b.scale[4*g+r] * dot16((*[16]int8)(w[16*r:]), (*[16]int8)(q[16*r:]))
			}
			imin += b.min[4*g]*int32(sums[2]) + b.min[4*g+2]*int32(sums[3]) + b.min[4*g+1]*int32(sums[4]) + b.min[4*g+3]*int32(sums[5])
			continue
		}
		isum += b.scale[2*g] * dot32((*[32]int8)(w[:]), (*[32]int8)(q[:]))
		isum += b.scale[2*g+1] * dot32((*[32]int8)(w[32:]), (*[32]int8)(q[32:]))
		imin += b.min[2*g]*int32(sums[0]) + b.min[2*g+1]*int32(sums[1])
	}
	return isum, imin, d
}

// dot16 is the exact dot product of 16 weights. The race detector need not see
// each byte: the scales beside them are read where it looks.
//
//go:norace
func dot16(w, q *[16]int8) int32 {
	var s0, s1 int32
	for i := 0; i < 16; i += 2 {
		s0 += int32(w[i]) * int32(q[i])
		s1 += int32(w[i+1]) * int32(q[i+1])
	}
	return s0 + s1
}

// signMask spreads eight sign bits over eight bytes: 0xff where the bit is set.
var signMask = func() (t [256]uint64) {
	for i := range t {
		for b := range 8 {
			if i>>b&1 != 0 {
				t[i] |= 0xff << (8 * b)
			}
		}
	}
	return
}()
