package weights

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"assay/internal/engine/kernel"
	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

// small is a file with a vector, a matrix and a stack of matrices.
func small(t *testing.T, more ...func(*gguf.Builder)) *gguf.File {
	t.Helper()
	b := smallBuilder()
	for _, f := range more {
		f(b)
	}
	var out bytes.Buffer
	if _, err := b.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse("small.gguf", out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func smallBuilder() *gguf.Builder {
	b := gguf.NewBuilder()
	b.Set("general.architecture", "test")
	b.Tensor("norm", gguf.F32, []uint64{2}, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}) // 1, -2
	b.Tensor("matrix", gguf.Q8_0, []uint64{32, 3}, bytes.Repeat([]byte{7}, 3*34))
	b.Tensor("line", gguf.Q8_0, []uint64{32}, make([]byte, 34))
	b.Tensor("experts", gguf.F16, []uint64{4, 2, 3}, seq(4*2*3*2))
	return b
}

func seq(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func TestLoad(t *testing.T) {
	var last, total int64
	s, err := Load(context.Background(), small(t), Options{
		Lookup: []string{"matrix"}, Both: true, Progress: func(done, all int64) { last, total = done, all },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	want := int64(8 + 3*34 + 34 + 48)
	if kernel.Packs(gguf.Q8_0) { // the matrix is kept twice
		want += 3 * 34
	}
	if last != want || total != want {
		t.Errorf("progress ended at %d of %d, want %d", last, total, want)
	}
	v, err := s.Vector("norm", 2)
	if err != nil || v[0] != 1 || v[1] != -2 {
		t.Errorf("norm: %v, %v", v, err)
	}
	rows, err := s.Rows("matrix", 3, 32)
	if err != nil || rows.Rows != 3 || rows.Cols != 32 || len(rows.Row(2)) != 34 || rows.Row(2)[5] != 7 {
		t.Errorf("rows: %+v, %v", rows, err)
	}
	m, err := s.Matrix("matrix", 3, 32)
	if err != nil {
		t.Fatal(err)
	}
	x, product := kernel.NewActs(quant.RoundQ8_0, 1, 32), make([]float32, 3)
	x.Set(0, append([]float32{127}, make([]float32, 31)...))
	m.Mul(product, 3, x, 0, 3, []kernel.Route{{}})
	if want := quant.FromHalf(0x0707) * 7 * 127; product[0] != want || product[2] != want {
		t.Errorf("matrix: a product of %g, want %g", product, want)
	}
	e, err := s.Experts("experts", 3, 2, 4)
	if err != nil || len(e) != 3 || !bytes.Equal(e[1].Row(0), seq(48)[16:24]) {
		t.Errorf("experts: %v", err)
	}
	for name, tensor := range s.tensors {
		for _, b := range [][]byte{tensor.rows, tensor.panels} {
			if len(b) > 0 && uintptr(unsafe.Pointer(&b[0]))%align != 0 {
				t.Errorf("%s starts at %p, not at a multiple of %d", name, &b[0], align)
			}
		}
	}
	if huge, err := s.HugeBytes(); runtime.GOOS == "linux" && (err != nil || huge < 0 || huge > int64(s.Bytes())) {
		t.Errorf("huge bytes: %d, %v", huge, err)
	}
}

// What is missing, of another shape or in another format is told with the
// file's name and the tensor's.
func TestErrorsNameTheTensor(t *testing.T) {
	s, err := Load(context.Background(), small(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for want, get := range map[string]func() error{
		"small.gguf: tensor nothing is missing":                                            func() error { _, err := s.Matrix("nothing", 1, 1); return err },
		"small.gguf: tensor matrix has dimensions [32 3], but the metadata ask for [32 4]": func() error { _, err := s.Matrix("matrix", 4, 32); return err },
		"small.gguf: tensor experts has dimensions [4 2 3], but":                           func() error { _, err := s.Experts("experts", 2, 2, 4); return err },
		"small.gguf: tensor line is Q8_0, but a norm or bias must be F32":                  func() error { _, err := s.Vector("line", 32); return err },
	} {
		if err := get(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if s.Has("nothing") || !s.Has("norm") {
		t.Error("Has is wrong")
	}
}

func TestLoadRefusesUnknownFormats(t *testing.T) {
	f := small(t, func(b *gguf.Builder) {
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			b.Tensor(name, gguf.I32, []uint64{1}, make([]byte, 4))
		}
	})
	_, err := Load(context.Background(), f, Options{})
	if want := "small.gguf: 5 of 9 tensors are in formats that this engine can't run: a (I32), b (I32), c (I32), d (I32) and 1 more"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestLoadStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Load(ctx, small(t), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want cancelled", err)
	}
}

// An empty model is no model, but no crash either.
func TestLoadNothing(t *testing.T) {
	a, err := newArena(0)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := a.hugeBytes(); n != 0 || (err != nil && runtime.GOOS == "linux") {
		t.Errorf("huge bytes of nothing: %d, %v", n, err)
	}
	if err := errors.Join(a.close(), a.close()); err != nil {
		t.Error(err)
	}
}
