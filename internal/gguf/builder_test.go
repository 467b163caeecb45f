package gguf_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"assay/internal/gguf"
)

// anyValue draws a Go value of any kind that a Builder takes.
func anyValue() *rapid.Generator[any] {
	return rapid.OneOf(
		both(rapid.Uint8()), both(rapid.Int8()), both(rapid.Uint16()), both(rapid.Int16()),
		both(rapid.Uint32()), both(rapid.Int32()), both(rapid.Uint64()), both(rapid.Int64()),
		both(rapid.Float32()), both(rapid.Float64()), both(rapid.Bool()), both(rapid.String()),
	)
}

// both draws single values and slices.
func both[T any](g *rapid.Generator[T]) *rapid.Generator[any] {
	return rapid.OneOf(rapid.Map(g, func(v T) any { return v }), rapid.Map(rapid.SliceOfN(g, 0, 40), func(v []T) any { return v }))
}

// read gives a Value back as the Go value it was made of.
func read(v gguf.Value) any {
	if v.Kind() != gguf.KindArray {
		return scalarOf(v)
	}
	elements := v.Head(v.Len())
	switch v.Elem() {
	case gguf.KindUint8:
		return sliceOf[uint8](elements)
	case gguf.KindInt8:
		return sliceOf[int8](elements)
	case gguf.KindUint16:
		return sliceOf[uint16](elements)
	case gguf.KindInt16:
		return sliceOf[int16](elements)
	case gguf.KindUint32:
		return sliceOf[uint32](elements)
	case gguf.KindInt32:
		return sliceOf[int32](elements)
	case gguf.KindUint64:
		return sliceOf[uint64](elements)
	case gguf.KindInt64:
		return sliceOf[int64](elements)
	case gguf.KindFloat32:
		return sliceOf[float32](elements)
	case gguf.KindFloat64:
		return sliceOf[float64](elements)
	case gguf.KindBool:
		return sliceOf[bool](elements)
	default:
		return sliceOf[string](elements)
	}
}

func sliceOf[T any](elements []gguf.Value) []T {
	out := make([]T, len(elements))
	for i, e := range elements {
		out[i] = scalarOf(e).(T)
	}
	return out
}

func scalarOf(v gguf.Value) any {
	u, _ := v.Uint()
	i, _ := v.Int()
	f, _ := v.Float()
	switch v.Kind() {
	case gguf.KindUint8:
		return uint8(u)
	case gguf.KindInt8:
		return int8(i)
	case gguf.KindUint16:
		return uint16(u)
	case gguf.KindInt16:
		return int16(i)
	case gguf.KindUint32:
		return uint32(u)
	case gguf.KindInt32:
		return int32(i)
	case gguf.KindUint64:
		return u
	case gguf.KindInt64:
		return i
	case gguf.KindFloat32:
		return float32(f)
	case gguf.KindFloat64:
		return f
	case gguf.KindBool:
		b, _ := v.Bool()
		return b
	default:
		s, _ := v.Text()
		return s
	}
}

