package model

import (
	"assay/internal/engine/kernel"
	"assay/internal/engine/quant"
)

// linear is a matrix and what is added to its products.
type linear struct {
	*kernel.Matrix
	bias []float32 // [rows]; nil: nothing
}

// chunks is in how many pieces workers take the rows of m.
func chunks(m *kernel.Matrix) int { return (m.Rows + m.ChunkRows() - 1) / m.ChunkRows() }

// data says whether the matrix has weights, as absent has not.
func (l linear) data() bool { return l.Bytes() > 0 }

func (l linear) chunks() int { return chunks(l.Matrix) }

// rows multiplies chunk c of m's rows by the routed tokens of a: out is
// [tokens, rows].
func rows(m *kernel.Matrix, c int, out []float32, a *acts, routes []kernel.Route) {
	n := m.ChunkRows()
	m.Mul(out, m.Rows, a.of(m), c*n, min((c+1)*n, m.Rows), routes)
}

// mul is rows, and adds the bias.
func (l linear) mul(c int, out []float32, a *acts, routes []kernel.Route) {
	rows(l.Matrix, c, out, a, routes)
	if l.bias == nil {
		return
	}
	n := l.ChunkRows()
	from, to := c*n, min((c+1)*n, l.Rows)
	for _, r := range routes {
		kernel.Add(row(out, int(r.Out), l.Rows)[from:to], l.bias[from:to])
	}
}

// row is row t of a matrix of floats with the given width.
func row(x []float32, t, width int) []float32 { return x[t*width:][:width:width] }

// roundings is a set of quant.Rounding.
type roundings uint

func roundingsOf(matrices ...*kernel.Matrix) roundings {
	var s roundings
	for _, m := range matrices {
		s |= 1 << quant.RoundingOf(m.Type)
	}
	return s
}

// acts holds the same activations in every rounding that is asked for.
type acts [quant.Roundings]*kernel.Acts

// reserve makes room for n tokens of k values, in all roundings of the set that
// are not there yet.
func (a *acts) reserve(set roundings, n, k int) {
	for r := range quant.Roundings {
		if set>>r&1 != 0 && a[r] == nil {
			a[r] = kernel.NewActs(r, n, k)
		}
	}
}

// set rounds x, the values of token t, for every rounding of the set.
func (a *acts) set(set roundings, t int, x []float32) {
	for r, to := range a {
		if set>>r&1 != 0 {
			to.Set(t, x)
		}
	}
}

// of is the activations as m wants them.
func (a *acts) of(m *kernel.Matrix) *kernel.Acts { return a[quant.RoundingOf(m.Type)] }
