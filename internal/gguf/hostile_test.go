package gguf_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/gguf"
)

// Every way a header can lie gives an error that names the file, the field and
// the offset.
func TestHostileFiles(t *testing.T) {
	const huge = math.MaxUint64
	pair := func(key string) *raw { return header(0, 1).str(key) }
	tests := []struct {
		name string
		data *raw
		want string
	}{
		{"empty", &raw{}, "the file is empty"},
		{"two bytes", (&raw{}).u8('G').u8('G'), `header at byte 0: found "GG" where a GGUF file has "GGUF"`},
		{"another format", (&raw{}).u64(0x6d6c6767), `header at byte 0: found "gglm"`},
		{"LFS pointer", text("version https://git-lfs.github.com/spec/v1\n"), "run git lfs pull"},
		{"no version", text("GGUF"), "header at byte 4: version of 4 bytes, but only 0 are left"},
		{"version 0", text("GGUF").u32(0), "header at byte 4: GGUF version 0; want 2 or 3"},
		{"version 1", text("GGUF").u32(1), "header at byte 4: GGUF version 1, too old"},
		{"version 4", text("GGUF").u32(4), "header at byte 4: GGUF version 4; want 2 or 3"},
		{"big-endian", text("GGUF").u32(3 << 24), "header at byte 4: the version's bytes are in big-endian order"},

		{"tensor count 2^64-1", header(huge, 0), "header at byte 8: number of tensors is 18446744073709551615; want at most"},
		{"pair count 2^64-1", header(0, huge), "header at byte 16: number of metadata pairs is 18446744073709551615; want at most"},
		{"tensor count past the end", header(1000, 0), "header at byte 8: number of tensors is 1000, but the 8 bytes left can hold at most 0"},
		{"pair count past the end", header(0, 1000), "header at byte 16: number of metadata pairs is 1000, but the 0 bytes left can hold at most 0"},

		{"key length 2^64-1", header(0, 1).u64(huge).pad(1, 64), "metadata pair 1 of 1 at byte 24: key length is 18446744073709551615; want 1 to 65535"},
		{"key past the end", header(0, 1).u64(100).pad(1, 64), "metadata pair 1 of 1 at byte 32: key of 100 bytes, but only 64 are left"},
		{"empty key", header(0, 1).str("").pad(1, 64), "metadata pair 1 of 1 at byte 24: key length is 0; want 1 to 65535"},
		{"same key twice", header(0, 2).str("a").kind(gguf.KindUint8).u8(1).str("a").kind(gguf.KindUint8).u8(2), `key "a" at byte 38: the key is there twice`},
		{"kind unknown", pair("a").u32(13).pad(1, 8), `key "a" at byte 33: kind 13; want 0 to 12`},
		{"number cut short", pair("a").kind(gguf.KindUint64).pad(1, 7), `key "a" at byte 37: uint64 of 8 bytes, but only 7 are left`},
		{"bool of 2", pair("a").kind(gguf.KindBool).u8(2), `key "a" at byte 37: bool with value 2; want 0 or 1`},
		{"string length 2^64-1", pair("a").kind(gguf.KindString).u64(huge), `key "a" at byte 45: string of 18446744073709551615 bytes, but only 0 are left`},
		{"string past the end", pair("a").kind(gguf.KindString).u64(9).pad(1, 8), `key "a" at byte 45: string of 9 bytes, but only 8 are left`},

		{"array of arrays", pair("a").kind(gguf.KindArray).kind(gguf.KindArray).u64(0), `key "a" at byte 37: an array of arrays`},
		{"array of unknown", pair("a").kind(gguf.KindArray).u32(99).u64(0), `key "a" at byte 37: elements of kind 99; want 0 to 12`},
		{"array length 2^64-1", pair("a").kind(gguf.KindArray).kind(gguf.KindUint8).u64(huge), `key "a" at byte 41: array of 18446744073709551615 uint8 elements, but the 0 bytes left`},
		{"array length whose bytes overflow", pair("a").kind(gguf.KindArray).kind(gguf.KindUint64).u64(1<<61+1).pad(1, 8), `key "a" at byte 41: array of 2305843009213693953 uint64 elements, but the 8 bytes left can hold at most 1`},
		{"string array length", pair("a").kind(gguf.KindArray).kind(gguf.KindString).u64(3).str("x").str(""), `key "a" at byte 41: array of 3 string elements, but the 17 bytes left can hold at most 2`},
		{"string in an array past the end", pair("a").kind(gguf.KindArray).kind(gguf.KindString).u64(2).str("x").u64(7).pad(1, 6), `key "a" at byte 66: string in the array of 7 bytes, but only 6 are left`},
		{"bool array with a 2", pair("a").kind(gguf.KindArray).kind(gguf.KindBool).u64(3).u8(0).u8(1).u8(2), `key "a" at byte 51: element 2 is a bool with value 2`},

		{"alignment 0", pair("general.alignment").kind(gguf.KindUint32).u32(0), `key "general.alignment" at byte 53: uint32 0; want a power of two`},
		{"alignment 48", pair("general.alignment").kind(gguf.KindUint32).u32(48), `key "general.alignment" at byte 53: uint32 48; want a power of two`},
		{"alignment 2^63", pair("general.alignment").kind(gguf.KindUint64).u64(1 << 63), `key "general.alignment" at byte 53: uint64 9223372036854775808; want a power of two`},
		{"alignment as text", pair("general.alignment").kind(gguf.KindString).str("32"), `key "general.alignment" at byte 61: string "32"; want a power of two`},

		{"tensor without name", header(1, 0).tensor("", gguf.F32, 0, 1), "tensor entry 1 of 1 at byte 24: tensor name length is 0; want 1 to 65535"},
		{"same tensor twice", header(2, 0).tensor("t", gguf.F32, 0, 1).tensor("t", gguf.F32, 32, 1).pad(32, 64), `tensor "t" at byte 57: the name is there twice`},
		{"5 dimensions", header(1, 0).tensor("t", gguf.F32, 0, 1, 1, 1, 1, 1), `tensor "t" at byte 33: 5 dimensions; want at most 4`},
		{"2^32-1 dimensions", header(1, 0).str("t").u32(math.MaxUint32).pad(1, 64), `tensor "t" at byte 33: 4294967295 dimensions; want at most 4`},
		{"dimension 0", header(1, 0).tensor("t", gguf.F32, 0, 4, 0), `tensor "t" at byte 45: dimension 1 is 0; want at least 1`},
		{"elements overflow", header(1, 0).tensor("t", gguf.F32, 0, 1<<32, 1<<32), `tensor "t" at byte 45: dimension 1 is 4294967296, which makes 2^63 elements or more`},
		{"elements overflow to a small number", header(1, 0).tensor("t", gguf.F32, 0, 1<<32, 1<<32, 1<<32, 2), `tensor "t" at byte 45: dimension 1`},
		{"elements overflow in an unknown type", header(1, 0).tensor("t", 99, 0, 1<<62, 4), `tensor "t" at byte 45: dimension 1`},
		{"bytes overflow", header(1, 0).tensor("t", gguf.F64, 0, 1<<62), `tensor "t" at byte 37: 4611686018427387904 elements of F64 take 2^63 bytes or more`},
		{"row not whole blocks", header(1, 0).tensor("t", gguf.Q4_K, 0, 255, 256).pad(32, 40000), `tensor "t" at byte 37: rows of 255 elements; want a multiple of Q4_K's block of 256`},
		{"offset not aligned", header(1, 0).tensor("t", gguf.F32, 48, 1).pad(32, 96), `tensor "t" at byte 49: offset 48; want a multiple of the alignment 32`},
		{"offset 2^64-32", header(1, 0).tensor("t", gguf.F32, huge-31, 1).pad(32, 96), `tensor "t" at byte 49: offset 18446744073709551584 from the data's start at byte 64, but the file has only 160 bytes`},
		{"unknown type outside the file", header(1, 0).tensor("t", 99, 256, 1).pad(32, 96), `tensor "t" at byte 49: offset 256 from the data's start`},
		{"no data at all", header(1, 0).tensor("t", gguf.F32, 0, 1), `tensor "t" at byte 49: offset 0 from the data's start at byte 64, but the file has only 57 bytes`},
		{"data cut short", header(1, 0).tensor("t", gguf.F32, 32, 8).pad(32, 63), `tensor "t" at byte 49: data of 32 bytes from byte 96, but only 31 are left there`},
		{"tensors on the same bytes", header(2, 0).tensor("t", gguf.F32, 0, 1).tensor("u", gguf.F32, 0, 1).pad(32, 64), `tensor "u" at byte 82: data from byte 96, inside that of tensor "t", which ends at byte 100`},
		{"tensor that ends in another", header(2, 0).tensor("t", gguf.F32, 32, 1).tensor("u", gguf.F32, 0, 9).pad(32, 64), `tensor "t" at byte 49: data from byte 128, inside that of tensor "u", which ends at byte 132`},
		{"name that would fill the screen", header(0, 1).str(strings.Repeat("k", 60000)).u32(99), `key "` + strings.Repeat("k", 100) + `"... at byte`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := gguf.Parse("bad.gguf", tt.data.Bytes())
			wantError(t, err, "bad.gguf: ", tt.want)
		})
	}
}

