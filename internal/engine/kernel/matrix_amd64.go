package kernel

import (
	"sync"

	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

// tileFunc multiplies one panel by the activations of some tokens, as many as
// its name says: nb blocks from w on, by the tokens at x + xs*In, to
// out + ldo*Out. mask has a bit for every row; ps is where the next panel lies,
// for those functions that take two.
type tileFunc func(w *byte, nb int, x *byte, xs int, routes *Route, out *float32, ldo int, ps int, mask uint64)

// tiles are the functions for one format, by number of tokens. Those that are
// missing are made of smaller ones.
type tiles struct {
	one [9]tileFunc
	two tileFunc // two panels by six tokens, for many tokens
}

var panelKernels = [...]map[gguf.Type]*tiles{
	None: nil,
	AVX2: {
		gguf.Q8_0:    {one: [9]tileFunc{1: q8t1AVX2, q8t2AVX2}},
		gguf.Q5_0:    {one: [9]tileFunc{1: q8t1AVX2, q8t2AVX2}},
		gguf.Q4_0:    {one: [9]tileFunc{1: q4_0t1AVX2, q4_0t2AVX2}},
		gguf.IQ4_NL:  {one: [9]tileFunc{1: iq4nlt1AVX2, iq4nlt2AVX2}},
		gguf.MXFP4:   {one: [9]tileFunc{1: mxfp4t1AVX2, mxfp4t2AVX2}},
		gguf.Q2_K:    {one: [9]tileFunc{1: q2kt1AVX2, q2kt2AVX2}},
		gguf.Q3_K:    {one: [9]tileFunc{1: q3kt1AVX2, q3kt2AVX2}},
		gguf.Q4_K:    {one: [9]tileFunc{1: q4kt1AVX2, q4kt2AVX2}},
		gguf.Q5_K:    {one: [9]tileFunc{1: q5kt1AVX2, q5kt2AVX2}},
		gguf.Q6_K:    {one: [9]tileFunc{1: q6kt1AVX2, q6kt2AVX2}},
		gguf.IQ3_XXS: {one: [9]tileFunc{1: iq3xxst1AVX2, iq3xxst2AVX2}},
		gguf.IQ3_S:   {one: [9]tileFunc{1: iq3st1AVX2, iq3st2AVX2}},
		gguf.IQ4_XS:  {one: [9]tileFunc{1: iq4xst1AVX2, iq4xst2AVX2}},
	},
	AVX512: {
		gguf.Q8_0:    {one: [9]tileFunc{1: q8r1t1, q8r1t2, q8r1t3, q8r1t4, q8r1t5, q8r1t6, nil, q8r1t8}, two: q8r2t6},
		gguf.Q5_0:    {one: [9]tileFunc{1: q8r1t1, q8r1t2, q8r1t3, q8r1t4, q8r1t5, q8r1t6, nil, q8r1t8}, two: q8r2t6},
		gguf.Q4_0:    {one: [9]tileFunc{1: q4_0t1, q4_0t2, q4_0t3, q4_0t4, q4_0t5, q4_0t6}},
		gguf.IQ4_NL:  {one: [9]tileFunc{1: iq4nlt1, iq4nlt2, iq4nlt3, iq4nlt4, iq4nlt5, iq4nlt6}},
		gguf.MXFP4:   {one: [9]tileFunc{1: mxfp4t1, mxfp4t2, mxfp4t3, mxfp4t4, mxfp4t5, mxfp4t6}},
		gguf.Q2_K:    {one: [9]tileFunc{1: q2kt1, q2kt2, q2kt3, q2kt4, q2kt5, q2kt6}},
		gguf.Q3_K:    {one: [9]tileFunc{1: q3kt1, q3kt2, q3kt3, q3kt4, q3kt5, q3kt6}},
		gguf.Q4_K:    {one: [9]tileFunc{1: q4kt1, q4kt2, q4kt3, q4kt4, q4kt5, q4kt6, nil, q4kt8}},
		gguf.Q5_K:    {one: [9]tileFunc{1: q5kt1, q5kt2, q5kt3, q5kt4, q5kt5, q5kt6}},
		gguf.Q6_K:    {one: [9]tileFunc{1: q6kt1, q6kt2, q6kt3, q6kt4, q6kt5, q6kt6}},
		gguf.IQ3_XXS: {one: [9]tileFunc{1: iq3xxst1, iq3xxst2, iq3xxst3, iq3xxst4, iq3xxst5, iq3xxst6}},
		gguf.IQ3_S:   {one: [9]tileFunc{1: iq3st1, iq3st2, iq3st3, iq3st4, iq3st5, iq3st6, nil, iq3st8}},
		gguf.IQ4_XS:  {one: [9]tileFunc{1: iq4xst1, iq4xst2, iq4xst3, iq4xst4, iq4xst5, iq4xst6}},
	},
}

func hasPanelKernels(t gguf.Type) bool { return panelKernels[level][t] != nil }

// tokenBytes is how much of the activations a sweep over panels reuses; it
// should stay in the second-level cache beside a panel.
const tokenBytes = 256 << 10

func (m *Matrix) mulPanels(out []float32, stride int, a *Acts, r0, r1 int, routes []Route) {
	k := panelKernels[level][m.Type]
	p0, p1 := r0/PanelRows, (r1+PanelRows-1)/PanelRows
	if routes = m.mulTiles(out, stride, a, p0, p1, routes); len(routes) == 0 {
		return
	}
	if !m.panels {
		m.mulRepacked(k, out, stride, a, p0, p1, routes)
		return
	}
	for step := max(24, tokenBytes/a.stride/24*24); len(routes) > 0; {
		n := min(step, len(routes))
		for p := p0; p < p1; p++ {
			d := m.data[p*m.panel:]
			if k.two != nil && n >= 12 && p+1 < p1 {
				m.mulTwo(k, d, out[p*PanelRows:], stride, a, p, routes[:n])
				p++
				continue
			}
			m.mulOne(k, d, out[p*PanelRows:], stride, a, p, routes[:n])
		}
		routes = routes[n:]
	}
}

// mulOne multiplies panel p, which lies at d.
func (m *Matrix) mulOne(k *tiles, d []byte, out []float32, stride int, a *Acts, p int, routes []Route) {
	nb, mask := m.Cols/m.layout.elements, uint64(1)<<min(PanelRows, m.Rows-p*PanelRows)-1
	for len(routes) > 0 {
		n := tileSize(len(routes), k)
		k.one[n](&d[0], nb, &a.data[0], a.stride, &routes[0], &out[0], stride, 0, mask)
		routes = routes[n:]
	}
}

// tileSize is how many of n tokens the next tile takes: the most there is, but
// even parts where a small rest would be left.
func tileSize(n int, k *tiles) int {
	if n < len(k.one) && k.one[n] != nil {
		return n
	}
	most := 8
	for k.one[most] == nil {
		most -= 2
	}
	if half := (n + 1) / 2; n < 2*most && k.one[half] != nil {
		return half
	}
	return most
}

// mulTwo multiplies panels p and p+1. With many tokens loads would be the limit,
// not multiplications; two panels share those of the activations.
func (m *Matrix) mulTwo(k *tiles, d []byte, out []float32, stride int, a *Acts, p int, routes []Route) {
	nb, mask := m.Cols/m.layout.elements, uint64(1)<<min(2*PanelRows, m.Rows-p*PanelRows)-1
	for ; len(routes) >= 6; routes = routes[6:] {
		k.two(&d[0], nb, &a.data[0], a.stride, &routes[0], &out[0], stride, m.panel, mask)
	}
	if len(routes) > 0 {
		m.mulOne(k, d, out, stride, a, p, routes)
		m.mulOne(k, d[m.panel:], out[PanelRows:], stride, a, p+1, routes)
	}
}

// scratch is the memory that a worker multiplies with.
type scratch struct {
	panel          []byte // one that is made as it is needed
	gathered, work []byte // for tiles
}

var scratchPool = sync.Pool{New: func() any { return new(scratch) }}

// room is b, or other memory, with at least n bytes.
func room(b []byte, n int) []byte {
	if len(b) < n {
		return aligned(n)
	}
	return b
}

// mulRepacked makes each panel just before it is used.
func (m *Matrix) mulRepacked(k *tiles, out []float32, stride int, a *Acts, p0, p1 int, routes []Route) {
	s := scratchPool.Get().(*scratch)
	defer scratchPool.Put(s)
	for p := p0; p < p1; p++ {
		m.mulOne(k, m.panelAt(p, s), out[p*PanelRows:], stride, a, p, routes)
	}
}

// panelAt is panel p, made now where the matrix lies as in the file.
func (m *Matrix) panelAt(p int, s *scratch) []byte {
	if m.panels {
		return m.data[p*m.panel:]
	}
	s.panel = room(s.panel, m.panel)
	d := s.panel[:m.panel]
	m.packPanel(d, m.data[p*PanelRows*m.rowBytes:min((p+1)*PanelRows, m.Rows)*m.rowBytes])
	return d
}

type dotFunc func(w *byte, n64 int, x *byte, xs int, routes *Route, out *float32, ldo int)

var dotKernels = [...]map[gguf.Type]*[7]dotFunc{
	None: nil,
	AVX2: {
		gguf.F32:  {1: f32t1AVX2},
		gguf.F16:  {1: f16t1AVX2},
		gguf.BF16: {1: bf16t1AVX2},
		gguf.Q4_1: {1: q4_1t1AVX2},
		gguf.Q5_1: {1: q5_1t1AVX2},
	},
	AVX512: {
		gguf.F32:  {1: f32t1, f32t2, f32t3, f32t4, f32t5, f32t6},
		gguf.F16:  {1: f16t1, f16t2, f16t3, f16t4, f16t5, f16t6},
		gguf.BF16: {1: bf16t1, bf16t2, bf16t3, bf16t4, bf16t5, bf16t6},
		gguf.Q4_1: {1: q4_1t1, q4_1t2, q4_1t3, q4_1t4, q4_1t5, q4_1t6},
		gguf.Q5_1: {1: q5_1t1, q5_1t2, q5_1t3, q5_1t4, q5_1t5, q5_1t6},
	},
}

// mulsBlocks says whether n tokens are best multiplied by the blocks of the file: one
// kernel takes them all, so that nothing is decoded twice.
func (m *Matrix) mulsBlocks(n int) bool {
	k := dotKernels[level][m.Type]
	return k != nil && m.Cols%64 == 0 && n < len(k) && k[n] != nil
}

// decodeFuncs decode nb blocks.
var decodeFuncs = [...]map[gguf.Type]func(dst *float32, src *byte, nb int){
	None:   nil,
	AVX2:   {gguf.Q4_1: decodeQ4_1AVX2, gguf.Q5_1: decodeQ5_1AVX2},
	AVX512: {gguf.Q4_1: decodeQ4_1AVX512, gguf.Q5_1: decodeQ5_1AVX512},
}

// decode is quant.Decode, by assembly where there is some.
func decode(t gguf.Type, dst []float32, src []byte) {
	f := decodeFuncs[level][t]
	if f == nil || len(dst) == 0 {
		quant.Decode(t, dst, src)
		return
	}
	elements, size := t.Block()
	nb := len(dst) / elements
	_ = src[nb*size-1]
	f(&dst[0], &src[0], nb)
}

func (m *Matrix) mulFloat(out []float32, stride int, a *Acts, r0, r1 int, routes []Route) {
	k := dotKernels[level][m.Type]
	if k == nil || m.Cols%64 != 0 {
		m.mulFloatGeneric(out, stride, a, r0, r1, routes)
		return
	}
	for len(routes) > 0 {
		most := 6
		if k[most] == nil {
			most = 1
		}
		n := min(most, len(routes))
		if len(routes) > most && len(routes) < 2*most {
			n = (len(routes) + 1) / 2
		}
		for r := r0; r < r1; r++ {
			k[n](&m.data[r*m.rowBytes], m.Cols/64, &a.data[0], a.stride, &routes[0], &out[r], stride)
		}
		routes = routes[n:]
	}
}
