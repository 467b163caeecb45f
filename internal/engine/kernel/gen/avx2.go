package main

import "fmt"

// AVX2 takes a panel in two halves of 8 rows, one after the other, and one or
// two tokens at a time. It has no instruction for four byte products at once:
// VPMADDUBSW multiplies unsigned by signed bytes and adds pairs to int16, which
// saturates. Codes below 64 leave room to add some lines before that; other
// weights are split into magnitude and sign, the sign going to the activations.

// half begins half h of a panel: as tile, without the sums. Y14 and Y15 are free
// for constants.
func (a *asm) half(h, t int) {
	if h == 1 {
		a.p("MOVQ mask+64(FP), DX\nSHRQ $8, DX\nJZ end")
	}
	a.p("MOVQ w+0(FP), AX\nMOVQ nb+8(FP), DX\nMOVQ x+16(FP), CX\nMOVQ xs+24(FP), R13\nMOVQ routes+32(FP), R15")
	for i := range t {
		a.p("MOVLQSX %d(R15), %s\nIMULQ R13, %s\nADDQ CX, %s", 8*i, tokenRegs[i], tokenRegs[i], tokenRegs[i])
	}
	for i := range t {
		a.p("VXORPS Y%d, Y%d, Y%d", i, i, i)
	}
}

// storeHalf writes the sums of half h.
func (a *asm) storeHalf(h, t int) {
	a.p("done%d:\nMOVQ out+40(FP), AX\nMOVQ ldo+48(FP), R13\nSHLQ $2, R13\nMOVQ routes+32(FP), R15", h)
	a.p("MOVQ mask+64(FP), DX\nSHRQ $%d, DX\nANDQ $255, DX\nPOPCNTQ DX, DX\nLEAQ rowMask<>+32(SB), CX\nSHLQ $2, DX\nSUBQ DX, CX\nVMOVDQU (CX), Y15", 8*h)
	for i := range t {
		a.p("MOVLQSX %d(R15), CX\nIMULQ R13, CX\nVMASKMOVPS Y%d, Y15, %d(AX)(CX*1)", 8*i+4, i, 32*h)
	}
	if h == 1 {
		a.p("end:\nVZEROUPPER\nRET")
	}
}

func panelsAVX2(a *asm) {
	for i := range 8 { // ones for up to eight rows, ending at 32
		v := uint64(0xffffffffffffffff)
		if i >= 4 {
			v = 0
		}
		fmt.Fprintf(&a.consts, "DATA rowMask<>+%d(SB)/8, $0x%016x\n", 8*i, v)
	}
	a.consts.WriteString("GLOBL rowMask<>(SB), RODATA|NOPTR, $64\n")
	a.wide("ones16", 0x00010001)
	a.wide("bytes80", 0x80808080)
	a.wide("mask03", 0x03030303)
	a.wide("mask04", 0x04040404)
	a.wide("mask0f", 0x0f0f0f0f)
	a.wide("mask10", 0x10101010)
	a.wide("mask30", 0x30303030)
	a.wide("maskPair", 0x000f000f)
	a.floatConst("quarter", 0x3e800000)
	for _, n := range []int{4, 15, 32} {
		a.wide(fmt.Sprintf("less%d", n), uint32(uint16(-n))*0x10001)
	}
	for _, name := range []string{"q4_0", "iq4nl", "mxfp4", "iq4xs", "iq3xxs"} {
		var b [16]byte
		for i, x := range codes[name] {
			b[i] = byte(x)
		}
		a.table(name, b)
	}
	for t := 1; t <= 2; t++ {
		bytesAVX2(a, t)
		for _, f := range []string{"q4_0", "iq4nl", "mxfp4"} {
			nibbles32AVX2(a, f, t)
		}
		for _, f := range formats256 {
			superAVX2(a, &f, t)
		}
	}
}

// wide adds a constant of 32 bytes.
func (a *asm) wide(name string, v uint32) { a.floatConst(name, v) }

// signed adds the products of the signed weights in register w with four
// activations of each token at off to the int sums from register sum on. abs and
// x are scratch; scale multiplies pairs of int16.
func signedAVX2(a *asm, t, off int, w, abs, x, scale string, sum int) {
	a.p("VPABSB %s, %s", w, abs)
	for i := range t {
		a.p("VPBROADCASTD %d(%s), %s\nVPSIGNB %s, %s, %s\nVPMADDUBSW %s, %s, %s\nVPMADDWD %s, %s, %s\nVPADDD %s, Y%d, Y%d",
			off, tokenRegs[i], x, w, x, x, x, abs, x, scale, x, x, x, sum+i, sum+i)
	}
}

