package main

// Here is one function for each format: it packs a block of the rows of l. Offsets in
// files are those of ggml's blocks, offsets in panels those of kernel's layout.go.

func (l lanes) q8(at int) {
	for i := range 2 {
		w := l.quad(2 + 16*i)
		for _, x := range w {
			l.with("XOR", 0x80808080, x, x)
		}
		l.lines(w, at+256*i)
	}
}

// q5 makes the bytes of Q8_0: a nibble and a fifth bit, less 16.
func (l lanes) q5(at int) {
	l.quad(2)
	l.copy(0, 8) // fifth bits
	w := l.quad(6)
	add := l.constant(0x70707070, 9)
	for k := range 8 {
		l.some(4*(k/4), 0x0f0f0f0f, w[k%4], 4)
		l.shift(4*k&^7, 8, 5)
		l.signs(5, k%2 == 1, 5)
		l.some(-1, 0x10101010, 5, 5)
		l.op("OR", 5, 4, 4)
		l.p("VPADDB %s, %s, %s", add, l.v.r(4), l.v.r(4))
		l.line(4, at+64*k)
	}
}

// minima keeps what Q4_K and Q5_K have before their weights: d, dmin, and 8 scales
// and minima of 6 bits.
func (l lanes) minima(at int) {
	l.quad(0)
	l.halves(0, false, 4, at+256)
	l.halves(0, true, 4, at+288)
	for i, x := range []int{1, 2} { // scales, minima
		l.some(4*i, 0x0f0f0f0f, 3, 4) // of the last four the low bits
		l.some(2, 0x30303030, x, 5)
		l.op("OR", 4, 5, 4)
		l.with("AND", 0x3f3f3f3f, x, 5)
		for j, y := range []int{5, 4} {
			if i == 0 {
				for b := range 4 {
					l.shift(8*b, y, 6)
					l.low8(6, 7, at+64*j+16*b)
				}
				continue
			}
			l.halves(y, false, 6, at+128+64*j)
			l.halves(y, true, 6, at+128+64*j+32)
		}
	}
}

func (l lanes) q4k() {
	l.minima(2048)
	for i := range 8 {
		l.lines(l.quad(16+16*i), 256*i)
	}
}

// swap exchanges, in each byte, the bits of x that mask has n further up with those
// of y that it has.
func (l lanes) swap(x, y, n int, mask uint32, t int) {
	l.shift(n, x, t)
	l.op("XOR", y, t, t)
	l.with("AND", mask, t, t)
	l.op("XOR", t, y, y)
	l.shift(-n, t, t)
	l.op("XOR", t, x, x)
}

// turn4 makes register i hold, in each byte, pair i of bits of all four, in order.
func (l lanes) turn4(w words, t int) {
	for i := range 2 {
		l.swap(w[i], w[i+2], 4, 0x0f0f0f0f, t)
	}
	for i := range 2 {
		l.swap(w[2*i], w[2*i+1], 2, 0x33333333, t)
	}
}

// turn8 makes register i of eight hold, in each byte, bit i of all eight, in order.
func (l lanes) turn8(w [8]int, t int) {
	for i := range 4 {
		l.swap(w[i], w[i+4], 4, 0x0f0f0f0f, t)
	}
	for i := range 8 {
		if i&2 == 0 {
			l.swap(w[i], w[i+2], 2, 0x33333333, t)
		}
	}
	for i := range 4 {
		l.swap(w[2*i], w[2*i+1], 1, 0x55555555, t)
	}
}

// octets stores a line for each bit of the 32 bytes from off on: bit i belongs to
// run i of 32 weights, at the end of a group of size bytes, two runs a group.
func (l lanes) octets(off, at, size int) {
	a, b := l.quadAt(off, 0), l.quadAt(off+16, 4)
	l.turn8([8]int{a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]}, 8)
	for i := range 8 {
		l.line(i, i/2*size+at+64*(i%2))
	}
}

// pairs stores the pairs of bits of the 64 bytes from off on, at at in groups of
// size bytes.
func (l lanes) pairs(off, at, size int) {
	for n := range 2 {
		for k := range 2 {
			w := l.quad(off + 32*n + 16*k)
			l.turn4(w, 4)
			for i, x := range w {
				l.line(x, (2*n+i/2)*size+at+128*k+64*(i%2))
			}
		}
	}
}

