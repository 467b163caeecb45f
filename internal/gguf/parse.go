package gguf

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Limits far above any real model's, far below what would hurt.
const (
	maxHeader  = 1 << 30 // bytes of metadata and tensor list; the largest vocabularies take some 30 MB
	maxPairs   = 1 << 16
	maxTensors = 1 << 20
	maxName    = 1<<16 - 1 // bytes in a key (the specification's limit) or a tensor's name
	maxDims    = 4
)

// The least bytes that a metadata pair and a tensor's entry can take. Counts
// are checked against them before anything is allocated.
const (
	minPair   = 8 + 1 + 4 + 1     // key length, key, kind, value
	minTensor = 8 + 1 + 4 + 4 + 8 // name length, name, number of dimensions, type, offset
)

// All tensors' offsets are multiples of the alignment.
const (
	keyAlignment     = "general.alignment"
	defaultAlignment = 32
)

// parseSource reads one shard. The File does not own src unless err is nil.
func parseSource(src *source) (*File, error) {
	c := &cursor{src: src, end: min(uint64(len(src.data)), maxHeader), field: field{name: "header"}}
	version, err := c.magicAndVersion()
	if err != nil {
		return nil, err
	}
	f := &File{name: src.path, version: version, shards: []*source{src}}
	tensors, err := c.count("number of tensors", maxTensors, minTensor)
	if err != nil {
		return nil, err
	}
	pairs, err := c.count("number of metadata pairs", maxPairs, minPair)
	if err != nil {
		return nil, err
	}
	if err := f.readPairs(c, pairs); err != nil {
		return nil, err
	}
	if err := f.readTensors(c, tensors); err != nil {
		return nil, err
	}
	return f, nil
}

func (c *cursor) magicAndVersion() (uint32, error) {
	if len(c.src.data) == 0 {
		return 0, fmt.Errorf("%s: the file is empty; want a GGUF file", c.src.path)
	}
	if bytes.HasPrefix(c.src.data, []byte("version https://git-lfs")) {
		return 0, c.fail(0, "a Git LFS pointer, not the model itself: run git lfs pull")
	}
	if magic := c.src.data[:min(4, len(c.src.data))]; string(magic) != "GGUF" {
		return 0, c.fail(0, "found %q where a GGUF file has \"GGUF\": not a GGUF file", magic)
	}
	c.pos = 4
	at := c.pos
	version, err := c.u32("version")
	switch {
	case err != nil:
		return 0, err
	case version == 2 || version == 3:
		return version, nil
	case version == 1:
		return 0, c.fail(at, "GGUF version 1, too old; want 2 or 3: convert the model again")
	case version != 0 && version&0xffff == 0:
		return 0, c.fail(at, "the version's bytes are in big-endian order; want a little-endian file: convert the model again")
	}
	return 0, c.fail(at, "GGUF version %d; want 2 or 3", version)
}

// count reads how many entries of at least least bytes each follow.
func (c *cursor) count(what string, limit, least uint64) (uint64, error) {
	at := c.pos
	n, err := c.u64(what)
	if err != nil {
		return 0, err
	}
	if n > limit {
		return 0, c.fail(at, "%s is %d; want at most %d", what, n, limit)
	}
	if n > c.left()/least {
		return 0, c.fail(at, "%s is %d, but the %d bytes left can hold at most %d; %s", what, n, c.left(), c.left()/least, cutShort)
	}
	return n, nil
}

func (f *File) readPairs(c *cursor, n uint64) error {
	f.index = make(map[string]int)
	for i := range n {
		c.field = field{name: "metadata pair", number: i + 1, of: n}
		at := c.pos
		key, err := c.name("key")
		if err != nil {
			return err
		}
		c.field = field{name: "key", quoted: key}
		if _, ok := f.index[key]; ok {
			return c.fail(at, "the key is there twice; want each once")
		}
		v, err := c.value()
		if err != nil {
			return err
		}
		f.index[key] = len(f.kvs)
		f.kvs = append(f.kvs, KV{Key: key, Value: v})
	}
	return nil
}

// value reads a kind and a value of that kind.
func (c *cursor) value() (Value, error) {
	at := c.pos
	k, err := c.u32("kind")
	if err != nil {
		return Value{}, err
	}
	v := Value{kind: Kind(k), src: c.src}
	switch {
	case !v.kind.known():
		return Value{}, c.fail(at, "kind %d; want 0 to %d", k, len(kinds)-1)
	case v.kind == KindArray:
		return c.array()
	case v.kind == KindString:
		v.bits, v.off, err = c.str("string")
		return v, err
	}
	at = c.pos
	b, err := c.take(kinds[v.kind].size, v.kind.String())
	if err != nil {
		return Value{}, err
	}
	v.off, v.bits = at, scalar(v.kind, b)
	if v.kind == KindBool && v.bits > 1 {
		return Value{}, c.fail(at, "bool with value %d; want 0 or 1", v.bits)
	}
	return v, nil
}

