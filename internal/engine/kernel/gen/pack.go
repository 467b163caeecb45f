package main

import (
	"fmt"
	"strings"
)

// A panel keeps a row in each 32-bit lane, so all of packing is: turn four words of
// each row into four registers of all rows (quad), and move bits within lanes. What
// layout.go says of the panels, and pack.go does row by row, this does for 16 rows
// at a time; both give the same bytes.

// packArgs: dst a panel, src its first row, of rowBytes bytes, in nb blocks.
const (
	packArgs = "dst, src *byte, rowBytes, nb int"
	packSize = 32
)

// lanes writes the code for the rows that a register holds: all 16, or half h of
// them.
type lanes struct {
	*asm
	v isa
	h int
}

func packers(v isa) func(*asm) {
	return func(a *asm) {
		for _, b := range []uint32{
			0x0f0f0f0f, 0xf0f0f0f0, 0x3f3f3f3f, 0x30303030, 0x03030303, 0x33333333, 0x55555555,
			0x80808080, 0x00ff00ff, 0x20202020, 0x0000000f, 0x00000f00, 0x00000030, 0x00003000,
			0x000000ff, 0x00000100, 0x0000007f, 0x00000080, 0x0000001e, 0x00001e00, 0x00000101,
			0x10101010, 0x70707070,
		} {
			a.floatConst(bits(b), b)
		}
		if v.reg == "Y" {
			a.twice("words", [16]byte{0, 1, 4, 5, 8, 9, 12, 13, 0, 1, 4, 5, 8, 9, 12, 13})
			a.twice("bytes", [16]byte{0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12})
			a.twice("firsts", [16]byte{0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12})
			a.floatConst("lowSigns", 0x08040201)
			a.floatConst("highSigns", 0x80402010)
		}
		for _, f := range []struct {
			name         string
			bytes, lines int // of a block, in the file and in a panel
			block        func(l lanes)
		}{
			{"Q4K", 144, 2048 + 320, lanes.q4k},
			{"Q5K", 176, 4*640 + 320, lanes.q5k},
			{"Q6K", 210, 4*768 + 320, lanes.q6k},
			{"Q3K", 110, 4*384 + 320, lanes.q3k},
			{"Q2K", 84, 4*256 + 320, lanes.q2k},
			{"IQ4XS", 136, 2048 + 192, lanes.iq4xs},
			{"IQ3XXS", 98, 2048 + 192, lanes.iq3xxs},
			{"IQ3S", 110, 2048 + 128, lanes.iq3s},
		} {
			a.pack(v, f.name)
			switch f.name {
			case "IQ3S":
				a.p("LEAQ ·iq3sNibbles(SB), R11")
			case "IQ3XXS":
				a.p("LEAQ ·iq3xxsNibbles(SB), R11")
			}
			if v.reg == "Z" && strings.HasPrefix(f.name, "IQ3") {
				a.p("VMOVDQU32 ·signNibbles(SB), Z16")
			}
			a.p("block:")
			for h := range v.per {
				f.block(lanes{a, v, h})
			}
			a.p("ADDQ $%d, AX", f.lines)
			a.nextBlock(f.bytes)
			a.p("DECQ DX\nJNZ block\nVZEROUPPER\nRET")
		}
		for _, f := range []struct {
			name         string
			bytes, lines int
			block        func(l lanes, at int)
		}{
			{"Q8", 34, 512, lanes.q8},
			{"Q5", 22, 512, lanes.q5},
			{"Nibbles32", 18, 256, func(l lanes, at int) { l.lines(l.quad(2), at) }},
			{"MXFP4", 17, 256, func(l lanes, at int) { l.lines(l.quad(1), at) }},
		} {
			a.pack(v, f.name)
			switch {
			case f.name == "MXFP4":
				a.p("LEAQ ·mxfp4Scales(SB), R11")
			case f.name == "Q5" && v.reg == "Z":
				a.p("VMOVDQU32 ·signNibbles(SB), Z16")
			}
			a.p("pair:")
			for i := range 2 {
				for h := range v.per {
					f.block(lanes{a, v, h}, 64+i*f.lines)
				}
				for r := range 16 {
					if f.name == "MXFP4" {
						a.p("MOVBLZX %s, CX\nMOVWLZX (R11)(CX*2), CX", rowAt(r, 0))
					} else {
						a.p("MOVWLZX %s, CX", rowAt(r, 0))
					}
					a.p("MOVW CX, %d(AX)", 32*i+2*r)
				}
				a.nextBlock(f.bytes)
				a.p("DECQ DX")
				if i == 0 {
					a.p("JZ done")
				}
			}
			a.p("LEAQ %d(AX), AX\nJNZ pair\ndone:\nVZEROUPPER\nRET", 64+2*f.lines)
		}
		if v.reg == "Z" {
			packVBMI(a)
		}
	}
}

