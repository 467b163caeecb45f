package main

import (
	"math"
)

// vectors writes the functions that work on rows of floats, element by element.
// n is a number of sixteens.
func vectors(a *asm) {
	expConsts(a)
	a.floatConst("geluCube", math.Float32bits(0.044715))
	a.floatConst("geluFactor", math.Float32bits(-2*0.7978845608028654)) // sqrt(2/pi)
	a.floatConst("minus1702", math.Float32bits(-1.702))
	for _, v := range isas {
		v.scaled(a)
		v.axpy(a)
		v.added(a)
		v.merge(a)
		v.divide(a)
		v.rope(a)
		v.siluMul(a)
		v.geluMul(a)
		v.clampedSwiGLU(a)
		v.softmaxPage(a)
		v.toHalf(a)
		v.fromHalf(a)
	}
}

// expConsts adds the constants of exp.
func expConsts(a *asm) {
	for _, c := range []struct {
		name  string
		value float32
	}{
		{"minus87", -87},
		{"plus88", 88},
		{"log2e", 1.44269504},
		{"magic", 12582912},
		{"ln2hi", 0.693359375},
		{"ln2lo", -2.12194440e-4},
		{"p6", 1.0 / 720},
		{"p5", 1.0 / 120},
		{"p4", 1.0 / 24},
		{"p3", 1.0 / 6},
		{"p2", 0.5},
		{"p1", 1},
		{"minusZero", float32(math.Copysign(0, -1))},
	} {
		a.floatConst(c.name, math.Float32bits(c.value))
	}
}

// each writes a loop over n sixteens, with AX as the offset in bytes.
func (v isa) each(a *asm, n string, body func(at string)) {
	a.p("MOVQ %s, CX\nXORQ AX, AX\nnext:", n)
	for i := range v.per {
		body([]string{"", "32"}[i])
	}
	a.p("ADDQ $64, AX\nDECQ CX\nJNZ next\nVZEROUPPER\nRET")
}

// scaled: out = (x*scale)*gamma.
func (v isa) scaled(a *asm) {
	a.fn("scaled"+v.name, "out, x, gamma *float32, scale float32, n int", 40)
	a.p("MOVQ out+0(FP), DI\nMOVQ x+8(FP), SI\nMOVQ gamma+16(FP), DX\nVBROADCASTSS scale+24(FP), %s", v.r(0))
	v.each(a, "n+32(FP)", func(at string) {
		a.p("VMULPS %s(SI)(AX*1), %s, %s\nVMULPS %s(DX)(AX*1), %s, %s\nVMOVUPS %s, %s(DI)(AX*1)", at, v.r(0), v.r(1), at, v.r(1), v.r(1), v.r(1), at)
	})
}

// axpy: out = out + w*x.
func (v isa) axpy(a *asm) {
	a.fn("axpy"+v.name, "out, x *float32, w float32, n int", 32)
	a.p("MOVQ out+0(FP), DI\nMOVQ x+8(FP), SI\nVBROADCASTSS w+16(FP), %s", v.r(0))
	v.each(a, "n+24(FP)", func(at string) {
		a.p("VMULPS %s(SI)(AX*1), %s, %s\nVADDPS %s(DI)(AX*1), %s, %s\nVMOVUPS %s, %s(DI)(AX*1)", at, v.r(0), v.r(1), at, v.r(1), v.r(1), v.r(1), at)
	})
}

// added: out = out + x.
func (v isa) added(a *asm) {
	a.fn("added"+v.name, "out, x *float32, n int", 24)
	a.p("MOVQ out+0(FP), DI\nMOVQ x+8(FP), SI")
	v.each(a, "n+16(FP)", func(at string) {
		a.p("VMOVUPS %s(SI)(AX*1), %s\nVADDPS %s(DI)(AX*1), %s, %s\nVMOVUPS %s, %s(DI)(AX*1)", at, v.r(1), at, v.r(1), v.r(1), v.r(1), at)
	})
}

// merge: out = out*before + x*here.
func (v isa) merge(a *asm) {
	a.fn("merge"+v.name, "out, x *float32, before, here float32, n int", 32)
	a.p("MOVQ out+0(FP), DI\nMOVQ x+8(FP), SI\nVBROADCASTSS before+16(FP), %s\nVBROADCASTSS here+20(FP), %s", v.r(0), v.r(1))
	v.each(a, "n+24(FP)", func(at string) {
		a.p("VMULPS %s(DI)(AX*1), %s, %s\nVMULPS %s(SI)(AX*1), %s, %s\nVADDPS %s, %s, %s\nVMOVUPS %s, %s(DI)(AX*1)",
			at, v.r(0), v.r(2), at, v.r(1), v.r(3), v.r(3), v.r(2), v.r(2), v.r(2), at)
	})
}