// array reads what follows the kind of an array, and checks that all of its
// elements are there.
func (c *cursor) array() (Value, error) {
	at := c.pos
	k, err := c.u32("kind of the elements")
	if err != nil {
		return Value{}, err
	}
	v := Value{kind: KindArray, elem: Kind(k), src: c.src}
	switch {
	case !v.elem.known():
		return Value{}, c.fail(at, "elements of kind %d; want 0 to %d", k, len(kinds)-1)
	case v.elem == KindArray:
		return Value{}, c.fail(at, "an array of arrays; want an array of numbers, bools or strings")
	}
	size := kinds[v.elem].size
	if v.elem == KindString {
		size = 8 // the length at least
	}
	at = c.pos
	if v.bits, err = c.u64("array length"); err != nil {
		return Value{}, err
	}
	if v.bits > c.left()/size {
		return Value{}, c.fail(at, "array of %d %s elements, but the %d bytes left can hold at most %d; %s",
			v.bits, v.elem, c.left(), c.left()/size, cutShort)
	}
	v.off = c.pos
	if v.elem != KindString {
		b, err := c.take(v.bits*size, "array")
		if err != nil {
			return Value{}, err
		}
		if v.elem == KindBool {
			if i := slices.IndexFunc(b, func(x byte) bool { return x > 1 }); i >= 0 {
				return Value{}, c.fail(v.off+uint64(i), "element %d is a bool with value %d; want 0 or 1", i, b[i])
			}
		}
		return v, nil
	}
	if !c.skipStrings(v.bits) {
		_, _, err := c.str("string in the array")
		return Value{}, err
	}
	return v, nil
}

func (f *File) readTensors(c *cursor, n uint64) error {
	f.byName = make(map[string]*Tensor)
	for i := range n {
		c.field = field{name: "tensor entry", number: i + 1, of: n}
		at := c.pos
		name, err := c.name("tensor name")
		if err != nil {
			return err
		}
		c.field = field{name: "tensor", quoted: name}
		if _, ok := f.byName[name]; ok {
			return c.fail(at, "the name is there twice; want each once")
		}
		t := &Tensor{Name: name, src: c.src}
		if err := c.tensor(t); err != nil {
			return err
		}
		f.byName[name] = t
		f.tensors = append(f.tensors, t)
	}
	return f.placeTensors(c)
}

// tensor reads a tensor's entry after its name. Offset is left as it is in the
// file, counted from the start of the data.
func (c *cursor) tensor(t *Tensor) error {
	at := c.pos
	n, err := c.u32("number of dimensions")
	if err != nil {
		return err
	}
	if n > maxDims {
		return c.fail(at, "%d dimensions; want at most %d", n, maxDims)
	}
	dimsAt := c.pos
	for i := range n {
		if t.dims[i], err = c.u64("dimension"); err != nil {
			return err
		}
	}
	if n == 0 { // a single number; callers may count on Dims[0]
		n, t.dims[0] = 1, 1
	}
	t.Dims = t.dims[:n:n]
	typ, err := c.u32("tensor type")
	if err != nil {
		return err
	}
	t.Type = Type(typ)
	var bad int
	var reason string
	if t.elements, t.size, bad, reason = layout(t.Type, t.Dims); reason != "" {
		return c.fail(dimsAt+8*uint64(bad), "%s", reason)
	}
	t.offsetAt = c.pos
	t.Offset, err = c.u64("tensor offset")
	return err
}

// placeTensors checks where the tensors' data lie and makes their offsets count
// from the start of the file. c stands at the end of the tensor list.
func (f *File) placeTensors(c *cursor) error {
	align, err := f.alignment(c)
	if err != nil {
		return err
	}
	size := uint64(len(c.src.data))
	base := (c.pos + align - 1) &^ (align - 1) // both below 2^32
	for _, t := range f.tensors {
		c.field = field{name: "tensor", quoted: t.Name}
		if t.Offset%align != 0 {
			return c.fail(t.offsetAt, "offset %d; want a multiple of the alignment %d", t.Offset, align)
		}
		if base > size || t.Offset > size-base {
			return c.fail(t.offsetAt, "offset %d from the data's start at byte %d, but the file has only %d bytes; %s", t.Offset, base, size, cutShort)
		}
		t.Offset += base
		if t.size > size-t.Offset {
			return c.fail(t.offsetAt, "data of %d bytes from byte %d, but only %d are left there; %s", t.size, t.Offset, size-t.Offset, cutShort)
		}
	}
	return f.checkOverlap(c)
}

// checkOverlap makes sure that no byte belongs to two tensors: a file of
// thousands of entries for the same bytes would unpack to any size.
func (f *File) checkOverlap(c *cursor) error {
	byOffset := slices.Clone(f.tensors)
	slices.SortStableFunc(byOffset, func(a, b *Tensor) int { return cmp.Compare(a.Offset, b.Offset) })
	for i := 1; i < len(byOffset); i++ {
		a, b := byOffset[i-1], byOffset[i]
		// A tensor of unknown type has at least a byte.
		if end := a.Offset + max(a.size, 1); b.Offset < end {
			c.field = field{name: "tensor", quoted: b.Name}
			return c.fail(b.offsetAt, "data from byte %d, inside that of tensor %q, which ends at byte %d", b.Offset, a.Name, end)
		}
	}
	return nil
}

func (f *File) alignment(c *cursor) (uint64, error) {
	v, ok := f.Lookup(keyAlignment)
	if !ok {
		return defaultAlignment, nil
	}
	a, ok := v.Uint()
	if !ok || a > math.MaxUint32 || bits.OnesCount64(a) != 1 {
		c.field = field{name: "key", quoted: keyAlignment}
		return 0, c.fail(v.off, "%s %s; want a power of two that fits uint32", v.kind, v)
	}
	return a, nil
}