// bySixteen stores the 16 bytes of w: see kernel.bySixteen.
func (l lanes) bySixteen(w words, t, at int) {
	for i, x := range w {
		for odd := range 2 {
			l.some(8*odd, 0x00ff00ff, x, t)
			l.shift(8, t, t+1)
			l.op("OR", t, t+1, t)
			l.low16(t, at+64*i+32*odd)
		}
	}
}

func (l lanes) q5k() {
	const size = 640
	l.minima(4 * size)
	for i := range 8 {
		l.lines(l.quad(48+16*i), i/2*size+256*(i%2))
	}
	l.octets(16, 512, size)
}

// nibbles makes of a and b lines at at, of their low nibbles, and at high.
func (l lanes) nibbles(a, b words, t, at, high int) {
	for i := range a {
		l.with("AND", 0x0f0f0f0f, a[i], t)
		l.shift(-4, b[i], t+1)
		l.with("AND", 0xf0f0f0f0, t+1, t+1)
		l.op("OR", t, t+1, t)
		l.line(t, at+64*i)
		l.some(4, 0x0f0f0f0f, a[i], t)
		l.with("AND", 0xf0f0f0f0, b[i], t+1)
		l.op("OR", t, t+1, t)
		l.line(t, high+64*i)
	}
}

func (l lanes) q6k() {
	const size = 768
	for i := range 4 {
		n, c := i/2, i%2
		l.nibbles(l.quadAt(64*n+16*c, 0), l.quadAt(64*n+32+16*c, 4), 8, 2*n*size+256*c, (2*n+1)*size+256*c)
	}
	l.pairs(128, 512, size)
	l.bySixteen(l.quad(192), 4, 4*size)
	l.quad(194)
	l.halves(3, true, 4, 4*size+256)
	l.zeros(4, 4*size+288)
}

func (l lanes) q3k() {
	const size = 384
	l.pairs(32, 0, size)
	l.octets(0, 256, size)
	w := l.quad(92) // from the second on: 8 bytes of low bits, 4 of high ones
	var s words
	for i := range 4 {
		s[i] = 4 + i
		l.some(4*(i/2), 0x0f0f0f0f, w[1+i%2], s[i])
		l.shift(2*i-4, w[3], 8)
		l.with("AND", 0x30303030, 8, 8)
		l.op("OR", 8, s[i], s[i])
		l.p("VPSUBB %s, %s, %s", l.constant(0x20202020, 9), l.v.r(s[i]), l.v.r(s[i]))
	}
	l.bySixteen(s, 8, 4*size)
	l.quad(94)
	l.halves(3, true, 4, 4*size+256)
	l.zeros(4, 4*size+288)
}

// constant is an operand of instructions that take no broadcast; it may use t.
func (l lanes) constant(c uint32, t int) string {
	if l.v.reg == "Y" {
		return bits(c) + "<>(SB)"
	}
	l.p("VPBROADCASTD %s<>(SB), %s", bits(c), l.v.r(t))
	return l.v.r(t)
}

func (l lanes) q2k() {
	const size = 256
	l.pairs(16, 0, size)
	l.bySixteen(l.quad(0), 4, 4*size)
	l.quad(68)
	l.halves(3, false, 4, 4*size+256)
	l.halves(3, true, 4, 4*size+288)
}

func (l lanes) iq4xs() {
	for j := range 4 {
		l.nibbles(l.quadAt(8+32*j, 0), l.quadAt(24+32*j, 4), 8, 512*j, 512*j+256)
	}
	l.quad(0)
	l.halves(0, false, 4, 2176)
	for j := range 4 {
		l.some(8*j, 0x0000000f, 1, 4)
		l.shift(8*j-4, 1, 5)
		l.with("AND", 0x00000f00, 5, 5)
		l.op("OR", 4, 5, 4)
		l.some(12+4*j, 0x00000030, 0, 5)
		l.op("OR", 4, 5, 4)
		l.some(6+4*j, 0x00003000, 0, 5)
		l.op("OR", 4, 5, 4)
		l.p("VPSUBB %s, %s, %s", l.constant(0x20202020, 5), l.v.r(4), l.v.r(4))
		l.low16(4, 2048+32*j)
	}
	l.zeros(4, 2208)
}

