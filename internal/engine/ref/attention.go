package ref

import "math"

// attention is causal self-attention.
type attention struct {
	heads, kvHeads, size int
	eps                  float64
	q, k, v, out         *linear   // [H*S, D], [K*S, D], [K*S, D], [D, H*S]
	qNorm, kNorm         []float32 // [S], or [H*S] and [K*S] to norm before the cut into heads; nil: none
	rope                 rope
	scale                float64
	window               int       // positions that are seen, the own one included; 0: all
	sinks                []float32 // [H]: a logit whose share is dropped; nil: none
	gated                bool      // q has, per head, S rows of query and S of gate
	allow                func(h [][]float64) [][]bool
}

func (a *attention) mix(h [][]float64) [][]float64 {
	var allowed [][]bool
	if a.allow != nil {
		allowed = a.allow(h)
	}
	var keys, values [][]float64
	out := make([][]float64, len(h))
	for t := range h {
		q, gate := a.q.mul(h[t]), []float64(nil)
		if a.gated {
			q, gate = a.cutGate(q)
		}
		k, v := a.k.mul(h[t]), a.v.mul(h[t])
		if a.qNorm != nil {
			q, k = rmsHeads(q, a.qNorm, a.eps), rmsHeads(k, a.kNorm, a.eps)
		}
		a.rope.turnHeads(q, a.size, t)
		a.rope.turnHeads(k, a.size, t)
		keys, values = append(keys, k), append(values, v)
		mixed := make([]float64, a.heads*a.size)
		for head := range a.heads {
			at := head / (a.heads / a.kvHeads) * a.size
			sees := func(s int) bool {
				return (a.window == 0 || t-s < a.window) && (allowed == nil || allowed[t][s])
			}
			var sink *float32
			if a.sinks != nil {
				sink = &a.sinks[head]
			}
			p := weights(t, a.scale, sink, sees, func(s int) float64 { return dot(q[head*a.size:][:a.size], keys[s][at:][:a.size]) })
			for s, ps := range p {
				addScaled(mixed[head*a.size:][:a.size], ps, values[s][at:][:a.size])
			}
		}
		for i, g := range gate {
			mixed[i] *= sigmoid(g)
		}
		out[t] = a.out.mul(mixed)
	}
	return out
}

// cutGate takes the rows of query and gate apart, which lie head by head.
func (a *attention) cutGate(both []float64) (q, gate []float64) {
	for ; len(both) > 0; both = both[2*a.size:] {
		q, gate = append(q, both[:a.size]...), append(gate, both[a.size:2*a.size]...)
	}
	return q, gate
}

// weights are the shares [t+1] of the positions up to t.
func weights(t int, scale float64, sink *float32, sees func(s int) bool, score func(s int) float64) []float64 {
	p := make([]float64, t+1, t+2)
	for s := range p {
		if p[s] = math.Inf(-1); sees(s) {
			p[s] = score(s) * scale
		}
	}
	if sink != nil {
		p = append(p, float64(*sink))
	}
	softmax(p)
	return p[:t+1]
}

// latent is DeepSeek's attention: keys and values are made of one short vector a
// position (MLA).
type latent struct {
	heads, nope, turned, vSize int // per head: elements of the key without and with position; of the value
	eps                        float64
	q                          *linear // [H*(nope+turned), D]; nil: qA and qB
	qA, qB                     *linear
	qANorm                     []float32
	kvA                        *linear // [L + turned, D]
	kvNorm                     []float32
	kB, vB                     []matrix // per head: [L, nope], [vSize, L]
	out                        *linear
	rope                       rope
	scale                      float64
}

func (a *latent) mix(h [][]float64) [][]float64 {
	size := a.nope + a.turned
	var keys, values [][]float64 // [T, H*size], [T, H*vSize]
	out := make([][]float64, len(h))
	for t := range h {
		var q []float64
		if a.q != nil {
			q = a.q.mul(h[t])
		} else {
			q = a.qB.mul(rms(a.qA.mul(h[t]), a.qANorm, a.eps))
		}
		kv := a.kvA.mul(h[t])
		short := rms(kv[:len(a.kvNorm)], a.kvNorm, a.eps)
		shared := kv[len(a.kvNorm):]
		a.rope.turn(shared, t)
		var key, value []float64
		for head := range a.heads {
			a.rope.turn(q[head*size+a.nope:][:a.turned], t)
			k := make([]float64, a.nope)
			for r, s := range short {
				for i, w := range a.kB[head].row(r) {
					k[i] += float64(w) * s
				}
			}
			key = append(append(key, k...), shared...)
			value = append(value, a.vB[head].mul(short)...)
		}
		keys, values = append(keys, key), append(values, value)
		mixed := make([]float64, a.heads*a.vSize)
		for head := range a.heads {
			p := weights(t, a.scale, nil, func(int) bool { return true }, func(s int) float64 {
				return dot(q[head*size:][:size], keys[s][head*size:][:size])
			})
			for s, ps := range p {
				addScaled(mixed[head*a.vSize:][:a.vSize], ps, values[s][head*a.vSize:][:a.vSize])
			}
		}
		out[t] = a.out.mul(mixed)
	}
	return out
}

// shortConv is LFM2's mixer: a gated convolution over a few positions.
type shortConv struct {
	in, out matrix // [3D, D], [D, D]
	conv    matrix // [D, K]
}

func (c *shortConv) mix(h [][]float64) [][]float64 {
	d := c.out.cols
	u, gate := make([][]float64, len(h)), make([][]float64, len(h))
	for t := range h {
		y := c.in.mul(h[t])
		gate[t], u[t] = y[d:2*d], y[:d]
		for i, v := range y[2*d:] {
			u[t][i] *= v
		}
	}
	out := make([][]float64, len(h))
	for t, w := range convolve(u, c.conv, 1) {
		for i := range w {
			w[i] *= gate[t][i]
		}
		out[t] = c.out.mul(w)
	}
	return out
}

// convolve is a causal convolution over time, each channel by itself: x [T, C],
// kernel [C, K]; zeros come before the start. step is the distance between the
// positions that are looked at.
func convolve(x [][]float64, kernel matrix, step int) [][]float64 {
	out := make([][]float64, len(x))
	for t := range x {
		out[t] = make([]float64, kernel.rows)
		for k := range kernel.cols {
			s := t - (kernel.cols-1-k)*step
			if s < 0 {
				continue
			}
			for c := range out[t] {
				out[t][c] += float64(kernel.w[c*kernel.cols+k]) * x[s][c]
			}
		}
	}
	return out
}
