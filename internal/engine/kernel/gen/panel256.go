package main

import "fmt"

// Activations of a super-block are four groups of 64: the values, two sums of
// 32 and four of 16 (as int16, in the order 0, 2, 1, 3), the scale of the whole,
// -8 times both sums of 32 (as int32).
const (
	x256     = 4 * x64
	x64      = 88
	x64Sum32 = 64
	x64Sum16 = 68
	x64D     = 76
	x64Less8 = 80
)

// format256 is a format with super-blocks of 256 weights. A panel keeps a
// super-block as four groups of 64 weights (step bytes each), then scales and
// the like (rest bytes).
type format256 struct {
	name    string
	step    int
	rest    int
	by16    bool // a scale for each 16 weights, not 32
	signed  bool // scales are signed bytes (by16)
	minima  bool
	offset  int // what weights are stored plus
	sum     sumKind
	table   string
	quarter bool // the scale is a quarter of d
	// unpack makes 4 x 16 unsigned weights in Z26 (the low ones of the group)
	// and Z27 (the high ones) from line k, 0 to 7, of the group at AX.
	unpack func(a *asm, k int)
	ready  func(a *asm) // constants that unpack needs, in Z29, made before each group
}

// sumKind is what is known of the sum of a run of 16 or 32 products.
type sumKind int

const (
	long    sumKind = iota // it needs an int32
	short                  // it fits an int16, so that one instruction multiplies it by its scale and adds
	centred                // it does with 8 less in each weight, which are nibbles: -8..7 * 127 * 32
)

var formats256 = []format256{
	{name: "q4k", step: 512, rest: 320, minima: true, sum: centred, unpack: split},
	{name: "q5k", step: 640, rest: 320, minima: true, unpack: fives, ready: broadcast(0x10101010)},
	{name: "q6k", step: 768, rest: 320, by16: true, signed: true, offset: 32, unpack: sixes, ready: broadcast(0x30303030)},
	{name: "iq3s", step: 512, rest: 128, offset: 15, sum: centred, unpack: split},
	{name: "iq4xs", step: 512, rest: 192, offset: 128, unpack: lookedUp, table: "iq4xs"},
	{name: "iq3xxs", step: 512, rest: 192, offset: 128, unpack: lookedUp, table: "iq3xxs", quarter: true},
	{name: "q2k", step: 256, rest: 320, by16: true, minima: true, sum: short, unpack: twos},
	{name: "q3k", step: 384, rest: 320, by16: true, signed: true, offset: 4, sum: short, unpack: threes, ready: broadcast(0x04040404)},
}

// panelConsts adds what the kernels of super-blocks read.
func panelConsts(a *asm) {
	a.word("maskPair", 0x000f000f)
	a.word("onePair", 0x00010001)
	a.word("quarter", 0x3e800000)
	for _, n := range []int{4, 32, 128} {
		a.word(fmt.Sprintf("less%d", n), uint32(uint16(-n))*0x10001)
	}
	a.table("iq4xs", offset(codes["iq4nl"]))
	a.table("iq3xxs", offset(codes["iq3xxs"]))
}

func panels256(a *asm) {
	panelConsts(a)
	for _, f := range formats256 {
		for t := 1; t <= 6; t++ {
			super(a, &f, t)
		}
		if f.sum == centred {
			super(a, &f, 8) // the more tokens, the less unpacking for each
		}
	}
}