// bits names a constant.
func bits(v uint32) string { return fmt.Sprintf("x%08x", v) }

// twice adds 16 constant bytes, two times.
func (a *asm) twice(name string, b [16]byte) {
	a.consts.WriteString("\n")
	for i := range 4 {
		v := uint64(0)
		for j := range 8 {
			v |= uint64(b[(8*i+j)%16]) << (8 * j)
		}
		fmt.Fprintf(&a.consts, "DATA %s<>+%d(SB)/8, $0x%016x\n", name, 8*i, v)
	}
	fmt.Fprintf(&a.consts, "GLOBL %s<>(SB), RODATA|NOPTR, $32\n", name)
}

// pack begins a function: AX the panel, DX the number of blocks, BX, SI, DI and R8
// rows 0, 4, 8 and 12, R9 the size of a row and R10 three of it. CX and R11 are free.
func (a *asm) pack(v isa, name string) {
	a.fn("pack"+name+v.name, packArgs, packSize)
	a.p("MOVQ dst+0(FP), AX\nMOVQ src+8(FP), BX\nMOVQ rowBytes+16(FP), R9\nMOVQ nb+24(FP), DX")
	a.p("LEAQ (R9)(R9*2), R10\nLEAQ (BX)(R9*4), SI\nLEAQ (SI)(R9*4), DI\nLEAQ (DI)(R9*4), R8")
}

func (a *asm) nextBlock(n int) {
	for _, r := range []string{"BX", "SI", "DI", "R8"} {
		a.p("ADDQ $%d, %s", n, r)
	}
}

// rowAt is byte off of the block of row r.
func rowAt(r, off int) string {
	return fmt.Sprintf("%d(%s)%s", off, [...]string{"BX", "SI", "DI", "R8"}[r/4], [...]string{"", "(R9*1)", "(R9*2)", "(R10*1)"}[r%4])
}

// words are numbers of registers.
type words [4]int

// quad loads the four words from byte off on of each row into registers 0 to 3:
// word i of all rows is in register i. It uses 4 to 7.
func (l lanes) quad(off int) words { return l.quadAt(off, 0) }

// quadAt is quad in registers first to first+3; it uses the four behind them.
func (l lanes) quadAt(off, first int) (w words) {
	for k := range 4 {
		w[k] = first + k
		t := l.v.r(w[k])
		l.p("VMOVDQU %s, X%d", rowAt(8*l.h+k, off), w[k])
		if l.v.reg == "Y" {
			l.p("VINSERTI128 $1, %s, %s, %s", rowAt(8*l.h+k+4, off), t, t)
			continue
		}
		for i := 1; i < 4; i++ {
			l.p("VINSERTI32X4 $%d, %s, %s, %s", i, rowAt(4*i+k, off), t, t)
		}
	}
	r := func(i int) string { return l.v.r(first + i) }
	for i := range 2 { // words 0 and 1, then 2 and 3, of two rows
		l.p("VPUNPCKLDQ %s, %s, %s\nVPUNPCKHDQ %s, %s, %s", r(2*i+1), r(2*i), r(4+2*i), r(2*i+1), r(2*i), r(5+2*i))
	}
	for i := range 2 {
		l.p("VPUNPCKLQDQ %s, %s, %s\nVPUNPCKHQDQ %s, %s, %s", r(6+i), r(4+i), r(2*i), r(6+i), r(4+i), r(2*i+1))
	}
	return w
}