// bytesAVX2 is Q8_0.
func bytesAVX2(a *asm, t int) {
	a.fn(fmt.Sprintf("q8t%dAVX2", t), tileArgs, tileSize)
	for h := range 2 {
		a.half(h, t)
		a.p("VMOVDQU ones16<>(SB), Y14\nVMOVDQU bytes80<>(SB), Y13\nblock%d:", h)
		for b := range 2 {
			for i := range t {
				a.p("VPXOR Y%d, Y%d, Y%d", t+i, t+i, t+i)
			}
			for k := range 8 {
				w := 64 + 512*b + 64*k
				a.prefetch(w)
				a.p("VPXOR %d(AX), Y13, Y8", w+32*h)
				signedAVX2(a, t, b*x32+4*k, "Y8", "Y9", "Y10", "Y14", t)
			}
			endBlock32(a, fmt.Sprintf("VCVTPH2PS %d(AX), Y8", 32*b+16*h), b, t)
			if b == 0 {
				a.p("DECQ DX\nJZ done%d", h)
			}
		}
		a.p("ADDQ $1088, AX")
		a.advance(t, 2*x32)
		a.p("DECQ DX\nJNZ block%d", h)
		a.storeHalf(h, t)
	}
}

// endBlock32 multiplies the int sums of block b by its scales.
func endBlock32(a *asm, scales string, b, t int) {
	a.p("%s", scales)
	for i := range t {
		a.p("VBROADCASTSS %d(%s), Y9\nVMULPS Y9, Y8, Y9\nVCVTDQ2PS Y%d, Y%d\nVMULPS Y9, Y%d, Y%d\nVADDPS Y%d, Y%d, Y%d", b*x32+x32D, tokenRegs[i], t+i, t+i, t+i, t+i, t+i, i, i)
	}
}

func nibbles32AVX2(a *asm, format string, t int) {
	a.fn(fmt.Sprintf("%st%dAVX2", format, t), tileArgs, tileSize)
	for h := range 2 {
		a.half(h, t)
		a.p("VMOVDQU ones16<>(SB), Y14\nVMOVDQU mask0f<>(SB), Y13\nVBROADCASTI128 %s<>(SB), Y12\nblock%d:", format, h)
		for b := range 2 {
			for i := range t {
				a.p("VPXOR Y%d, Y%d, Y%d", t+i, t+i, t+i)
			}
			for k := range 4 {
				w := 64 + 256*b + 64*k
				a.prefetch(w)
				a.p("VMOVDQU %d(AX), Y8\nVPSRLW $4, Y8, Y11\nVPAND Y13, Y8, Y8\nVPAND Y13, Y11, Y11\nVPSHUFB Y8, Y12, Y8\nVPSHUFB Y11, Y12, Y11", w+32*h)
				signedAVX2(a, t, b*x32+4*k, "Y8", "Y9", "Y10", "Y14", t)
				signedAVX2(a, t, b*x32+16+4*k, "Y11", "Y9", "Y10", "Y14", t)
			}
			scales := fmt.Sprintf("VCVTPH2PS %d(AX), Y8", 32*b+16*h)
			if format == "mxfp4" {
				scales = fmt.Sprintf("VPMOVZXWD %d(AX), Y8\nVPSLLD $16, Y8, Y8", 32*b+16*h)
			}
			endBlock32(a, scales, b, t)
			if b == 0 {
				a.p("DECQ DX\nJZ done%d", h)
			}
		}
		a.p("ADDQ $576, AX")
		a.advance(t, 2*x32)
		a.p("DECQ DX\nJNZ block%d", h)
		a.storeHalf(h, t)
	}
}

