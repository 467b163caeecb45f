package main

import (
	"encoding/binary"
	"fmt"
)

// AMX multiplies 16 tokens by the 16 rows of a panel, 64 weights at a time: there are
// eight registers of 16 lines of 64 bytes, and an instruction that multiplies two and
// adds to a third. Lines of a panel are what it wants as the second factor.
// Go's assembler has no names for these instructions (Intel's manual, volume 2), so
// they are given as bytes.

// gpr are the numbers of the registers that address tiles here.
var gpr = map[string]int{"BX": 3, "SI": 6}

func (a *asm) vex(bytes ...int) {
	for i, b := range bytes {
		if i > 0 {
			a.text.WriteString("; ")
		} else {
			a.text.WriteString("\t")
		}
		fmt.Fprintf(&a.text, "BYTE $0x%02x", b)
	}
	a.text.WriteString("\n")
}

// Prefixes of instructions, as VEX numbers them.
const (
	prefixF3 = 2
	prefixF2 = 3
)

// tileConfig takes the shape of all tiles from the 64 bytes at AX.
func (a *asm) tileConfig() { a.vex(0xc4, 0xe2, 0x78, 0x49, 0x00) }

// tileRelease ends the use of tiles. What is held in them would have to be saved
// with every switch between threads, and in the frame of every signal.
func (a *asm) tileRelease() { a.vex(0xc4, 0xe2, 0x78, 0x49, 0xc0) }

func (a *asm) tileZero(t int) { a.vex(0xc4, 0xe2, 0x78|prefixF2, 0x49, 0xc0|t<<3) }

// tileMove loads or stores tile t: line i is at base + off + i*DX.
func (a *asm) tileMove(prefix, t int, base string, off int) {
	const dx = 2
	a.vex(0xc4, 0xe2, 0x78|prefix, 0x4b, 0x84|t<<3, dx<<3|gpr[base], off&255, off>>8&255, off>>16&255, off>>24&255)
}

func (a *asm) tileLoad(t int, base string, off int) { a.tileMove(prefixF2, t, base, off) }

func (a *asm) tileStore(t int, base string, off int) { a.tileMove(prefixF3, t, base, off) }

// tileDot adds the products of x, signed bytes, and w, unsigned ones unless signed,
// to sum.
func (a *asm) tileDot(sum, x, w int, signed bool) {
	prefix := prefixF3
	if signed {
		prefix = prefixF2
	}
	a.vex(0xc4, 0xe2, ^w&15<<3|prefix, 0x5e, 0xc0|sum<<3|x)
}

// What gather makes of 16 tokens and 256 values: the values, [4][16 tokens][64]; the
// sums of 32 in pairs, [4][16 tokens], or those of 16, [8][16 tokens] (see x64Sum16);
// the scales, [16 tokens].
const (
	tileTokens = 16
	gatherSums = 4096
	gatherD    = gatherSums + 512
	gatherSize = gatherD + 64
)

// Scratch of a kernel: sums of four tiles, both bytes of the weights of a super-block
// as tiles take them, minima and scales, and last the float sums of all tokens.
const (
	amxSums   = 0
	amxLines  = amxSums + 4*1024
	amxMinima = amxLines + 2*4096
	amxD      = amxMinima + 8*64
	amxDMin   = amxD + 64
	amxFloats = amxDMin + 64
)

// amx is the kernel of a format of super-blocks. A weight times its scale has at most
// 14 bits: with those that are made of two signed bytes, which tiles can multiply,
// the sum over a super-block is two sums of tiles, whatever scales there are within.
// All of that is exact, as it is in the kernels of few tokens.
func amx(a *asm, f *format256) {
	a.amxBegin(f.name + "AMX")
	a.p("block:")
	f.amxConsts(a)
	a.p("LEAQ %d(AX), R13\nMOVL $4, CX\nLEAQ %d(SI), DI\ngroup:", 4*f.step, amxLines)
	for k := range 8 {
		if per := 8 / f.runs(); k%per == 0 {
			f.amxScales(a, k/per)
		}
		if k == 0 && f.ready != nil {
			f.ready(a)
		}
		f.unpack(a, k)
		f.amxProducts(a, 26, 0, 64*k)
		f.amxProducts(a, 27, 4, 512+64*k)
	}
	a.p("ADDQ $1024, DI\nADDQ $%d, AX\nADDQ $%d, R13\nDECL CX\nJNZ group", f.step, f.scaleStep())
	for o := 0; o < f.rest; o += 64 {
		a.prefetch(o)
	}
	f.keepScales(a)
	a.p("ADDQ $%d, AX", f.rest)
	a.p("LEAQ %d(SI), R11\nMOVQ tiles+24(FP), R10\nVMOVAPS %d(SI), Z30", amxFloats, amxD)
	if f.minima {
		a.p("VMOVAPS %d(SI), Z31", amxDMin)
		for i := range 4 * f.runs() {
			a.p("VMOVDQA64 %d(SI), Z%d", amxMinima+64*i, 16+i)
		}
	}
	a.p("pair:\nCMPQ R10, $2\nJL single")
	f.tiles(a, 2)
	a.p("SUBQ $2, R10\nJNZ pair\nJMP next\nsingle:")
	f.tiles(a, 1)
	a.p("next:\nDECQ R12\nJNZ block")
	a.amxEnd()
}

