package kernel

import (
	"fmt"
	"math"
	"unsafe"

	"assay/internal/engine/quant"
)

// PagePositions is how many positions a page of keys and values holds.
const PagePositions = quant.PagePositions

// KVFormat is how the numbers of keys and values are kept.
type KVFormat uint8

// The formats, under the names that llama.cpp's -ctk takes.
const (
	KVF16 KVFormat = iota
	KVQ8           // Q8_0: bytes, with a scale (a half float) for each 32 dimensions
	KVF32
)

var kvFormats = [...]struct {
	name string
	size int // bytes of a number
}{KVF16: {"f16", 2}, KVQ8: {"q8_0", 1}, KVF32: {"f32", 4}}

func (f KVFormat) String() string { return kvFormats[f].name }

// ParseKVFormat finds a format by its name; none means f16.
func ParseKVFormat(name string) (KVFormat, error) {
	if name == "" {
		return KVF16, nil
	}
	for f := range kvFormats {
		if kvFormats[f].name == name {
			return KVFormat(f), nil
		}
	}
	return 0, fmt.Errorf("cache type: %q is not one of f16, q8_0 and f32", name)
}

// KVLayout is how the keys and values of one head are kept in a page of 256
// positions. Values may have a size of their own.
//
//	keys    [16 groups][dim][16 positions], and in Q8 behind each group scales [dim/32][16 positions]
//	values  [chunks of 64 dimensions][256 positions][64], and in Q8 behind all of them scales [chunks][256][2]
//
// Scales are float32 here, of half floats' values. So one lane of a register is
// one position while scores are computed, and one dimension while values are
// summed.
type KVLayout struct {
	Dim    int // of keys; a multiple of 32 in Q8
	Format KVFormat
	Values int // dimensions of values; 0: as many as keys have
}

// ValueDim is the number of dimensions of values.
func (l KVLayout) ValueDim() int {
	if l.Values == 0 {
		return l.Dim
	}
	return l.Values
}

func (l KVLayout) size() int   { return kvFormats[l.Format].size }
func (l KVLayout) chunks() int { return (l.ValueDim() + 63) / 64 }

// group is the size of a group of keys.
func (l KVLayout) group() int {
	n := 16 * l.Dim * l.size()
	if l.Format == KVQ8 {
		n += 2 * l.Dim
	}
	return n
}

// chunk is the size of a chunk of values, scales left out.
func (l KVLayout) chunk() int { return PagePositions * 64 * l.size() }

func (l KVLayout) valuesAt() int { return padded64(PagePositions / 16 * l.group()) }
func (l KVLayout) scalesAt() int { return l.valuesAt() + l.chunks()*l.chunk() }

func padded64(n int) int { return (n + 63) &^ 63 }

// Bytes is the size of one head's page.
func (l KVLayout) Bytes() int {
	if l.Format == KVQ8 {
		return l.scalesAt() + l.chunks()*PagePositions*8
	}
	return l.scalesAt()
}

// Put keeps the key and the value of position pos of a page. scratch has room
// for a key.
func (l KVLayout) Put(page []byte, pos int, key, value []float32, scratch []uint16) {
	switch l.Format {
	case KVQ8:
		l.putQ8(page, pos, key, value)
	case KVF16:
		l.putF16(page, pos, key, value, scratch)
	case KVF32:
		keys := floats(page[pos/16*l.group():][:l.group()])
		for d, v := range key {
			keys[16*d+pos%16] = v
		}
		for c := range l.chunks() {
			copy(floats(page[l.valuesAt()+c*l.chunk()+256*pos:][:256]), value[64*c:l.ValueDim()])
		}
	}
}

func (l KVLayout) putF16(page []byte, pos int, key, value []float32, scratch []uint16) {
	half := scratch[:l.Dim]
	toHalf(half, key)
	keys := halfFloats(page[pos/16*l.group():][:l.group()])
	at := pos % 16
	for _, h := range half {
		keys[at] = h
		at += 16
	}
	for c := range l.chunks() {
		v := value[64*c : min(64*c+64, l.ValueDim())]
		toHalf(halfFloats(page[l.valuesAt()+c*l.chunk()+128*pos:][:2*len(v)]), v)
	}
}

func (l KVLayout) putQ8(page []byte, pos int, key, value []float32) {
	keys := page[pos/16*l.group():][:l.group()]
	var q [32]int8
	for b := range l.Dim / 32 {
		d := quant.RoundBlock32(q[:], key[32*b:][:32])
		for i, v := range q {
			keys[16*(32*b+i)+pos%16] = byte(v)
		}
		putFloat(keys[16*l.Dim+64*b+4*(pos%16):], d)
	}
	for b := range l.ValueDim() / 32 {
		d := quant.RoundBlock32(q[:], value[32*b:][:32])
		copy(page[l.valuesAt()+b/2*l.chunk()+64*pos+b%2*32:], unsafe.Slice((*byte)(unsafe.Pointer(&q[0])), 32))
		putFloat(page[l.scalesAt()+(b/2*PagePositions+pos)*8+b%2*4:], d)
	}
}