// What is wrong is also there for programs to read.
func TestFormatError(t *testing.T) {
	_, err := gguf.Parse("bad.gguf", header(0, 1).str("a").u32(13).pad(1, 8).Bytes())
	var e *gguf.FormatError
	if !errors.As(err, &e) || e.File != "bad.gguf" || e.Field != `key "a"` || e.Offset != 33 {
		t.Errorf("got %#v", err)
	}
}

// Odd but valid files are read.
func TestTolerated(t *testing.T) {
	t.Run("version 2", func(t *testing.T) {
		data := header(0, 0)
		data.Bytes()[4] = 2
		if f := mustParse(t, data.Bytes()); f.Version() != 2 {
			t.Errorf("version %d", f.Version())
		}
	})
	t.Run("unknown tensor type", func(t *testing.T) {
		f := mustParse(t, header(2, 0).tensor("new", 99, 0, 256, 4).tensor("old", gguf.F32, 64, 2).pad(32, 96).Bytes())
		x, ok := f.Tensor("new")
		if !ok || x.Type.Known() || x.Data() != nil || x.Bytes() != 0 || x.RowBytes() != 0 || x.Elements() != 1024 || x.Rows() != 4 {
			t.Errorf("%+v", x)
		}
		if x.Type.String() != "unknown(99)" {
			t.Error(x.Type)
		}
		if y, _ := f.Tensor("old"); len(y.Data()) != 8 {
			t.Errorf("%d bytes after it", len(y.Data()))
		}
		s := f.Stats()
		if want := (gguf.Stats{Tensors: 2, Elements: 2, Bytes: 8, Unknown: 1}); s != want {
			t.Errorf("stats %+v, want %+v", s, want)
		}
	})
	t.Run("no dimensions are one number", func(t *testing.T) {
		f := mustParse(t, header(1, 0).tensor("t", gguf.F32, 0).pad(32, 4).Bytes())
		if x := f.Tensors()[0]; len(x.Dims) != 1 || x.Dims[0] != 1 || x.RowBytes() != 4 || len(x.Data()) != 4 {
			t.Errorf("%+v", x)
		}
	})
	t.Run("other alignment", func(t *testing.T) {
		f := mustParse(t, header(1, 1).str("general.alignment").kind(gguf.KindUint32).u32(4096).
			tensor("t", gguf.F32, 0, 1).pad(4096, 4).Bytes())
		if x := f.Tensors()[0]; x.Offset != 4096 {
			t.Errorf("offset %d", x.Offset)
		}
	})
	t.Run("tensors out of order", func(t *testing.T) {
		f := mustParse(t, header(2, 0).tensor("b", gguf.I8, 32, 1).tensor("a", gguf.I8, 0, 32).pad(32, 33).Bytes())
		if x := f.Tensors(); x[0].Name != "b" || x[1].Name != "a" {
			t.Error("not in file order")
		}
	})
}

func TestOpenNotAFile(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.gguf")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := gguf.Open(dir)
	wantError(t, err, dir, "a folder; want a GGUF file")
	_, err = gguf.Open(empty)
	wantError(t, err, empty, "the file is empty")
	_, err = gguf.Open(filepath.Join(dir, "none.gguf"))
	if wantError(t, err, "none.gguf"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v does not wrap ErrNotExist", err)
	}
	if _, err = gguf.Open(os.DevNull); err == nil {
		t.Error("a device opened")
	}
}
