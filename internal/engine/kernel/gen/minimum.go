package main

import "fmt"

// Q4_1 and Q5_1: blocks of 32 weights d*q + m, which quant multiplies as floats.
// So these kernels are those of float rows, with blocks of the file in place of
// the loads of weights.
//
// minimumBytes is the size of a block: d, m, Q5_1's fifth bits, 16 bytes whose low
// nibbles are the first 16 weights.
var minimumBytes = map[string]int{"q4_1": 20, "q5_1": 24}

func minimumConsts(a *asm) {
	for _, f := range []struct {
		name string
		from uint32
		as   func(uint32) uint32
	}{
		{"zeroUp", 0, wholeFloat},
		{"sixteenUp", 16, wholeFloat},
		{"countUp", 0, func(v uint32) uint32 { return v }},
	} {
		a.consts.WriteString("\n")
		for i := uint32(0); i < 16; i += 2 {
			fmt.Fprintf(&a.consts, "DATA %s<>+%d(SB)/8, $0x%08x%08x\n", f.name, 4*i, f.as(f.from+i+1), f.as(f.from+i))
		}
		fmt.Fprintf(&a.consts, "GLOBL %s<>(SB), RODATA|NOPTR, $64\n", f.name)
	}
	a.floatConst("nibble", 15)
	a.floatConst("sixteen", 16)
}

// scaleRoom is what these kernels need on the stack.
const scaleRoom = 8

// scales puts d and m of the block at off on the stack, as floats: from there they
// reach all lanes by loads, which are free, where the units that compute are not.
func scales(a *asm, off int, x string) {
	a.p("VMOVD %d(AX), %s\nVCVTPH2PS %s, %s\nVMOVQ %s, 0(SP)", off, x, x, x, x)
}

// minimum makes the weights of the block at off in Z registers w and w+1. A block
// has only 16 different weights, or 32: they are made once and then looked up. It
// uses Z28, Z29, Z31 and K1.
func minimum(a *asm, format string, off, w int) {
	nibbles := off + minimumBytes[format] - 16
	scales(a, off, "X29")
	a.p("VMOVUPS zeroUp<>(SB), Z28\nVMULPS.BCST 0(SP), Z28, Z28\nVADDPS.BCST 4(SP), Z28, Z28")
	if format == "q5_1" {
		a.p("VMOVUPS sixteenUp<>(SB), Z31\nVMULPS.BCST 0(SP), Z31, Z31\nVADDPS.BCST 4(SP), Z31, Z31")
	}
	a.p("VPMOVZXBD %d(AX), Z29", nibbles)
	for i := range 2 { // a look-up heeds only the lowest four bits of an index
		if i == 1 {
			a.p("VPSRLD $4, Z29, Z29")
		}
		a.p("VPERMPS Z28, Z29, Z%d", w+i)
		if format == "q5_1" {
			a.p("KMOVW %d(AX), K1\nVPERMPS Z31, Z29, K1, Z%d", off+4+2*i, w+i)
		}
	}
}

// minimumAVX2 makes the weights of the block at off, 8 at a time, and calls use with
// the number of the run and its register. It uses Y8 to Y15.
func minimumAVX2(a *asm, format string, off int, use func(run, reg int)) {
	nibbles := off + minimumBytes[format] - 16
	scales(a, off, "X14")
	a.p("VBROADCASTSS 0(SP), Y14\nVBROADCASTSS 4(SP), Y15")
	if format == "q5_1" { // bit 0 of lane i is that of weight i, bit 8 that of weight 8+i
		a.p("VPBROADCASTD %d(AX), Y12\nVPSRLVD countUp<>(SB), Y12, Y12", off+4)
	}
	for i := range 2 {
		a.p("VPMOVZXBD %d(AX), Y8\nVPSRLD $4, Y8, Y9\nVPAND nibble<>(SB), Y8, Y8", nibbles+8*i)
		for high := range 2 {
			run, w := 2*high+i, 8+high
			if format == "q5_1" {
				shift := "VPSLLD $4"
				if run > 0 {
					shift = fmt.Sprintf("VPSRLD $%d", 8*run-4)
				}
				a.p("%s, Y12, Y10\nVPAND sixteen<>(SB), Y10, Y10\nVPOR Y10, Y%d, Y%d", shift, w, w)
			}
			a.p("VCVTDQ2PS Y%d, Y%d\nVMULPS Y14, Y%d, Y%d\nVADDPS Y15, Y%d, Y%d", w, w, w, w, w, w)
			use(run, w)
		}
	}
}

// decodeMinimum decodes nb blocks.
func decodeMinimum(a *asm, format string) {
	for _, v := range isas {
		a.fnWith(scaleRoom, fmt.Sprintf("decodeQ%s%s", format[1:], v.name), "dst *float32, src *byte, nb int", 24)
		a.p("MOVQ dst+0(FP), DI\nMOVQ src+8(FP), AX\nMOVQ nb+16(FP), DX\nblock:")
		if v.reg == "Z" {
			minimum(a, format, 0, 24)
			a.p("VMOVUPS Z24, (DI)\nVMOVUPS Z25, 64(DI)")
		} else {
			minimumAVX2(a, format, 0, func(run, reg int) { a.p("VMOVUPS Y%d, %d(DI)", reg, 32*run) })
		}
		a.p("ADDQ $128, DI\nADDQ $%d, AX\nDECQ DX\nJNZ block\nVZEROUPPER\nRET", minimumBytes[format])
	}
}