func putFloat(b []byte, v float32) { *(*float32)(unsafe.Pointer(&b[0])) = v }

// numbers decodes the numbers at b; in Q8 they are yet to be scaled.
func (l KVLayout) numbers(to []float32, b []byte) {
	switch l.Format {
	case KVQ8:
		for i := range to {
			to[i] = float32(int8(b[i]))
		}
	case KVF16:
		fromHalfGeneric(to, halfFloats(b[:2*len(to)]))
	case KVF32:
		copy(to, floats(b[:4*len(to)]))
	}
}

// Key is dimension d of the key that a page keeps of position pos, as attention
// sees it.
func (l KVLayout) Key(page []byte, pos, d int) float32 {
	var x [1]float32
	group := page[pos/16*l.group():]
	l.numbers(x[:], group[(16*d+pos%16)*l.size():])
	if l.Format == KVQ8 {
		return float32(floats(group[16*l.Dim+d/32*64+4*(pos%16):][:4])[0] * x[0])
	}
	return x[0]
}

// Value is dimension d of a position's value.
func (l KVLayout) Value(page []byte, pos, d int) float32 {
	var x [1]float32
	l.numbers(x[:], page[l.valuesAt()+d/64*l.chunk()+(64*pos+d%64)*l.size():])
	if l.Format == KVQ8 {
		return float32(floats(page[l.scalesAt()+(d/64*PagePositions+pos)*8+d%64/32*4:][:4])[0] * x[0])
	}
	return x[0]
}

// At is dimension d of both.
func (l KVLayout) At(page []byte, pos, d int) (key, value float32) {
	return l.Key(page, pos, d), l.Value(page, pos, d)
}

// Heads is the most query rows that Attend takes at a time.
const Heads = 4

// Attention is scratch of one worker.
type Attention struct {
	weights [Heads * PagePositions]float32
	page    []float32 // [Heads, padded dim]: a page's weighted values
	wide    []byte    // a page of float32, see Wide
}

// AttentionState is how far the attention of up to four query rows has come.
type AttentionState struct{ top, sums [Heads]float32 }

// NewAttention makes scratch for pages of that layout, and of those with smaller
// keys and values.
func NewAttention(l KVLayout) *Attention {
	a := &Attention{page: floats(aligned(4 * Heads * 64 * l.chunks())), wide: aligned(l.wide().Bytes())}
	clear(a.wide) // so that the system gives the memory now
	return a
}

func (l KVLayout) wide() KVLayout { return KVLayout{l.Dim, KVF32, l.Values} }

// Wide is what to give AddFrom, with the same result, in place of a page that many
// tokens look at, of its first n positions: half floats are made floats once instead
// of for each. It is good until the next call.
func (a *Attention) Wide(l KVLayout, page []byte, n int) (KVLayout, []byte) {
	w := l.wide()
	if l.Format != KVF16 || level == None {
		return l, page
	}
	groups := (n + 63) / 64 * 4 // kernels take four at a time
	fromHalf(floats(a.wide[:groups*w.group()]), halfFloats(page[:groups*l.group()]))
	for c := range l.chunks() {
		from, to := page[l.valuesAt()+c*l.chunk():], a.wide[w.valuesAt()+c*w.chunk():]
		fromHalf(floats(to[:256*n]), halfFloats(from[:128*n]))
	}
	return w, a.wide
}

// Add is AddFrom for a page that counts from its first position on.
func (a *Attention) Add(s *AttentionState, l KVLayout, page []byte, n, rows int, q, out []float32, first bool) {
	a.AddFrom(s, l, page, 0, n, rows, q, out, first)
}

// AddFrom adds a page, of which positions from to n count, for rows (at most
// Heads) queries that share its keys and values: q is [rows, Dim], already scaled,
// and out [rows, ValueDim]. Pages come in order, the first with first set; Finish
// follows the last. quant.Look.Attend is the definition.
func (a *Attention) AddFrom(s *AttentionState, l KVLayout, page []byte, from, n, rows int, q, out []float32, first bool) {
	scores(l, page, &a.weights, from, n, rows, q)
	a.weigh(s, l, page, from, n, rows, out, first)
}

