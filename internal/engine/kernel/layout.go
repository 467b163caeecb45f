package kernel

import "assay/internal/gguf"

// PanelRows is the number of rows in a panel.
const PanelRows = 16

// layout says how a panel keeps 16 rows of a format. Everything starts at a
// multiple of 32 bytes, lines of weights at one of 64. A line holds, for each
// row r at 4r, four bytes; with codes of 4 bits the low nibbles are of one run
// of weights and the high nibbles of the run behind it.
//
// Blocks of 32, in pairs: scales [2][16] (half floats; MXFP4's as the upper
// halves of floats), then the lines of both. With an odd number of blocks the
// last pair ends after its first.
//
//	Q8_0, Q5_0             8 lines; weight 4k.. in line k, offset by 128
//	Q4_0, IQ4_NL, MXFP4    4 lines; the codes of weights 4k.. and 16+4k.. in line k
//
// Super-blocks of 256: four groups of 64 weights, then scales. A group has
// lines of nibbles, line k = weights 4k.. and 32+4k.., k from 0 to 7, and lines
// of further bits. Those come in twos, for the low and for the high weights;
// pairs of bits in two times two (lines 0-3 of nibbles, then 4-7).
//
//	Q4_K     nibbles; scales [8], minima [4][16 rows][2], d [16], dmin [16]
//	Q5_K     nibbles, fifth bits (bit k for line k); as Q4_K
//	Q6_K     nibbles, pairs; scales [8][16 rows][2] (see bySixteen), d
//	IQ3_S    nibbles n of weights 2n-15; scales as nibbles [4][16 rows], d
//	IQ3_XXS, IQ4_XS   codes; scales [4][16 rows][2], d
//	Q2_K     pairs; scales and minima as in the file, in the order of Q6_K; d, dmin
//	Q3_K     pairs, third bits; as Q6_K
//
// Q5_0 is kept as Q8_0 is: half as much memory again as the file's, for no kernels
// of its own. It is what files have where a row is no multiple of 256.
//
// IQ3_S loses nothing: its magnitudes are the odd numbers 1 to 15, so magnitude
// and sign together are 16 values, and so are those of IQ3_XXS.
type layout struct {
	elements int // weights in a block
	head     int // bytes before the lines of a pair of blocks of 32
	group    int // bytes of lines: of a block of 32, or of 64 weights
	rest     int // bytes behind the groups of a super-block
	pack     func(l *layout, dst, row []byte, r int)
}

var layouts = map[gguf.Type]*layout{
	gguf.Q8_0:    {elements: 32, head: 64, group: 512, pack: (*layout).packQ8_0},
	gguf.Q5_0:    {elements: 32, head: 64, group: 512, pack: (*layout).packQ5_0},
	gguf.Q4_0:    {elements: 32, head: 64, group: 256, pack: (*layout).packNibbles32},
	gguf.IQ4_NL:  {elements: 32, head: 64, group: 256, pack: (*layout).packNibbles32},
	gguf.MXFP4:   {elements: 32, head: 64, group: 256, pack: (*layout).packMXFP4},
	gguf.Q2_K:    {elements: 256, group: 256, rest: 320, pack: (*layout).packQ2_K},
	gguf.Q3_K:    {elements: 256, group: 384, rest: 320, pack: (*layout).packQ3_K},
	gguf.Q4_K:    {elements: 256, group: 512, rest: 320, pack: (*layout).packQ4_K},
	gguf.Q5_K:    {elements: 256, group: 640, rest: 320, pack: (*layout).packQ5_K},
	gguf.Q6_K:    {elements: 256, group: 768, rest: 320, pack: (*layout).packQ6_K},
	gguf.IQ3_XXS: {elements: 256, group: 512, rest: 192, pack: (*layout).packIQ3_XXS},
	gguf.IQ3_S:   {elements: 256, group: 512, rest: 128, pack: (*layout).packIQ3_S},
	gguf.IQ4_XS:  {elements: 256, group: 512, rest: 192, pack: (*layout).packIQ4_XS},
}

// bytes is the size of a panel of rows of n weights.
func (l *layout) bytes(n int) int {
	if l.elements == 32 {
		nb := n / 32
		return nb/2*l.pair() + nb%2*(l.head+l.group)
	}
	return n / 256 * l.super()
}

func (l *layout) pair() int  { return l.head + 2*l.group }
func (l *layout) super() int { return 4*l.group + l.rest }

// at says where scales and lines of block b of 32 begin.
func (l *layout) at(b int) (scales, lines int) {
	start := b / 2 * l.pair()
	return start + b%2*32, start + l.head + b%2*l.group
}