// superAVX2: Y0 ... float sums, then the int sums of a super-block, then the
// int16 sums of the low and of the high run. Y8 and Y9: scales of the low and of
// the high run, twice in each lane; Y10, Y11: weights; Y12, Y13: scratch; Y14:
// mask of nibbles; Y15: mask of further bits, or the table.
func superAVX2(a *asm, f *format256, t int) {
	total, low, high := func(i int) int { return t + i }, func(i int) int { return 2*t + i }, func(i int) int { return 3*t + i }
	// How many lines may be added before int16 overflows: 63*127*2 twice, and so on.
	lines := map[string]int{"q4k": 8, "iq3s": 8, "q5k": 4, "q6k": 2, "q2k": 4, "q3k": 4}[f.name]
	if f.table != "" {
		lines = 1
	}
	a.fn(fmt.Sprintf("%st%dAVX2", f.name, t), tileArgs, tileSize)
	for h := range 2 {
		a.half(h, t)
		mask := "mask0f"
		if f.name == "q2k" || f.name == "q3k" {
			mask = "mask03"
		}
		a.p("VMOVDQU %s<>(SB), Y14", mask)
		switch {
		case f.table != "":
			a.p("VBROADCASTI128 %s<>(SB), Y15", f.table)
		case f.name == "q5k":
			a.p("VMOVDQU mask10<>(SB), Y15")
		case f.name == "q6k":
			a.p("VMOVDQU mask30<>(SB), Y15")
		case f.name == "q3k":
			a.p("VMOVDQU mask04<>(SB), Y15")
		}
		a.p("block%d:\nLEAQ %d(AX), R13\nMOVL $4, CX", h, 4*f.step)
		for i := range t {
			a.p("VPXOR Y%d, Y%d, Y%d", total(i), total(i), total(i))
		}
		a.p("group%d:", h)
		for k := range 8 {
			if k == 0 || f.by16 && k == 4 {
				f.scalesAVX2(a, k/4, h, t)
			}
			f.unpackAVX2(a, k, h)
			if f.table != "" {
				signedAVX2(a, t, 4*k, "Y10", "Y12", "Y13", "Y8", total(0))
				signedAVX2(a, t, 32+4*k, "Y11", "Y12", "Y13", "Y9", total(0))
				continue
			}
			for i := range t {
				for run, sum := range []int{low(i), high(i)} {
					a.p("VPBROADCASTD %d(%s), Y12", 32*run+4*k, tokenRegs[i])
					if k%lines == 0 {
						a.p("VPMADDUBSW Y12, Y%d, Y%d", 10+run, sum)
					} else {
						a.p("VPMADDUBSW Y12, Y%d, Y12\nVPADDW Y12, Y%d, Y%d", 10+run, sum, sum)
					}
					if (k+1)%lines == 0 {
						a.p("VPMADDWD Y%d, Y%d, Y12\nVPADDD Y12, Y%d, Y%d", 8+run, sum, total(i), total(i))
					}
				}
			}
		}
		a.p("ADDQ $%d, AX\nADDQ $%d, R13", f.step, f.scaleStep())
		a.advance(t, x64)
		a.p("DECL CX\nJNZ group%d", h)
		f.finishAVX2(a, h, t)
		a.p("ADDQ $%d, AX\nDECQ DX\nJNZ block%d", f.rest, h)
		a.storeHalf(h, t)
	}
}

// unpackAVX2 makes the codes (or, with a table, the weights) of line k in Y10 and
// Y11.
func (f *format256) unpackAVX2(a *asm, k, h int) {
	at := func(off int) int { return off + 32*h }
	or := func(bit, to, off, dst int, fresh bool) { // a bit field of a line of further bits
		line := "Y12"
		if fresh {
			a.p("VMOVDQU %d(AX), Y12", at(off))
		}
		a.p("%s\nVPAND Y15, Y12, Y12\nVPOR Y12, Y%d, Y%d", moved(bit, to, line, "Y12"), dst, dst)
	}
	switch f.name {
	case "q2k", "q3k":
		for i := range 2 {
			a.p("VMOVDQU %d(AX), Y%d\n%s\nVPAND Y14, Y%d, Y%d", at(k/4*128+64*i), 10+i, moved(2*(k%4), 0, fmt.Sprintf("Y%d", 10+i), fmt.Sprintf("Y%d", 10+i)), 10+i, 10+i)
		}
		if k%4 == 0 {
			a.prefetch(k / 4 * 128)
			a.prefetch(k/4*128 + 64)
		}
		if f.name == "q3k" {
			or(k, 2, 256, 10, true)
			or(k, 2, 320, 11, true)
		}
		return
	}
	a.prefetch(64 * k)
	a.p("VMOVDQU %d(AX), Y10\nVPSRLW $4, Y10, Y11\nVPAND Y14, Y10, Y10\nVPAND Y14, Y11, Y11", at(64*k))
	switch f.name {
	case "q5k":
		or(k, 4, 512, 10, true)
		or(k, 4, 576, 11, true)
	case "q6k":
		or(2*(k%4), 4, 512+k/4*128, 10, true)
		or(2*(k%4), 4, 576+k/4*128, 11, true)
	}
	if f.table != "" {
		a.p("VPSHUFB Y10, Y15, Y10\nVPSHUFB Y11, Y15, Y11")
	}
}

