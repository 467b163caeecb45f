package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

// atPageEnd is a copy of b that ends where a page begins which can't be touched.
func atPageEnd(t *testing.T, b []byte) []byte {
	t.Helper()
	page := unix.Getpagesize()
	n := (len(b) + page - 1) / page * page
	m, err := unix.Mmap(-1, 0, n+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(m); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mprotect(m[n:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	c := m[n-len(b) : n : n]
	copy(c, b)
	return c
}

func bytesOf[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

func as[T any](b []byte) []T {
	var z T
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(z)))
}

// Kernels read nothing behind weights, activations and routes, and write nothing
// behind the results: all of them end where touching is fatal.
func TestMulStaysInside(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		type shape struct {
			typ  gguf.Type
			cols int
		}
		var shapes []shape
		for _, typ := range slices.Concat(floatFormats, quantFormats, decodedFormats) {
			cols := 256
			switch elements, _ := typ.Block(); elements {
			case 32:
				cols = 7 * 32 // ends in half a pair
			case 1:
				cols = 128
			}
			shapes = append(shapes, shape{typ, cols})
		}
		// Kernels of their own take these only in twos.
		shapes = append(shapes, shape{gguf.Q4_1, 3 * 64}, shape{gguf.Q5_1, 3 * 64})
		for _, s := range shapes {
			typ, cols, rows := s.typ, s.cols, 35
			r := rand.New(rand.NewPCG(9, uint64(typ)))
			data := randomRows(r, typ, rows, cols)
			for _, n := range []int{1, 2, 3, 5, 6, 8, 13} {
				a, q := acts(r, typ, n, cols)
				a.data = atPageEnd(t, a.data)
				routes := make([]Route, n)
				for i := range routes {
					routes[i] = Route{int32(i), int32(i)}
				}
				routes = as[Route](atPageEnd(t, bytesOf(routes)))
				for name, m := range both(typ, rows, cols, data) {
					m.data = atPageEnd(t, m.data)
					out := as[float32](atPageEnd(t, make([]byte, 4*n*rows)))
					m.Mul(out, rows, a, 0, rows, routes)
					size := len(data) / rows
					for i, got := range out {
						want := quant.Dot(typ, data[i%rows*size:][:size], q, i/rows)
						if otherBits(got, want) {
							t.Fatalf("%s, %s, %d tokens: row %d of token %d is %g, want %g", typ, name, n, i%rows, i/rows, got, want)
						}
					}
				}
			}
		}
	})
}

// So do attention, the rounding of activations and the functions on rows.
func TestRowsStayInside(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 9))
		end := func(x []float32) []float32 { return as[float32](atPageEnd(t, bytesOf(x))) }
		for _, l := range []KVLayout{{64, KVF16, 0}, {80, KVF16, 0}, {96, KVQ8, 0}, {128, KVF32, 0}, {80, KVF16, 64}, {32, KVQ8, 96}} {
			t.Run(fmt.Sprintf("%s/%d-%d", l.Format, l.Dim, l.ValueDim()), func(t *testing.T) {
				page := atPageEnd(t, make([]byte, l.Bytes()))
				k, v := end(randomActs(r, l.Dim, 0)), end(randomActs(r, l.ValueDim(), 0))
				for pos := range PagePositions {
					l.Put(page, pos, k, v, make([]uint16, l.Dim))
				}
				a := NewAttention(l)
				a.page = end(a.page)
				for rows := 1; rows <= Heads; rows++ {
					q, out := end(randomActs(r, rows*l.Dim, 0)), end(make([]float32, rows*l.ValueDim()))
					var s AttentionState
					a.Add(&s, l, page, PagePositions, rows, q, out, true)
					a.Add(&s, l, page, 3, rows, q, out, false)
					a.AddFrom(&s, l, page, 200, PagePositions, rows, q, out, false)
					s.Finish(l, rows, out)
				}
			})
		}
		for _, rounding := range []quant.Rounding{quant.RoundF16, quant.RoundQ8_0, quant.RoundQ8_K} {
			a := NewActs(rounding, 1, 256)
			a.data = atPageEnd(t, a.data)
			a.Set(0, end(randomActs(r, 256, 0)))
		}
		for _, n := range []int{1, 16, 40, 64} {
			x, y, z := end(randomActs(r, n, 0)), end(randomActs(r, n, 0)), end(randomActs(r, n, 0))
			RMSNorm(x, y, z, 1e-6)
			SiLUMul(x, y)
			GELUMul(x, y)
			ClampedSwiGLU(x, y, 7)
			Axpy(x, y, 2)
			Add(x, y)
			Rope(x, y, z, z)
			merge(x, y, 1, 2)
			divide(x, 3)
			toHalf(as[uint16](atPageEnd(t, make([]byte, 2*n))), x)
		}
	})
}
