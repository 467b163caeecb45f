package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is the kind of a metadata value, under GGUF's numbering.
type Kind uint32

// The kinds of GGUF.
const (
	KindUint8 Kind = iota
	KindInt8
	KindUint16
	KindInt16
	KindUint32
	KindInt32
	KindFloat32
	KindBool
	KindString
	KindArray
	KindUint64
	KindInt64
	KindFloat64
)

// kinds holds name and size in bytes. A string and an array have no fixed size.
var kinds = [...]struct {
	name string
	size uint64
}{
	KindUint8:   {"uint8", 1},
	KindInt8:    {"int8", 1},
	KindUint16:  {"uint16", 2},
	KindInt16:   {"int16", 2},
	KindUint32:  {"uint32", 4},
	KindInt32:   {"int32", 4},
	KindFloat32: {"float32", 4},
	KindBool:    {"bool", 1},
	KindString:  {"string", 0},
	KindArray:   {"array", 0},
	KindUint64:  {"uint64", 8},
	KindInt64:   {"int64", 8},
	KindFloat64: {"float64", 8},
}

func (k Kind) known() bool { return int64(k) < int64(len(kinds)) }

// String is the kind's name, as in "uint32".
func (k Kind) String() string {
	if !k.known() {
		return fmt.Sprintf("unknown(%d)", uint32(k))
	}
	return kinds[k].name
}

func (k Kind) signed() bool {
	return k == KindInt8 || k == KindInt16 || k == KindInt32 || k == KindInt64
}

func (k Kind) unsigned() bool {
	return k == KindUint8 || k == KindUint16 || k == KindUint32 || k == KindUint64
}

func (k Kind) float() bool { return k == KindFloat32 || k == KindFloat64 }

// Value is a metadata value. Numbers are held in it; strings and arrays stay in
// the file and are decoded by each call. After the file is closed they are gone:
// their accessors then report false.
type Value struct {
	kind Kind
	elem Kind // of an array's elements
	// A number's bits (see scalar), a string's length or an array's.
	bits uint64
	off  uint64 // of a number, of a string's first byte or an array's first element
	src  *source
}

// Kind is the value's kind.
func (v Value) Kind() Kind { return v.kind }

// Elem is the kind of an array's elements. It means nothing for other kinds.
func (v Value) Elem() Kind { return v.elem }

// Len is the number of elements of an array, the bytes of a string, else 1.
func (v Value) Len() int {
	if v.kind == KindArray || v.kind == KindString {
		return int(v.bits) // was checked against the file's length
	}
	return 1
}

// scalar decodes a number as 64 bits: integers sign-extended, floats widened to
// float64, bool as the byte it is. b holds at least the kind's size.
func scalar(k Kind, b []byte) uint64 {
	le := binary.LittleEndian
	switch k {
	case KindUint8, KindBool:
		return uint64(b[0])
	case KindInt8:
		return uint64(int64(int8(b[0])))
	case KindUint16:
		return uint64(le.Uint16(b))
	case KindInt16:
		return uint64(int64(int16(le.Uint16(b))))
	case KindUint32:
		return uint64(le.Uint32(b))
	case KindInt32:
		return uint64(int64(int32(le.Uint32(b))))
	case KindFloat32:
		return math.Float64bits(float64(math.Float32frombits(le.Uint32(b))))
	default: // uint64, int64, float64
		return le.Uint64(b)
	}
}

// Text returns a string's text, byte for byte: it may not be UTF-8.
func (v Value) Text() (string, bool) {
	b, ok := v.bytes(KindString, v.bits)
	return string(b), ok
}

// Uint returns an integer of any kind that is not negative.
func (v Value) Uint() (uint64, bool) {
	ok := v.kind.unsigned() || v.kind.signed() && int64(v.bits) >= 0
	if !ok {
		return 0, false
	}
	return v.bits, true
}

// Int returns an integer of any kind that fits int64.
func (v Value) Int() (int64, bool) {
	ok := v.kind.signed() || v.kind.unsigned() && v.bits <= math.MaxInt64
	if !ok {
		return 0, false
	}
	return int64(v.bits), true
}

// Float returns a number of any kind, integers only where float64 holds them
// exactly.
func (v Value) Float() (float64, bool) {
	const exact = 1 << 53
	switch {
	case v.kind.float():
		return math.Float64frombits(v.bits), true
	case v.kind.unsigned() && v.bits <= exact:
		return float64(v.bits), true
	case v.kind.signed() && int64(v.bits) <= exact && int64(v.bits) >= -exact:
		return float64(int64(v.bits)), true
	}
	return 0, false
}

// Bool returns a bool.
func (v Value) Bool() (value, ok bool) {
	return v.kind == KindBool && v.bits != 0, v.kind == KindBool
}