// scalesAVX2 makes the scales of a run in Y8 and Y9, each twice in its lane, and
// adds -offset times scales and sums of activations to the int sums.
func (f *format256) scalesAVX2(a *asm, run, h, t int) {
	offset := f.offset
	if f.table != "" {
		offset = 0
	}
	switch {
	case f.name == "iq3s":
		a.p("VPMOVZXBD %d(R13), Y8\nVPSLLD $12, Y8, Y9\nVPOR Y8, Y9, Y8\nVPAND maskPair<>(SB), Y8, Y8\nVPADDW Y8, Y8, Y8\nVPOR ones16<>(SB), Y8, Y12", 8*h)
	case f.name == "q2k":
		a.p("VPMOVZXBW %d(R13), Y12\nVPAND maskPair<>(SB), Y12, Y12", 32*run+16*h)
	case f.by16 && f.signed:
		a.p("VPMOVSXBW %d(R13), Y12", 32*run+16*h)
	case f.table != "":
		a.p("VPMOVSXBW %d(R13), Y12", 16*h)
	default:
		a.p("VPMOVZXBD %d(R13), Y8\nVPMOVZXBD %d(R13), Y9", 8*h, 16+8*h)
		a.p("VPSLLD $16, Y8, Y12\nVPOR Y12, Y8, Y8\nVPSLLD $16, Y9, Y12\nVPOR Y12, Y9, Y9")
		return
	}
	a.p("VPSHUFLW $0xa0, Y12, Y8\nVPSHUFHW $0xa0, Y8, Y8\nVPSHUFLW $0xf5, Y12, Y9\nVPSHUFHW $0xf5, Y9, Y9")
	if offset == 0 {
		return
	}
	sums := x64Sum32
	if f.by16 {
		sums = x64Sum16 + 4*run
	}
	a.p("VPMULLW less%d<>(SB), Y12, Y12", offset)
	for i := range t {
		a.p("VPBROADCASTD %d(%s), Y13\nVPMADDWD Y12, Y13, Y13\nVPADDD Y13, Y%d, Y%d", sums, tokenRegs[i], t+i, t+i)
	}
	if f.name == "iq3s" { // weights are 2n-15
		a.p("VPADDW Y8, Y8, Y8\nVPADDW Y9, Y9, Y9")
	}
}

func (f *format256) finishAVX2(a *asm, h, t int) {
	scales := 0
	if f.minima {
		for i := range t {
			a.p("VPXOR Y%d, Y%d, Y%d", 2*t+i, 2*t+i, 2*t+i)
		}
		minimum := func(load string, off int) {
			a.p("%s", load)
			for i := range t {
				a.p("VPBROADCASTD %d(%s), Y13\nVPMADDWD Y12, Y13, Y13\nVPADDD Y13, Y%d, Y%d", off, tokenRegs[i], 2*t+i, 2*t+i)
			}
		}
		for j := range 4 {
			if !f.by16 {
				minimum(fmt.Sprintf("VPMOVZXBW %d(R13), Y12", 32*j+16*h), x64*j-x256+x64Sum32)
				continue
			}
			for run := range 2 {
				minimum(fmt.Sprintf("VPMOVZXBW %d(R13), Y12\nVPSRLW $4, Y12, Y12", 64*j+32*run-256+16*h), x64*j-x256+x64Sum16+4*run)
			}
		}
		if !f.by16 {
			scales = 128
		}
		a.p("VCVTPH2PS %d(R13), Y9", scales+32+16*h)
	}
	a.p("VCVTPH2PS %d(R13), Y8", scales+16*h)
	if f.quarter {
		a.p("VMULPS quarter<>(SB), Y8, Y8")
	}
	for i := range t {
		s, m := t+i, 2*t+i
		a.p("VBROADCASTSS %d(%s), Y12\nVMULPS Y12, Y8, Y13\nVCVTDQ2PS Y%d, Y%d\nVMULPS Y13, Y%d, Y%d", x64D-x64, tokenRegs[i], s, s, s, s)
		if f.minima {
			a.p("VMULPS Y12, Y9, Y13\nVCVTDQ2PS Y%d, Y%d\nVMULPS Y13, Y%d, Y%d\nVSUBPS Y%d, Y%d, Y%d", m, m, m, m, m, s, s)
		}
		a.p("VADDPS Y%d, Y%d, Y%d", s, i, i)
	}
}
