package main

import (
	"fmt"
	"math"
)

// floats writes the dot products of float rows with up to six tokens: 64
// partial sums a token in four registers, as quant.DotF32 has them.
func floats(a *asm) {
	minimumConsts(a)
	for _, f := range []string{"f32", "f16", "bf16", "q4_1", "q5_1"} {
		for t := 1; t <= 6; t++ {
			dot(a, f, t)
		}
		dotAVX2(a, f)
	}
	decodeMinimum(a, "q4_1")
	decodeMinimum(a, "q5_1")
}

// wholeFloat is the bits of v as a float.
func wholeFloat(v uint32) uint32 { return math.Float32bits(float32(v)) }

// stepBytes are the bytes of 64 weights.
var stepBytes = map[string]int{"f32": 256, "f16": 128, "bf16": 128, "q4_1": 2 * minimumBytes["q4_1"], "q5_1": 2 * minimumBytes["q5_1"]}

func roomOf(format string) int {
	if minimumBytes[format] > 0 {
		return scaleRoom
	}
	return 0
}

const dotArgs = "w *byte, n64 int, x *byte, xs int, routes *Route, out *float32, ldo int"

func dot(a *asm, format string, t int) {
	a.fnWith(roomOf(format), fmt.Sprintf("%st%d", format, t), dotArgs, 56)
	a.p("MOVQ w+0(FP), AX\nMOVQ n64+8(FP), DX\nMOVQ x+16(FP), CX\nMOVQ xs+24(FP), R13\nMOVQ routes+32(FP), R15")
	for i := range t {
		a.p("MOVLQSX %d(R15), %s\nIMULQ R13, %s\nADDQ CX, %s", 8*i, tokenRegs[i], tokenRegs[i], tokenRegs[i])
	}
	for i := range 4 * t {
		a.p("VPXORD Z%d, Z%d, Z%d", i, i, i)
	}
	a.p("step:")
	size := stepBytes[format]
	for o := 0; o < size; o += 64 {
		a.prefetch(o)
	}
	for j := range 4 {
		switch format {
		case "f32":
			a.p("VMOVUPS %d(AX), Z%d", 64*j, 24+j)
		case "f16":
			a.p("VCVTPH2PS %d(AX), Z%d", 32*j, 24+j)
		case "bf16":
			a.p("VPMOVZXWD %d(AX), Z%d\nVPSLLD $16, Z%d, Z%d", 32*j, 24+j, 24+j, 24+j)
		case "q4_1", "q5_1":
			if j%2 == 0 {
				minimum(a, format, size*j/4, 24+j)
			}
		}
		for i := range t {
			a.p("VMULPS %d(%s), Z%d, Z28\nVADDPS Z28, Z%d, Z%d", 64*j, tokenRegs[i], 24+j, 4*i+j, 4*i+j)
		}
	}
	a.p("ADDQ $%d, AX", size)
	a.advance(t, 256)
	a.p("DECQ DX\nJNZ step\nMOVQ out+40(FP), AX\nMOVQ ldo+48(FP), R13\nSHLQ $2, R13")
	for i := range t {
		z := 4 * i
		a.p("VADDPS Z%d, Z%d, Z%d\nVADDPS Z%d, Z%d, Z%d\nVADDPS Z%d, Z%d, Z%d", z+1, z, z, z+3, z+2, z+2, z+2, z, z)
		a.p("VEXTRACTF64X4 $1, Z%d, Y28\nVADDPS Y28, Y%d, Y%d\nVEXTRACTF32X4 $1, Y%d, X28\nVADDPS X28, X%d, X%d", z, z, z, z, z, z)
		a.p("VPERMILPS $0x4e, X%d, X28\nVADDPS X28, X%d, X%d\nVPERMILPS $0xb1, X%d, X28\nVADDPS X28, X%d, X%d", z, z, z, z, z, z)
		a.p("MOVLQSX %d(R15), CX\nIMULQ R13, CX\nVMOVSS X%d, (AX)(CX*1)", 8*i+4, z)
	}
	a.p("VZEROUPPER\nRET")
}

// dotAVX2 is the product with one token.
func dotAVX2(a *asm, format string) {
	a.fnWith(roomOf(format), format+"t1AVX2", dotArgs, 56)
	a.p("MOVQ w+0(FP), AX\nMOVQ n64+8(FP), DX\nMOVQ x+16(FP), CX\nMOVQ xs+24(FP), R13\nMOVQ routes+32(FP), R15\nMOVLQSX (R15), BX\nIMULQ R13, BX\nADDQ CX, BX")
	for i := range 8 {
		a.p("VXORPS Y%d, Y%d, Y%d", i, i, i)
	}
	a.p("step:")
	size := stepBytes[format]
	for o := 0; o < size; o += 64 {
		a.prefetch(o)
	}
	product := func(j, w int) {
		a.p("VMULPS %d(BX), Y%d, Y%d\nVADDPS Y%d, Y%d, Y%d", 32*j, w, w, w, j, j)
	}
	for j := range 8 {
		switch format {
		case "q4_1", "q5_1":
			if j%4 == 0 {
				minimumAVX2(a, format, size*j/8, func(run, reg int) { product(j+run, reg) })
			}
			continue
		case "f32":
			a.p("VMOVUPS %d(AX), Y8", 32*j)
		case "f16":
			a.p("VCVTPH2PS %d(AX), Y8", 16*j)
		case "bf16":
			a.p("VPMOVZXWD %d(AX), Y8\nVPSLLD $16, Y8, Y8", 16*j)
		}
		product(j, 8)
	}
	a.p("ADDQ $%d, AX\nADDQ $256, BX\nDECQ DX\nJNZ step", size)
	a.p("VADDPS Y2, Y0, Y0\nVADDPS Y6, Y4, Y4\nVADDPS Y4, Y0, Y0\nVADDPS Y3, Y1, Y1\nVADDPS Y7, Y5, Y5\nVADDPS Y5, Y1, Y1\nVADDPS Y1, Y0, Y0")
	a.p("VEXTRACTF128 $1, Y0, X1\nVADDPS X1, X0, X0\nVPERMILPS $0x4e, X0, X1\nVADDPS X1, X0, X0\nVPERMILPS $0xb1, X0, X1\nVADDPS X1, X0, X0")
	a.p("MOVQ out+40(FP), AX\nMOVQ ldo+48(FP), R13\nSHLQ $2, R13\nMOVLQSX 4(R15), CX\nIMULQ R13, CX\nVMOVSS X0, (AX)(CX*1)\nVZEROUPPER\nRET")
}
