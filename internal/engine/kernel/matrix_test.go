package kernel

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

// atEachLevel runs f once a level that this processor has.
func atEachLevel(t *testing.T, f func(t *testing.T)) {
	for _, l := range Levels() {
		t.Run(l.String(), func(t *testing.T) {
			defer Use(Use(l))
			f(t)
		})
	}
}

// both are rows as a matrix in the file's layout and, where there are kernels,
// as panels.
func both(t gguf.Type, rows, cols int, data []byte) map[string]*Matrix {
	m := map[string]*Matrix{"file's layout": NewMatrix(t, rows, cols, data)}
	if Packs(t) {
		p := NewPanels(t, rows, cols, aligned(PanelBytes(t, rows, cols)))
		p.Pack(data, 0)
		m["panels"] = p
	}
	return m
}

// acts are the same tokens, rounded by the kernels and by quant.
func acts(r *rand.Rand, t gguf.Type, n, cols int) (*Acts, *quant.Acts) {
	a, q := NewActs(quant.RoundingOf(t), n, cols), quant.NewActs(quant.RoundingOf(t), n, cols)
	for i := range n {
		x := randomActs(r, cols, i)
		a.Set(i, x)
		q.Set(i, x)
	}
	return a, q
}

// Mul gives the bits of quant.Dot: for every format and level, odd numbers of
// rows and blocks, 1 to 40 tokens, any cut of the rows, any routing.
func TestMulHasTheBitsOfDot(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for _, typ := range slices.Concat(floatFormats, quantFormats, decodedFormats) {
			widths := []int{256, 512, 1280}
			if elements, _ := typ.Block(); elements == 32 {
				widths = []int{32, 96, 512}
			} else if elements == 1 {
				widths = []int{64, 100, 512}
			}
			for _, cols := range widths {
				r := rand.New(rand.NewPCG(uint64(cols), uint64(typ)))
				rows, most := []int{1, 15, 16, 33, 50}[r.IntN(5)], 40
				if testing.Short() {
					most = 8
				}
				data := randomRows(r, typ, rows, cols)
				a, q := acts(r, typ, most, cols)
				want := make([]float32, most*rows)
				size := len(data) / rows
				for i := range most {
					for row := range rows {
						want[i*rows+row] = quant.Dot(typ, data[row*size:][:size], q, i)
					}
				}
				for name, m := range both(typ, rows, cols, data) {
					for n := 1; n <= most; n += 1 + n/14 {
						routes := make([]Route, n) // distinct results, any tokens
						for i, out := range r.Perm(n) {
							routes[i] = Route{int32(r.IntN(most)), int32(out)}
						}
						got := make([]float32, n*rows)
						cut := r.IntN(rows/PanelRows+1) * PanelRows
						m.Mul(got, rows, a, 0, cut, routes)
						m.Mul(got, rows, a, cut, rows, routes)
						for _, route := range routes {
							for row := range rows {
								g, w := got[int(route.Out)*rows+row], want[int(route.In)*rows+row]
								if otherBits(g, w) {
									t.Fatalf("%s, %s, %d columns, %d tokens: row %d of %d, token %d: got %g, want %g",
										typ, name, cols, n, row, rows, route.In, g, w)
								}
							}
						}
					}
				}
			}
		}
	})
}

// The largest sums that a block can hold do not overflow.
func TestMulExtremes(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for _, typ := range quantFormats {
			const rows, cols, tokens = 16, 512, 18 // enough for tiles
			elements, size := typ.Block()
			for _, fill := range []byte{0x00, 0x7f, 0x80, 0xff} {
				data := bytes.Repeat([]byte{fill}, rows*cols/elements*size)
				for b := 0; b < len(data); b += size {
					for _, at := range halfScales[typ] {
						copy(data[b+at:], []byte{0, 0x3c}) // 1
					}
					if typ == gguf.MXFP4 {
						data[b] = 128
					}
				}
				a, q := NewActs(quant.RoundingOf(typ), tokens, cols), quant.NewActs(quant.RoundingOf(typ), tokens, cols)
				routes := make([]Route, tokens)
				for i := range routes {
					x := make([]float32, cols)
					for k := range x {
						x[k] = []float32{1, -1, 1}[i%3]
					}
					if i%3 == 2 {
						x[0] = -1
					}
					a.Set(i, x)
					q.Set(i, x)
					routes[i] = Route{int32(i), int32(i)}
				}
				for name, m := range both(typ, rows, cols, data) {
					got := make([]float32, tokens*rows)
					m.Mul(got, rows, a, 0, rows, routes)
					for i, g := range got {
						if w := quant.Dot(typ, data[:len(data)/rows], q, i/rows); math.Float32bits(g) != math.Float32bits(w) {
							t.Fatalf("%s, %s, fill %#x, token %d: got %g, want %g", typ, name, fill, i/rows, g, w)
						}
					}
				}
			}
		}
	})
}

