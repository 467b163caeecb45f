package gguf_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"assay/internal/gguf"
)

// raw writes GGUF fields one by one, right or wrong. Offsets in the tests'
// expectations are easiest to follow with the header's sizes in mind: magic 4,
// version 4, tensor count 8, pair count 8, so that the first pair is at 24.
type raw struct{ bytes.Buffer }

// header starts a file of version 3.
func header(tensors, pairs uint64) *raw {
	r := &raw{}
	r.WriteString("GGUF")
	return r.u32(3).u64(tensors).u64(pairs)
}

func text(s string) *raw {
	r := &raw{}
	r.WriteString(s)
	return r
}

func (r *raw) u8(v uint8) *raw { r.WriteByte(v); return r }

func (r *raw) u32(v uint32) *raw {
	r.Write(binary.LittleEndian.AppendUint32(nil, v))
	return r
}

func (r *raw) u64(v uint64) *raw {
	r.Write(binary.LittleEndian.AppendUint64(nil, v))
	return r
}

func (r *raw) str(s string) *raw {
	r.u64(uint64(len(s))).WriteString(s)
	return r
}

func (r *raw) kind(k gguf.Kind) *raw { return r.u32(uint32(k)) }

// tensor writes an entry of the tensor list.
func (r *raw) tensor(name string, t gguf.Type, offset uint64, dims ...uint64) *raw {
	r.str(name).u32(uint32(len(dims)))
	for _, d := range dims {
		r.u64(d)
	}
	return r.u32(uint32(t)).u64(offset)
}

// pad fills up to a multiple of n, then adds n zero bytes of data.
func (r *raw) pad(n, data int) *raw {
	r.Write(make([]byte, (n-r.Len()%n)%n+data))
	return r
}

// build makes a file with a Builder that is expected to be content.
func build(t testing.TB, fill func(*gguf.Builder)) []byte {
	t.Helper()
	b := gguf.NewBuilder()
	fill(b)
	var w bytes.Buffer
	n, err := b.WriteTo(&w)
	if err != nil {
		t.Fatal(err)
	}
	if n != int64(w.Len()) {
		t.Fatalf("WriteTo reports %d bytes, wrote %d", n, w.Len())
	}
	return w.Bytes()
}

func mustParse(t testing.TB, data []byte) *gguf.File {
	t.Helper()
	f, err := gguf.Parse("test.gguf", data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// wantError checks that the error says all of what is wanted.
func wantError(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error:\n  %v\nlacks:\n  %s", err, w)
		}
	}
}