// weigh adds a page whose scores are in a.weights.
func (a *Attention) weigh(s *AttentionState, l KVLayout, page []byte, from, n, rows int, out []float32, first bool) {
	var before, here [Heads]float32
	for r := range rows {
		row := a.weights[r*PagePositions:][:PagePositions]
		begin, end := from&^15, (n+15)&^15
		for i := begin; i < from; i++ {
			row[i] = float32(math.Inf(-1)) // weighs nothing
		}
		for i := n; i < end; i++ {
			row[i] = float32(math.Inf(-1))
		}
		top, sum := softmaxPage(row[begin:end])
		if first {
			s.top[r], s.sums[r] = top, sum
			continue
		}
		before[r], here[r] = s.add(r, top, sum)
	}
	weigh(l, page, &a.weights, from, n, rows, a.page)
	dim := l.ValueDim()
	for r := range rows {
		o, p := out[r*dim:][:dim], a.page[r*64*l.chunks():][:dim]
		if first {
			copy(o, p)
		} else {
			merge(o, p, before[r], here[r])
		}
	}
}

// add adds to row r weights of which the highest score is top, and says what results
// before and those that are added are to be multiplied by.
func (s *AttentionState) add(r int, top, sum float32) (before, here float32) {
	highest := max(s.top[r], top)
	before, here = 1, 1 // what Exp makes of 0
	if s.top[r] != highest {
		before = quant.Exp(s.top[r] - highest)
	}
	if top != highest {
		here = quant.Exp(top - highest)
	}
	s.sums[r] = float32(s.sums[r]*before) + float32(sum*here)
	s.top[r] = highest
	return before, here
}

// Join adds a page that was computed apart from those before it, as AddFrom would:
// into state o and results part, [rows, ValueDim], with first set.
func (s *AttentionState) Join(o *AttentionState, l KVLayout, rows int, out, part []float32) {
	dim := l.ValueDim()
	for r := range rows {
		before, here := s.add(r, o.top[r], o.sums[r])
		merge(out[r*dim:][:dim], part[r*dim:][:dim], before, here)
	}
}

// Sink adds a score for every row that weighs and gives nothing. It comes after
// the last page.
func (s *AttentionState) Sink(l KVLayout, rows int, sinks, out []float32) {
	dim := l.ValueDim()
	for r, sink := range sinks[:rows] {
		highest := max(s.top[r], sink)
		before, here := quant.Exp(s.top[r]-highest), quant.Exp(sink-highest)
		s.sums[r] = float32(s.sums[r]*before) + here
		s.top[r] = highest
		Scale(out[r*dim:][:dim], before)
	}
}

// Finish divides the results by the sums of their weights.
func (s *AttentionState) Finish(l KVLayout, rows int, out []float32) {
	dim := l.ValueDim()
	for r := range rows {
		divide(out[r*dim:][:dim], s.sums[r])
	}
}

// firstGroup is where scores begin to be computed for positions from on: a
// multiple of four groups, since kernels may take as many at a time.
func firstGroup(from int) int { return from / 64 * 4 }

func scoresGeneric(l KVLayout, page []byte, w *[Heads * PagePositions]float32, from, n, rows int, q []float32) {
	for g := firstGroup(from); g < (n+15)/16; g++ {
		keys := page[g*l.group():][:l.group()]
		var s [Heads][16]float32
		var k [16]float32
		for d := range l.Dim {
			l.numbers(k[:], keys[16*d*l.size():])
			if l.Format == KVQ8 {
				for i, scale := range floats(keys[16*l.Dim+d/32*64:][:64]) {
					k[i] = float32(scale * k[i])
				}
			}
			for r := range rows {
				x, to := q[r*l.Dim+d], &s[r]
				for i, v := range k {
					to[i] = quant.FMA(x, v, to[i])
				}
			}
		}
		for r := range rows {
			copy(w[r*PagePositions+16*g:][:16], s[r][:])
		}
	}
}

func weighGeneric(l KVLayout, page []byte, w *[Heads * PagePositions]float32, from, n, rows int, out []float32) {
	for c := range l.chunks() {
		values := page[l.valuesAt()+c*l.chunk():][:l.chunk()]
		var s [Heads][64]float32
		var v [64]float32
		for i := from; i < n; i++ {
			l.numbers(v[:], values[64*i*l.size():])
			if l.Format == KVQ8 {
				scales := floats(page[l.scalesAt()+(c*PagePositions+i)*8:][:8])
				for d := range v {
					v[d] = float32(scales[d/32] * v[d])
				}
			}
			for r := range rows {
				x, to := w[r*PagePositions+i], &s[r]
				for d, y := range v {
					to[d] = quant.FMA(x, y, to[d])
				}
			}
		}
		for r := range rows {
			copy(out[(r*l.chunks()+c)*64:][:64], s[r][:])
		}
	}
}

func softmaxPageGeneric(w []float32) (top, sum float32) {
	top = w[0]
	for _, v := range w {
		top = max(top, v)
	}
	var part [16]float32
	for i, v := range w {
		w[i] = quant.Exp(v - top)
		part[i%16] += w[i]
	}
	for half := 8; half > 0; half /= 2 {
		for i := range half {
			part[i] += part[half+i]
		}
	}
	return top, part[0]
}
