package main

import "fmt"

// With VPERMI2B a table of 128 bytes lies in two registers, and 64 of its entries are
// looked up at once: far cheaper than a gather, which loads them one by one. Each
// 16 bytes of a register hold four bytes of a block, of each of four rows (number 4*b+r).

// iq3sTables is the first register of kernel.iq3sBytes, three tables of 256 bytes.
const iq3sTables = 16

func packVBMI(a *asm) {
	l := lanes{a, isas[0], 0}
	for _, c := range []struct {
		name string
		at   func(i int) byte
	}{
		{"ninthLow", func(i int) byte { return 1 << (i / 4 % 4) }}, // of bytes 4*b+r: bit b
		{"ninthHigh", func(i int) byte { return 16 << (i / 4 % 4) }},
		{"scaleOrder", func(i int) byte { // dwords: byte b of all rows, then b+1
			if i%4 != 0 {
				return 0
			}
			return byte(i/4%4*4 + i/16)
		}},
	} {
		a.consts.WriteString("\n")
		for i := 0; i < 64; i += 8 {
			x := uint64(0)
			for j := range 8 {
				x |= uint64(c.at(i+j)) << (8 * j)
			}
			fmt.Fprintf(&a.consts, "DATA %s<>+%d(SB)/8, $0x%016x\n", c.name, i, x)
		}
		fmt.Fprintf(&a.consts, "GLOBL %s<>(SB), RODATA|NOPTR, $64\n", c.name)
	}
	for i := range uint(4) { // matrices that spread bit i of each nibble over it
		low, high := uint32(0x01010101)<<i, uint32(0x10101010)<<i
		fmt.Fprintf(&a.consts, "\nDATA sign%d<>+0(SB)/8, $0x%08x%08x\nGLOBL sign%d<>(SB), RODATA|NOPTR, $8\n", i, low, high, i)
	}
	for _, c := range []uint32{0x11111111, 0x88888888} {
		a.floatConst(bits(c), c)
	}

	a.pack(isa{name: "VBMI"}, "IQ3S")
	for i := range 12 {
		a.p("VMOVDQU64 ·iq3sBytes+%d(SB), Z%d", 64*i, iq3sTables+i)
	}
	a.p("block:")
	l.iq3sVBMI()
	a.p("ADDQ $%d, AX", 2048+128)
	a.nextBlock(110)
	a.p("DECQ DX\nJNZ block\nVZEROUPPER\nRET")
}

// bytesAt loads the 16 bytes from off on of each row into registers first to first+3,
// four of each row in each, bytes first; it uses the four registers from t on.
func (l lanes) bytesAt(off, first, t int) {
	for k := range 4 {
		l.p("VMOVDQU %s, X%d", rowAt(k, off), first+k)
		for i := 1; i < 4; i++ {
			l.p("VINSERTI32X4 $%d, %s, Z%d, Z%d", i, rowAt(4*i+k, off), first+k, first+k)
		}
	}
	for i := range 2 { // rows k and k+2
		l.p("VPUNPCKLBW Z%d, Z%d, Z%d\nVPUNPCKHBW Z%d, Z%d, Z%d", first+2+i, first+i, t+2*i, first+2+i, first+i, t+2*i+1)
	}
	for i := range 2 {
		l.p("VPUNPCKLBW Z%d, Z%d, Z%d\nVPUNPCKHBW Z%d, Z%d, Z%d", t+2+i, t+i, first+2*i, t+2+i, t+i, first+2*i+1)
	}
}

// pick sets to to its bits where c has ones, else to those of x.
func (l lanes) pick(c uint32, x, to int) {
	l.p("VPTERNLOGD.BCST $0xe4, %s<>(SB), Z%d, Z%d", bits(c), x, to)
}

// pairSigns makes registers to and to+1 of the bytes of two runs of signs: a byte for
// each index of the lower run, whose high nibble is for the higher one. It uses t to
// t+2.
func (l lanes) pairSigns(low, high, to, t int) {
	l.p("VPSLLW $4, Z%d, Z%d\nVPSRLW $4, Z%d, Z%d\nVMOVDQA64 Z%d, Z%d", high, t, low, t+1, low, t+2)
	l.pick(0x0f0f0f0f, t, t+2)    // even indices
	l.pick(0x0f0f0f0f, high, t+1) // odd ones
	l.p("VPUNPCKLDQ Z%d, Z%d, Z%d\nVPUNPCKHDQ Z%d, Z%d, Z%d", t+1, t+2, to, t+1, t+2, to+1)
}