// So many tokens, of so many values, that no kernel takes them all at once.
func TestMulOfManyTokens(t *testing.T) {
	const rows, cols, tokens = 33, 7168, 85
	for _, typ := range quantFormats {
		r := rand.New(rand.NewPCG(2, uint64(typ)))
		data := randomRows(r, typ, rows, cols)
		routes := make([]Route, tokens)
		for i, out := range r.Perm(tokens) {
			routes[i] = Route{int32(r.IntN(tokens)), int32(out)}
		}
		var want []float32
		atEachLevel(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, uint64(typ)))
			a := NewActs(quant.RoundingOf(typ), tokens, cols)
			for i := range tokens {
				a.Set(i, randomActs(r, cols, i))
			}
			for name, m := range both(typ, rows, cols, data) {
				got := make([]float32, tokens*rows)
				m.Mul(got, rows, a, 0, rows, routes)
				if want == nil {
					want = got
				}
				for i, w := range want {
					if otherBits(got[i], w) {
						t.Fatalf("%s, %s: row %d of token %d is %g, at the first level %g", typ, name, i%rows, i/rows, got[i], w)
					}
				}
			}
		})
	}
}

// Signals, which is how goroutines are interrupted, and other threads leave all
// registers as they are.
func TestMulAmongSignals(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		const typ, rows, cols, tokens = gguf.IQ3_S, 256, 1024, 64
		r := rand.New(rand.NewPCG(5, 6))
		m := both(typ, rows, cols, randomRows(r, typ, rows, cols))
		a, _ := acts(r, typ, tokens, cols)
		routes := make([]Route, tokens)
		for i := range routes {
			routes[i] = Route{int32(i), int32(i)}
		}
		want := make([]float32, tokens*rows)
		m["file's layout"].Mul(want, rows, a, 0, rows, routes)
		end := time.Now().Add(200 * time.Millisecond)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				got := make([]float32, tokens*rows)
				for time.Now().Before(end) {
					for _, m := range m {
						clear(got)
						m.Mul(got, rows, a, 0, rows, routes)
						if !slices.Equal(got, want) {
							t.Error("another result")
							return
						}
					}
				}
			})
		}
		for time.Now().Before(end) {
			runtime.GC()
		}
		all.Wait()
	})
}

// Set gives quant's values, sums and scales, at every level.
func TestActsHaveTheBitsOfQuant(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		const cols = 1024
		for _, rounding := range []quant.Rounding{quant.RoundF32, quant.RoundF16, quant.RoundBF16, quant.RoundQ8_0, quant.RoundQ8_K} {
			a, q := NewActs(rounding, 1, cols), quant.NewActs(rounding, 1, cols)
			for kind := range 300 {
				x := randomActs(r, cols, kind)
				if kind >= 9 {
					scale := float32(math.Exp(12 * r.NormFloat64()))
					for i := range x {
						x[i] *= scale
					}
				}
				a.Set(0, x)
				q.Set(0, x)
				if msg := differ(a, q); msg != "" {
					t.Fatalf("rounding %d, kind %d: %s", rounding, kind%9, msg)
				}
			}
		}
	})
}

// differ says where the activations of token 0 differ.
func differ(a *Acts, q *quant.Acts) string {
	switch a.Rounding {
	case quant.RoundQ8_0:
		for b := range a.K / 32 {
			got, d := a.block32(0, b)
			for i, v := range got {
				if w := q.Q[32*b+i]; v != w {
					return fmt.Sprintf("value %d is %d, want %d", 32*b+i, v, w)
				}
			}
			if d != q.D[b] {
				return fmt.Sprintf("scale %d is %g, want %g", b, d, q.D[b])
			}
		}
	case quant.RoundQ8_K:
		for g := range a.K / 64 {
			got, sums, d := a.group64(0, g)
			var s [4]int16
			for i, v := range got {
				s[i/16] += int16(v)
				if w := q.Q[64*g+i]; v != w {
					return fmt.Sprintf("value %d is %d, want %d", 64*g+i, v, w)
				}
			}
			if want := [6]int16{s[0] + s[1], s[2] + s[3], s[0], s[2], s[1], s[3]}; *sums != want {
				return fmt.Sprintf("sums of group %d are %d, want %d", g, *sums, want)
			}
			if d != q.D[g/4] {
				return fmt.Sprintf("scale of group %d is %g, want %g", g, d, q.D[g/4])
			}
		}
	default:
		for i, v := range floats(a.token(0)) {
			if math.Float32bits(v) != math.Float32bits(q.X[i]) {
				return fmt.Sprintf("value %d is %g, want %g", i, v, q.X[i])
			}
		}
	}
	return ""
}