// divide: out = out / by.
func (v isa) divide(a *asm) {
	a.fn("divide"+v.name, "out *float32, by float32, n int", 24)
	a.p("MOVQ out+0(FP), DI\nVBROADCASTSS by+8(FP), %s", v.r(0))
	v.each(a, "n+16(FP)", func(at string) {
		a.p("VMOVUPS %s(DI)(AX*1), %s\nVDIVPS %s, %s, %s\nVMOVUPS %s, %s(DI)(AX*1)", at, v.r(1), v.r(0), v.r(1), v.r(1), v.r(1), at)
	})
}

// rope turns pairs x[j], y[j]: (x*cos - y*sin, x*sin + y*cos).
func (v isa) rope(a *asm) {
	a.fn("rope"+v.name, "x, y, cos, sin *float32, n int", 40)
	a.p("MOVQ x+0(FP), DI\nMOVQ y+8(FP), SI\nMOVQ cos+16(FP), DX\nMOVQ sin+24(FP), BX")
	v.each(a, "n+32(FP)", func(at string) {
		a.p("VMOVUPS %s(DI)(AX*1), %s\nVMOVUPS %s(SI)(AX*1), %s\nVMOVUPS %s(DX)(AX*1), %s\nVMOVUPS %s(BX)(AX*1), %s",
			at, v.r(0), at, v.r(1), at, v.r(2), at, v.r(3))
		a.p("VMULPS %s, %s, %s\nVMULPS %s, %s, %s\nVSUBPS %s, %s, %s", v.r(2), v.r(0), v.r(4), v.r(3), v.r(1), v.r(5), v.r(5), v.r(4), v.r(4))
		a.p("VMULPS %s, %s, %s\nVMULPS %s, %s, %s\nVADDPS %s, %s, %s", v.r(3), v.r(0), v.r(5), v.r(2), v.r(1), v.r(6), v.r(6), v.r(5), v.r(5))
		a.p("VMOVUPS %s, %s(DI)(AX*1)\nVMOVUPS %s, %s(SI)(AX*1)", v.r(4), at, v.r(5), at)
	})
}

// siluMul: gate = gate/(1+exp(-gate))*up.
func (v isa) siluMul(a *asm) {
	a.fn("siluMul"+v.name, "gate, up *float32, n int", 24)
	a.p("MOVQ gate+0(FP), DI\nMOVQ up+8(FP), SI")
	v.each(a, "n+16(FP)", func(at string) {
		a.p("VMOVUPS %s(DI)(AX*1), %s", at, v.r(0))
		op := "VXORPS"
		if v.reg == "Z" {
			op = "VPXORD"
		}
		v.op(a, op, "minusZero", v.r(0), v.r(1))
		v.gated(a, at)
	})
}

// geluMul: gate = gate/(1+exp(((gate*gate*cube)+1)*gate*factor))*up.
func (v isa) geluMul(a *asm) {
	a.fn("geluMul"+v.name, "gate, up *float32, n int", 24)
	a.p("MOVQ gate+0(FP), DI\nMOVQ up+8(FP), SI")
	v.each(a, "n+16(FP)", func(at string) {
		a.p("VMOVUPS %s(DI)(AX*1), %s\nVMULPS %s, %s, %s", at, v.r(0), v.r(0), v.r(0), v.r(1))
		v.op(a, "VMULPS", "geluCube", v.r(1), v.r(1))
		v.op(a, "VADDPS", "p1", v.r(1), v.r(1))
		a.p("VMULPS %s, %s, %s", v.r(0), v.r(1), v.r(1))
		v.op(a, "VMULPS", "geluFactor", v.r(1), v.r(1))
		v.gated(a, at)
	})
}

// gated: gate = r0/(1+exp(r1))*up.
func (v isa) gated(a *asm, at string) {
	v.exp(a, v.r(1), v.r(2), v.r(3), v.r(4))
	v.op(a, "VADDPS", "p1", v.r(1), v.r(1))
	a.p("VDIVPS %s, %s, %s\nVMULPS %s(SI)(AX*1), %s, %s\nVMOVUPS %s, %s(DI)(AX*1)", v.r(1), v.r(0), v.r(0), at, v.r(0), v.r(0), v.r(0), at)
}

