package kernel

import (
	"fmt"

	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

// Matrix is a weight matrix [Rows, Cols] of one GGUF format, as it lies in the
// file or repacked into panels.
type Matrix struct {
	Type       gguf.Type
	Rows, Cols int
	data       []byte
	rowBytes   int     // in the file
	layout     *layout // of the kernels that multiply it; nil: there are none
	panels     bool    // data is panels
	panel      int     // bytes of one
}

// NewMatrix views data, as it lies in the file, as a matrix. Cols is a multiple
// of the format's block. Where kernels want panels, Mul makes them as it goes,
// which is slow with few tokens.
func NewMatrix(t gguf.Type, rows, cols int, data []byte) *Matrix {
	elements, size := t.Block()
	m := &Matrix{Type: t, Rows: rows, Cols: cols, rowBytes: cols / elements * size}
	m.data = data[: rows*m.rowBytes : rows*m.rowBytes]
	if Packs(t) {
		m.layout = layouts[t]
		m.panel = m.layout.bytes(cols)
	}
	return m
}

// Packs says whether weights of format t are best kept in panels, at the level
// in use.
func Packs(t gguf.Type) bool { return hasPanelKernels(t) }

// PanelBytes is the memory that panels of such a matrix need: a multiple of 32,
// and of 64 where Cols has an even number of blocks.
func PanelBytes(t gguf.Type, rows, cols int) int {
	return (rows + PanelRows - 1) / PanelRows * layouts[t].bytes(cols)
}

// NewPanels is a matrix in panels, which Pack fills. dst holds PanelBytes bytes,
// whatever they are, and starts at a multiple of 64.
func NewPanels(t gguf.Type, rows, cols int, dst []byte) *Matrix {
	n := PanelBytes(t, rows, cols)
	elements, size := t.Block()
	return &Matrix{
		Type: t, Rows: rows, Cols: cols, rowBytes: cols / elements * size,
		data: dst[:n:n], layout: layouts[t], panels: true, panel: layouts[t].bytes(cols),
	}
}

// Panels is the number of panels; the last may hold fewer than 16 rows.
func (m *Matrix) Panels() int { return (m.Rows + PanelRows - 1) / PanelRows }

// RowRange is rows [from, to) of m as a matrix of their own, which shares its
// memory. nil: m is in panels, and these rows do not begin and end with one.
func (m *Matrix) RowRange(from, to int) *Matrix {
	n := *m
	n.Rows = to - from
	if !m.panels {
		n.data = m.data[from*m.rowBytes : to*m.rowBytes : to*m.rowBytes]
		return &n
	}
	if from%PanelRows != 0 || to%PanelRows != 0 && to != m.Rows {
		return nil
	}
	first, last := from/PanelRows, (to+PanelRows-1)/PanelRows
	n.data = m.data[first*m.panel : last*m.panel : last*m.panel]
	return &n
}

// Pack repacks rows that lie as in the file, src, into the panels from number
// first on. src holds whole panels, but for the matrix's last rows. Different
// panels may be packed at the same time.
func (m *Matrix) Pack(src []byte, first int) {
	for p := first; len(src) > 0; p++ {
		rows := min(PanelRows, len(src)/m.rowBytes)
		m.packPanel(m.data[p*m.panel:][:m.panel], src[:rows*m.rowBytes])
		src = src[rows*m.rowBytes:]
	}
}

// packPanel fills a panel from up to 16 rows. Those that are missing are zero.
func (m *Matrix) packPanel(dst, src []byte) {
	if len(src) == PanelRows*m.rowBytes && m.packRows(dst, src) {
		return
	}
	clear(dst)
	for r := 0; len(src) > 0; r++ {
		m.layout.pack(m.layout, dst, src[:m.rowBytes], r)
		src = src[m.rowBytes:]
	}
}

// Bytes is the memory that the matrix takes, and that multiplying it reads.
func (m *Matrix) Bytes() int { return len(m.data) }

// Head is the first n bytes of that memory, or all of it: what Mul reads first.
func (m *Matrix) Head(n int) []byte { return m.data[:min(n, len(m.data))] }

// chunkBytes is about how much of a matrix a worker takes at a time: long
// beside the 0.3 µs of handing it out, and short beside a pass.
const chunkBytes = 64 << 10

// ChunkRows is how many rows a worker should take at a time: whole panels, an
// even number where there are several, since some kernels take two.
func (m *Matrix) ChunkRows() int {
	bytes := m.rowBytes * PanelRows
	n := max(1, (chunkBytes+bytes/2)/bytes)
	if n > 1 {
		n += n % 2
	}
	return n * PanelRows
}

// Route sends a token's product elsewhere: token In of the activations to row
// Out of the result.
type Route struct{ In, Out int32 }

// Mul multiplies rows [r0, r1) by the routed tokens of a, which must be rounded
// as quant.RoundingOf(m.Type) says: out[Out*stride + r] = row r · token In.
// r0 is a multiple of 16, and so is r1 unless it is Rows. Mul may run for
// disjoint rows at the same time.
func (m *Matrix) Mul(out []float32, stride int, a *Acts, r0, r1 int, routes []Route) {
	if len(routes) == 0 || r0 >= r1 {
		return
	}
	if a.Rounding != quant.RoundingOf(m.Type) || a.K != m.Cols {
		panic(fmt.Sprintf("kernel: %s rows of %d by activations of %d in rounding %d", m.Type, m.Cols, a.K, a.Rounding))
	}
	if r0 < 0 || r1 > m.Rows || r0%PanelRows != 0 || (r1%PanelRows != 0 && r1 != m.Rows) {
		panic(fmt.Sprintf("kernel: rows %d to %d of %d", r0, r1, m.Rows))
	}
	for _, r := range routes { // assembly does not look
		if uint32(r.In) >= uint32(a.N) || r.Out < 0 {
			panic(fmt.Sprintf("kernel: token %d of %d to row %d", r.In, a.N, r.Out))
		}
		_ = out[int(r.Out)*stride+r1-1]
	}
	switch {
	case m.layout != nil:
		m.mulPanels(out, stride, a, r0, r1, routes)
	case m.Type == gguf.F32 || m.Type == gguf.F16 || m.Type == gguf.BF16:
		m.mulFloat(out, stride, a, r0, r1, routes)
	case a.Rounding == quant.RoundF32:
		m.mulDecoded(out, stride, a, r0, r1, routes)
	default:
		m.mulGeneric(out, stride, a, r0, r1, routes)
	}
}

// Row is the bytes of row r of a matrix that lies as in the file.
func (m *Matrix) Row(r int) []byte {
	if m.panels {
		panic("kernel: rows of a matrix in panels")
	}
	return m.data[r*m.rowBytes:][:m.rowBytes]
}

// DecodeRow fills dst with the values of row r, with the bits of quant.Decode.
// The matrix must lie as in the file.
func (m *Matrix) DecodeRow(dst []float32, r int) {
	row := m.Row(r)
	elements, size := m.Type.Block()
	if elements < 256 || quant.RoundingOf(m.Type) != quant.RoundQ8_K {
		decode(m.Type, dst, row)
		return
	}
	var b super
	for ; len(dst) > 0; dst, row = dst[256:], row[size:] {
		b.unpack(m.Type, row[:size])
		for k, w := range b.w {
			i := k / 32
			if b.by16 {
				i = k / 16
			}
			dst[k] = float32(float32(b.d*float32(b.scale[i])) * float32(w))
			if b.hasMin {
				dst[k] -= float32(b.dmin * float32(b.min[i]))
			}
		}
	}
}
