package kernel

import (
	"encoding/binary"

	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

// block is a super-block of 256 weights, taken apart quickly: weight k is
// d*scale*w[k] - dmin*min[k/32], with a scale for each 32 weights or, where by16
// is set, for each 16.
type block struct {
	w       [256]int8
	scale   [16]int32 // 8 of them, or 16 where by16 is set
	min     [8]int32
	d, dmin float32
	by16    bool
	hasMin  bool
}

func (b *block) unpack(t gguf.Type, x []byte) {
	table := halves()
	half := func(i int) float32 { return table[binary.LittleEndian.Uint16(x[i:])] }
	switch t {
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
	default:
		panic("kernel: unsupported format " + t.String())
	}
}

// scalesAndMins: see quant's of the same name.
func (b *block) scalesAndMins(x *[12]byte) {
	for j := range 4 {
		b.scale[j], b.min[j] = int32(x[j]&63), int32(x[j+4]&63)
		b.scale[4+j] = int32(x[8+j]&15 | x[j]>>6<<4)
		b.min[4+j] = int32(x[8+j]>>4 | x[4+j]>>6<<4)
	}
}

// dot is the exact sum of scale*w*q.
func (b *block) dot(q *[256]int8) int32 {
	sum := int32(0)
	if b.by16 {
		for j, s := range b.scale {
			sum += s * dot16((*[16]int8)(b.w[16*j:]), (*[16]int8)(q[16*j:]))
		}
		return sum
	}
	for j, s := range b.scale[:8] {
		sum += s * dot32((*[32]int8)(b.w[32*j:]), (*[32]int8)(q[32*j:]))
	}
	return sum
}

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

// DecodeRow fills dst with the values of row r, with the bits of quant.Decode.
func (m *Matrix) DecodeRow(dst []float32, r int) {
	row := m.Row(r)
	switch m.Type {
	case gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0:
		quant.Decode(m.Type, dst, row) // these do not allocate
		return
	}
	var b block
	size := m.RowBytes / (m.Cols / 256)
	for ; len(dst) > 0; dst, row = dst[256:], row[size:] {
		b.unpack(m.Type, row[:size])
		for k, w := range b.w {
			s := b.scale[k/32]
			if b.by16 {
				s = b.scale[k/16]
			}
			dst[k] = float32(float32(b.d*float32(s)) * float32(w))
			if b.hasMin {
				dst[k] -= float32(b.dmin * float32(b.min[k/32]))
			}
		}
	}
}
