package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

// A filler writes random weights of one format into dst, a whole number of
// blocks: their mean is 0 and their standard deviation about std. Every block
// is one that a quantiser could have made: finite scales, no value outside the
// format's range. Each block's scale is drawn from 0.75 to 1.25 of the middle
// one.
type filler func(r *source, dst []byte, std float64)

// Standard deviations of what a block's bits stand for, before its scale d,
// when the bits are uniform.
var (
	spreadInt8   = math.Sqrt((255*255 - 1) / 12.0)   // -127 to 127
	spreadNibble = math.Sqrt((16*16 - 1) / 12.0)     // 0 to 15, or -8 to 7 about its mean
	spread5      = math.Sqrt((32*32 - 1) / 12.0)     // 0 to 31
	spread6      = math.Sqrt((64*64-1)/12.0 + 0.25)  // -32 to 31 about 0
	spread2      = math.Sqrt((4*4 - 1) / 12.0)       // 0 to 3
	spread3      = math.Sqrt((8*8-1)/12.0 + 0.25)    // -4 to 3 about 0
	spreadUpper6 = rootMeanSquare(32, 63)            // six-bit scales of the upper half
	spreadUpper4 = rootMeanSquare(8, 15)             // four-bit ones
	spreadSigned = math.Sqrt((64*64-1)/12.0 + 0.25)  // six-bit scales less 32
	spreadOdd    = math.Sqrt((4*16*16 - 1) / 3.0)    // 1, 3 ... 31
	spreadIQ3XXS = 0.25 * math.Sqrt((4*16*16-1)/3.0) // (0.5 + 0 to 15) / 2
	spreadBytes  = rootMeanSquareOf(iq4Values[:])    // of IQ4_NL and IQ4_XS
	spreadMXFP4  = rootMeanSquareOf([]float64{0, 0.5, 1, 1.5, 2, 3, 4, 6})
)

// The root mean squares of the magnitudes in the tables of IQ3_S (512
// quadruples of 1 to 15) and IQ3_XXS (256 of 4 to 62), which a random index
// draws from.
const (
	spreadIQ3SGrid   = 7.594
	spreadIQ3XXSGrid = 30.85
)

