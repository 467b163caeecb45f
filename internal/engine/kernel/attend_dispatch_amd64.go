package kernel

import "unsafe"

func asByte(f *float32) *byte { return (*byte)(unsafe.Pointer(f)) }

type (
	scoresFunc func(k *byte, q *float32, dim int, w *float32, n int, group int)
	weighFunc  func(v *byte, scales *float32, w *float32, n int, out *float32, ldo int, step int)
)

// Kernels of pages by level, format and rows.
var (
	scoresKernels = [...][3][Heads + 1]scoresFunc{
		AVX2: {
			KVF16: {1: scores1F16AVX2, 2: scores2F16AVX2, 4: scores4F16AVX2},
			KVQ8:  {1: scores1Q8AVX2, 2: scores2Q8AVX2, 4: scores4Q8AVX2},
			KVF32: {1: scores1F32AVX2, 2: scores2F32AVX2, 4: scores4F32AVX2},
		},
		AVX512: {
			KVF16: {1: scores1F16AVX512, 2: scores2F16AVX512, 4: scores4F16AVX512},
			KVQ8:  {1: scores1Q8AVX512, 2: scores2Q8AVX512, 4: scores4Q8AVX512},
			KVF32: {1: scores1F32AVX512, 2: scores2F32AVX512, 4: scores4F32AVX512},
		},
	}
	weighKernels = [...][3][Heads + 1]weighFunc{
		AVX2: {
			KVF16: {1: weigh1F16AVX2, 2: weigh2F16AVX2, 4: weigh4F16AVX2},
			KVQ8:  {1: weigh1Q8AVX2, 2: weigh2Q8AVX2, 4: weigh4Q8AVX2},
			KVF32: {1: weigh1F32AVX2, 2: weigh2F32AVX2, 4: weigh4F32AVX2},
		},
		AVX512: {
			KVF16: {1: weigh1F16AVX512, 2: weigh2F16AVX512, 4: weigh4F16AVX512},
			KVQ8:  {1: weigh1Q8AVX512, 2: weigh2Q8AVX512, 4: weigh4Q8AVX512},
			KVF32: {1: weigh1F32AVX512, 2: weigh2F32AVX512, 4: weigh4F32AVX512},
		},
	}
)

// rowsAtOnce is how many of rows the kernels take together: 4, 2 or 1.
func rowsAtOnce(rows int) int {
	if rows >= 4 {
		return 4
	}
	return min(rows, 2)
}

func scores(l KVLayout, page []byte, w *[Heads * PagePositions]float32, from, n, rows int, q []float32) {
	if level == None {
		scoresGeneric(l, page, w, from, n, rows, q)
		return
	}
	g := firstGroup(from)
	kernels, groups := &scoresKernels[level][l.Format], (n+15)/16-g
	if level == AVX512 {
		groups = (groups + 3) / 4 // it takes four at a time; a page is full of them
	}
	for r := 0; r < rows; {
		k := rowsAtOnce(rows - r)
		kernels[k](&page[g*l.group()], &q[r*l.Dim], l.Dim, &w[r*PagePositions+16*g], groups, l.group())
		r += k
	}
}

func weigh(l KVLayout, page []byte, w *[Heads * PagePositions]float32, from, n, rows int, out []float32) {
	if level == None {
		weighGeneric(l, page, w, from, n, rows, out)
		return
	}
	kernels, stride := &weighKernels[level][l.Format], 64*l.chunks()
	for r := 0; r < rows; {
		k := rowsAtOnce(rows - r)
		for c := range l.chunks() {
			v, weights := page[l.valuesAt()+c*l.chunk()+64*from*l.size():], &w[r*PagePositions+from]
			scales := &w[0] // not read where there are none
			if l.Format == KVQ8 {
				scales = (*float32)(unsafe.Pointer(&page[l.scalesAt()+(c*PagePositions+from)*8]))
			}
			if level == AVX512 {
				kernels[k](&v[0], scales, weights, n-from, &out[r*stride+64*c], stride, 8)
				continue
			}
			for i := range 4 { // sixteen dimensions at a time
				at, s := 16*l.size()*i, scales
				if l.Format == KVQ8 {
					s = (*float32)(unsafe.Add(unsafe.Pointer(scales), i/2*4))
				}
				kernels[k](&v[at], s, weights, n-from, &out[r*stride+64*c+16*i], stride, 8)
			}
		}
		r += k
	}
}