// super is the kernel of one format. Z0 ...: float sums, then the int sums of a
// super-block, then those of the low and of the high run of 16 or 32 weights. Of
// eight tokens the float sums are on the stack.
func super(a *asm, f *format256, t int) {
	first := t
	if t == 8 {
		first = 0
	}
	total, low, high := func(i int) int { return first + i }, func(i int) int { return first + t + i }, func(i int) int { return first + 2*t + i }
	if name := fmt.Sprintf("%st%d", f.name, t); t < 8 {
		a.tile(name, 1, t)
	} else {
		a.tileWith(64*t, name, 1, t)
		for i := range t {
			a.p("VMOVUPS Z%d, %d(SP)", i, 64*i)
		}
	}
	a.p("MOVL $0x%x, R15\nVPBROADCASTD R15, Z24", f.mask())
	a.p("block:\nLEAQ %d(AX), R13\nMOVL $4, CX", 4*f.step)
	for i := range t {
		a.p("VPXORD Z%d, Z%d, Z%d", total(i), total(i), total(i))
	}
	a.p("group:")
	if f.ready != nil {
		f.ready(a)
	}
	if f.table != "" {
		a.p("VBROADCASTI32X4 %s<>(SB), Z29", f.table)
	}
	runs := f.runs()
	for run := range runs {
		for i := range t {
			if f.sum == centred {
				a.p("VPBROADCASTD %d(%s), Z%d\nVPBROADCASTD %d(%s), Z%d", x64Less8, tokenRegs[i], low(i), x64Less8+4, tokenRegs[i], high(i))
				continue
			}
			a.p("VPXORD Z%d, Z%d, Z%d\nVPXORD Z%d, Z%d, Z%d", low(i), low(i), low(i), high(i), high(i), high(i))
		}
		for k := 8 / runs * run; k < 8/runs*(run+1); k++ {
			f.unpack(a, k)
			for i := range t {
				a.p("VPDPBUSD.BCST %d(%s), Z26, Z%d\nVPDPBUSD.BCST %d(%s), Z27, Z%d", 4*k, tokenRegs[i], low(i), 32+4*k, tokenRegs[i], high(i))
			}
		}
		f.scales(a, run)
		sums := x64Sum32
		if f.by16 {
			sums = x64Sum16 + 4*run
		}
		scaleHigh := 29
		if f.ready != nil || f.table != "" {
			scaleHigh = 30
		}
		for i := range t {
			if f.sum == long {
				a.p("VPMULLD Z28, Z%d, Z%d\nVPMULLD Z%d, Z%d, Z%d\nVPADDD Z%d, Z%d, Z%d\nVPADDD Z%d, Z%d, Z%d",
					low(i), low(i), scaleHigh, high(i), high(i), low(i), total(i), total(i), high(i), total(i), total(i))
			} else {
				a.p("VPDPWSSD Z28, Z%d, Z%d\nVPDPWSSD Z%d, Z%d, Z%d", low(i), total(i), scaleHigh, high(i), total(i))
			}
			if f.offset != 0 || f.sum == centred {
				a.p("VPDPWSSD.BCST %d(%s), Z31, Z%d", sums, tokenRegs[i], total(i))
			}
		}
	}
	a.p("ADDQ $%d, AX\nADDQ $%d, R13", f.step, f.scaleStep())
	a.advance(t, x64)
	a.p("DECL CX\nJNZ group")
	for o := 0; o < f.rest; o += 64 {
		a.prefetch(o)
	}
	f.finish(a, t, total, low)
	a.p("ADDQ $%d, AX\nDECQ DX\nJNZ block", f.rest)
	if t == 8 {
		for i := range t {
			a.p("VMOVUPS %d(SP), Z%d", 64*i, i)
		}
	}
	a.store(1, t)
}

// runs is how many runs of lines that share their scales a group has.
func (f *format256) runs() int {
	if f.by16 {
		return 2
	}
	return 1
}

// mask is which bits of each byte unpack takes as a code.
func (f *format256) mask() int {
	if f.name == "q2k" || f.name == "q3k" {
		return 0x03030303
	}
	return 0x0f0f0f0f
}

// scaleStep is how many bytes of scales a group has.
func (f *format256) scaleStep() int {
	switch {
	case f.by16:
		return 64
	case f.name == "iq3s":
		return 16
	}
	return 32
}