// iq4Values are the 16 values of IQ4_NL and IQ4_XS.
var iq4Values = [16]float64{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// fillers are the formats that can be made.
var fillers = map[gguf.Type]filler{
	gguf.F32: func(r *source, dst []byte, std float64) {
		for ; len(dst) > 0; dst = dst[4:] {
			binary.LittleEndian.PutUint32(dst, math.Float32bits(float32(std*r.unit())))
		}
	},
	gguf.F16: func(r *source, dst []byte, std float64) {
		for ; len(dst) > 0; dst = dst[2:] {
			putHalf(dst, std*r.unit())
		}
	},
	gguf.BF16: func(r *source, dst []byte, std float64) {
		for ; len(dst) > 0; dst = dst[2:] {
			binary.LittleEndian.PutUint16(dst, uint16(math.Float32bits(float32(std*r.unit()))>>16))
		}
	},
	gguf.Q8_0: blocks(34, func(r *source, b []byte, std float64) {
		r.fill(b[2:])
		for i, q := range b[2:] {
			if q == 0x80 { // a quantiser never makes -128
				b[2+i] = 0x81
			}
		}
		putHalf(b, r.signed(std/spreadInt8))
	}),
	gguf.Q4_0: blocks(18, func(r *source, b []byte, std float64) {
		r.fill(b[2:])
		putHalf(b, r.signed(std/math.Hypot(spreadNibble, 0.5)))
	}),
	gguf.IQ4_NL: blocks(18, func(r *source, b []byte, std float64) {
		r.fill(b[2:])
		putHalf(b, r.signed(std/spreadBytes))
	}),
	gguf.MXFP4: blocks(17, func(r *source, b []byte, std float64) {
		r.fill(b)
		// The scale is a power of two: the lower or the upper neighbour, so
		// that the mean square is right.
		want := std * std / (spreadMXFP4 * spreadMXFP4)
		e := math.Floor(math.Log2(want) / 2)
		low := math.Exp2(2 * e)
		if r.float() < (want-low)/(3*low) {
			e++
		}
		b[0] = byte(127 + e)
	}),
	gguf.Q2_K: blocks(84, func(r *source, b []byte, std float64) { // 16 bytes of scales and minima, 64 of pairs, d, dmin
		r.fill(b[:80])
		for i, s := range b[:16] {
			s = s&7 | 8
			b[i] = s | s<<4
		}
		d := r.around(std / (spread2 * spreadUpper4))
		putHalf(b[80:], d)
		putHalf(b[82:], 1.5*d)
	}),
	gguf.Q3_K: blocks(110, func(r *source, b []byte, std float64) { // high bits, pairs, 12 bytes of scales, d
		r.fill(b[:108])
		putHalf(b[108:], r.around(std/(spread3*spreadSigned)))
	}),
	gguf.Q4_K: blocks(144, func(r *source, b []byte, std float64) {
		r.fill(b[16:])
		r.scalesAndMins(b, std/(spreadNibble*spreadUpper6), 7.5)
	}),
	gguf.Q5_K: blocks(176, func(r *source, b []byte, std float64) {
		r.fill(b[16:])
		r.scalesAndMins(b, std/(spread5*spreadUpper6), 15.5)
	}),
	gguf.Q6_K: blocks(210, func(r *source, b []byte, std float64) { // low nibbles, high pairs, 16 int8 scales, d
		r.fill(b[:208])
		for i, s := range b[192:208] {
			scale := int8(32 + s&31)
			if s&128 != 0 {
				scale = -scale
			}
			b[192+i] = byte(scale)
		}
		putHalf(b[208:], r.around(std/(spread6*spreadUpper6)))
	}),
	gguf.IQ3_S: blocks(110, func(r *source, b []byte, std float64) { // all but d is free
		r.fill(b)
		putHalf(b, r.around(std/(spreadIQ3SGrid*spreadOdd)))
	}),
	gguf.IQ3_XXS: blocks(98, func(r *source, b []byte, std float64) { // the same
		r.fill(b)
		putHalf(b, r.around(std/(spreadIQ3XXSGrid*spreadIQ3XXS)))
	}),
	gguf.IQ4_XS: blocks(136, func(r *source, b []byte, std float64) { // the same
		r.fill(b)
		putHalf(b, r.around(std/(spreadBytes*spreadSigned)))
	}),
}

// blocks makes a filler of one that fills a single block of size bytes.
func blocks(size int, one filler) filler {
	return func(r *source, dst []byte, std float64) {
		for ; len(dst) > 0; dst = dst[size:] {
			one(r, dst[:size:size], std)
		}
	}
}

// scalesAndMins writes d, dmin and the 12 bytes of eight six-bit scales and
// minima with which Q4_K and Q5_K begin. Scales are drawn from the upper half of
// their range; each minimum takes the mean of its values, middle, away.
func (r *source) scalesAndMins(b []byte, d, middle float64) {
	d = r.around(d)
	putHalf(b, d)
	putHalf(b[2:], middle*d)
	x := b[4:16]
	bits := r.Uint64()
	for j := range 4 {
		low, high := byte(bits)&31|32, byte(bits>>8)&31|32
		bits >>= 16
		// The first four scales and minima have the low six bits of bytes 0 to
		// 3 and 4 to 7; the others' low nibbles are in bytes 8 to 11, their two
		// top bits in the first eight.
		x[j], x[4+j] = low|high>>4<<6, low|high>>4<<6
		x[8+j] = high&15 | high<<4
	}
}

// source is where random numbers come from: one for every piece of a tensor.
// Its output is ChaCha8's, which will not change with Go's version.
type source struct{ *rand.ChaCha8 }

func (r *source) fill(b []byte) { _, _ = r.Read(b) } // never fails

// float is uniform between 0 and 1.
func (r *source) float() float64 { return float64(r.Uint64()>>11) / (1 << 53) }

// unit is uniform with mean 0 and standard deviation 1.
func (r *source) unit() float64 { return (2*r.float() - 1) * math.Sqrt(3) }

// around is between 0.75 and 1.25 times d, with d*d as its mean square.
func (r *source) around(d float64) float64 {
	const meanSquare = 1 + 0.25*0.25/3
	return d / math.Sqrt(meanSquare) * (0.75 + r.float()/2)
}

// signed is around with a random sign, for formats whose values have a mean
// that is not 0.
func (r *source) signed(d float64) float64 {
	if r.Uint64()&1 != 0 {
		d = -d
	}
	return r.around(d)
}

// putHalf writes v as a half float. A v that is none is a mistake of the shape.
func putHalf(b []byte, v float64) {
	h := quant.ToHalf(float32(v))
	if h&0x7c00 == 0x7c00 {
		panic(fmt.Sprintf("a scale of %g is no half float", v))
	}
	binary.LittleEndian.PutUint16(b, h)
}

func rootMeanSquare(from, to int) float64 {
	var v []float64
	for i := from; i <= to; i++ {
		v = append(v, float64(i))
	}
	return rootMeanSquareOf(v)
}

func rootMeanSquareOf(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum / float64(len(v)))
}
