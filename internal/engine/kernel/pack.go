package kernel

import (
	"encoding/binary"
	"math"

	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

func (l *layout) packQ8_0(dst, row []byte, r int) {
	for b := range len(row) / 34 {
		x := row[34*b:][:34]
		scales, lines := l.at(b)
		copy(dst[scales+2*r:], x[:2])
		for k := range 8 {
			binary.LittleEndian.PutUint32(dst[lines+64*k+4*r:], binary.LittleEndian.Uint32(x[2+4*k:])^0x80808080)
		}
	}
}

func (l *layout) packQ5_0(dst, row []byte, r int) {
	var w [32]int8
	for b := range len(row) / 22 {
		x := row[22*b:][:22]
		scales, lines := l.at(b)
		copy(dst[scales+2*r:], x[:2])
		codes5(&w, x)
		for i, v := range w {
			dst[lines+64*(i/4)+4*r+i%4] = byte(v) ^ 0x80
		}
	}
}

// packNibbles32 is for Q4_0 and IQ4_NL, whose 16 bytes of codes already pair
// weights i and 16+i.
func (l *layout) packNibbles32(dst, row []byte, r int) {
	for b := range len(row) / 18 {
		x := row[18*b:][:18]
		scales, lines := l.at(b)
		copy(dst[scales+2*r:], x[:2])
		for k := range 4 {
			copy(dst[lines+64*k+4*r:], x[2+4*k:][:4])
		}
	}
}

// mxfp4Scales are the scales of MXFP4 by their code. A power of two, subnormal ones
// included, fits the upper half of a float.
var mxfp4Scales = func() (d [256]uint16) {
	for i := range d {
		d[i] = uint16(math.Float32bits(quant.HalfExponent(byte(i))) >> 16)
	}
	return
}()

func (l *layout) packMXFP4(dst, row []byte, r int) {
	for b := range len(row) / 17 {
		x := row[17*b:][:17]
		scales, lines := l.at(b)
		binary.LittleEndian.PutUint16(dst[scales+2*r:], mxfp4Scales[x[0]])
		for k := range 4 {
			copy(dst[lines+64*k+4*r:], x[1+4*k:][:4])
		}
	}
}

func (l *layout) packQ4_K(dst, row []byte, r int) {
	size := l.super()
	for ; len(row) > 0; row, dst = row[144:], dst[size:] {
		for l := range 32 { // the file already pairs runs of 32 as low and high nibbles
			copy(dst[64*l+4*r:], row[16+4*l:][:4])
		}
		packMinima(dst[2048:], row, r)
	}
}

func (l *layout) packQ5_K(dst, row []byte, r int) {
	for ; len(row) > 0; row, dst = row[176:], dst[l.super():] {
		for j := range 4 {
			g := dst[j*l.group:][:l.group]
			for k := range 8 {
				copy(g[64*k+4*r:], row[48+32*j+4*k:][:4])
				fifth := binary.LittleEndian.Uint32(row[16+4*k:]) >> (2 * j)
				orUint32(g[512+4*r:], fifth&0x01010101<<k)
				orUint32(g[576+4*r:], fifth>>1&0x01010101<<k)
			}
		}
		packMinima(dst[4*l.group:], row, r)
	}
}

// packMinima keeps scales, minima, d and dmin of Q4_K and Q5_K.
func packMinima(dst, block []byte, r int) {
	var b super
	b.scalesAndMins((*[12]byte)(block[4:16]))
	for j := range 8 {
		dst[16*j+r] = byte(b.scale[j])
		dst[128+32*(j/2)+2*r+j%2] = byte(b.min[j])
	}
	copy(dst[256+2*r:], block[:2])
	copy(dst[288+2*r:], block[2:4])
}

// bySixteen is where the scale of 16 weights, number i of row r, is kept: beside
// the one of the run 32 weights further on, since their products are added at
// the same time.
func bySixteen(i, r int) int { return 64*(i/4) + 32*(i%2) + 2*r + i/2%2 }

// putPairs keeps two bits of each of 64 codes: bits 2*(k%4) of line k.
func putPairs(dst []byte, codes []byte, shift, r int) {
	for k := range 8 {
		for half := range 2 {
			v := binary.LittleEndian.Uint32(codes[32*half+4*k:]) >> shift & 0x03030303
			orUint32(dst[k/4*128+64*half+4*r:], v<<(2*(k%4)))
		}
	}
}

// putNibbles keeps the low four bits of each of 64 codes.
func putNibbles(dst []byte, codes []byte, r int) {
	for k := range 8 {
		low, high := binary.LittleEndian.Uint32(codes[4*k:]), binary.LittleEndian.Uint32(codes[32+4*k:])
		binary.LittleEndian.PutUint32(dst[64*k+4*r:], low&0x0f0f0f0f|high&0x0f0f0f0f<<4)
	}
}

func orUint32(dst []byte, v uint32) {
	binary.LittleEndian.PutUint32(dst, binary.LittleEndian.Uint32(dst)|v)
}

func (l *layout) packQ6_K(dst, row []byte, r int) {
	var b super
	for ; len(row) > 0; row, dst = row[210:], dst[l.super():] {
		b.unpack(gguf.Q6_K, row[:210])
		codes := b.codes(32)
		for j := range 4 {
			putNibbles(dst[j*l.group:], codes[64*j:], r)
			putPairs(dst[j*l.group+512:], codes[64*j:], 4, r)
		}
		for i, s := range b.scale {
			dst[4*l.group+bySixteen(i, r)] = byte(s)
		}
		copy(dst[4*l.group+256+2*r:], row[208:210])
	}
}

func (l *layout) packQ3_K(dst, row []byte, r int) {
	var b super
	for ; len(row) > 0; row, dst = row[110:], dst[l.super():] {
		b.unpack(gguf.Q3_K, row[:110])
		codes := b.codes(4)
		for j := range 4 {
			g := dst[j*l.group:]
			putPairs(g, codes[64*j:], 0, r)
			for k := range 8 {
				for half := range 2 {
					third := binary.LittleEndian.Uint32(codes[64*j+32*half+4*k:]) >> 2 & 0x01010101
					orUint32(g[256+64*half+4*r:], third<<k)
				}
			}
		}
		for i, s := range b.scale {
			dst[4*l.group+bySixteen(i, r)] = byte(s)
		}
		copy(dst[4*l.group+256+2*r:], row[108:110])
	}
}

func (l *layout) packQ2_K(dst, row []byte, r int) {
	var b super
	for ; len(row) > 0; row, dst = row[84:], dst[l.super():] {
		b.unpack(gguf.Q2_K, row[:84])
		codes := b.codes(0)
		for j := range 4 {
			putPairs(dst[j*l.group:], codes[64*j:], 0, r)
		}
		for i, s := range row[:16] {
			dst[4*l.group+bySixteen(i, r)] = s
		}
		copy(dst[4*l.group+256+2*r:], row[80:82])
		copy(dst[4*l.group+288+2*r:], row[82:84])
	}
}

// iq3sNibbles holds each grid entry as four values n, one a byte, magnitude
// 2n-15. Turning the sign is n^15; signNibbles holds that for four signs.
var iq3sNibbles, signNibbles = func() (n [512]uint32, s [16]uint32) {
	for i, g := range quant.IQ3SGrid() {
		n[i] = (g + 0x0f0f0f0f) >> 1 // bytes are odd, up to 15: nothing crosses them
	}
	for i := range s {
		for j := range 4 {
			s[i] |= uint32(i>>j&1) * 15 << (8 * j)
		}
	}
	return
}()

func (l *layout) packIQ3_S(dst, row []byte, r int) {
	size := l.super()
	for ; len(row) > 0; row, dst = row[110:], dst[size:] {
		qs, qh, sign := row[2:66], row[66:74], row[74:106]
		four := func(i int) uint32 {
			return iq3sNibbles[int(qs[i])|int(qh[i/8]>>(i%8)&1)<<8] ^ signNibbles[sign[i/2]>>(4*(i%2))&15]
		}
		for l := range 32 {
			i := l/8*16 + l%8
			binary.LittleEndian.PutUint32(dst[64*l+4*r:], four(i)|four(i+8)<<4)
		}
		for j, s := range row[106:110] { // the file already pairs them as nibbles
			dst[2048+16*j+r] = s
		}
		copy(dst[2112+2*r:], row[:2])
	}
}

// iq3xxsNibbles holds each grid entry of IQ3_XXS as four codes: 8 and the
// number of the magnitude; turned signs as in IQ3_S.
var iq3xxsNibbles = func() (n [256]uint32) {
	for i := range n {
		for j, m := range quant.IQ3XXSGrid(i) {
			n[i] |= uint32(8+m) << (8 * j)
		}
	}
	return
}()

func (l *layout) packIQ3_XXS(dst, row []byte, r int) {
	size := l.super()
	for ; len(row) > 0; row, dst = row[98:], dst[size:] {
		var codes [256]byte
		for j := range 8 {
			x := binary.LittleEndian.Uint32(row[66+4*j:])
			for i := range 8 {
				sign := quant.EvenSigns(x >> (7 * (i / 2)) & 127)
				v := iq3xxsNibbles[row[2+8*j+i]] ^ signNibbles[sign>>(4*(i%2))&15]
				binary.LittleEndian.PutUint32(codes[32*j+4*i:], v)
			}
			dst[2048+32*(j/2)+2*r+j%2] = byte(1 + 2*(x>>28))
		}
		for j := range 4 {
			putNibbles(dst[512*j:], codes[64*j:], r)
		}
		copy(dst[2176+2*r:], row[:2])
	}
}

func (l *layout) packIQ4_XS(dst, row []byte, r int) {
	size := l.super()
	var codes [64]byte
	for ; len(row) > 0; row, dst = row[136:], dst[size:] {
		high := binary.LittleEndian.Uint16(row[2:])
		for j := range 4 {
			for i := range 16 {
				a, b := row[8+32*j+i], row[24+32*j+i]
				codes[i], codes[16+i], codes[32+i], codes[48+i] = a&15, a>>4, b&15, b>>4
			}
			putNibbles(dst[512*j:], codes[:], r)
		}
		for j := range 8 {
			s := row[4+j/2]>>(4*(j%2))&15 | byte(high>>(2*j))&3<<4
			dst[2048+32*(j/2)+2*r+j%2] = s - 32
		}
		copy(dst[2176+2*r:], row[:2])
	}
}
