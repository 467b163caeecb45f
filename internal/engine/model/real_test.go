package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"assay/internal/engine/kernel"
	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

// Real weights, those of Seedling's files, multiply with the bits of quant.Dot, at
// every level: some rows of every matrix.
func TestRealWeightsHaveTheBitsOfDot(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	for _, format := range formats {
		f, err := gguf.Open(format.path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, tensor := range f.Tensors() {
			if len(tensor.Dims) < 2 || testing.Short() && r.IntN(8) > 0 {
				continue
			}
			cols, size, rows := int(tensor.Dims[0]), tensor.RowBytes(), min(16, int(tensor.Rows()))
			first := r.IntN(int(tensor.Rows()) - rows + 1)
			data := tensor.Data()[first*size:][:rows*size]
			x := make([]float32, cols)
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			q := quant.NewActs(quant.RoundingOf(tensor.Type), 1, cols)
			q.Set(0, x)
			for _, level := range kernel.Levels() {
				before := kernel.Use(level)
				m := kernel.NewMatrix(tensor.Type, rows, cols, data)
				if kernel.Packs(tensor.Type) {
					m = kernel.NewPanels(tensor.Type, rows, cols, make([]byte, kernel.PanelBytes(tensor.Type, rows, cols)))
					m.Pack(data, 0)
				}
				a, got := kernel.NewActs(q.Rounding, 1, cols), make([]float32, rows)
				a.Set(0, x)
				m.Mul(got, rows, a, 0, rows, []kernel.Route{{}})
				kernel.Use(before)
				for i, g := range got {
					if w := quant.Dot(tensor.Type, data[i*size:][:size], q, 0); math.Float32bits(g) != math.Float32bits(w) {
						t.Fatalf("%s, %s, %s: row %d is %g, want %g", format.name, tensor.Name, level, first+i, g, w)
					}
				}
			}
		}
	}
}
