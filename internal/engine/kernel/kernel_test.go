package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

var formats = []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K, gguf.IQ3_S}

// randomRow is a row of random blocks whose scales are finite.
func randomRow(r *rand.Rand, t gguf.Type, cols int) []byte {
	elements, size := t.Block()
	row := make([]byte, cols/elements*size)
	for i := range row {
		row[i] = byte(r.Uint32())
	}
	half := func(b []byte) { binary.LittleEndian.PutUint16(b, quant.ToHalf(float32(r.NormFloat64()*0.05))) }
	for b := 0; b < len(row); b += size {
		block := row[b:][:size]
		switch t {
		case gguf.F32:
			binary.LittleEndian.PutUint32(block, math.Float32bits(float32(r.NormFloat64())))
		case gguf.BF16:
			binary.LittleEndian.PutUint16(block, quant.ToBF16(float32(r.NormFloat64())))
		case gguf.F16, gguf.Q8_0, gguf.IQ3_S:
			half(block)
		case gguf.Q4_K, gguf.Q5_K:
			half(block)
			half(block[2:])
		case gguf.Q6_K:
			half(block[208:])
		}
	}
	return row
}

// Mul gives the bits of quant.Dot for every format, for any number of tokens,
// any cut of the rows and any routing.
func TestMulHasTheBitsOfDot(t *testing.T) {
	for _, typ := range formats {
		t.Run(typ.String(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(typ)))
			for _, cols := range []int{256, 512, 1280} {
				rows := 1 + r.IntN(9)
				var data []byte
				for range rows {
					data = append(data, randomRow(r, typ, cols)...)
				}
				m := NewMatrix(typ, rows, cols, data)
				n := 1 + r.IntN(7)
				a := quant.NewActs(quant.RoundingOf(typ), n, cols)
				for i := range n {
					a.Set(i, randomActs(r, cols, i))
				}
				var routes []Route
				for i := range n { // in reverse, and the first token twice
					routes = append(routes, Route{int32(n - 1 - i), int32(i)})
				}
				routes = append(routes, Route{0, int32(n)})
				out := make([]float32, (n+1)*rows)
				cut := r.IntN(rows + 1)
				m.Mul(out, rows, a, 0, cut, routes)
				m.Mul(out, rows, a, cut, rows, routes)
				for _, route := range routes {
					for row := range rows {
						got := out[int(route.Out)*rows+row]
						want := quant.Dot(typ, m.Row(row), a, int(route.In))
						if math.Float32bits(got) != math.Float32bits(want) {
							t.Fatalf("%d columns, row %d, token %d: got %g, want %g", cols, row, route.In, got, want)
						}
					}
				}
			}
		})
	}
}

// randomActs are normal values with edges: a token of zeros, one of extremes.
func randomActs(r *rand.Rand, n, kind int) []float32 {
	x := make([]float32, n)
	for i := range x {
		switch kind {
		case 1: // zeros
		case 2:
			x[i] = float32(1-2*(i%2)) * 1e4
		case 3:
			x[i] = float32(r.NormFloat64()) * 1e-20
		default:
			x[i] = float32(r.NormFloat64())
		}
	}
	return x
}

func TestDotHasTheBitsOfDotF32(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	for _, n := range []int{0, 1, 63, 64, 65, 128, 192, 200, 2560} {
		x, y := randomActs(r, n, 0), randomActs(r, n, 0)
		if got, want := Dot(x, y), quant.DotF32(x, y); math.Float32bits(got) != math.Float32bits(want) {
			t.Errorf("n = %d: got %g, want %g", n, got, want)
		}
	}
}

func TestExp(t *testing.T) {
	for x := float32(-86.9); x < 88; x += 0.0137 {
		want := math.Exp(float64(x))
		if e := math.Abs(float64(Exp(x))-want) / want; e > 3e-7 {
			t.Fatalf("Exp(%g) = %g, want %g (relative error %.1e)", x, Exp(x), want, e)
		}
	}
	if Exp(0) != 1 || Exp(-88) != 0 || Exp(float32(math.Inf(-1))) != 0 {
		t.Errorf("Exp(0) = %g, Exp(-88) = %g", Exp(0), Exp(-88))
	}
}

func BenchmarkMul(b *testing.B) {
	for _, typ := range formats {
		for _, n := range []int{1, 32} {
			b.Run(typ.String()+"/"+map[int]string{1: "1", 32: "32"}[n], func(b *testing.B) {
				r := rand.New(rand.NewPCG(4, 5))
				var data []byte
				for range 256 {
					data = append(data, randomRow(r, typ, 256)...)
				}
				m := NewMatrix(typ, 256, 256, data)
				a := quant.NewActs(quant.RoundingOf(typ), n, 256)
				var routes []Route
				for i := range n {
					a.Set(i, randomActs(r, 256, 0))
					routes = append(routes, Route{int32(i), int32(i)})
				}
				out := make([]float32, n*256)
				for b.Loop() {
					m.Mul(out, 256, a, 0, 256, routes)
				}
				b.ReportMetric(float64(256*256*n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
			})
		}
	}
}
