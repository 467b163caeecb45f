package ref

import "math"

// matrix is [rows, cols], row by row.
type matrix struct {
	rows, cols int
	w          []float32
}

func (w *matrix) row(r int) []float32 { return w.w[r*w.cols:][:w.cols] }

// mul is the matrix [rows, cols] times x [cols].
func (w *matrix) mul(x []float64) []float64 {
	out := make([]float64, w.rows)
	for r := range out {
		out[r] = dotW(w.row(r), x)
	}
	return out
}

// linear is a matrix and what is added to its product; nil: nothing.
type linear struct {
	matrix
	bias []float32 // [rows]
}

func (l *linear) mul(x []float64) []float64 {
	out := l.matrix.mul(x)
	for i, b := range l.bias {
		out[i] += float64(b)
	}
	return out
}

// dotW is a row of weights times a vector.
func dotW(w []float32, x []float64) float64 {
	sum := 0.0
	for i, v := range w {
		sum += float64(v) * x[i]
	}
	return sum
}

func dot(x, y []float64) float64 {
	sum := 0.0
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}

// addScaled adds a * y to x.
func addScaled(x []float64, a float64, y []float64) {
	for i, v := range y {
		x[i] += a * v
	}
}

func wide(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// rms is x / sqrt(mean(x^2) + eps) * gamma.
func rms(x []float64, gamma []float32, eps float64) []float64 {
	scale := 1 / math.Sqrt(dot(x, x)/float64(len(x))+eps)
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v * scale * float64(gamma[i])
	}
	return out
}

// rmsHeads is rms of each stretch of len(gamma) by itself.
func rmsHeads(x []float64, gamma []float32, eps float64) []float64 {
	out := make([]float64, 0, len(x))
	for ; len(x) > 0; x = x[len(gamma):] {
		out = append(out, rms(x[:len(gamma)], gamma, eps)...)
	}
	return out
}

// softmax works in place. What is -Inf becomes 0.
func softmax(x []float64) {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = math.Max(top, v)
	}
	for i, v := range x {
		x[i] = math.Exp(v - top)
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func silu(x float64) float64 { return x * sigmoid(x) }

// gelu is the one with tanh.
func gelu(x float64) float64 {
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

// softplus is log(1 + e^x).
func softplus(x float64) float64 {
	if x > 20 {
		return x
	}
	return math.Log1p(math.Exp(x))
}
