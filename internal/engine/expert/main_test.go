package expert

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"assay/internal/engine/kernel"
	"assay/internal/gguf"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

// testShape has experts of 0.4 MiB, so that five are a slab.
var testShape = Shape{Layers: 3, Experts: 12, Used: 3, Width: 256, Inner: 512}

// writeModel writes the expert tensors of a model with random weights. kinds are
// gate's, up's and down's formats, by layer in turn; pad moves the tensors.
func writeModel(t testing.TB, file string, shape Shape, pad int, kinds ...[3]gguf.Type) {
	t.Helper()
	b := gguf.NewBuilder()
	b.Set("general.architecture", "test")
	r := rand.New(rand.NewPCG(uint64(pad), 7))
	b.Tensor("pad", gguf.F32, []uint64{uint64(8*pad + 8)}, make([]byte, 4*(8*pad+8)))
	for l := range shape.Layers {
		for p, name := range partNames {
			kind := kinds[l%len(kinds)][p]
			rows, cols := shape.Inner, shape.Width
			if p == down {
				rows, cols = cols, rows
			}
			elements, size := kind.Block()
			data := make([]byte, shape.Experts*rows*cols/elements*size)
			for i := 0; i+8 <= len(data); i += 8 {
				v := r.Uint64()
				for k := range 8 {
					data[i+k] = byte(v >> (8 * k))
				}
			}
			b.Tensor(fmt.Sprintf("blk.%d.ffn_%s_exps.weight", l, name), kind, []uint64{uint64(cols), uint64(rows), uint64(shape.Experts)}, data)
		}
		router := bytes.Repeat([]byte{byte(l), 1, 2, byte(pad)}, shape.Width*shape.Experts)
		b.Tensor(fmt.Sprintf("blk.%d.ffn_gate_inp.weight", l), gguf.F32, []uint64{uint64(shape.Width), uint64(shape.Experts)}, router)
	}
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.WriteTo(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func openModel(t testing.TB, file string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

var (
	q8    = [3]gguf.Type{gguf.Q8_0, gguf.Q8_0, gguf.Q8_0}
	mixed = [3]gguf.Type{gguf.Q4_K, gguf.IQ3_S, gguf.F16}
)

// model is a file whose layers have formats of two classes, in each test's own
// folder when it changes the file.
func model(t testing.TB) *gguf.File {
	t.Helper()
	file := filepath.Join(t.TempDir(), "m.gguf")
	writeModel(t, file, testShape, 3, q8, mixed)
	return openModel(t, file)
}

// open opens a store and closes it when the test ends.
func open(t testing.TB, f *gguf.File, shape Shape, o Options) *Store {
	t.Helper()
	s, err := Open(f, shape, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// reference packs experts from the file by themselves.
type reference struct {
	f     *gguf.File
	shape Shape
	mu    sync.Mutex
	packs map[string][]byte
}

// bytes of part p of an expert, as a slot should hold them.
func (r *reference) bytes(layer, id, p int, g *origin) []byte {
	key := fmt.Sprintf("%d %d %d %v", layer, id, p, g.packed)
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.packs[key]; b != nil {
		return b
	}
	t, _ := r.f.Tensor(fmt.Sprintf("blk.%d.ffn_%s_exps.weight", layer, partNames[p]))
	each := int(t.Bytes()) / r.shape.Experts
	b := t.Data()[id*each:][:each]
	if g.packed {
		panels := make([]byte, kernel.PanelBytes(t.Type, g.rows, g.cols))
		kernel.NewPanels(t.Type, g.rows, g.cols, panels).Pack(b, 0)
		b = panels
	}
	if r.packs == nil {
		r.packs = map[string][]byte{}
	}
	r.packs[key] = b
	return b
}

// check compares an expert that a batch gave with the file.
func (r *reference) check(s *Store, layer int, x Expert) error {
	s.mu.Lock()
	e := &s.entries[layer*r.shape.Experts+int(x.ID)]
	t := e.slot
	held := e.refs > 0 && e.state == ready
	s.mu.Unlock()
	if !held {
		return fmt.Errorf("layer %d expert %d: given, but not held", layer, x.ID)
	}
	for p := range 3 {
		g, _ := s.origin(e, p)
		want := r.bytes(layer, int(x.ID), p, g)
		m := *x.part(p)
		if m.Rows != g.rows || m.Cols != g.cols || m.Type != g.kind {
			return fmt.Errorf("layer %d expert %d %s: %s [%d, %d]", layer, x.ID, partNames[p], m.Type, m.Rows, m.Cols)
		}
		var got []byte
		if g.packed {
			got = t.mem[p][:len(want)]
		} else {
			each := len(want) / m.Rows
			for i := range m.Rows {
				if !bytes.Equal(m.Row(i), want[i*each:][:each]) {
					return fmt.Errorf("layer %d expert %d %s: row %d differs from the file", layer, x.ID, partNames[p], i)
				}
			}
			continue
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("layer %d expert %d %s: panels differ from the file", layer, x.ID, partNames[p])
		}
	}
	return nil
}

// all takes every expert of a batch, calls use for each, and ends it.
func all(b *Batch, use func(Expert) error) (int, error) {
	defer b.End()
	n := 0
	for {
		group, err := b.Next()
		if err != nil || len(group) == 0 {
			return n, err
		}
		for _, x := range group {
			n++
			if err := use(x); err != nil {
				return n, err
			}
		}
	}
}
