package reuse

import (
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	layout = kernel.KVLayout{Dim: 1, Format: kernel.KVF32}

	// plain is a model with attention in all layers, recurrent one with another layer.
	plain     = kv.Shape{Layers: []kv.Layer{{Heads: 1, Layout: layout}, {Heads: 1, Layout: layout}}}
	recurrent = kv.Shape{Layers: append(plain.Layers[:2:2], kv.Layer{Memory: []kv.MemoryShape{{Width: 1, Reach: 2}}})}
)

// pageBytes is what a page takes.
var pageBytes = int64(plain.PageBytes())

// extend makes c the sequence of the tokens, of which it has the first ones. What a
// position holds depends on all tokens up to it, as a model's would; so does what is remembered.
func extend(c *kv.Cache, tokens []int32) {
	from := c.Len()
	if from == len(tokens) {
		return
	}
	c.Extend(len(tokens) - from)
	for pos := from; pos < len(tokens); pos++ {
		v := mark(tokens[:pos+1])
		for l := range 2 {
			c.Put(l, 0, pos, []float32{v + float32(l)}, []float32{-v}, make([]uint16, 1))
		}
	}
	if c.Recurrent() {
		rows := make([]float32, len(tokens)-from)
		for i := range rows {
			rows[i] = mark(tokens[:from+i+1])
		}
		c.Memory(2, 0).Write(rows, 1)
	}
	c.Commit()
}

// mark is a number of a text.
func mark(tokens []int32) float32 {
	h := fnv.New32a()
	for _, id := range tokens {
		h.Write([]byte{byte(id), byte(id >> 8)})
	}
	return float32(h.Sum32() % 100_000)
}

// check says what is wrong with c as the sequence of the tokens.
func check(c *kv.Cache, tokens []int32) error {
	if c.Len() != len(tokens) {
		return fmt.Errorf("%d positions, want %d", c.Len(), len(tokens))
	}
	for pos := range tokens {
		k, v := layout.At(c.Page(1, 0, pos/kv.PageSize), pos%kv.PageSize, 0)
		if want := mark(tokens[:pos+1]); k != want+1 || v != -want {
			return fmt.Errorf("position %d holds %g and %g, want %g and %g", pos, k, v, want+1, -want)
		}
	}
	if !c.Recurrent() || len(tokens) == 0 {
		return nil
	}
	c.Extend(1)
	defer c.Abort()
	for pos := max(0, len(tokens)-2); pos < len(tokens); pos++ {
		if got, want := c.Memory(2, 0).Row(pos)[0], mark(tokens[:pos+1]); got != want {
			return fmt.Errorf("position %d is remembered as %g, want %g", pos, got, want)
		}
	}
	return nil
}

// log is what a Cache logs.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// text is n tokens that differ from those of another seed from the first on.
func text(seed, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32((seed*7919 + i*31) % 4000)
	}
	return out
}
