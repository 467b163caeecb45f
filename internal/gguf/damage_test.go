package gguf_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"assay/internal/gguf"
)

// sample is a small file with every kind of metadata and a few tensor types.
func sample(t testing.TB) []byte {
	return build(t, func(b *gguf.Builder) {
		b.Set("general.architecture", "test")
		b.Set("u8", uint8(8))
		b.Set("i8", int8(-8))
		b.Set("u16", uint16(16))
		b.Set("i16", int16(-16))
		b.Set("u32", uint32(32))
		b.Set("i32", int32(-32))
		b.Set("f32", float32(0.1))
		b.Set("bool", true)
		b.Set("u64", uint64(math.MaxUint64))
		b.Set("i64", int64(math.MinInt64))
		b.Set("f64", 0.1)
		b.Set("strings", []string{"a", "", "\xff\x00", "Ġthe"})
		b.Set("i32s", []int32{1, -2, 3})
		b.Set("u64s", []uint64{1, math.MaxUint64})
		b.Set("f32s", []float32{0.5, -1})
		b.Set("bools", []bool{true, false})
		b.Set("none", []string{})
		b.Tensor("norm", gguf.F32, []uint64{5}, make([]byte, 20))
		b.Tensor("weight", gguf.Q8_0, []uint64{64, 3}, make([]byte, 2*34*3))
	})
}

// use touches everything that a File gives access to, and checks what must hold
// for any file that parses.
func use(t testing.TB, f *gguf.File, size int) {
	for _, kv := range f.KVs() {
		v := kv.Value
		if got, ok := f.Lookup(kv.Key); !ok || got != v {
			t.Fatalf("key %q is not found again", kv.Key)
		}
		if v.Len() > size {
			t.Fatalf("key %q: length %d in a file of %d bytes", kv.Key, v.Len(), size)
		}
		if s := v.String(); len(s) > 2000 {
			t.Fatalf("key %q: displayed in %d bytes", kv.Key, len(s))
		}
		_, _ = f.String(kv.Key)
		_, _ = f.Uint(kv.Key)
		_, _ = f.Float(kv.Key)
		_, _ = f.Bool(kv.Key)
		_, _ = f.Bools(kv.Key)
		_, _ = f.Ints(kv.Key)
		_, _ = f.Floats(kv.Key)
		strings, err := f.Strings(kv.Key)
		if v.Kind() == gguf.KindArray {
			if len(v.Head(math.MaxInt)) != v.Len() {
				t.Fatalf("key %q: %d of %d elements", kv.Key, len(v.Head(math.MaxInt)), v.Len())
			}
			if v.Elem() == gguf.KindString && (err != nil || len(strings) != v.Len()) {
				t.Fatalf("key %q: %d of %d strings, %v", kv.Key, len(strings), v.Len(), err)
			}
		}
	}
	var sum uint64
	for _, x := range f.Tensors() {
		if got, ok := f.Tensor(x.Name); !ok || got != x {
			t.Fatalf("tensor %q is not found again", x.Name)
		}
		if uint64(len(x.Data())) != x.Bytes() || x.Bytes() != x.Rows()*uint64(x.RowBytes()) || x.Elements() != x.Rows()*x.Dims[0] {
			t.Fatalf("tensor %q: sizes disagree: %+v", x.Name, x)
		}
		if x.Type.Known() != (x.Data() != nil) {
			t.Fatalf("tensor %q: type %s with %d bytes", x.Name, x.Type, x.Bytes())
		}
		sum += x.Bytes()
	}
	if sum > uint64(size) {
		t.Fatalf("tensors of %d bytes in a file of %d", sum, size)
	}
	if bpw, ok := f.Stats().BitsPerWeight(); ok != (sum > 0) || bpw > 64 {
		t.Fatalf("%v bits per weight, %v", bpw, ok)
	}
}

// A file cut at any byte gives an error, unless only padding was lost.
func TestTruncated(t *testing.T) {
	whole := sample(t)
	f := mustParse(t, whole)
	use(t, f, len(whole))
	last := f.Tensors()[1]
	end := int(last.Offset + last.Bytes())
	if end >= len(whole) {
		t.Fatalf("the sample has no padding at its end (%d of %d)", end, len(whole))
	}
	for n := range whole {
		f, err := gguf.Parse("cut.gguf", whole[:n:n])
		switch {
		case n < end && err == nil:
			t.Fatalf("cut at byte %d of %d: no error", n, len(whole))
		case n >= end && err != nil:
			t.Fatalf("cut at byte %d, after the data's end at %d: %v", n, end, err)
		case err == nil:
			use(t, f, n)
		}
	}
}