// What a Builder writes, Parse reads back: the same keys, kinds, values and
// tensors in the same order.
func TestRoundTrip(t *testing.T) {
	known := []gguf.Type{}
	for id := range gguf.Type(64) {
		if id.Known() {
			known = append(known, id)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		type pair struct {
			Key   string
			Value any
		}
		type tensor struct {
			Name string
			Type gguf.Type
			Dims []uint64
			Data []byte
		}
		b := gguf.NewBuilder()
		var wantPairs, gotPairs []pair
		var wantTensors, gotTensors []tensor
		if rapid.Bool().Draw(t, "own alignment") {
			align := uint32(1) << rapid.IntRange(0, 12).Draw(t, "alignment")
			b.Set("general.alignment", align)
			wantPairs = append(wantPairs, pair{"general.alignment", align})
		}
		for i := range rapid.IntRange(0, 10).Draw(t, "pairs") {
			p := pair{fmt.Sprintf("%d.%s", i, rapid.String().Draw(t, "key")), anyValue().Draw(t, "value")}
			b.Set(p.Key, p.Value)
			wantPairs = append(wantPairs, p)
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "tensors") {
			x := tensor{Name: fmt.Sprintf("%d.%s", i, rapid.String().Draw(t, "name")), Type: rapid.SampledFrom(known).Draw(t, "type")}
			x.Dims = rapid.SliceOfN(rapid.Uint64Range(1, 4), 1, 4).Draw(t, "dims")
			elements, size := x.Type.Block()
			n := size
			for _, d := range x.Dims {
				n *= int(d)
			}
			x.Dims[0] *= uint64(elements)
			x.Data = bytes.Repeat([]byte{byte(i + 1)}, n)
			b.Tensor(x.Name, x.Type, x.Dims, x.Data)
			wantTensors = append(wantTensors, x)
		}
		var w bytes.Buffer
		if _, err := b.WriteTo(&w); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Parse("made.gguf", w.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range f.KVs() {
			gotPairs = append(gotPairs, pair{kv.Key, read(kv.Value)})
		}
		for _, x := range f.Tensors() {
			gotTensors = append(gotTensors, tensor{x.Name, x.Type, x.Dims, x.Data()})
		}
		if d := cmp.Diff(wantPairs, gotPairs); d != "" {
			t.Errorf("metadata (-want +got):\n%s", d)
		}
		if d := cmp.Diff(wantTensors, gotTensors); d != "" {
			t.Errorf("tensors (-want +got):\n%s", d)
		}
	})
}

// A Builder says what was wrong with what it was given.
func TestBuilderErrors(t *testing.T) {
	write := func(w io.Writer) error { _, err := w.Write(make([]byte, 3)); return err }
	tests := []struct {
		name string
		fill func(*gguf.Builder)
		want string
	}{
		{"same key", func(b *gguf.Builder) { b.Set("a", true); b.Set("a", true) }, `key "a": empty, too long or there twice`},
		{"empty key", func(b *gguf.Builder) { b.Set("", true) }, `key "": empty`},
		{"int has no kind", func(b *gguf.Builder) { b.Set("a", 1) }, `key "a": a int cannot be a GGUF value`},
		{"array of arrays", func(b *gguf.Builder) { b.Set("a", [][]uint8{{1}}) }, `key "a": a [][]uint8 cannot`},
		{"nil", func(b *gguf.Builder) { b.Set("a", nil) }, `key "a": a <nil> cannot`},
		{"alignment", func(b *gguf.Builder) { b.Set("general.alignment", uint32(3)) }, "uint32 3; want a uint32 that is a power of two"},
		{"same tensor", func(b *gguf.Builder) {
			b.TensorFunc("t", gguf.I8, []uint64{3}, write)
			b.TensorFunc("t", gguf.I8, []uint64{3}, write)
		}, `tensor "t": the name is empty, too long or there twice`},
		{"unknown type", func(b *gguf.Builder) { b.TensorFunc("t", 99, []uint64{3}, write) }, `tensor "t": type unknown(99)`},
		{"no dimensions", func(b *gguf.Builder) { b.TensorFunc("t", gguf.I8, nil, write) }, "0 dimensions; want 1 to 4"},
		{"part of a block", func(b *gguf.Builder) { b.TensorFunc("t", gguf.Q8_0, []uint64{33}, write) }, "rows of 33 elements"},
		{"overflow", func(b *gguf.Builder) { b.TensorFunc("t", gguf.I8, []uint64{math.MaxUint64, 2}, write) }, "2^63 elements or more"},
		{"too few bytes", func(b *gguf.Builder) { b.TensorFunc("t", gguf.I8, []uint64{4}, write) }, `tensor "t": 3 bytes written; want 4`},
		{"failing writer", func(b *gguf.Builder) {
			b.TensorFunc("t", gguf.I8, []uint64{4}, func(io.Writer) error { return errors.New("no more") })
		}, `tensor "t": no more`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := gguf.NewBuilder()
			tt.fill(b)
			_, err := b.WriteTo(io.Discard)
			wantError(t, err, "gguf.Builder: ", tt.want)
		})
	}
}

// A Builder keeps no hold of the dims it was given.
func TestBuilderCopiesDims(t *testing.T) {
	dims := []uint64{4}
	data := build(t, func(b *gguf.Builder) {
		b.Tensor("t", gguf.I8, dims, make([]byte, 4))
		dims[0] = 99
	})
	if x := mustParse(t, data).Tensors()[0]; !slices.Equal(x.Dims, []uint64{4}) {
		t.Errorf("dims %v", x.Dims)
	}
}
