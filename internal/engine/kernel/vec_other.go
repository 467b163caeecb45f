//go:build !amd64

package kernel

func dot(x, y []float32) float32                    { return dotGeneric(x, y) }
func scaled(out, x, gamma []float32, scale float32) { scaledGeneric(out, x, gamma, scale) }
func siluMul(gate, up []float32)                    { siluMulGeneric(gate, up) }
func geluMul(gate, up []float32)                    { geluMulGeneric(gate, up) }
func clampedSwiGLU(gate, up []float32, l float32)   { clampedSwiGLUGeneric(gate, up, l) }
func axpy(out, x []float32, w float32)              { axpyGeneric(out, x, w) }
func added(out, x []float32)                        { addedGeneric(out, x) }
func merge(out, x []float32, before, here float32)  { mergeGeneric(out, x, before, here) }
func divide(out []float32, by float32)              { divideGeneric(out, by) }
func rope(x, y, cos, sin []float32)                 { ropeGeneric(x, y, cos, sin) }
func toHalf(to []uint16, x []float32)               { toHalfGeneric(to, x) }
func fromHalf(to []float32, x []uint16)             { fromHalfGeneric(to, x) }
func softmaxPage(w []float32) (top, sum float32)    { return softmaxPageGeneric(w) }

func scores(l KVLayout, page []byte, w *[Heads * PagePositions]float32, from, n, rows int, q []float32) {
	scoresGeneric(l, page, w, from, n, rows, q)
}

func weigh(l KVLayout, page []byte, w *[Heads * PagePositions]float32, from, n, rows int, out []float32) {
	weighGeneric(l, page, w, from, n, rows, out)
}
