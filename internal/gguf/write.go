package gguf

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"reflect"
	"slices"
)

// Builder makes a GGUF file of version 3. Add pairs and tensors, then WriteTo.
// The alignment is 32, or what the pair general.alignment (a uint32) says.
// What is added wrongly is reported by WriteTo.
type Builder struct {
	pairs   bytes.Buffer
	keys    map[string]bool
	align   uint64
	tensors []builtTensor
	names   map[string]bool
	errs    []error
}

type builtTensor struct {
	name  string
	typ   Type
	dims  []uint64
	size  uint64
	write func(io.Writer) error
}

// NewBuilder returns an empty Builder.
func NewBuilder() *Builder {
	return &Builder{keys: map[string]bool{}, names: map[string]bool{}, align: defaultAlignment}
}

// kindOf gives the metadata kind of a Go value or slice element.
var kindOf = map[reflect.Kind]Kind{
	reflect.Uint8: KindUint8, reflect.Uint16: KindUint16, reflect.Uint32: KindUint32, reflect.Uint64: KindUint64,
	reflect.Int8: KindInt8, reflect.Int16: KindInt16, reflect.Int32: KindInt32, reflect.Int64: KindInt64,
	reflect.Float32: KindFloat32, reflect.Float64: KindFloat64,
	reflect.Bool: KindBool, reflect.String: KindString,
}

// Set adds a metadata pair. v is one of uint8 to int64, float32, float64, bool,
// string, or a slice of one of these; Go's type chooses the kind.
func (b *Builder) Set(key string, v any) {
	fail := func(format string, args ...any) {
		b.errs = append(b.errs, fmt.Errorf("gguf.Builder: key %q: %s", key, fmt.Sprintf(format, args...)))
	}
	if key == "" || len(key) > maxName || b.keys[key] {
		fail("empty, too long or there twice")
		return
	}
	if key == keyAlignment {
		a, ok := v.(uint32)
		if !ok || bits.OnesCount32(a) != 1 {
			fail("%T %v; want a uint32 that is a power of two", v, v)
			return
		}
		b.align = uint64(a)
	}
	rv := reflect.ValueOf(v)
	array := rv.Kind() == reflect.Slice
	goKind := rv.Kind()
	if array {
		goKind = rv.Type().Elem().Kind()
	}
	kind, ok := kindOf[goKind]
	if !ok {
		fail("a %T cannot be a GGUF value", v)
		return
	}
	b.keys[key] = true
	putString(&b.pairs, key)
	if array {
		put(&b.pairs, KindArray)
	}
	put(&b.pairs, kind)
	if array {
		put(&b.pairs, uint64(rv.Len()))
	}
	switch {
	case kind != KindString:
		put(&b.pairs, v)
	case array:
		for i := range rv.Len() {
			putString(&b.pairs, rv.Index(i).String())
		}
	default:
		putString(&b.pairs, rv.String())
	}
}

// Tensor adds a tensor with its bytes. dims are in GGUF order, row length first.
func (b *Builder) Tensor(name string, typ Type, dims []uint64, data []byte) {
	b.TensorFunc(name, typ, dims, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// TensorFunc adds a tensor whose bytes write gives when the file is written, so
// that a model larger than memory can be made.
func (b *Builder) TensorFunc(name string, typ Type, dims []uint64, write func(io.Writer) error) {
	reason := ""
	var size uint64
	switch {
	case name == "" || len(name) > maxName || b.names[name]:
		reason = "the name is empty, too long or there twice"
	case !typ.Known():
		reason = "type " + typ.String()
	case len(dims) == 0 || len(dims) > maxDims:
		reason = fmt.Sprintf("%d dimensions; want 1 to %d", len(dims), maxDims)
	default:
		_, size, _, reason = layout(typ, dims)
	}
	if reason != "" {
		b.errs = append(b.errs, fmt.Errorf("gguf.Builder: tensor %q: %s", name, reason))
		return
	}
	b.names[name] = true
	b.tensors = append(b.tensors, builtTensor{name, typ, slices.Clone(dims), size, write})
}

// WriteTo writes the file.
func (b *Builder) WriteTo(w io.Writer) (int64, error) {
	if err := errors.Join(b.errs...); err != nil {
		return 0, err
	}
	var head bytes.Buffer
	head.WriteString("GGUF")
	put(&head, uint32(3))
	put(&head, uint64(len(b.tensors)))
	put(&head, uint64(len(b.keys)))
	head.Write(b.pairs.Bytes())
	offset := uint64(0)
	for _, t := range b.tensors {
		putString(&head, t.name)
		put(&head, uint32(len(t.dims)))
		put(&head, t.dims)
		put(&head, t.typ)
		put(&head, offset)
		offset = b.pad(offset + t.size)
	}
	out := &countWriter{w: bufio.NewWriterSize(w, 1<<20)}
	_, _ = out.Write(head.Bytes()) // the buffer keeps the error for Flush
	for _, t := range b.tensors {
		out.zeros(b.pad(out.n) - out.n)
		start := out.n
		if err := t.write(out); err != nil {
			return int64(out.n), fmt.Errorf("gguf.Builder: tensor %q: %w", t.name, err)
		}
		if got := out.n - start; got != t.size {
			return int64(out.n), fmt.Errorf("gguf.Builder: tensor %q: %d bytes written; want %d", t.name, got, t.size)
		}
	}
	out.zeros(b.pad(out.n) - out.n) // ggml reads the last tensor's padding too
	return int64(out.n), out.w.Flush()
}

func (b *Builder) pad(n uint64) uint64 { return (n + b.align - 1) &^ (b.align - 1) }

type countWriter struct {
	w *bufio.Writer
	n uint64
}

func (c *countWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += uint64(n)
	return n, err
}

func (c *countWriter) zeros(n uint64) {
	_, _ = c.Write(make([]byte, n)) // below the alignment
}

// put appends fixed-size values; such a write to a bytes.Buffer cannot fail.
func put(w *bytes.Buffer, v any) { _ = binary.Write(w, binary.LittleEndian, v) }

func putString(w *bytes.Buffer, s string) {
	put(w, uint64(len(s)))
	w.WriteString(s)
}
