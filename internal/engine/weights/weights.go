// Package weights holds a model's tensors in memory: outside the Go heap, in one
// anonymous mapping aligned to 2 MiB, so that the kernel may use huge pages.
package weights

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"assay/internal/engine/kernel"
	"assay/internal/engine/quant"
	"assay/internal/gguf"
)

// Set is the tensors of one model.
type Set struct {
	file    string
	arena   *arena
	tensors map[string]tensor
}

type tensor struct {
	kind gguf.Type
	dims []uint64 // GGUF's order: the row length first
	data []byte
}

// align keeps every tensor on its own cache lines.
const align = 64

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
	return fmt.Errorf("%s: %d of %d tensors are in formats that this engine can't run yet: %s; it runs F32, F16, BF16, Q8_0, Q4_K, Q5_K, Q6_K and IQ3_S",
		f.Name(), len(bad), len(f.Tensors()), shorten(bad, 4))
}

// Load copies all tensors of f into memory; f may be closed afterwards.
// progress, if not nil, is told how many bytes are done.
func Load(ctx context.Context, f *gguf.File, progress func(done, total int64)) (*Set, error) {
	if err := Check(f); err != nil {
		return nil, err
	}
	var total int
	for _, t := range f.Tensors() {
		total += (len(t.Data()) + align - 1) / align * align
	}
	a, err := newArena(total)
	if err != nil {
		return nil, fmt.Errorf("%s: %d bytes of memory for the weights: %w", f.Name(), total, err)
	}
	s := &Set{file: f.Name(), arena: a, tensors: make(map[string]tensor, len(f.Tensors()))}
	free, done := a.mem, 0
	for _, t := range f.Tensors() {
		src := t.Data()
		n := (len(src) + align - 1) / align * align
		dst := free[:len(src):len(src)]
		free = free[n:]
		const piece = 16 << 20 // between two looks at ctx
		for o := 0; o < len(src); o += piece {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("%s: loading stopped: %w", f.Name(), joinClose(err, s))
			}
			copied := copy(dst[o:min(o+piece, len(src))], src[o:])
			done += copied
			if progress != nil {
				progress(int64(done), int64(total))
			}
		}
		s.tensors[t.Name] = tensor{t.Type, t.Dims, dst}
	}
	return s, nil
}

func joinClose(err error, s *Set) error {
	if e := s.Close(); e != nil {
		return fmt.Errorf("%w (and: %v)", err, e)
	}
	return err
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
	return s.arena.close()
}

// Bytes is the size of the mapping.
func (s *Set) Bytes() int { return len(s.arena.mem) }

// HugeBytes is how much of the mapping the kernel really keeps in 2 MiB pages.
// It is an error where that can't be read.
func (s *Set) HugeBytes() (int64, error) { return s.arena.hugeBytes() }

// Has says whether the file has a tensor of that name.
func (s *Set) Has(name string) bool {
	_, ok := s.tensors[name]
	return ok
}

// get returns a tensor whose dims are the wanted ones, the row length first.
func (s *Set) get(name string, want ...int) (tensor, error) {
	t, ok := s.tensors[name]
	if !ok {
		return t, fmt.Errorf("%s: tensor %s is missing", s.file, name)
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
		return t, fmt.Errorf("%s: tensor %s has dimensions %v, but the metadata ask for %v", s.file, name, t.dims, want)
	}
	return t, nil
}

// Matrix is the tensor name as a matrix [rows, cols].
func (s *Set) Matrix(name string, rows, cols int) (*kernel.Matrix, error) {
	t, err := s.get(name, cols, rows)
	if err != nil {
		return nil, err
	}
	return kernel.NewMatrix(t.kind, rows, cols, t.data), nil
}

// Experts is the tensor name as n matrices [rows, cols].
func (s *Set) Experts(name string, n, rows, cols int) ([]*kernel.Matrix, error) {
	t, err := s.get(name, cols, rows, n)
	if err != nil {
		return nil, err
	}
	size := len(t.data) / n
	out := make([]*kernel.Matrix, n)
	for i := range out {
		out[i] = kernel.NewMatrix(t.kind, rows, cols, t.data[i*size:][:size])
	}
	return out, nil
}

// Vector is the tensor name as n numbers; it must be F32, as norms are.
func (s *Set) Vector(name string, n int) ([]float32, error) {
	t, err := s.get(name, n)
	if err != nil {
		return nil, err
	}
	if t.kind != gguf.F32 {
		return nil, fmt.Errorf("%s: tensor %s is %s, but a norm must be F32", s.file, name, t.kind)
	}
	out := make([]float32, n)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.data[4*i:]))
	}
	return out, nil
}
