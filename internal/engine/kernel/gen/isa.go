package main

import (
	"fmt"
	"strings"
)

// isa is a set of instructions that works on "sixteens", vectors of 16 floats: one
// register of AVX-512, two of AVX2. Lanes never meet, so that both give the same
// bits.
type isa struct {
	name string // suffix of functions
	reg  string
	per  int // registers a sixteen
}

var isas = []isa{{"AVX512", "Z", 1}, {"AVX2", "Y", 2}}

// lanes is how many floats a register holds.
func (v isa) lanes() int { return 16 / v.per }

// r is the name of register n.
func (v isa) r(n int) string { return fmt.Sprintf("%s%d", v.reg, n) }

// floatConst adds a constant that both sets can use as an operand.
func (a *asm) floatConst(name string, bits uint32) {
	var b strings.Builder
	for i := 0; i < 32; i += 8 {
		fmt.Fprintf(&b, "DATA %s<>+%d(SB)/8, $0x%08x%08x\n", name, i, bits, bits)
	}
	fmt.Fprintf(&a.consts, "\n%sGLOBL %s<>(SB), RODATA|NOPTR, $32\n", b.String(), name)
}

// op is an instruction with a constant as its first operand.
func (v isa) op(a *asm, name, constant, src, dst string) {
	if v.reg == "Z" {
		name += ".BCST"
	}
	a.p("%s %s<>(SB), %s, %s", name, constant, src, dst)
}

// zero clears a register.
func (v isa) zero(a *asm, r string) {
	if v.reg == "Z" {
		a.p("VPXORD %s, %s, %s", r, r, r)
	} else {
		a.p("VXORPS %s, %s, %s", r, r, r)
	}
}

// exp sets register x to e^x, as quant.Exp; t1, t2 and t3 are scratch.
func (v isa) exp(a *asm, x, t1, t2, t3 string) {
	if v.reg == "Z" {
		a.p("VCMPPS.BCST $13, minus87<>(SB), %s, K3", x) // x >= -87
	} else {
		a.p("VCMPPS $13, minus87<>(SB), %s, %s", x, t3)
	}
	v.op(a, "VMINPS", "plus88", x, x)
	v.op(a, "VMULPS", "log2e", x, t1)
	v.op(a, "VADDPS", "magic", t1, t1)
	v.op(a, "VPSUBD", "magic", t1, t2) // n
	v.op(a, "VSUBPS", "magic", t1, t1)
	a.p("VPSLLD $23, %s, %s", t2, t2)
	// r = (x - k*ln2hi) - k*ln2lo; x is free then
	if v.reg == "Z" {
		a.p("VMULPS.BCST ln2hi<>(SB), %s, Z31\nVSUBPS Z31, %s, %s", t1, x, x)
	} else {
		a.p("VMULPS ln2hi<>(SB), %s, Y15\nVSUBPS Y15, %s, %s", t1, x, x)
	}
	v.op(a, "VMULPS", "ln2lo", t1, t1)
	a.p("VSUBPS %s, %s, %s", t1, x, x)
	v.op(a, "VMULPS", "p6", x, t1)
	for _, c := range []string{"p5", "p4", "p3", "p2", "p1"} {
		v.op(a, "VADDPS", c, t1, t1)
		a.p("VMULPS %s, %s, %s", x, t1, t1)
	}
	v.op(a, "VADDPS", "p1", t1, t1)
	a.p("VPADDD %s, %s, %s", t2, t1, t1)
	if v.reg == "Z" {
		a.p("VMOVAPS.Z %s, K3, %s", t1, x)
	} else {
		a.p("VANDPS %s, %s, %s", t3, t1, x)
	}
}
