package main

import "fmt"

// attention writes the kernels of a page of keys and values (see
// kernel.KVLayout): scores of a few query rows, and weighted sums of values.
func attention(a *asm) {
	for _, v := range isas {
		for _, f := range []kvFormat{{"F16", 2}, {"Q8", 1}, {"F32", 4}} {
			for _, rows := range []int{1, 2, 4} {
				v.scores(a, rows, f)
				v.weigh(a, rows, f)
			}
		}
	}
}

// kvFormat is how keys and values are kept, in how many bytes a number.
type kvFormat struct {
	name string
	size int
}

// load puts some numbers at address at, a register full, into register r. For
// Q8 their scales are in register scale.
func (v isa) load(a *asm, f kvFormat, at string, r, scale int) {
	switch f.name {
	case "Q8":
		a.p("VPMOVSXBD %s, %s\nVCVTDQ2PS %s, %s\nVMULPS %s, %s, %s", at, v.r(r), v.r(r), v.r(r), v.r(scale), v.r(r), v.r(r))
	case "F16":
		a.p("VCVTPH2PS %s, %s", at, v.r(r))
	case "F32":
		a.p("VMOVUPS %s, %s", at, v.r(r))
	}
}

// scores multiplies rows of queries by groups of 16 keys: w[r][16g+i] = the sum
// over d, in order, of q[r][d] * k[16g+i][d]. The keys of a group lie by
// dimension, 16 positions side by side. AVX-512 takes four groups at a time.
//
// Q8: the scales of 32 dimensions of a group lie behind its keys.
func (v isa) scores(a *asm, rows int, f kvFormat) {
	q8 := f.name == "Q8"
	groups := 4
	if v.per == 2 {
		groups = 1
	}
	a.fn(fmt.Sprintf("scores%d%s%s", rows, f.name, v.name), "k *byte, q *float32, dim int, w *float32, n int, group int", 48)
	// AX keys, DI results, R9 bytes of a group, R8 groups of groups
	a.p("MOVQ k+0(FP), AX\nMOVQ w+24(FP), DI\nMOVQ n+32(FP), R8\nMOVQ group+40(FP), R9\nLEAQ (R9)(R9*2), R10")
	bases := []string{"(BX)", "(BX)(R9*1)", "(BX)(R9*2)", "(BX)(R10*1)"}
	acc := func(r, g int) int { return (r*groups + g) * v.per }
	key := rows * groups * v.per // the keys' registers
	scale := key + groups*v.per
	q := 15 // broadcast query
	if v.per == 1 {
		q = 30
	}
	a.p("groups:\nMOVQ q+8(FP), SI\nMOVQ dim+16(FP), CX\nMOVQ AX, BX\nLEAQ (AX)(R9*4), R14")
	if q8 { // R11: scales of the first group, 64 bytes for each 32 dimensions
		a.p("MOVQ CX, R11\nSHLQ $4, R11\nADDQ AX, R11")
	}
	for i := range key {
		v.zero(a, v.r(i))
	}
	stride := []string{"(SI)", "(SI)(DX*1)", "(SI)(DX*2)", "(SI)(R12*1)"}
	a.p("MOVQ CX, DX\nSHLQ $2, DX\nLEAQ (DX)(DX*2), R12")
	if q8 {
		a.p("thirtytwo:")
		for g := range groups {
			for i := range v.per {
				a.p("VMOVUPS %d%s, %s", 32*i, []string{"(R11)", "(R11)(R9*1)", "(R11)(R9*2)", "(R11)(R10*1)"}[g], v.r(scale+g*v.per+i))
			}
		}
		a.p("ADDQ $64, R11\nMOVQ $32, R13")
	}
	a.p("dims:")
	for g := range groups {
		for i := range v.per {
			at := fmt.Sprintf("%d%s", v.lanes()*f.size*i, bases[g])
			v.load(a, f, at, key+g*v.per+i, scale+g*v.per+i)
		}
	}
	for r := range rows {
		a.p("VBROADCASTSS %s, %s", stride[r], v.r(q))
		for g := range groups {
			for i := range v.per {
				a.p("VFMADD231PS %s, %s, %s", v.r(q), v.r(key+g*v.per+i), v.r(acc(r, g)+i))
			}
		}
	}
	if groups == 4 {
		for i := 0; i < 16*f.size*groups; i += 64 {
			a.p("PREFETCHT1 %d(R14)", i)
		}
		a.p("ADDQ $%d, R14", 16*f.size*groups)
	}
	a.p("ADDQ $%d, BX\nADDQ $4, SI", 16*f.size)
	if q8 {
		a.p("DECQ R13\nJNZ dims\nSUBQ $32, CX\nJNZ thirtytwo")
	} else {
		a.p("DECQ CX\nJNZ dims")
	}
	for r := range rows {
		for g := range groups {
			for i := range v.per {
				a.p("VMOVUPS %s, %d(DI)", v.r(acc(r, g)+i), 1024*r+64*g+32*i)
			}
		}
	}
	a.p("ADDQ $%d, DI", 64*groups)
	if groups == 4 {
		a.p("LEAQ (AX)(R9*4), AX")
	} else {
		a.p("ADDQ R9, AX")
	}
	a.p("DECQ R8\nJNZ groups\nVZEROUPPER\nRET")
}