// A file with flipped bits gives an error or a File that holds together.
func TestBitFlips(t *testing.T) {
	whole := sample(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		data := append([]byte(nil), whole...)
		for range 1 + i%4 {
			data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
		}
		if f, err := gguf.Parse("flipped.gguf", data); err == nil {
			use(t, f, len(data))
		}
	}
}

// Memory is bounded by what a file holds, not by what it says it holds. The
// worst that can be packed into a file takes a small multiple of its size.
func TestMemoryBound(t *testing.T) {
	const size = 4 << 20
	put := binary.LittleEndian
	counts := func(tensors, pairs uint64) []byte {
		data := make([]byte, size)
		copy(data, header(tensors, pairs).Bytes())
		return data
	}
	tests := []struct {
		name  string
		data  func() []byte
		valid bool
	}{
		{"tensor count", func() []byte { return counts(size/25-1, 0) }, false},
		{"pair count", func() []byte { return counts(0, 1<<16) }, false},
		{"array length", func() []byte {
			data := counts(0, 1)
			copy(data[24:], header(0, 0).str("a").kind(gguf.KindArray).kind(gguf.KindString).u64(1 << 60).Bytes()[24:])
			return data
		}, false},
		{"empty strings", func() []byte {
			data := counts(0, 1)
			copy(data[24:], header(0, 0).str("a").kind(gguf.KindArray).kind(gguf.KindString).u64((size - 49) / 8).Bytes()[24:])
			return data
		}, true},
		{"smallest pairs", func() []byte {
			r := header(0, 1<<16)
			for i := range 1 << 16 {
				r.str(fmt.Sprintf("%04x", i)).kind(gguf.KindUint8).u8(0)
			}
			return r.Bytes()
		}, true},
		{"smallest tensors", func() []byte {
			const n = 1 << 16
			r := header(n, 1).str("general.alignment").kind(gguf.KindUint32).u32(1)
			for i := range uint64(n) {
				r.tensor(fmt.Sprintf("%04x", i), gguf.I8, i, 1)
			}
			return r.pad(1, n).Bytes()
		}, true},
		{"largest dimensions", func() []byte {
			data := counts(1, 0)
			copy(data[24:], header(0, 0).tensor("t", gguf.IQ1_S, 0, 1<<40).Bytes()[24:])
			put.PutUint64(data[24+9+4:], 1<<62)
			return data
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data := tt.data()
			var before, after, kept runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			f, err := gguf.Parse("big.gguf", data)
			var strings []string
			if err == nil {
				strings, _ = f.Strings("a")
			}
			runtime.ReadMemStats(&after)
			runtime.GC()
			runtime.ReadMemStats(&kept)
			runtime.KeepAlive(f)
			runtime.KeepAlive(strings)
			runtime.KeepAlive(data)
			if (err == nil) != tt.valid {
				t.Fatalf("error %v", err)
			}
			used := after.TotalAlloc - before.TotalAlloc // garbage too
			held := int64(kept.HeapAlloc) - int64(before.HeapAlloc)
			t.Logf("%d bytes allocated and %d held for a file of %d (%.1f and %.1f times)", used, held, len(data),
				float64(used)/float64(len(data)), float64(held)/float64(len(data)))
			if held > 12*int64(len(data)) {
				t.Errorf("%d bytes held for a file of %d; want at most 12 times", held, len(data))
			}
			if used > 32*uint64(len(data)) {
				t.Errorf("%d bytes allocated for a file of %d; want at most 32 times", used, len(data))
			}
			if !tt.valid && used > 64<<10 {
				t.Errorf("%d bytes allocated for a header that lies; want next to nothing", used)
			}
		})
	}
}

// Metadata has a limit of its own, so that a huge sparse file can't keep the
// reader busy.
func TestHeaderLimit(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the file is read whole on this system; the test needs it mapped")
	}
	path := filepath.Join(t.TempDir(), "sparse.gguf")
	head := header(0, 1).str("a").kind(gguf.KindString).u64(1 << 30).Bytes()
	if err := os.WriteFile(path, head, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<30+4096); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	_, err := gguf.Open(path)
	wantError(t, err, `sparse.gguf: key "a" at byte 45: string of 1073741824 bytes goes past the first 1073741824 bytes`)
}