// parts is in how many bytes the products of weights and scales fit, and shift how
// many bits the last of them has. Of codes so small that both bytes of a word can be
// multiplied at once by some bits of the scale, the scale is what is cut; of others
// the product.
func (f *format256) parts() (n, shift int, byScale bool) {
	switch f.name {
	case "q2k": // 3 * 15
		return 1, 0, true
	case "q4k", "q5k", "iq3s": // 31 * 7 is less than 256, 15 * 14 as well
		return 2, 3, true
	}
	return 2, 7, false
}

// amxConsts makes what amxScales, unpack and amxProducts read: Z24 the mask of codes,
// Z20 and Z21 what doubles the first and the second word of each four bytes, Z22 and
// Z23 constants of amxProducts. Z0 ... Z7 are scales.
func (f *format256) amxConsts(a *asm) {
	constant := func(v, reg int) { a.p("MOVL $0x%x, R15\nVPBROADCASTD R15, Z%d", v, reg) }
	constant(f.mask(), 24)
	a.p("VBROADCASTI32X4 firstWords<>(SB), Z20\nVBROADCASTI32X4 secondWords<>(SB), Z21")
	if _, _, byScale := f.parts(); byScale {
		constant(0x00070007, 22)
		constant(0x0f0f0f0f, 23)
	} else {
		constant(0x00ff00ff, 22)
		constant(0x7f7f7f7f, 23)
	}
	if f.table != "" {
		a.p("VBROADCASTI32X4 %s<>(SB), Z29", f.table)
	}
}

// amxScales makes of the scales of a run those words that amxProducts wants, from Z0
// on for low weights and from Z4 on for high ones.
func (f *format256) amxScales(a *asm, run int) {
	if f.paired() {
		f.scalePairs(a, run)
	} else {
		a.p("VPMOVZXBD (R13), Z31\nVPMOVZXBD 16(R13), Z28\nVPSLLD $16, Z28, Z28\nVPORD Z28, Z31, Z31")
	}
	parts, shift, byScale := f.parts()
	for half := range 2 {
		z := 4 * half
		a.p("VPSHUFB Z%d, Z31, Z%d", 20+half, z)
		if !byScale {
			a.p("VPBROADCASTW less%d<>(SB), Z25\nVPMULLW Z25, Z%d, Z%d", f.offset, z, z+1)
			continue
		}
		if parts == 1 {
			continue
		}
		a.p("VPSRLW $%d, Z%d, Z%d\nVPANDD Z22, Z%d, Z%d", shift, z, z+1, z, z)
		if f.name == "iq3s" { // weights are 2n-15
			for part := range 2 {
				a.p("VPMULLW Z23, Z%d, Z%d\nVPADDW Z%d, Z%d, Z%d", z+part, z+2+part, z+part, z+part, z+part)
			}
		}
	}
}

