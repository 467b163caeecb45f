package quant

import "math"

// PagePositions is how many positions attention takes at a time.
const PagePositions = 256

// Attend is the definition of attention: one query over keys and values, [n][dim],
// as they were kept (rounded to F16 or Q8_0 and back). The query is multiplied by
// 1/sqrt(dim) first. Positions are taken in pages of 256. Within a page: scores,
// each summed in the order of dimensions; their maximum; weights, the
// exponentials of what they lie below it; the weights' sum (16 partial sums,
// position modulo 16, folded in halves); and the weighted values, summed in the
// order of positions. Pages merge in order, each scaled by the exponential of
// its maximum less the common one. So the bits don't depend on how a prompt was
// cut into batches.
func Attend(out, q []float32, keys, values [][]float32) {
	scale := AttentionScale(len(q))
	var sum, top float32
	for first := 0; first < len(keys); first += PagePositions {
		n := min(PagePositions, len(keys)-first)
		w, pageTop := make([]float32, n), float32(math.Inf(-1))
		for i := range w {
			for d, k := range keys[first+i] {
				w[i] += float32(float32(q[d]*scale) * k)
			}
			pageTop = max(pageTop, w[i])
		}
		var part [16]float32
		mixed := make([]float32, len(q))
		for i := range w {
			w[i] = Exp(w[i] - pageTop)
			part[i%16] += w[i]
			for d, v := range values[first+i] {
				mixed[d] += float32(w[i] * v)
			}
		}
		for half := 8; half > 0; half /= 2 {
			for i := range half {
				part[i] += part[half+i]
			}
		}
		if first == 0 {
			copy(out, mixed)
			sum, top = part[0], pageTop
			continue
		}
		highest := max(top, pageTop)
		before, here := Exp(top-highest), Exp(pageTop-highest)
		sum = float32(sum*before) + float32(part[0]*here)
		top = highest
		for d, v := range mixed {
			out[d] = float32(out[d]*before) + float32(v*here)
		}
	}
	for d := range out {
		out[d] /= sum
	}
}

// AttentionScale is what queries of dim dimensions are multiplied by.
func AttentionScale(dim int) float32 { return float32(1 / math.Sqrt(float64(dim))) }