// lookUp sets lanes of to to those of the table at R11 that idx numbers.
func (l lanes) lookUp(idx, to, t int) {
	if l.v.reg == "Z" {
		l.p("KXNORW K1, K1, K1\nVPGATHERDD (R11)(Z%d*4), K1, Z%d", idx, to)
	} else {
		l.p("VPCMPEQD Y%d, Y%d, Y%d\nVPGATHERDD Y%d, (R11)(Y%d*4), Y%d", t, t, t, t, idx, to)
	}
}

// signs sets each byte of to to 15 where the bit of x that belongs to it is set:
// the lowest four bits, or the four above them where high is set.
func (l lanes) signs(x int, high bool, to int) {
	if l.v.reg == "Z" {
		if high {
			l.shift(4, x, to)
			x = to
		}
		l.p("VPERMD Z16, Z%d, Z%d", x, to)
		return
	}
	which := "lowSigns"
	if high {
		which = "highSigns"
	}
	l.p("VPSHUFB firsts<>(SB), Y%d, Y%d\nVPAND %s<>(SB), Y%d, Y%d\nVPCMPEQB %s<>(SB), Y%d, Y%d", x, to, which, to, to, which, to, to)
	l.with("AND", 0x0f0f0f0f, to, to)
}

func (l lanes) iq3xxs() {
	l.quad(0)
	l.halves(0, false, 4, 2176)
	l.zeros(4, 2208)
	for j := range 4 {
		x := l.quad(66 + 16*(j/2))
		low, high := 8, 9 // signs and scales of both runs
		l.copy(x[2*(j%2)], low)
		l.copy(x[2*(j%2)+1], high)
		l.some(27, 0x0000001e, low, 4)
		l.some(19, 0x00001e00, high, 5)
		l.op("OR", 4, 5, 4)
		l.with("OR", 0x00000101, 4, 4)
		l.low16(4, 2048+32*j)
		w := l.quad(2 + 16*j)
		for k := range 8 {
			for run, from := range []int{low, high} {
				s := 10 + run // 7 signs, and an eighth that makes them even
				if k%2 == 0 {
					l.some(7*(k/2), 0x0000007f, from, s)
					l.shift(4, s, 4)
					l.op("XOR", s, 4, 4)
					l.shift(2, 4, 5)
					l.op("XOR", 5, 4, 4)
					l.shift(1, 4, 5)
					l.op("XOR", 5, 4, 4)
					l.shift(-7, 4, 4)
					l.with("AND", 0x00000080, 4, 4)
					l.op("OR", 4, s, s)
				}
				l.some(8*(k%4), 0x000000ff, w[2*run+k/4], 4)
				to := 6 + run
				l.lookUp(4, to, 5)
				l.signs(s, k%2 == 1, 5)
				l.op("XOR", 5, to, to)
			}
			l.shift(-4, 7, 7)
			l.op("OR", 6, 7, 6)
			l.line(6, 512*j+64*k)
		}
	}
}

func (l lanes) iq3s() {
	for j := range 4 {
		x := l.quad(66) // 8 bytes of ninth bits, then signs
		ninth, low, high := 8, 9, 10
		l.copy(x[j/2], ninth)
		switch off := 74 + 8*j; {
		case j == 0:
			l.copy(x[2], low)
			l.copy(x[3], high)
		case j == 3: // the block ends with scales
			x = l.quad(94)
			l.copy(x[1], low)
			l.copy(x[2], high)
			for b := range 4 {
				l.shift(8*b, x[3], 4)
				l.low8(4, 5, 2048+16*b)
			}
		default:
			x = l.quad(off)
			l.copy(x[0], low)
			l.copy(x[1], high)
		}
		w := l.quad(2 + 16*j)
		for k := range 8 {
			for run, from := range []int{low, high} {
				l.some(8*(k%4), 0x000000ff, w[2*run+k/4], 4)
				l.some(16*(j%2)+8*run+k-8, 0x00000100, ninth, 5)
				l.op("OR", 5, 4, 4)
				to := 6 + run
				l.lookUp(4, to, 5)
				l.shift(4*k&^7, from, 5) // a byte's two signs are told apart by signs
				l.signs(5, k%2 == 1, 5)
				l.op("XOR", 5, to, to)
			}
			l.shift(-4, 7, 7)
			l.op("OR", 6, 7, 6)
			l.line(6, 512*j+64*k)
		}
	}
	for r := 8 * l.h; r < 8*l.h+16/l.v.per; r++ {
		l.p("MOVWLZX %s, CX\nMOVW CX, %d(AX)", rowAt(r, 0), 2112+2*r)
	}
	l.zeros(4, 2144)
}
