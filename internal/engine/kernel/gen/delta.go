package main

import "fmt"

// deltas writes the steps of a DeltaNet's state (see kernel.Delta), and functions
// on rows that recurrent layers need. A state's columns lie in sixteens, each
// [keys][16].
func deltas(a *asm) {
	expConsts(a)
	for _, v := range isas {
		for _, sixteens := range []int{1, 4 / v.per} {
			v.delta(a, sixteens, true)
			v.delta(a, sixteens, false)
			v.deltaWrite(a, sixteens)
		}
		v.sigmoidMul(a)
		v.silu(a)
		v.multiply(a)
		v.mulAdd(a)
		v.scale(a)
	}
}

// columns are the addresses of row BX of each sixteen: R9 is from one to the next,
// R10 three times that.
var columns = []string{"(BX)", "(BX)(R9*1)", "(BX)(R9*2)", "(BX)(R10*1)"}

// strides sets R9 and R10 for CX keys.
func strides(a *asm) { a.p("MOVQ CX, R9\nSHLQ $6, R9\nLEAQ (R9)(R9*2), R10") }

// delta is one token: it sums the columns weighted by k and by q, finds what is
// wrong, and corrects, if asked to.
func (v isa) delta(a *asm, sixteens int, corrects bool) {
	n, name := sixteens*v.per, "deltaRead"
	if corrects {
		name = "delta"
	}
	a.fn(fmt.Sprintf("%s%d%s", name, sixteens, v.name), "m, k, q, v, out, wrong, with *float32, keys int", 64)
	a.p("MOVQ m+0(FP), BX\nMOVQ k+8(FP), SI\nMOVQ q+16(FP), DI\nMOVQ keys+56(FP), CX")
	strides(a)
	p, r := func(i int) string { return v.r(i) }, func(i int) string { return v.r(n + i) }
	for i := range 2 * n {
		v.zero(a, v.r(i))
	}
	state, k, q, t := v.r(2*n), v.r(2*n+1), v.r(2*n+2), v.r(2*n+3)
	a.p("XORQ AX, AX\nread:\nVBROADCASTSS (SI)(AX*4), %s\nVBROADCASTSS (DI)(AX*4), %s", k, q)
	for c := range sixteens {
		for i := range v.per {
			at := c*v.per + i
			a.p("VMOVUPS %d%s, %s", 32*i, columns[c], state)
			a.p("VMULPS %s, %s, %s\nVADDPS %s, %s, %s", k, state, t, t, p(at), p(at))
			a.p("VMULPS %s, %s, %s\nVADDPS %s, %s, %s", q, state, t, t, r(at), r(at))
		}
	}
	a.p("ADDQ $64, BX\nINCQ AX\nCMPQ AX, CX\nJLT read")
	a.p("MOVQ with+48(FP), DX\nMOVQ v+24(FP), R8\nMOVQ out+32(FP), R11\nMOVQ wrong+40(FP), R12")
	decay := state // stays for the write
	a.p("VBROADCASTSS (DX), %s\nVBROADCASTSS 4(DX), %s\nVBROADCASTSS 8(DX), %s", decay, k, q)
	for i := range n {
		at := i * v.lanes() * 4
		a.p("VMULPS %s, %s, %s\nVMOVUPS %d(R8), %s\nVSUBPS %s, %s, %s\nVMULPS %s, %s, %s\nVMOVUPS %s, %d(R12)",
			decay, p(i), p(i), at, t, p(i), t, p(i), k, p(i), p(i), p(i), at)
		a.p("VMULPS %s, %s, %s\nVMULPS %s, %s, %s\nVADDPS %s, %s, %s\nVMOVUPS %s, %d(R11)",
			decay, r(i), r(i), q, p(i), t, t, r(i), r(i), r(i), at)
	}
	if corrects {
		v.write(a, sixteens, decay, k, t, q)
	} else {
		a.p("VZEROUPPER\nRET")
	}
}

// deltaWrite corrects by what was once found wrong.
func (v isa) deltaWrite(a *asm, sixteens int) {
	n := sixteens * v.per
	a.fn(fmt.Sprintf("deltaWrite%d%s", sixteens, v.name), "m, k, wrong *float32, decay float32, keys int", 40)
	a.p("MOVQ m+0(FP), BX\nMOVQ k+8(FP), SI\nMOVQ wrong+16(FP), R12\nMOVQ keys+32(FP), CX\nVBROADCASTSS decay+24(FP), %s", v.r(2*n))
	strides(a)
	for i := range n {
		a.p("VMOVUPS %d(R12), %s", i*v.lanes()*4, v.r(i))
	}
	v.write(a, sixteens, v.r(2*n), v.r(2*n+1), v.r(2*n+2), v.r(2*n+3))
}

