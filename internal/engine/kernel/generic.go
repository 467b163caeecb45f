package kernel

import (
	"encoding/binary"
	"math"
	"sync"

	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

// halves are the values of all half floats.
var halves = sync.OnceValue(func() *[1 << 16]float32 {
	t := new([1 << 16]float32)
	for i := range t {
		t[i] = quant.FromHalf(uint16(i))
	}
	return t
})

var rowPool = sync.Pool{New: func() any { return new([]float32) }}

// rowScratch is room for a row of n floats, aligned to a cache line; the pointer
// goes back to rowPool.
func rowScratch(n int) (*[]float32, []float32) {
	p := rowPool.Get().(*[]float32)
	if len(*p) < n {
		*p = floats(aligned(4 * n))
	}
	return p, (*p)[:n]
}

// decodedBytes is how much mulDecoded decodes at once: it should stay in the
// second-level cache while tokens pass by, a few of which stay in the first.
const decodedBytes = 128 << 10

// mulDecoded is for formats whose weights are decoded to float32 first: each row
// once, some rows at a time, then as an F32 matrix; for few tokens there are kernels
// that keep what they decode in registers.
func (m *Matrix) mulDecoded(out []float32, stride int, a *Acts, r0, r1 int, routes []Route) {
	if m.mulsBlocks(len(routes)) {
		m.mulFloat(out, stride, a, r0, r1, routes)
		return
	}
	step := min(r1-r0, max(1, decodedBytes/(4*m.Cols)))
	p, w := rowScratch(step * m.Cols)
	defer rowPool.Put(p)
	rows := Matrix{Type: gguf.F32, Rows: step, Cols: m.Cols, rowBytes: 4 * m.Cols, data: bytesOfFloats(w)}
	for ; r0 < r1; r0 += step {
		n := min(step, r1-r0)
		decode(m.Type, w[:n*m.Cols], m.data[r0*m.rowBytes:][:n*m.rowBytes])
		rows.mulFloat(out[r0:], stride, a, 0, n, routes)
	}
}

func (m *Matrix) mulFloatGeneric(out []float32, stride int, a *Acts, r0, r1 int, routes []Route) {
	p, w := rowScratch(m.Cols)
	defer rowPool.Put(p)
	table := halves()
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
			out[int(t.Out)*stride+r] = dotGeneric(w, floats(a.token(int(t.In))))
		}
	}
}

// mulGeneric is for quantised formats without assembly.
func (m *Matrix) mulGeneric(out []float32, stride int, a *Acts, r0, r1 int, routes []Route) {
	if elements, _ := m.Type.Block(); elements == 32 {
		m.mul32(out, stride, a, r0, r1, routes)
		return
	}
	m.mul256(out, stride, a, r0, r1, routes)
}

func (m *Matrix) mul32(out []float32, stride int, a *Acts, r0, r1 int, routes []Route) {
	table, codes := halves(), quant.Codes32(m.Type)
	_, size := m.Type.Block()
	var w [32]int8
	for r := r0; r < r1; r++ {
		row := m.Row(r)
		for _, t := range routes {
			out[int(t.Out)*stride+r] = 0
		}
		for b := range a.K / 32 {
			block := row[size*b:][:size]
			var d float32
			switch m.Type {
			case gguf.Q8_0:
				d = table[binary.LittleEndian.Uint16(block)]
				for i := range w {
					w[i] = int8(block[2+i])
				}
			case gguf.Q5_0:
				d = table[binary.LittleEndian.Uint16(block)]
				codes5(&w, block)
			default:
				if m.Type == gguf.MXFP4 {
					d = quant.HalfExponent(block[0])
				} else {
					d = table[binary.LittleEndian.Uint16(block)]
				}
				for i, q := range block[size-16:] {
					w[i], w[16+i] = codes[q&15], codes[q>>4]
				}
			}
			for _, t := range routes {
				q, dx := a.block32(int(t.In), b)
				isum := dot32(&w, q)
				out[int(t.Out)*stride+r] += float32(float32(isum) * float32(d*dx))
			}
		}
	}
}

// codes5 are the weights of a block of Q5_0.
func codes5(w *[32]int8, block []byte) {
	fifth := binary.LittleEndian.Uint32(block[2:])
	for i, q := range block[6:22] {
		w[i] = int8(q&15|byte(fifth>>i&1)<<4) - 16
		w[16+i] = int8(q>>4|byte(fifth>>(16+i)&1)<<4) - 16
	}
}

// mul256 is for the formats with super-blocks of 256.
func (m *Matrix) mul256(out []float32, stride int, a *Acts, r0, r1 int, routes []Route) {
	_, size := m.Type.Block()
	var b super
	for r := r0; r < r1; r++ {
		row := m.Row(r)
		for _, t := range routes {
			out[int(t.Out)*stride+r] = 0
		}
		for i := range a.K / 256 {
			b.unpack(m.Type, row[i*size:][:size])
			for _, t := range routes {
				isum, imin, dx := b.dot(a, int(t.In), i)
				s := float32(float32(isum) * float32(b.d*dx))
				if b.hasMin {
					s -= float32(float32(imin) * float32(b.dmin*dx))
				}
				out[int(t.Out)*stride+r] += s
			}
		}
	}
}

// dot32 is like dot16.
//
//go:norace
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