// amxProducts multiplies 64 codes in register c by the scales from register z on, and
// writes both bytes of the products to the lines at off.
func (f *format256) amxProducts(a *asm, c, z, off int) {
	parts, shift, byScale := f.parts()
	if byScale {
		for part := range parts {
			a.p("VPMULLW Z%d, Z%d, Z8", z+part, c)
			if f.name == "iq3s" {
				a.p("VPSUBB Z%d, Z8, Z8", z+2+part)
			}
			a.p("VMOVDQA64 Z8, %d(DI)", off+4096*part)
		}
		return
	}
	// Even and odd codes, as words, times the scale, less the offset times the scale.
	// 0xd8: the second operand where the first, a mask, is set, and else the third.
	a.p("VPANDD Z22, Z%d, Z8\nVPSRLW $8, Z%d, Z9\nVPMULLW Z%d, Z8, Z8\nVPMULLW Z%d, Z9, Z9\nVPADDW Z%d, Z8, Z8\nVPADDW Z%d, Z9, Z9", c, c, z, z, z+1, z+1)
	a.p("VPSLLW $8, Z9, Z10\nVPTERNLOGD $0xd8, Z22, Z8, Z10\nVPANDD Z23, Z10, Z10\nVMOVDQA64 Z10, %d(DI)", off)
	a.p("VPSRLW $%d, Z8, Z8\nVPSLLW $%d, Z9, Z9\nVPTERNLOGD $0xd8, Z22, Z8, Z9\nVMOVDQA64 Z9, %d(DI)", shift, 8-shift, off+4096)
}

// keepScales writes the scales of the super-block to amxD and amxDMin and minima to
// amxMinima. R13 is behind the scales of the groups.
func (f *format256) keepScales(a *asm) {
	f.superScales(a)
	a.p("VMOVAPS Z28, %d(SI)", amxD)
	if !f.minima {
		return
	}
	a.p("VMOVAPS Z29, %d(SI)", amxDMin)
	for i := range 4 * f.runs() {
		f.superMinima(a, i)
		a.p("VMOVDQA64 Z28, %d(SI)", amxMinima+64*i)
	}
}

// tiles multiplies the super-block by t tiles of tokens and adds to their float sums.
func (f *format256) tiles(a *asm, t int) {
	parts, shift, _ := f.parts()
	sum := func(tile, part int) int { return 2*tile + part }
	for i := range t {
		for part := range parts {
			a.tileZero(sum(i, part))
		}
	}
	for g := range 4 {
		for i := range t {
			a.tileLoad(4+i, "BX", i*gatherSize+1024*g)
		}
		for part := range parts {
			a.tileLoad(6+part, "SI", amxLines+4096*part+1024*g)
			for i := range t {
				a.tileDot(sum(i, part), 4+i, 6+part, f.offset != 0)
			}
		}
	}
	for i := range t {
		for part := range parts {
			a.tileStore(sum(i, part), "SI", amxSums+1024*sum(i, part))
		}
	}
	for i := range t {
		for j := range tileTokens {
			x, at := i*gatherSize+4*j, 64*(tileTokens*i+j)
			low, high := amxSums+1024*sum(i, 0)+64*j, amxSums+1024*sum(i, 1)+64*j
			if parts == 1 {
				a.p("VCVTDQ2PS %d(SI), Z1", low)
			} else {
				a.p("VPSLLD $%d, %d(SI), Z1\nVPADDD %d(SI), Z1, Z1\nVCVTDQ2PS Z1, Z1", shift, high, low)
			}
			a.p("VMULPS.BCST %d(BX), Z30, Z2\nVMULPS Z2, Z1, Z1", gatherD+x)
			if f.minima {
				a.p("VPXORD Z3, Z3, Z3")
				for m := range 4 * f.runs() {
					a.p("VPDPWSSD.BCST %d(BX), Z%d, Z3", gatherSums+64*m+x, 16+m)
				}
				a.p("VMULPS.BCST %d(BX), Z31, Z2\nVCVTDQ2PS Z3, Z3\nVMULPS Z2, Z3, Z3\nVSUBPS Z3, Z1, Z1", gatherD+x)
			}
			a.p("VADDPS %d(R11), Z1, Z1\nVMOVAPS Z1, %d(R11)", at, at)
		}
	}
	a.p("ADDQ $%d, BX\nADDQ $%d, R11", t*gatherSize, t*1024)
}

const (
	amxArgs     = "w *byte, nb int, x *byte, tiles int, scratch *byte, routes *Route, n int, out *float32, ldo int, mask uint64"
	amxArgsSize = 80
)

// amxShapes adds the shapes of tiles: all eight have 16 lines of 64 bytes.
func amxShapes(a *asm) {
	var b [64]byte
	b[0] = 1 // the palette of eight tiles
	for t := range 8 {
		b[16+2*t], b[48+t] = 64, 16
	}
	a.consts.WriteString("\n")
	for i := 0; i < 64; i += 8 {
		fmt.Fprintf(&a.consts, "DATA shapes<>+%d(SB)/8, $0x%016x\n", i, binary.LittleEndian.Uint64(b[i:]))
	}
	a.consts.WriteString("GLOBL shapes<>(SB), RODATA|NOPTR, $64\n")
}

