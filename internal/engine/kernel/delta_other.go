//go:build !amd64

package kernel

func deltaColumns(left int) int { return min(left, 4*DeltaColumns) }

func deltaStep(state, k, q, v, out, wrong []float32, with *[3]float32) {
	deltaStepGeneric(state, k, q, v, out, wrong, with)
}

func deltaRead(state, k, q, v, out, wrong []float32, with *[3]float32) {
	deltaReadGeneric(state, k, q, v, out, wrong, with)
}

func deltaWrite(state, k, wrong []float32, decay float32) {
	deltaWriteGeneric(state, k, wrong, decay)
}

func sigmoidMul(x, gate []float32)  { sigmoidMulGeneric(x, gate) }
func silu(x []float32)              { siluGeneric(x) }
func multiply(x, y []float32)       { multiplyGeneric(x, y) }
func mulAdd(out, x, w []float32)    { mulAddGeneric(out, x, w) }
func scale(x []float32, by float32) { scaleGeneric(x, by) }