// weigh sums values: out[r][16c+i] = the sum over positions, in order, of
// w[r][p] * v[p][16c+i]: AVX-512 takes a chunk of 64 dimensions, AVX2 sixteen.
// Values of a position lie side by side, 64 of them. Q8: scales lie apart, step
// bytes a position, one for each 32 dimensions.
func (v isa) weigh(a *asm, rows int, f kvFormat) {
	q8 := f.name == "Q8"
	sixteens := 4
	if v.per == 2 {
		sixteens = 1 // there are too few registers for more
	}
	name := fmt.Sprintf("weigh%d%s%s", rows, f.name, v.name)
	a.fn(name, "v *byte, scales *float32, w *float32, n int, out *float32, ldo int, step int", 56)
	a.p("MOVQ v+0(FP), AX\nMOVQ scales+8(FP), BX\nMOVQ w+16(FP), SI\nMOVQ n+24(FP), CX\nMOVQ out+32(FP), DI\nMOVQ ldo+40(FP), R9\nMOVQ step+48(FP), R8")
	acc := func(r, c int) int { return (r*sixteens + c) * v.per }
	value := rows * sixteens * v.per
	scale := value + sixteens*v.per
	w := 15
	if v.per == 1 {
		w = 30
	}
	for i := range value {
		v.zero(a, v.r(i))
	}
	a.p("positions:")
	if q8 {
		for i := range max(1, sixteens/2) {
			a.p("VBROADCASTSS %d(BX), %s", 4*i, v.r(scale+i))
		}
		a.p("ADDQ R8, BX")
	}
	if sixteens == 4 {
		for i := 0; i < 64*f.size; i += 64 {
			a.prefetch(i)
		}
	}
	for c := range sixteens {
		for i := range v.per {
			v.load(a, f, fmt.Sprintf("%d(AX)", f.size*(16*c+v.lanes()*i)), value+c*v.per+i, scale+c/2)
		}
	}
	for r := range rows {
		a.p("VBROADCASTSS %d(SI), %s", 1024*r, v.r(w))
		for c := range sixteens {
			for i := range v.per {
				a.p("VFMADD231PS %s, %s, %s", v.r(w), v.r(value+c*v.per+i), v.r(acc(r, c)+i))
			}
		}
	}
	a.p("ADDQ $4, SI\nADDQ $%d, AX", 64*f.size) // a chunk has 64 dimensions
	a.p("DECQ CX\nJNZ positions\nSHLQ $2, R9")
	for r := range rows {
		for c := range sixteens {
			for i := range v.per {
				a.p("VMOVUPS %s, %d(DI)", v.r(acc(r, c)+i), 64*c+32*i)
			}
		}
		if r < rows-1 {
			a.p("ADDQ R9, DI")
		}
	}
	a.p("VZEROUPPER\nRET")
}