// amxBegin begins a kernel: AX the panel, R12 the number of super-blocks, BX the
// gathered tokens, SI the scratch, DX the step between lines of tiles. The float sums
// are zero.
func (a *asm) amxBegin(name string) {
	a.fn(name, amxArgs, amxArgsSize)
	a.p("LEAQ shapes<>(SB), AX")
	a.tileConfig()
	a.p("MOVQ w+0(FP), AX\nMOVQ nb+8(FP), R12\nMOVQ x+16(FP), BX\nMOVQ tiles+24(FP), R10\nMOVQ scratch+32(FP), SI\nMOVQ $64, DX")
	a.p("SHLQ $4, R10\nLEAQ %d(SI), R11\nVPXORD Z0, Z0, Z0\nzero:\nVMOVAPS Z0, (R11)\nADDQ $64, R11\nDECQ R10\nJNZ zero", amxFloats)
}

// amxEnd writes the sums of the n tokens that there are to their rows of the result.
func (a *asm) amxEnd() {
	a.tileRelease()
	a.p("LEAQ %d(SI), R11\nMOVQ routes+40(FP), R15\nMOVQ n+48(FP), R10\nMOVQ out+56(FP), AX\nMOVQ ldo+64(FP), R13\nSHLQ $2, R13\nMOVQ mask+72(FP), DX\nKMOVW DX, K1", amxFloats)
	a.p("store:\nMOVLQSX 4(R15), CX\nIMULQ R13, CX\nVMOVAPS (R11), Z0\nVMOVUPS Z0, K1, (AX)(CX*1)\nADDQ $64, R11\nADDQ $8, R15\nDECQ R10\nJNZ store\nVZEROUPPER\nRET")
}

// gather writes a function that puts the values, scales and, if any, sums of 16 or
// 32 values of up to 16 tokens where the kernels want them: nb super-blocks, step
// bytes apart. What is missing of 16 tokens is the last one again.
func gather(a *asm, name string, sums int) {
	a.fn(name, "dst *byte, x *byte, xs int, routes *Route, n int, nb int, step int", 56)
	a.p("MOVQ dst+0(FP), R10\nMOVQ x+8(FP), R11\nMOVQ xs+16(FP), R12\nMOVQ routes+24(FP), R15\nMOVQ n+32(FP), R13\nMOVQ step+48(FP), R8\nLEAQ %d(R10), DX\nMOVQ $16, SI", gatherSums)
	a.p("token:\nMOVLQSX (R15), BX\nIMULQ R12, BX\nADDQ R11, BX\nMOVQ R10, DI\nMOVQ DX, R9\nMOVQ nb+40(FP), CX\nblock:")
	for g := range 4 {
		a.p("VMOVDQU64 %d(BX), Z0\nVMOVDQA64 Z0, %d(DI)", x64*g, 1024*g)
		switch sums {
		case 16:
			a.p("MOVL %d(BX), AX\nMOVL AX, %d(R9)\nMOVL %d(BX), AX\nMOVL AX, %d(R9)", x64*g+x64Sum16, 128*g, x64*g+x64Sum16+4, 128*g+64)
		case 32:
			a.p("MOVL %d(BX), AX\nMOVL AX, %d(R9)", x64*g+x64Sum32, 64*g)
		}
	}
	a.p("MOVL %d(BX), AX\nMOVL AX, %d(R9)\nADDQ $%d, BX", x64D, gatherD-gatherSums, x256)
	a.p("ADDQ R8, DI\nADDQ R8, R9\nDECQ CX\nJNZ block\nADDQ $64, R10\nADDQ $4, DX\nCMPQ R13, $1\nJLE last\nDECQ R13\nADDQ $8, R15")
	a.p("last:\nDECQ SI\nJNZ token\nVZEROUPPER\nRET")
}

// amxs writes all kernels of level AMX.
func amxs(a *asm) {
	amxShapes(a)
	panelConsts(a)
	a.table("firstWords", [16]byte{0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13})
	a.table("secondWords", [16]byte{2, 3, 2, 3, 6, 7, 6, 7, 10, 11, 10, 11, 14, 15, 14, 15})
	gather(a, "gather256", 0)
	gather(a, "gather256sums16", 16)
	gather(a, "gather256sums32", 32)
	for _, f := range formats256 {
		amx(a, &f)
	}
}
