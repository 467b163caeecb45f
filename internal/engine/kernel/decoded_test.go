package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

// otherBits says whether two floats are not the same bits; numbers that are none need not be.
func otherBits(g, w float32) bool {
	return math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w)
}

func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i, w := range want {
		if g := got[i]; otherBits(g, w) {
			t.Fatalf("%s: value %d is %g (%#x), want %g (%#x)", what, i, g, math.Float32bits(g), w, math.Float32bits(w))
		}
	}
}

// DecodeRow gives the bits of quant.Decode at every level, for any number of blocks
// at any address.
func TestDecodeRowHasTheBitsOfDecode(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for _, typ := range slices.Concat(floatFormats, quantFormats, decodedFormats) {
			elements, size := typ.Block()
			for _, blocks := range []int{1, 2, 3, 7, 40} {
				const rows = 3
				r, cols := rand.New(rand.NewPCG(uint64(blocks), uint64(typ))), blocks*elements
				data := randomRows(r, typ, rows, cols)
				src := append(make([]byte, 1+r.IntN(64)), data...)
				m := NewMatrix(typ, rows, cols, src[len(src)-len(data):])
				got, want := make([]float32, cols), make([]float32, cols)
				for row := range rows {
					quant.Decode(typ, want, data[row*blocks*size:][:blocks*size])
					m.DecodeRow(got, row)
					sameBits(t, typ.String(), got, want)
				}
			}
		}
	})
}

// Every half float as the scale and as the minimum of a block decodes as quant
// decodes it, those that no file should have too: infinities, and no numbers.
func TestDecodesEveryScale(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for _, typ := range []gguf.Type{gguf.Q4_1, gguf.Q5_1} {
			_, size := typ.Block()
			r := rand.New(rand.NewPCG(11, uint64(typ)))
			const blocks = 1 << 16 // so that d is each half float once, and m too
			data := make([]byte, blocks*size)
			for b, m := range r.Perm(blocks) {
				x := data[b*size:][:size]
				for i := range x {
					x[i] = byte(r.Uint32())
				}
				binary.LittleEndian.PutUint16(x, uint16(b))
				binary.LittleEndian.PutUint16(x[2:], uint16(m))
			}
			got, want := make([]float32, 32*blocks), make([]float32, 32*blocks)
			quant.Decode(typ, want, data)
			decode(typ, got, data)
			sameBits(t, typ.String(), got, want)
		}
	})
}

// Rows that are too many to be decoded at once give the bits of quant.Dot, with any
// number of tokens, whole rows of panels or not.
func TestMulDecodesByParts(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for _, typ := range []gguf.Type{gguf.Q4_1, gguf.Q5_1, gguf.TQ2_0} {
			for _, cols := range []int{4096, decodedBytes/4 + 256} {
				const rows, tokens = 19, 9
				r := rand.New(rand.NewPCG(12, uint64(typ)))
				data := randomRows(r, typ, rows, cols)
				m := NewMatrix(typ, rows, cols, data)
				a, q := acts(r, typ, tokens, cols)
				for _, n := range []int{1, 2, 6, 7, tokens} {
					routes, got, want := make([]Route, n), make([]float32, n*rows), make([]float32, n*rows)
					for i := range routes {
						routes[i] = Route{int32(i), int32(i)}
						for row := range rows {
							want[i*rows+row] = quant.Dot(typ, m.Row(row), q, i)
						}
					}
					m.Mul(got, rows, a, 0, 16, routes)
					m.Mul(got, rows, a, 16, rows, routes)
					sameBits(t, typ.String(), got, want)
				}
			}
		}
	})
}
