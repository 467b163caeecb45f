// Package kernel multiplies weights by activations, fast. It follows the order
// of accumulation that package quant defines, bit for bit, for every batch,
// every cut of the rows among threads and every level of SIMD.
package kernel

import (
	"encoding/binary"
	"math"
	"sync"

	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

// Matrix is a weight matrix [Rows, Cols] in the blocks of one GGUF format.
type Matrix struct {
	Type       gguf.Type
	Rows, Cols int
	Data       []byte // Rows * RowBytes
	RowBytes   int
}

// NewMatrix views data as a matrix. Cols is a multiple of the format's block.
func NewMatrix(t gguf.Type, rows, cols int, data []byte) *Matrix {
	elements, size := t.Block()
	rowBytes := cols / elements * size
	return &Matrix{Type: t, Rows: rows, Cols: cols, Data: data[:rows*rowBytes], RowBytes: rowBytes}
}

// Row is the bytes of row r.
func (m *Matrix) Row(r int) []byte { return m.Data[r*m.RowBytes:][:m.RowBytes] }

// Route sends a token's product elsewhere: token In of the activations to row
// Out of the result.
type Route struct{ In, Out int32 }

// Mul multiplies rows [r0, r1) by the routed tokens of a, which must be rounded
// as quant.RoundingOf(m.Type) says: out[Out*stride + r] = row r · token In.
// It may run for disjoint rows at the same time.
func (m *Matrix) Mul(out []float32, stride int, a *quant.Acts, r0, r1 int, routes []Route) {
	switch m.Type {
	case gguf.F32, gguf.F16, gguf.BF16:
		m.mulFloat(out, stride, a, r0, r1, routes)
	case gguf.Q8_0:
		m.mulQ8_0(out, stride, a, r0, r1, routes)
	default:
		m.mul256(out, stride, a, r0, r1, routes)
	}
}

// halves are the values of all half floats.
var halves = sync.OnceValue(func() *[1 << 16]float32 {
	t := new([1 << 16]float32)
	for i := range t {
		t[i] = quant.FromHalf(uint16(i))
	}
	return t
})

var rowPool = sync.Pool{New: func() any { return new([]float32) }}

func (m *Matrix) mulFloat(out []float32, stride int, a *quant.Acts, r0, r1 int, routes []Route) {
	p := rowPool.Get().(*[]float32)
	defer rowPool.Put(p)
	if len(*p) < m.Cols {
		*p = make([]float32, m.Cols)
	}
	w, table := (*p)[:m.Cols], halves()
	for r := r0; r < r1; r++ {
		row := m.Row(r)
		switch m.Type {
		case gguf.F16:
			for i := range w {
				w[i] = table[binary.LittleEndian.Uint16(row[2*i:])]
			}
		case gguf.BF16:
			for i := range w {
				w[i] = quant.FromBF16(binary.LittleEndian.Uint16(row[2*i:]))
			}
		default:
			for i := range w {
				w[i] = math.Float32frombits(binary.LittleEndian.Uint32(row[4*i:]))
			}
		}
		for _, t := range routes {
			out[int(t.Out)*stride+r] = Dot(w, a.X[int(t.In)*a.K:][:a.K])
		}
	}
}

func (m *Matrix) mulQ8_0(out []float32, stride int, a *quant.Acts, r0, r1 int, routes []Route) {
	table, blocks := halves(), a.K/32
	var w [32]int8
	for r := r0; r < r1; r++ {
		row := m.Row(r)
		for _, t := range routes {
			out[int(t.Out)*stride+r] = 0
		}
		for b := range blocks {
			block := row[34*b:][:34]
			d := table[binary.LittleEndian.Uint16(block)]
			for i := range w {
				w[i] = int8(block[2+i])
			}
			for _, t := range routes {
				isum := dot32(&w, (*[32]int8)(a.Q[int(t.In)*a.K+32*b:]))
				out[int(t.Out)*stride+r] += float32(float32(isum) * float32(d*a.D[int(t.In)*blocks+b]))
			}
		}
	}
}

// mul256 is for the formats with super-blocks of 256.
func (m *Matrix) mul256(out []float32, stride int, a *quant.Acts, r0, r1 int, routes []Route) {
	blocks := a.K / 256
	size := m.RowBytes / blocks
	var b block
	for r := r0; r < r1; r++ {
		row := m.Row(r)
		for _, t := range routes {
			out[int(t.Out)*stride+r] = 0
		}
		for i := range blocks {
			b.unpack(m.Type, row[i*size:][:size])
			for _, t := range routes {
				in := int(t.In)
				q := (*[256]int8)(a.Q[in*a.K+256*i:])
				dx := a.D[in*blocks+i]
				s := float32(float32(b.dot(q)) * float32(b.d*dx))
				if b.hasMin {
					imin, sums := int32(0), (*[8]int32)(a.Sums[(in*blocks+i)*8:])
					for j, m := range b.min {
						imin += m * sums[j]
					}
					s -= float32(float32(imin) * float32(b.dmin*dx))
				}
				out[int(t.Out)*stride+r] += s
			}
		}
	}
}

// dot32 is the exact dot product of 32 weights.
func dot32(w, q *[32]int8) int32 {
	var s0, s1, s2, s3 int32
	for i := 0; i < 32; i += 4 {
		s0 += int32(w[i]) * int32(q[i])
		s1 += int32(w[i+1]) * int32(q[i+1])
		s2 += int32(w[i+2]) * int32(q[i+2])
		s3 += int32(w[i+3]) * int32(q[i+3])
	}
	return s0 + s1 + s2 + s3
}