// op is AND, OR or XOR of two registers.
func (l lanes) op(name string, x, y, to int) {
	if name = "VP" + name; l.v.reg == "Z" {
		name += "D"
	}
	l.p("%s %s, %s, %s", name, l.v.r(x), l.v.r(y), l.v.r(to))
}

// with is AND, OR or XOR of a register and a constant.
func (l lanes) with(name string, c uint32, x, to int) {
	if name = "VP" + name; l.v.reg == "Z" {
		name += "D.BCST"
	}
	l.p("%s %s<>(SB), %s, %s", name, bits(c), l.v.r(x), l.v.r(to))
}

// shift moves lanes right by n bits, or left where n is negative.
func (l lanes) shift(n, x, to int) {
	switch {
	case n > 0:
		l.p("VPSRLD $%d, %s, %s", n, l.v.r(x), l.v.r(to))
	case n < 0:
		l.p("VPSLLD $%d, %s, %s", -n, l.v.r(x), l.v.r(to))
	case x != to:
		l.copy(x, to)
	}
}

func (l lanes) copy(x, to int) {
	if l.v.reg == "Z" {
		l.p("VMOVDQA64 %s, %s", l.v.r(x), l.v.r(to))
	} else {
		l.p("VMOVDQA %s, %s", l.v.r(x), l.v.r(to))
	}
}

// some is (x >> n) & c.
func (l lanes) some(n int, c uint32, x, to int) {
	if n == 0 {
		l.with("AND", c, x, to)
		return
	}
	l.shift(n, x, to)
	l.with("AND", c, to, to)
}

// line stores a line of weights.
func (l lanes) line(x, at int) {
	if l.v.reg == "Z" {
		l.p("VMOVDQU64 %s, %d(AX)", l.v.r(x), at)
	} else {
		l.p("VMOVDQU %s, %d(AX)", l.v.r(x), at+32*l.h)
	}
}

// lines stores four, one behind the other.
func (l lanes) lines(w words, at int) {
	for i, x := range w {
		l.line(x, at+64*i)
	}
}

// low16 stores the lower half of each lane; x is lost.
func (l lanes) low16(x, at int) {
	r := l.v.r(x)
	if l.v.reg == "Z" {
		l.p("VPMOVDW %s, %d(AX)", r, at)
	} else {
		l.p("VPSHUFB words<>(SB), %s, %s\nVPERMQ $8, %s, %s\nVMOVDQU X%d, %d(AX)", r, r, r, r, x, at+16*l.h)
	}
}

// low8 stores the lowest byte of each lane; x is lost, and so is t.
func (l lanes) low8(x, t, at int) {
	r := l.v.r(x)
	if l.v.reg == "Z" {
		l.p("VPMOVDB %s, %d(AX)", r, at)
	} else {
		l.p("VPSHUFB bytes<>(SB), %s, %s\nVEXTRACTI128 $1, %s, X%d\nVPUNPCKLDQ X%d, X%d, X%d\nVMOVQ X%d, %d(AX)", r, r, r, t, t, x, x, x, at+8*l.h)
	}
}

// zeros clears what lies between one block of a panel and the next.
func (l lanes) zeros(t, at int) {
	if l.h == 0 {
		l.p("VPXOR X%d, X%d, X%d\nVMOVDQU X%d, %d(AX)\nVMOVDQU X%d, %d(AX)", t, t, t, t, at, t, at+16)
	}
}

// halves stores d, which is the upper half of lane x where up says so.
func (l lanes) halves(x int, up bool, t, at int) {
	if up {
		l.shift(16, x, t)
	} else {
		l.shift(0, x, t)
	}
	l.low16(t, at)
}
