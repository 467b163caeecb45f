package gguf

import (
	"fmt"
	"math"
	"math/bits"
)

// Tensor is one tensor of a file.
type Tensor struct {
	Name string
	Type Type
	// Dims has 1 to 4 sizes, none of them 0, in GGUF order: Dims[0] is the row
	// length. A matrix of R rows with C columns has Dims {C, R}.
	Dims   []uint64
	Offset uint64 // of the data, in bytes from the start of the shard's file
	Shard  int    // index into File.Shards

	src      *source
	dims     [4]uint64 // what Dims points to; saves an allocation a tensor
	elements uint64
	size     uint64 // bytes; 0 when the type is unknown
	offsetAt uint64 // where the header holds the offset, for errors
}

// Data returns exactly the tensor's bytes, inside the mapped file. It is nil
// when the type is unknown and after the file was closed.
func (t *Tensor) Data() []byte {
	if t.size == 0 || t.src.data == nil {
		return nil
	}
	return t.src.data[t.Offset : t.Offset+t.size : t.Offset+t.size]
}

// Bytes is the size of the tensor's data, 0 when the type is unknown.
func (t *Tensor) Bytes() uint64 { return t.size }

// Elements is the product of Dims.
func (t *Tensor) Elements() uint64 { return t.elements }

// Rows is the number of rows: Elements / Dims[0].
func (t *Tensor) Rows() uint64 { return t.elements / t.dims[0] }

// RowBytes is the number of bytes in a row (Dims[0] elements), 0 when the type
// is unknown.
func (t *Tensor) RowBytes() int { return int(t.size / t.Rows()) }

// layout works out how many elements and bytes a tensor has. The bytes are 0
// when the type is unknown. When no tensor can be like that, reason says why
// and bad is the dimension at fault.
func layout(t Type, dims []uint64) (elements, bytes uint64, bad int, reason string) {
	elements = 1
	for i, d := range dims {
		if d == 0 {
			return 0, 0, i, fmt.Sprintf("dimension %d is 0; want at least 1", i)
		}
		hi, lo := bits.Mul64(elements, d)
		if hi != 0 || lo > math.MaxInt64 {
			return 0, 0, i, fmt.Sprintf("dimension %d is %d, which makes 2^63 elements or more", i, d)
		}
		elements = lo
	}
	if !t.Known() {
		return elements, 0, 0, ""
	}
	blockElements, blockBytes := t.Block()
	if dims[0]%uint64(blockElements) != 0 {
		return 0, 0, 0, fmt.Sprintf("rows of %d elements; want a multiple of %s's block of %d", dims[0], t, blockElements)
	}
	hi, lo := bits.Mul64(elements/uint64(blockElements), uint64(blockBytes))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, 0, 0, fmt.Sprintf("%d elements of %s take 2^63 bytes or more", elements, t)
	}
	return elements, lo, 0, ""
}
