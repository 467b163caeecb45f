package quant

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/gguf"
)

// vectors is a file of testdata: blocks and what ggml decodes them to.
// /shared/models/arch/README.md describes how they were made.
type vectors struct {
	Type         string
	BlockBytes   int         `json:"block_bytes"`
	Rows         []vectorRow `json:"rows"`
	RandomBlocks vectorRow   `json:"random_blocks"`
}

type vectorRow struct{ Name, Original, Blocks, Decoded string }

func floats(t *testing.T, s string) []float32 {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

var formats = map[string]gguf.Type{
	"F16": gguf.F16, "BF16": gguf.BF16, "Q8_0": gguf.Q8_0, "Q4_K": gguf.Q4_K,
	"Q5_K": gguf.Q5_K, "Q6_K": gguf.Q6_K, "IQ3_S": gguf.IQ3_S, "Q4_0": gguf.Q4_0, "IQ4_NL": gguf.IQ4_NL,
	"MXFP4": gguf.MXFP4, "Q2_K": gguf.Q2_K, "Q3_K": gguf.Q3_K, "IQ3_XXS": gguf.IQ3_XXS, "IQ4_XS": gguf.IQ4_XS,
}

// Decode gives exactly ggml's values.
func TestDecodeGGMLVectors(t *testing.T) {
	for name, typ := range formats {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join("testdata", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var v vectors
			if err := json.Unmarshal(raw, &v); err != nil {
				t.Fatal(err)
			}
			for _, row := range append(v.Rows, v.RandomBlocks) {
				src, err := hex.DecodeString(row.Blocks)
				if err != nil {
					t.Fatal(err)
				}
				want := floats(t, row.Decoded)
				got := make([]float32, len(want))
				Decode(typ, got, src)
				for i := range want {
					if got[i] != want[i] {
						t.Fatalf("row %q value %d: got %g, want %g", row.Name, i, got[i], want[i])
					}
				}
			}
		})
	}
}

// Half floats go there and back: all 65536 of them.
func TestHalfRoundTrip(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		f := FromHalf(h)
		back := ToHalf(f)
		if f != f { // a NaN stays one
			if g := FromHalf(back); g == g {
				t.Fatalf("%#04x: NaN became %g", h, g)
			}
			continue
		}
		if back != h {
			t.Fatalf("%#04x = %g came back as %#04x", h, f, back)
		}
		if b := ToBF16(FromBF16(h)); FromBF16(h) == FromBF16(h) && b != h {
			t.Fatalf("bfloat16 %#04x came back as %#04x", h, b)
		}
	}
}

// Rounding to half is to the nearest, ties to even.
func TestToHalfRounds(t *testing.T) {
	for _, c := range []struct {
		f    float32
		want uint16
	}{
		{1, 0x3c00},
		{1 + 1.0/2048, 0x3c00},
		{1 + 3.0/2048, 0x3c02},
		{1 + 1.1/2048, 0x3c01},
		{65504, 0x7bff},
		{65519.9, 0x7bff},
		{65520, 0x7c00},
		{-1e30, 0xfc00},
		{5.9604645e-8, 1},
		{2.9802322e-8, 0},
		{2.9802326e-8, 1},
		{0, 0},
		{float32(math.Copysign(0, -1)), 0x8000},
	} {
		if got := ToHalf(c.f); got != c.want {
			t.Errorf("ToHalf(%g) = %#04x, want %#04x", c.f, got, c.want)
		}
	}
}

// Activations round as ggml's quantize_row_q8_0 and quantize_row_q8_K do,
// worked out by hand.
func TestActsRound(t *testing.T) {
	x := make([]float32, 256)
	x[0], x[1], x[2] = 12.7, -6.35, 0.05
	a := NewActs(RoundQ8_0, 1, 256)
	a.Set(0, x)
	if a.Q[0] != 127 || a.Q[1] != -64 || a.Q[2] != 0 { // -63.5 ties to the even -64, 0.5 to 0
		t.Errorf("Q8_0: got %d, want [127 -64 0]", a.Q[:3])
	}
	if want := FromHalf(ToHalf(12.7 / 127)); a.D[0] != want {
		t.Errorf("Q8_0 scale %g, want %g", a.D[0], want)
	}
	b := NewActs(RoundQ8_K, 1, 256)
	b.Set(0, x)
	if b.Q[0] != -127 || b.Sums[0] != int32(b.Q[0])+int32(b.Q[1])+int32(b.Q[2]) {
		t.Errorf("Q8_K: got %d sum %d", b.Q[:3], b.Sums[0])
	}
	if math.Abs(float64(b.D[0]*-127-12.7)) > 1e-5 {
		t.Errorf("Q8_K: scale %g does not give the largest value back", b.D[0])
	}
	for i := range x { // values too small for a reciprocal count as zeros
		x[i] = 1e-38
	}
	b.Set(0, x)
	if b.D[0] != 0 || b.Q[0] != 0 || b.Sums[0] != 0 {
		t.Errorf("Q8_K of 1e-38: d=%g q=%d", b.D[0], b.Q[0])
	}
}

// Dot is close to the product of the decoded values: the definition of each
// format holds together.
func TestDotIsTheDecodedProduct(t *testing.T) {
	for name, typ := range formats {
		raw, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var v vectors
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		row := v.Rows[0]
		src, _ := hex.DecodeString(row.Blocks)
		w := floats(t, row.Decoded)
		a := NewActs(RoundingOf(typ), 1, len(w))
		x := make([]float32, len(w))
		for i := range x {
			x[i] = float32(math.Sin(float64(i)))
		}
		a.Set(0, x)
		var want, size float64
		for i := range w {
			want += float64(w[i]) * float64(x[i])
			size += math.Abs(float64(w[i]) * float64(x[i]))
		}
		if got := float64(Dot(typ, src, a, 0)); math.Abs(got-want) > 0.01*size {
			t.Errorf("%s: Dot = %g, decoded product %g", name, got, want)
		}
	}
}

// The activations are within 1e-6 of the true ones, relative to their size.
func TestActivationFunctions(t *testing.T) {
	for x := -30.0; x <= 30; x += 0.0137 {
		f := float32(x)
		x := float64(f)
		up := float32(x / 3)
		gate, clamped := math.Min(x, 7), math.Max(-7, math.Min(float64(up), 7))
		for _, c := range []struct {
			name      string
			got, want float64
		}{
			{"SiLU", float64(SiLU(f)), x / (1 + math.Exp(-x))},
			{"GELU", float64(GELU(f)), 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))},
			{"ClampedSwiGLU", float64(ClampedSwiGLU(f, up, 7)), gate / (1 + math.Exp(-1.702*gate)) * (clamped + 1)},
		} {
			if math.Abs(c.got-c.want) > 2e-6*math.Max(1, math.Abs(c.want)) {
				t.Errorf("%s(%g) is %g, want %g", c.name, x, c.got, c.want)
			}
		}
	}
}