// Strings returns an array of strings.
func (v Value) Strings() ([]string, bool) {
	if !v.isArray(KindString) {
		return nil, false
	}
	// The lengths are walked again, with the same checks as at first: the file
	// may have been written to meanwhile.
	c := cursor{src: v.src, pos: v.off, end: uint64(len(v.src.data))}
	if !c.skipStrings(v.bits) {
		return nil, false
	}
	// One copy for all, instead of an allocation a string.
	all := string(v.src.data[v.off:c.pos])
	out := make([]string, v.bits)
	for i := range out {
		n := binary.LittleEndian.Uint64([]byte(all[:8]))
		if n > uint64(len(all)-8) {
			return nil, false
		}
		out[i], all = all[8:8+n], all[8+n:]
	}
	return out, true
}

// Ints returns an array of integers of any kind that all fit int64.
func (v Value) Ints() ([]int64, bool) {
	if !v.elem.signed() && !v.elem.unsigned() {
		return nil, false
	}
	return decodeArray(v, Value.Int)
}

// Uints returns an array of integers of any kind, none of them negative.
func (v Value) Uints() ([]uint64, bool) {
	if !v.elem.signed() && !v.elem.unsigned() {
		return nil, false
	}
	return decodeArray(v, Value.Uint)
}

// Floats returns an array of numbers of any kind, as Float would each.
func (v Value) Floats() ([]float64, bool) {
	return decodeArray(v, Value.Float)
}

// Bools returns an array of bools.
func (v Value) Bools() ([]bool, bool) {
	return decodeArray(v, Value.Bool)
}

// Head returns the first n elements of an array, or all when it has fewer.
func (v Value) Head(n int) []Value {
	if v.kind != KindArray || v.src.data == nil {
		return nil
	}
	n = max(0, min(n, v.Len()))
	out := make([]Value, 0, n)
	c := cursor{src: v.src, pos: v.off, end: uint64(len(v.src.data))}
	for range n {
		e, ok := c.peekElement(v.elem)
		if !ok {
			break
		}
		out = append(out, e)
	}
	return out
}

func (v Value) isArray(elem Kind) bool {
	return v.kind == KindArray && v.elem == elem && v.src.data != nil
}

// bytes returns n bytes at v.off if v is of the kind and they are there.
func (v Value) bytes(k Kind, n uint64) ([]byte, bool) {
	if v.kind != k || v.src.data == nil {
		return nil, false
	}
	return v.src.data[v.off : v.off+n : v.off+n], true
}

// decodeArray decodes an array of numbers or bools. It fails when one does.
func decodeArray[T any](v Value, get func(Value) (T, bool)) ([]T, bool) {
	if v.kind != KindArray || kinds[v.elem].size == 0 {
		return nil, false
	}
	size := kinds[v.elem].size
	b, ok := v.bytes(KindArray, v.bits*size)
	if !ok {
		return nil, false
	}
	out := make([]T, v.bits)
	for i := range out {
		out[i], ok = get(Value{kind: v.elem, bits: scalar(v.elem, b[uint64(i)*size:])})
		if !ok {
			return nil, false
		}
	}
	return out, true
}

// String is for display: long strings and arrays are cut, with their length.
func (v Value) String() string {
	const (
		textBytes    = 120 // of a string on its own
		elementBytes = 40  // of a string in an array
		elements     = 6   // of an array that is longer than whole
		whole        = 16
	)
	if v.kind != KindArray {
		return v.display(textBytes)
	}
	if v.src.data == nil {
		return "[closed]"
	}
	show := v.Len()
	if show > whole || v.elem == KindString && show > elements {
		show = elements
	}
	parts := make([]string, 0, show+1)
	for _, e := range v.Head(show) {
		parts = append(parts, e.display(elementBytes))
	}
	if show < v.Len() {
		parts = append(parts, "...")
	}
	plural := "s"
	if v.Len() == 1 {
		plural = ""
	}
	return strings.TrimSuffix(fmt.Sprintf("[%d %s%s: %s", v.Len(), v.elem, plural, strings.Join(parts, ", ")), ": ") + "]"
}

// display shows anything but an array, a string cut to about limit bytes.
func (v Value) display(limit int) string {
	switch {
	case v.kind == KindString:
		s, ok := v.Text()
		if !ok {
			return "closed"
		}
		if len(s) <= limit {
			return strconv.Quote(s)
		}
		cut := limit
		for cut > limit-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
			cut--
		}
		return fmt.Sprintf("%s... (%d bytes)", strconv.Quote(s[:cut]), len(s))
	case v.kind == KindBool:
		return strconv.FormatBool(v.bits != 0)
	case v.kind == KindFloat32:
		return strconv.FormatFloat(math.Float64frombits(v.bits), 'g', -1, 32)
	case v.kind == KindFloat64:
		return strconv.FormatFloat(math.Float64frombits(v.bits), 'g', -1, 64)
	case v.kind.signed():
		return strconv.FormatInt(int64(v.bits), 10)
	default:
		return strconv.FormatUint(v.bits, 10)
	}
}