func (l lanes) iq3sVBMI() {
	const signs, later, ninth = 8, 28, 30 // first registers
	l.bytesAt(66, 0, 4)
	l.p("VMOVDQA64 Z0, Z%d\nVMOVDQA64 Z1, Z%d", ninth, ninth+1)
	l.pairSigns(2, 3, signs, 4)
	for j := range 4 {
		switch j {
		case 1:
			l.bytesAt(82, 0, 4)
			l.pairSigns(0, 1, signs, 4)
			l.pairSigns(2, 3, later, 4)
		case 2:
			l.p("VMOVDQA64 Z%d, Z%d\nVMOVDQA64 Z%d, Z%d", later, signs, later+1, signs+1)
		case 3: // the block ends with scales
			l.bytesAt(94, 0, 4)
			l.pairSigns(1, 2, signs, 4)
			l.p("VMOVDQU64 scaleOrder<>(SB), Z4\nVPERMD Z3, Z4, Z4\nVMOVDQU64 Z4, 2048(AX)")
		}
		l.bytesAt(2+16*j, 0, 4)
		for run := range 2 {
			l.p("VPSHUFD $%#x, Z%d, Z%d", 0x55*(j%2*2+run), ninth+j/2, 14+run)
		}
		for p, bit := range []string{"ninthLow", "ninthHigh"} {
			l.iq3sLines(p, 2+p, signs+p, bit, 512*j+256*p)
		}
	}
	for r := range 16 {
		l.p("MOVWLZX %s, CX\nMOVW CX, %d(AX)", rowAt(r, 0), 2112+2*r)
	}
	l.zeros(4, 2144)
}

// iq3sLines stores four lines, of the indices in registers low and high, their signs
// and their ninth bits: bit of registers 14 and 15. It uses registers 4 to 12.
func (l lanes) iq3sLines(low, high, signs int, bit string, at int) {
	l.p("VMOVDQU64 %s<>(SB), Z12", bit)
	for run, x := range []int{low, high} {
		k, a := 1+3*run, 4+2*run // K and K+1: which half of a table; K+2: ninth bits
		l.p("VPTESTMB Z12, Z%d, K%d\nVPMOVB2M Z%d, K%d\nKNOTQ K%d, K%d", 14+run, k+2, x, k+1, k+1, k)
		l.p("VMOVDQA64 Z%d, Z%d\nVMOVDQA64 Z%d, Z%d", x, a, x, a+1)
		for i, to := range []int{a, a + 1, x} {
			for half := range 2 {
				t := iq3sTables + 4*i + 2*half
				l.p("VPERMI2B Z%d, Z%d, K%d, Z%d", t+1, t, k+half, to)
			}
		}
		l.p("VMOVDQU8 Z%d, K%d, Z%d", a+1, k+2, a)
	}
	// Value n of both runs, one in each nibble: 2 first, whose table has the ninth
	// bit's two sides in one byte, then 1 and 0.
	l.p("VPSRLW $4, Z%d, Z5\nVMOVDQU8 Z5, K3, Z%d", low, low)
	l.p("VPSLLW $4, Z%d, Z7\nVMOVDQU8 Z%d, K6, Z7", high, high)
	l.pick(0x0f0f0f0f, 7, low)
	l.p("VPSLLW $4, Z6, Z10\nVPSRLW $4, Z4, Z11")
	l.pick(0x0f0f0f0f, 6, 11)
	l.pick(0x0f0f0f0f, 10, 4)
	// Value 3 from the fourth bits of the others.
	l.p("VPSRLW $3, Z4, Z12\nVPSRLW $2, Z11, Z5\nVPSRLW $1, Z%d, Z6", low)
	l.pick(0x11111111, 5, 12)
	l.pick(0x33333333, 6, 12)
	for i, x := range []int{4, 11, low, 12} { // the fourth bit of all is 1
		l.p("VGF2P8AFFINEQB.BCST $0, sign%d<>(SB), Z%d, Z5\nVPTERNLOGD.BCST $0x36, %s<>(SB), Z5, Z%d", i, signs, bits(0x88888888), x)
	}
	l.p("VPUNPCKLBW Z11, Z4, Z5\nVPUNPCKHBW Z11, Z4, Z6\nVPUNPCKLBW Z12, Z%d, Z7\nVPUNPCKHBW Z12, Z%d, Z10", low, low)
	for i, x := range [][2]int{{5, 7}, {6, 10}} {
		l.p("VPUNPCKLWD Z%d, Z%d, Z11\nVPUNPCKHWD Z%d, Z%d, Z12", x[1], x[0], x[1], x[0])
		l.line(11, at+128*i)
		l.line(12, at+128*i+64)
	}
}