// write ends both: state = decay*state + k*wrong, wrong in the first registers.
func (v isa) write(a *asm, sixteens int, decay, k, t, u string) {
	a.p("MOVQ m+0(FP), BX\nXORQ AX, AX\nwrite:\nVBROADCASTSS (SI)(AX*4), %s", k)
	for c := range sixteens {
		for i := range v.per {
			a.p("VMULPS %d%s, %s, %s\nVMULPS %s, %s, %s\nVADDPS %s, %s, %s\nVMOVUPS %s, %d%s",
				32*i, columns[c], decay, t, k, v.r(c*v.per+i), u, u, t, t, t, 32*i, columns[c])
		}
	}
	a.p("ADDQ $64, BX\nINCQ AX\nCMPQ AX, CX\nJLT write\nVZEROUPPER\nRET")
}

// negated sets register to to -from.
func (v isa) negated(a *asm, from, to string) {
	op := "VXORPS"
	if v.reg == "Z" {
		op = "VPXORD"
	}
	v.op(a, op, "minusZero", from, to)
}

// sigmoidMul: x = x * (1/(1+exp(-gate))).
func (v isa) sigmoidMul(a *asm) {
	a.fn("sigmoidMul"+v.name, "x, gate *float32, n int", 24)
	a.p("MOVQ x+0(FP), DI\nMOVQ gate+8(FP), SI\nVBROADCASTSS p1<>(SB), %s", v.r(5))
	v.each(a, "n+16(FP)", func(at string) {
		a.p("VMOVUPS %s(SI)(AX*1), %s", at, v.r(0))
		v.negated(a, v.r(0), v.r(1))
		v.exp(a, v.r(1), v.r(2), v.r(3), v.r(4))
		v.op(a, "VADDPS", "p1", v.r(1), v.r(1))
		a.p("VDIVPS %s, %s, %s\nVMULPS %s(DI)(AX*1), %s, %s\nVMOVUPS %s, %s(DI)(AX*1)", v.r(1), v.r(5), v.r(0), at, v.r(0), v.r(0), v.r(0), at)
	})
}

// silu: x = x/(1+exp(-x)).
func (v isa) silu(a *asm) {
	a.fn("silu"+v.name, "x *float32, n int", 16)
	a.p("MOVQ x+0(FP), DI")
	v.each(a, "n+8(FP)", func(at string) {
		a.p("VMOVUPS %s(DI)(AX*1), %s", at, v.r(0))
		v.negated(a, v.r(0), v.r(1))
		v.exp(a, v.r(1), v.r(2), v.r(3), v.r(4))
		v.op(a, "VADDPS", "p1", v.r(1), v.r(1))
		a.p("VDIVPS %s, %s, %s\nVMOVUPS %s, %s(DI)(AX*1)", v.r(1), v.r(0), v.r(0), v.r(0), at)
	})
}

// multiply: x = x*y.
func (v isa) multiply(a *asm) {
	a.fn("multiply"+v.name, "x, y *float32, n int", 24)
	a.p("MOVQ x+0(FP), DI\nMOVQ y+8(FP), SI")
	v.each(a, "n+16(FP)", func(at string) {
		a.p("VMOVUPS %s(SI)(AX*1), %s\nVMULPS %s(DI)(AX*1), %s, %s\nVMOVUPS %s, %s(DI)(AX*1)", at, v.r(0), at, v.r(0), v.r(0), v.r(0), at)
	})
}

// mulAdd: out = out + x*w.
func (v isa) mulAdd(a *asm) {
	a.fn("mulAdd"+v.name, "out, x, w *float32, n int", 32)
	a.p("MOVQ out+0(FP), DI\nMOVQ x+8(FP), SI\nMOVQ w+16(FP), DX")
	v.each(a, "n+24(FP)", func(at string) {
		a.p("VMOVUPS %s(SI)(AX*1), %s\nVMULPS %s(DX)(AX*1), %s, %s\nVADDPS %s(DI)(AX*1), %s, %s\nVMOVUPS %s, %s(DI)(AX*1)",
			at, v.r(0), at, v.r(0), v.r(0), at, v.r(0), v.r(0), v.r(0), at)
	})
}

// scale: x = x*by.
func (v isa) scale(a *asm) {
	a.fn("scale"+v.name, "x *float32, by float32, n int", 24)
	a.p("MOVQ x+0(FP), DI\nVBROADCASTSS by+8(FP), %s", v.r(0))
	v.each(a, "n+16(FP)", func(at string) {
		a.p("VMULPS %s(DI)(AX*1), %s, %s\nVMOVUPS %s, %s(DI)(AX*1)", at, v.r(0), v.r(1), v.r(1), at)
	})
}
