// Package weights holds a model's tensors in memory: outside the Go heap, in one
// anonymous mapping aligned to 2 MiB, so that the kernel may use huge pages, and
// repacked for the kernels of package kernel while they are read.
package weights

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/internal/engine/kernel"
	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

// Set is the tensors of one model.
type Set struct {
	file    string
	arena   *arena // nil when the file itself is used
	tensors map[string]*tensor
	tables  map[string]*Table
}

// tensor is one tensor: its rows as they lie in the file, or its matrices in
// panels, one behind the other, or both.
type tensor struct {
	kind   gguf.Type
	dims   []uint64 // GGUF's order: the row length first
	rows   []byte
	panels []byte
}

// matrices is how many matrices the tensor is a stack of, rowsEach how many rows
// each has.
func (t *tensor) matrices() (n, rowsEach int) {
	n, rowsEach = 1, 1
	for i, d := range t.dims[1:] {
		if i == 0 {
			rowsEach = int(d)
		} else {
			n *= int(d)
		}
	}
	return n, rowsEach
}

// Check says which tensors of f are in formats that can't be computed with.
func Check(f *gguf.File) error {
	var bad []string
	for _, t := range f.Tensors() {
		if !quant.Supported(t.Type) {
			bad = append(bad, fmt.Sprintf("%s (%s)", t.Name, t.Type))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %d of %d tensors are in formats that this engine can't run: %s; it runs F32, F16, BF16 and all of GGUF's quantised formats",
		f.Name(), len(bad), len(f.Tensors()), shorten(bad, 4))
}

func shorten(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

// Close gives the memory back. Nothing that came from s may be used afterwards.
func (s *Set) Close() error {
	s.tensors = nil
	err := s.closeTables()
	if s.arena != nil {
		err = errors.Join(err, s.arena.close())
		s.arena = nil
	}
	return err
}

// Bytes is the size of the mapping; 0 when the file itself is used.
func (s *Set) Bytes() int {
	if s.arena == nil {
		return 0
	}
	return len(s.arena.mem)
}

// HugeBytes is how much of the mapping the kernel really keeps in 2 MiB pages.
// It is an error where that can't be read.
func (s *Set) HugeBytes() (int64, error) {
	if s.arena == nil {
		return 0, nil
	}
	return s.arena.hugeBytes()
}

// Has says whether the file has a tensor of that name.
func (s *Set) Has(name string) bool { return s.tensors[name] != nil }

// Type is the format of a tensor.
func (s *Set) Type(name string) (gguf.Type, bool) {
	t := s.tensors[name]
	if t == nil {
		return 0, false
	}
	return t.kind, true
}

// Names are the names of all tensors, sorted.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.tensors)) }

// get returns a tensor whose dims are the wanted ones, the row length first.
func (s *Set) get(name string, want ...int) (*tensor, error) {
	t := s.tensors[name]
	if t == nil {
		return nil, fmt.Errorf("%s: tensor %s is missing", s.file, name)
	}
	dims := t.dims
	for len(dims) > len(want) && dims[len(dims)-1] == 1 {
		dims = dims[:len(dims)-1]
	}
	same := len(dims) == len(want)
	for i := 0; same && i < len(want); i++ {
		same = dims[i] == uint64(want[i])
	}
	if !same {
		return nil, fmt.Errorf("%s: tensor %s has dimensions %v, but the metadata ask for %v", s.file, name, t.dims, want)
	}
	return t, nil
}

// Matrix is the tensor name as a matrix [rows, cols].
func (s *Set) Matrix(name string, rows, cols int) (*kernel.Matrix, error) {
	t, err := s.get(name, cols, rows)
	if err != nil {
		return nil, err
	}
	return t.stack(1, rows, cols)[0], nil
}

// Experts is the tensor name as n matrices [rows, cols].
func (s *Set) Experts(name string, n, rows, cols int) ([]*kernel.Matrix, error) {
	t, err := s.get(name, cols, rows, n)
	if err != nil {
		return nil, err
	}
	return t.stack(n, rows, cols), nil
}

func (t *tensor) stack(n, rows, cols int) []*kernel.Matrix {
	out := make([]*kernel.Matrix, n)
	for i := range out {
		if t.panels != nil {
			size := len(t.panels) / n
			out[i] = kernel.NewPanels(t.kind, rows, cols, t.panels[i*size:][:size])
			continue
		}
		size := len(t.rows) / n
		out[i] = kernel.NewMatrix(t.kind, rows, cols, t.rows[i*size:][:size])
	}
	return out
}

// Rows is the tensor name as a matrix [rows, cols] that lies as in the file, for
// reading rows of it. It must be one of those that Load was told.
func (s *Set) Rows(name string, rows, cols int) (*kernel.Matrix, error) {
	t, err := s.get(name, cols, rows)
	if err != nil {
		return nil, err
	}
	return kernel.NewMatrix(t.kind, rows, cols, t.rows), nil
}

// Vector is the tensor name as n numbers; it must be F32, as norms are.
func (s *Set) Vector(name string, n int) ([]float32, error) {
	t, err := s.get(name, n)
	if err != nil {
		return nil, err
	}
	return s.numbers(name, t, n)
}

// Vectors is the tensor name as n lists of k numbers, one behind the other; it must
// be F32.
func (s *Set) Vectors(name string, n, k int) ([]float32, error) {
	t, err := s.get(name, k, n)
	if err != nil {
		return nil, err
	}
	return s.numbers(name, t, n*k)
}

func (s *Set) numbers(name string, t *tensor, n int) ([]float32, error) {
	if t.kind != gguf.F32 {
		return nil, fmt.Errorf("%s: tensor %s is %s, but a norm or bias must be F32", s.file, name, t.kind)
	}
	out := make([]float32, n)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.rows[4*i:]))
	}
	return out, nil
}