// scales makes the scales of the low run in Z28, those of the high one in Z29
// (Z30 where Z29 is taken), and in Z31, as pairs of int16, both times what a weight
// is more than what stands for it. Where sums fit an int16, the upper halves of Z28
// and Z29 are zero.
func (f *format256) scales(a *asm, run int) {
	high := 29
	if f.ready != nil || f.table != "" {
		high = 30
	}
	switch {
	case f.name == "iq3s":
		f.scalePairs(a, run)
		a.p("VPADDW Z31, Z31, Z29\nVPSLLD $16, Z29, Z28\nVPSRLD $16, Z28, Z28\nVPSRLD $16, Z29, Z29")
		return
	case f.paired():
		f.scalePairs(a, run)
	default: // unsigned bytes, and no offset
		a.p("VPMOVZXBD (R13), Z28\nVPMOVZXBD 16(R13), Z%d", high)
		if f.sum == centred { // weights are (n-8)+8
			a.p("VPSLLD $16, Z%d, Z31\nVPORD Z28, Z31, Z31\nVPSLLW $3, Z31, Z31", high)
		}
		return
	}
	shift := "VPSRAD"
	if f.sum == short {
		shift = "VPSRLD"
	}
	a.p("VPSLLD $16, Z31, Z28\n%s $16, Z28, Z28\n%s $16, Z31, Z%d", shift, shift, high)
	if f.offset != 0 {
		a.p("VPBROADCASTW less%d<>(SB), Z25\nVPMULLW Z25, Z31, Z31", f.offset)
	}
}

// paired says whether a line holds the scales of the low run of a group and of the
// high one side by side.
func (f *format256) paired() bool { return f.by16 || f.table != "" || f.name == "iq3s" }

// scalePairs makes those scales pairs of int16 in Z31.
func (f *format256) scalePairs(a *asm, run int) {
	switch f.name {
	case "iq3s": // nibbles s, the scales are 2s+1; weights are 2(n-8)+1
		a.p("VPMOVZXBD (R13), Z28\nVPSLLD $12, Z28, Z29\nVPORD Z28, Z29, Z28\nVPANDD.BCST maskPair<>(SB), Z28, Z28\nVPADDW Z28, Z28, Z28\nVPORD.BCST onePair<>(SB), Z28, Z31")
	case "q2k": // scales are the low nibbles, minima the high ones
		a.p("VPMOVZXBW %d(R13), Z31\nVPANDD.BCST maskPair<>(SB), Z31, Z31", 32*run)
	default: // signed bytes
		a.p("VPMOVSXBW %d(R13), Z31", 32*run)
	}
}

// superMinima loads step i of the minima of a super-block, four or eight of them, as
// pairs of int16 into Z28. R13 is behind the scales of the groups.
func (f *format256) superMinima(a *asm, i int) {
	if f.by16 {
		a.p("VPMOVZXBW %d(R13), Z28\nVPSRLW $4, Z28, Z28", 32*i-256)
	} else {
		a.p("VPMOVZXBW %d(R13), Z28", 32*i)
	}
}

// superScales loads the scale of a super-block into Z28 and, where there are minima,
// theirs into Z29. R13 is behind the scales of the groups.
func (f *format256) superScales(a *asm) {
	at := 0
	if f.minima && !f.by16 {
		at = 128
	}
	if f.minima {
		a.p("VCVTPH2PS %d(R13), Z29", at+32)
	}
	a.p("VCVTPH2PS %d(R13), Z28", at)
	if f.quarter {
		a.p("VMULPS.BCST quarter<>(SB), Z28, Z28")
	}
}

// finish multiplies by the scales of the super-block and adds to the float sums.
func (f *format256) finish(a *asm, t int, total, minimum func(int) int) {
	if f.minima {
		for i := range t {
			a.p("VPXORD Z%d, Z%d, Z%d", minimum(i), minimum(i), minimum(i))
		}
		for j := range 4 * f.runs() {
			f.superMinima(a, j)
			sums := x64*j + x64Sum32
			if f.by16 {
				sums = x64*(j/2) + x64Sum16 + 4*(j%2)
			}
			for i := range t {
				a.p("VPDPWSSD.BCST %d(%s), Z28, Z%d", sums-x256, tokenRegs[i], minimum(i))
			}
		}
	}
	f.superScales(a)
	for i := range t {
		s, m := total(i), minimum(i)
		a.p("VMULPS.BCST %d(%s), Z28, Z30", x64D-x64, tokenRegs[i])
		a.p("VCVTDQ2PS Z%d, Z%d\nVMULPS Z30, Z%d, Z%d", s, s, s, s)
		if f.minima {
			a.p("VMULPS.BCST %d(%s), Z29, Z30\nVCVTDQ2PS Z%d, Z%d\nVMULPS Z30, Z%d, Z%d\nVSUBPS Z%d, Z%d, Z%d", x64D-x64, tokenRegs[i], m, m, m, m, m, s, s)
		}
		if t == 8 {
			a.p("VADDPS %d(SP), Z%d, Z%d\nVMOVUPS Z%d, %d(SP)", 64*i, s, s, s, 64*i)
		} else {
			a.p("VADDPS Z%d, Z%d, Z%d", s, i, i)
		}
	}
}

