package main

import "fmt"

// Activations of a block of 32: the values, -128 times their sum, the scale.
const (
	x32    = 40
	x32Sum = 32
	x32D   = 36
)

// panels32 writes the kernels of the formats with blocks of 32.
func panels32(a *asm) {
	for t := 1; t <= 6; t++ {
		bytes(a, 1, t)
	}
	bytes(a, 1, 8)
	bytes(a, 2, 6)
	// Values of the 16 codes, plus 128.
	for _, f := range []string{"q4_0", "iq4nl", "mxfp4"} {
		a.table(f, offset(codes[f]))
	}
	for _, f := range []string{"q4_0", "iq4nl", "mxfp4"} {
		for t := 1; t <= 6; t++ {
			nibbles32(a, f, t)
		}
	}
}

// codes are what the 16 codes of a format stand for; those of MXFP4 doubled.
var codes = map[string][]int{
	"q4_0":   {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7},
	"iq4nl":  iq4,
	"iq4xs":  iq4,
	"mxfp4":  {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12},
	"iq3xxs": {-62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62},
}

var iq4 = []int{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// offset is the table of values plus 128.
func offset(v []int) (b [16]byte) {
	for i, x := range v {
		b[i] = byte(x + 128)
	}
	return b
}

// bytes is Q8_0: weights offset by 128, in pairs of blocks as they lie in a
// panel. A sum starts at -128 times the sum of the activations. With an odd
// number of blocks the last round ends in its middle.
func bytes(a *asm, r, t int) {
	a.tile(fmt.Sprintf("q8r%dt%d", r, t), r, t)
	sum := func(g, i int) int { return r*t + g*t + i }
	prefetch := func(off int) {
		if r == 1 {
			a.prefetch(off)
		} else { // the same place in the next pair of panels
			a.p("PREFETCHT1 %d(AX)(R13*2)\nPREFETCHT1 %d(AX)(R15*1)", off, off)
		}
	}
	a.p("block:")
	prefetch(0)
	for h := range 2 {
		for i := range t {
			a.p("VPBROADCASTD %d(%s), Z%d", h*x32+x32Sum, tokenRegs[i], sum(0, i))
			if r > 1 {
				a.p("VMOVDQA64 Z%d, Z%d", sum(0, i), sum(1, i))
			}
		}
		for k := range 8 {
			w := 64 + 512*h + 64*k
			prefetch(w)
			a.p("VMOVDQU64 %d(AX), Z28", w)
			if r > 1 {
				a.p("VMOVDQU64 %d(AX)(R13*1), Z29", w)
			}
			for i := range t {
				if r == 1 {
					a.p("VPDPBUSD.BCST %d(%s), Z28, Z%d", h*x32+4*k, tokenRegs[i], sum(0, i))
					continue
				}
				a.p("VPBROADCASTD %d(%s), Z30\nVPDPBUSD Z30, Z28, Z%d\nVPDPBUSD Z30, Z29, Z%d", h*x32+4*k, tokenRegs[i], sum(0, i), sum(1, i))
			}
		}
		for g := range r {
			a.p("VCVTPH2PS %d(AX)%s, Z%d", 32*h, [...]string{"", "(R13*1)"}[g], 28+g)
		}
		for i := range t {
			for g := range r {
				s, acc := sum(g, i), g*t+i
				a.p("VMULPS.BCST %d(%s), Z%d, Z30\nVCVTDQ2PS Z%d, Z%d\nVMULPS Z30, Z%d, Z%d\nVADDPS Z%d, Z%d, Z%d", h*x32+x32D, tokenRegs[i], 28+g, s, s, s, s, s, acc, acc)
			}
		}
		if h == 0 {
			a.p("DECQ DX\nJZ done")
		}
	}
	a.p("ADDQ $1088, AX")
	a.advance(t, 2*x32)
	a.p("DECQ DX\nJNZ block")
	a.store(r, t)
}

// nibbles32 is for 4-bit codes in blocks of 32, looked up in a table. Their
// values are offset by 128 as Q8_0's are. Scales are half floats, MXFP4's the
// upper halves of floats.
func nibbles32(a *asm, format string, t int) {
	a.tile(fmt.Sprintf("%st%d", format, t), 1, t)
	a.p("MOVL $0x0f0f0f0f, R13\nVPBROADCASTD R13, Z24\nVBROADCASTI32X4 %s<>(SB), Z25", format)
	a.p("block:")
	a.prefetch(0)
	for h := range 2 {
		for i := range t {
			a.p("VPBROADCASTD %d(%s), Z%d", h*x32+x32Sum, tokenRegs[i], t+i)
		}
		for k := range 4 {
			w := 64 + 256*h + 64*k
			a.prefetch(w)
			a.p("VMOVDQU64 %d(AX), Z26\nVPSRLW $4, Z26, Z27\nVPANDD Z24, Z26, Z26\nVPANDD Z24, Z27, Z27\nVPSHUFB Z26, Z25, Z26\nVPSHUFB Z27, Z25, Z27", w)
			for i := range t {
				a.p("VPDPBUSD.BCST %d(%s), Z26, Z%d\nVPDPBUSD.BCST %d(%s), Z27, Z%d", h*x32+4*k, tokenRegs[i], t+i, h*x32+16+4*k, tokenRegs[i], t+i)
			}
		}
		if format == "mxfp4" {
			a.p("VPMOVZXWD %d(AX), Z28\nVPSLLD $16, Z28, Z28", 32*h)
		} else {
			a.p("VCVTPH2PS %d(AX), Z28", 32*h)
		}
		for i := range t {
			a.p("VMULPS.BCST %d(%s), Z28, Z30\nVCVTDQ2PS Z%d, Z%d\nVMULPS Z30, Z%d, Z%d\nVADDPS Z%d, Z%d, Z%d", h*x32+x32D, tokenRegs[i], t+i, t+i, t+i, t+i, t+i, i, i)
		}
		if h == 0 {
			a.p("DECQ DX\nJZ done")
		}
	}
	a.p("ADDQ $576, AX")
	a.advance(t, 2*x32)
	a.p("DECQ DX\nJNZ block")
	a.store(1, t)
}
