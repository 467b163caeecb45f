package kernel

import "assay/internal/gguf"

// amxFunc multiplies one panel of nb super-blocks by n tokens that were gathered in
// tiles of 16. scratch holds amxFloats bytes and 1024 for each tile.
type amxFunc func(w *byte, nb int, x *byte, tiles int, scratch *byte, routes *Route, n int, out *float32, ldo int, mask uint64)

// gatherFunc puts up to 16 tokens where an amxFunc wants them: what there is of each
// super-block every step bytes.
type gatherFunc func(dst *byte, x *byte, xs int, routes *Route, n int, nb int, step int)

// amxKernel is the functions of a format.
type amxKernel struct {
	mul    amxFunc
	gather gatherFunc
}

// amxKernels are those of super-blocks. Blocks of 32 have a float scale each, so that
// tiles could only take 32 weights at a time: that was no quicker than vectors are.
var amxKernels = map[gguf.Type]amxKernel{
	gguf.Q2_K:    {q2kAMX, gather256sums16},
	gguf.Q3_K:    {q3kAMX, gather256},
	gguf.Q4_K:    {q4kAMX, gather256sums32},
	gguf.Q5_K:    {q5kAMX, gather256sums32},
	gguf.Q6_K:    {q6kAMX, gather256},
	gguf.IQ3_XXS: {iq3xxsAMX, gather256},
	gguf.IQ3_S:   {iq3sAMX, gather256},
	gguf.IQ4_XS:  {iq4xsAMX, gather256},
}

const (
	tileTokens = 16
	// tilesFrom is from how many tokens on tiles are quicker than vectors, though
	// what is missing of 16 tokens is computed too; restFrom how many left of full
	// tiles make one more.
	tilesFrom, restFrom = 12, 6
	// gatheredSize is the bytes of a super-block of a tile, gatherSize in gen.
	gatheredSize = 4096 + 512 + 64
	// amxFloats is the bytes of scratch before the float sums of the tiles.
	amxFloats = 4*1024 + 2*4096 + 8*64 + 2*64
	// gatheredBytes is how much of the activations a sweep over panels reuses.
	gatheredBytes = 512 << 10
)

// mulTiles multiplies panels [p0, p1) by as many of the tokens as tiles are best
// for, and returns the others.
func (m *Matrix) mulTiles(out []float32, stride int, a *Acts, p0, p1 int, routes []Route) []Route {
	if active != AMX || len(routes) < tilesFrom || m.Cols%256 != 0 {
		return routes
	}
	k, ok := amxKernels[m.Type]
	if !ok {
		return routes
	}
	s := scratchPool.Get().(*scratch)
	defer scratchPool.Put(s)
	nb := m.Cols / 256
	most := max(4, gatheredBytes/(nb*gatheredSize))
	for len(routes) >= tilesFrom {
		n := min(most*tileTokens, len(routes))
		if rest := n % tileTokens; rest < restFrom {
			n -= rest
		}
		tiles := (n + tileTokens - 1) / tileTokens
		s.gathered = room(s.gathered, tiles*nb*gatheredSize)
		s.work = room(s.work, amxFloats+tiles*1024)
		for t := range tiles {
			k.gather(&s.gathered[t*gatheredSize], &a.data[0], a.stride, &routes[t*tileTokens], min(tileTokens, n-t*tileTokens), nb, tiles*gatheredSize)
		}
		for p := p0; p < p1; p++ {
			mask := uint64(1)<<min(PanelRows, m.Rows-p*PanelRows) - 1
			k.mul(&m.panelAt(p, s)[0], nb, &s.gathered[0], tiles, &s.work[0], &routes[0], n, &out[p*PanelRows], stride, mask)
		}
		routes = routes[n:]
	}
	return routes
}