// broadcast fills Z29 with v.
func broadcast(v int) func(*asm) {
	return func(a *asm) { a.p("MOVL $0x%x, R15\nVPBROADCASTD R15, Z29", v) }
}

// split loads line k of nibbles into Z25, its halves into Z26 and Z27.
func split(a *asm, k int) {
	a.prefetch(64 * k)
	a.p("VMOVDQU64 %d(AX), Z25", 64*k)
	a.p("VPANDD Z24, Z25, Z26\nVPSRLW $4, Z25, Z27\nVPANDD Z24, Z27, Z27")
}

func lookedUp(a *asm, k int) {
	split(a, k)
	a.p("VPSHUFB Z26, Z29, Z26\nVPSHUFB Z27, Z29, Z27")
}

// more loads two lines of further bits, behind the nibbles, into Z30 and Z31.
func more(a *asm, at int) {
	a.prefetch(at)
	a.prefetch(at + 64)
	a.p("VMOVDQU64 %d(AX), Z30\nVMOVDQU64 %d(AX), Z31", at, at+64)
}

// moved is an instruction that moves bit from to bit to.
func moved(from, to int, src, dst string) string {
	if from < to {
		return fmt.Sprintf("VPSLLW $%d, %s, %s", to-from, src, dst)
	}
	return fmt.Sprintf("VPSRLW $%d, %s, %s", from-to, src, dst)
}

// fives: behind the nibbles a line with the fifth bits of the low weights, bit
// k for line k, and one for the high ones.
func fives(a *asm, k int) {
	if k == 0 {
		more(a, 512)
	}
	split(a, k)
	for i := range 2 {
		a.p("%s\nVPTERNLOGD $0xf8, Z28, Z29, Z%d", moved(k, 4, fmt.Sprintf("Z%d", 30+i), "Z28"), 26+i) // d | a&b
	}
}

// sixes: behind the nibbles, for each run of four lines, a line with pairs of
// bits for the low weights and one for the high ones.
func sixes(a *asm, k int) {
	if k%4 == 0 {
		more(a, 512+k/4*128)
	}
	split(a, k)
	for i := range 2 {
		a.p("%s\nVPTERNLOGD $0xf8, Z28, Z29, Z%d", moved(2*(k%4), 4, fmt.Sprintf("Z%d", 30+i), "Z28"), 26+i)
	}
}

// twos: pairs of bits as those of sixes, without nibbles.
func twos(a *asm, k int) {
	if k%4 == 0 {
		more(a, k/4*128)
	}
	for i := range 2 {
		a.p("%s\nVPANDD Z24, Z%d, Z%d", moved(2*(k%4), 0, fmt.Sprintf("Z%d", 30+i), fmt.Sprintf("Z%d", 26+i)), 26+i, 26+i)
	}
}

// threes: behind the pairs a line with the third bits of the low weights, bit k
// for line k, and one for the high ones.
func threes(a *asm, k int) {
	if k == 0 {
		a.prefetch(256)
		a.prefetch(320)
	}
	twos(a, k)
	for i := range 2 {
		a.p("%s\nVPTERNLOGD $0xf8, Z28, Z29, Z%d", moved(k, 2, fmt.Sprintf("%d(AX)", 256+64*i), "Z28"), 26+i)
	}
}
