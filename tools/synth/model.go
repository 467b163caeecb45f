package main

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"

	"assay/internal/gguf"
)

// model is what to make.
type model struct {
	shape
	quant string // a format or a mix
	seed  uint64
	skew  float64 // exponent of the Zipf distribution; 0: every expert alike
	vocab *vocabulary
}

// write makes the model. The bytes depend on nothing but m.
func (m *model) write(w io.Writer) (int64, error) {
	a, ok := architectures[m.arch]
	if !ok {
		return 0, fmt.Errorf("-arch %s is not one that can be made", m.arch)
	}
	if err := a.check(&m.shape); err != nil {
		return 0, err
	}
	mix, err := mixOf(m.quant)
	if err != nil {
		return 0, err
	}
	b := gguf.NewBuilder()
	b.Set("general.architecture", m.arch)
	b.Set("general.type", "model")
	b.Set("general.name", fmt.Sprintf("synth %s %d layers %s seed %d", m.arch, m.layers, m.quant, m.seed))
	b.Set("general.description", fmt.Sprintf("Random weights, made by assay's tools/synth: it says nothing that makes sense. Seed %d, routing skew %g.", m.seed, m.skew))
	b.Set("general.quantization_version", uint32(2))
	if n, ok := fileTypes[strings.ToUpper(m.quant)]; ok {
		b.Set("general.file_type", n)
	}
	a.meta(&m.shape, b)
	m.vocab.set(b, m.shape.vocab)
	for _, t := range a.tensors(&m.shape) {
		if err := m.add(b, mix, t); err != nil {
			return 0, err
		}
	}
	return b.WriteTo(w)
}

// add adds a tensor, whose bytes are made when the file is written.
func (m *model) add(b *gguf.Builder, mix mix, t tensor) error {
	elements := 1
	for _, d := range t.dims {
		elements *= int(d)
	}
	cols := int(t.dims[0])
	format := gguf.F32
	if t.kind <= value {
		format = mix(&m.shape, &t)
	}
	n, size := format.Block()
	if cols%n != 0 {
		return fmt.Errorf("%s has rows of %d, but %s has blocks of %d: choose another size or -quant", t.name, cols, format, n)
	}
	var fill func(r *source, first int, dst []byte) // first is the number of dst's first row
	unit := size                                    // pieces are multiples of it
	switch t.kind {
	case norm:
		fill = func(r *source, _ int, dst []byte) {
			for ; len(dst) > 0; dst = dst[4:] {
				putFloat(dst, float32(1+0.05*r.unit()))
			}
		}
	case router:
		lengths := rowLengths(m.source(t.name, -1), int(t.dims[1]), m.used, m.skew)
		unit = 4 * cols
		fill = func(r *source, first int, dst []byte) {
			for ; len(dst) > 0; first, dst = first+1, dst[unit:] {
				fillers[gguf.F32](r, dst[:unit], lengths[first]/math.Sqrt(float64(cols)))
			}
		}
	case numbers:
		unit = 4 * cols
		fill = func(r *source, first int, dst []byte) {
			row := make([]float32, cols)
			for ; len(dst) > 0; first, dst = first+1, dst[unit:] {
				t.draw(r, first, row)
				for i, v := range row {
					putFloat(dst[4*i:], v)
				}
			}
		}
	default:
		std := t.std()
		fill = func(r *source, _ int, dst []byte) { fillers[format](r, dst, std) }
	}
	total := elements / n * size
	b.TensorFunc(t.name, format, t.dims, func(w io.Writer) error {
		return m.pieces(w, t.name, total, unit, fill)
	})
	return nil
}

// pieceBytes is about how much one goroutine makes at a time. It decides where
// the random numbers of one source end, so it is part of what a seed means.
const pieceBytes = 1 << 20

// pieces makes a tensor of total bytes piece by piece, on all processors, and
// writes them in order. At most two pieces a processor are in memory.
func (m *model) pieces(w io.Writer, name string, total, unit int, fill func(*source, int, []byte)) error {
	size := max(pieceBytes/unit, 1) * unit
	queue := make(chan chan []byte, 2*runtime.GOMAXPROCS(0))
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		defer close(queue)
		for o := 0; o < total; o += size {
			made := make(chan []byte, 1)
			select {
			case queue <- made:
			case <-stop:
				return
			}
			go func() {
				piece := make([]byte, min(size, total-o))
				fill(m.source(name, o/size), o/unit, piece)
				made <- piece
			}()
		}
	}()
	for made := range queue {
		if _, err := w.Write(<-made); err != nil {
			return err
		}
	}
	return nil
}

// source is the random numbers of one piece of one tensor.
func (m *model) source(name string, piece int) *source {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], m.seed)
	h := fnv.New128a()
	_, _ = h.Write([]byte(name)) // never fails
	h.Sum(seed[8:8])
	binary.LittleEndian.PutUint64(seed[24:], uint64(piece))
	return &source{rand.NewChaCha8(seed)}
}

func putFloat(b []byte, v float32) { binary.LittleEndian.PutUint32(b, math.Float32bits(v)) }

// ordered is pairs of a key and a number, in the order given.
func ordered(pairs ...any) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for i := 0; i < len(pairs); i += 2 {
			if !yield(pairs[i].(string), pairs[i+1].(int)) {
				return
			}
		}
	}
}

// create makes the file at path: under another name first, so that a file that
// is there is whole.
func (m *model) create(path string) (n int64, err error) {
	f, err := os.Create(path + ".part")
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // err says more
		}
	}()
	n, err = m.write(f)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return n, err
	}
	return n, os.Rename(f.Name(), path)
}