// clampedSwiGLU: gate = min(gate, limit), up = clamp(up, limit),
// gate = gate/(1+exp(-1.702*gate))*(up+1).
func (v isa) clampedSwiGLU(a *asm) {
	a.fn("clampedSwiGLU"+v.name, "gate, up *float32, limit float32, n int", 32)
	a.p("MOVQ gate+0(FP), DI\nMOVQ up+8(FP), SI\nVBROADCASTSS limit+16(FP), %s", v.r(5))
	v.zero(a, v.r(6))
	a.p("VSUBPS %s, %s, %s", v.r(5), v.r(6), v.r(6))
	v.each(a, "n+24(FP)", func(at string) {
		a.p("VMINPS %s(DI)(AX*1), %s, %s", at, v.r(5), v.r(0))
		v.op(a, "VMULPS", "minus1702", v.r(0), v.r(1))
		v.exp(a, v.r(1), v.r(2), v.r(3), v.r(4))
		v.op(a, "VADDPS", "p1", v.r(1), v.r(1))
		a.p("VDIVPS %s, %s, %s\nVMINPS %s(SI)(AX*1), %s, %s\nVMAXPS %s, %s, %s", v.r(1), v.r(0), v.r(0), at, v.r(5), v.r(1), v.r(1), v.r(6), v.r(1))
		v.op(a, "VADDPS", "p1", v.r(1), v.r(1))
		a.p("VMULPS %s, %s, %s\nVMOVUPS %s, %s(DI)(AX*1)", v.r(1), v.r(0), v.r(0), v.r(0), at)
	})
}

// softmaxPage finds the largest of w (top), replaces every value by
// exp(value-top), and sums them: 16 partial sums, folded in halves.
func (v isa) softmaxPage(a *asm) {
	a.fn("softmaxPage"+v.name, "w *float32, n int, top, sum *float32", 32)
	a.p("MOVQ w+0(FP), DI\nMOVQ n+8(FP), CX\nMOVQ top+16(FP), SI\nMOVQ sum+24(FP), DX\nMOVQ DI, AX\nMOVQ CX, BX")
	a.p("VMOVUPS (AX), %s", v.r(0))
	if v.per == 2 {
		a.p("VMOVUPS 32(AX), Y1\nVMAXPS Y1, Y0, Y0")
	}
	a.p("largest:\nVMAXPS (AX), %s, %s", v.r(0), v.r(0))
	if v.per == 2 {
		a.p("VMAXPS 32(AX), Y0, Y0")
	}
	a.p("ADDQ $64, AX\nDECQ BX\nJNZ largest")
	if v.reg == "Z" {
		a.p("VEXTRACTF64X4 $1, Z0, Y1\nVMAXPS Y1, Y0, Y0")
	}
	a.p("VEXTRACTF128 $1, Y0, X1\nVMAXPS X1, X0, X0\nVPERMILPS $0x4e, X0, X1\nVMAXPS X1, X0, X0\nVPERMILPS $0xb1, X0, X1\nVMAXPS X1, X0, X0")
	a.p("VMOVSS X0, (SI)\nVBROADCASTSS (SI), %s", v.r(0))
	for i := range v.per {
		v.zero(a, v.r(8+i))
	}
	a.p("weigh:")
	for i := range v.per {
		a.p("VMOVUPS %d(DI), %s\nVSUBPS %s, %s, %s", 32*i, v.r(1), v.r(0), v.r(1), v.r(1))
		v.exp(a, v.r(1), v.r(2), v.r(3), v.r(4))
		a.p("VMOVUPS %s, %d(DI)\nVADDPS %s, %s, %s", v.r(1), 32*i, v.r(1), v.r(8+i), v.r(8+i))
	}
	a.p("ADDQ $64, DI\nDECQ CX\nJNZ weigh")
	if v.reg == "Z" {
		a.p("VEXTRACTF64X4 $1, Z8, Y9")
	}
	a.p("VADDPS Y9, Y8, Y8\nVEXTRACTF128 $1, Y8, X9\nVADDPS X9, X8, X8\nVPERMILPS $0x4e, X8, X9\nVADDPS X9, X8, X8\nVPERMILPS $0xb1, X8, X9\nVADDPS X9, X8, X8")
	a.p("VMOVSS X8, (DX)\nVZEROUPPER\nRET")
}

// toHalf rounds floats to half floats.
func (v isa) toHalf(a *asm) {
	a.fn("toHalf"+v.name, "to *uint16, x *float32, n int", 24)
	a.p("MOVQ to+0(FP), DI\nMOVQ x+8(FP), SI\nMOVQ n+16(FP), CX\nnext:")
	for i := range v.per {
		a.p("VMOVUPS %d(SI), %s\nVCVTPS2PH $0, %s, %d(DI)", 32*i, v.r(0), v.r(0), 16*i)
	}
	a.p("ADDQ $64, SI\nADDQ $32, DI\nDECQ CX\nJNZ next\nVZEROUPPER\nRET")
}

// fromHalf makes floats of half floats.
func (v isa) fromHalf(a *asm) {
	a.fn("fromHalf"+v.name, "to *float32, x *uint16, n int", 24)
	a.p("MOVQ to+0(FP), DI\nMOVQ x+8(FP), SI\nMOVQ n+16(FP), CX\nnext:")
	for i := range v.per {
		a.p("VCVTPH2PS %d(SI), %s\nVMOVUPS %s, %d(DI)", 16*i, v.r(i), v.r(i), 32*i)
	}
	a.p("ADDQ $32, SI\nADDQ $64, DI\nDECQ CX\nJNZ next\nVZEROUPPER\nRET")
}
