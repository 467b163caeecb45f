//go:build !amd64

package kernel

import (
	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

func hasPanelKernels(gguf.Type) bool { return false }

func (m *Matrix) mulPanels([]float32, int, *Acts, int, int, []Route) {
	panic("kernel: panels without kernels")
}

func (m *Matrix) mulFloat(out []float32, stride int, a *Acts, r0, r1 int, routes []Route) {
	m.mulFloatGeneric(out, stride, a, r0, r1, routes)
}

func (m *Matrix) mulsBlocks(int) bool { return false }

func decode(t gguf.Type, dst []float32, src []byte) { quant.Decode(t, dst, src) }
