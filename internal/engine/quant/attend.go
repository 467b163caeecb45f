package quant

import "math"

// PagePositions is how many positions attention takes at a time.
const PagePositions = 256

// Look is how a query looks at keys.
type Look struct {
	Scale float32  // that the query is multiplied by
	First int      // the first position that it sees
	Seen  []bool   // the positions that it sees; nil: all from First on
	Sink  *float32 // a further score, whose share of the weights goes nowhere; nil: none
}

// Attend is attention with a scale of 1/sqrt(dim), over all positions.
func Attend(out, q []float32, keys, values [][]float32) {
	Look{Scale: AttentionScale(len(q))}.Attend(out, q, keys, values)
}

// Attend is the definition of attention: one query over keys, [n][len(q)], and
// values, [n][len(out)], as they were kept (rounded to F16 or Q8_0 and back). The
// query is multiplied by the scale first. Positions are taken in pages of 256,
// counted from the start of the text; pages that end before the first position
// that is seen are left out, and so are the positions before it in its page; so are
// all pages and positions that aren't seen.
// Within a page: scores, each summed in the order of dimensions; their maximum;
// weights, the exponentials of what they lie below it; the weights' sum (16
// partial sums, position modulo 16, folded in halves); and the weighted values,
// summed in the order of positions. Both kinds of products are added by FMA, with
// one rounding, which every level can do to the same bit. Pages merge in order,
// each scaled by the exponential of its maximum less the common one; a sink comes
// last, as a page of one position whose value is zero. So the bits don't depend on
// how a prompt was cut into batches.
func (l Look) Attend(out, q []float32, keys, values [][]float32) {
	var sum, top float32
	merge := func(pageSum, pageTop float32, mixed []float32) {
		highest := max(top, pageTop)
		before, here := Exp(top-highest), Exp(pageTop-highest)
		sum = float32(sum*before) + float32(pageSum*here)
		top = highest
		for d, v := range mixed {
			out[d] = float32(out[d]*before) + float32(v*here)
		}
	}
	started := false
	for page := 0; page < len(keys); page += PagePositions {
		n := min(PagePositions, len(keys)-page)
		seen := func(i int) bool { return page+i >= l.First && (l.Seen == nil || l.Seen[page+i]) }
		w, pageTop := make([]float32, n), float32(math.Inf(-1))
		for i := range n {
			if !seen(i) {
				continue
			}
			for d, k := range keys[page+i] {
				w[i] = FMA(float32(q[d]*l.Scale), k, w[i])
			}
			pageTop = max(pageTop, w[i])
		}
		if math.IsInf(float64(pageTop), -1) {
			continue
		}
		var part [16]float32
		mixed := make([]float32, len(out))
		for i := range n {
			if !seen(i) {
				continue
			}
			w[i] = Exp(w[i] - pageTop)
			part[i%16] += w[i]
			for d, v := range values[page+i] {
				mixed[d] = FMA(w[i], v, mixed[d])
			}
		}
		for half := 8; half > 0; half /= 2 {
			for i := range half {
				part[i] += part[half+i]
			}
		}
		if !started {
			copy(out, mixed)
			sum, top, started = part[0], pageTop, true
			continue
		}
		merge(part[0], pageTop, mixed)
	}
	if l.Sink != nil {
		merge(1, *l.Sink, make([]float32, len(out)))
	}
	for d := range out {
		out[d] /= sum
	}
}

// AttentionScale is what queries of dim dimensions are multiplied by.
func AttentionScale(dim int) float32 { return float32(1 / math.Sqrt(float64(dim))) }
