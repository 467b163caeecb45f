package ref

import (
	"errors"
	"fmt"

	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

// loader reads what an architecture needs. It keeps the first error.
type loader struct {
	f    *gguf.File
	arch string
	err  error
}

func (l *loader) keep(err error) {
	if l.err == nil {
		l.err = err
	}
}

// int is a number that must be there.
func (l *loader) int(key string) int {
	v, err := l.f.Uint(l.arch + "." + key)
	l.keep(err)
	return int(v)
}

// intOr is a number with a value for when it is not.
func (l *loader) intOr(key string, otherwise int) int {
	v, err := l.f.Uint(l.arch + "." + key)
	if errors.Is(err, gguf.ErrMissing) {
		return otherwise
	}
	l.keep(err)
	return int(v)
}

func (l *loader) float(key string) float64 {
	v, err := l.f.Float(l.arch + "." + key)
	l.keep(err)
	return v
}

func (l *loader) floatOr(key string, otherwise float64) float64 {
	v, err := l.f.Float(l.arch + "." + key)
	if errors.Is(err, gguf.ErrMissing) {
		return otherwise
	}
	l.keep(err)
	return v
}

func (l *loader) boolOr(key string, otherwise bool) bool {
	v, err := l.f.Bool(l.arch + "." + key)
	if errors.Is(err, gguf.ErrMissing) {
		return otherwise
	}
	l.keep(err)
	return v
}

func (l *loader) ints(key string) []int64 {
	v, err := l.f.Ints(l.arch + "." + key)
	l.keep(err)
	return v
}

func (l *loader) textOr(key, otherwise string) string {
	v, err := l.f.String(l.arch + "." + key)
	if errors.Is(err, gguf.ErrMissing) {
		return otherwise
	}
	l.keep(err)
	return v
}

func (l *loader) has(name string) bool {
	_, ok := l.f.Tensor(name)
	return ok
}

// stack decodes a tensor [n, rows, cols].
func (l *loader) stack(name string) []matrix {
	t, ok := l.f.Tensor(name)
	if !ok || len(t.Dims) < 2 || !quant.Supported(t.Type) {
		l.keep(fmt.Errorf("%s: tensor %s: missing, not a matrix, or in a format that can't be decoded", l.f.Name(), name))
		return make([]matrix, 1)
	}
	cols, rows := int(t.Dims[0]), int(t.Dims[1])
	n := int(t.Elements()) / (rows * cols)
	out, size := make([]matrix, n), len(t.Data())/n
	for i := range out {
		out[i] = matrix{rows, cols, make([]float32, rows*cols)}
		quant.Decode(t.Type, out[i].w, t.Data()[i*size:][:size])
	}
	return out
}

func (l *loader) matrix(name string) matrix { return l.stack(name)[0] }

// linear is NAME.weight with NAME.bias, if it is there.
func (l *loader) linear(name string) *linear {
	return &linear{l.matrix(name + ".weight"), l.vectorIf(name + ".bias")}
}

// vector decodes a tensor of any shape as a list of numbers.
func (l *loader) vector(name string) []float32 {
	t, ok := l.f.Tensor(name)
	if !ok || !quant.Supported(t.Type) {
		l.keep(fmt.Errorf("%s: tensor %s: missing, or in a format that can't be decoded", l.f.Name(), name))
		return nil
	}
	out := make([]float32, t.Elements())
	quant.Decode(t.Type, out, t.Data())
	return out
}

// vectorIf is nil where the file has no such tensor.
func (l *loader) vectorIf(name string) []float32 {
	if !l.has(name) {
		return nil
	}
	return l.vector(name)
}
