package expert

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"assay/internal/gguf"
)

func ids(r *rand.Rand, experts, n int) []int32 {
	p := r.Perm(experts)[:n]
	out := make([]int32, n)
	for i, v := range p {
		out[i] = int32(v)
	}
	return out
}

// held is the memory that the store really has mapped.
func (s *Store) held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(len(s.staging.mem))
	for _, c := range s.classes {
		for _, b := range c.slabs {
			n += int64(len(b.memory.mem))
		}
	}
	return n
}

// Whatever the budget, layout, number of readers and order, a batch gives exactly
// the experts that were asked for, with the file's bytes, within the budget.
func TestBytes(t *testing.T) {
	dir := t.TempDir()
	var models []*gguf.File
	for pad := range 3 {
		file := filepath.Join(dir, fmt.Sprintf("%d.gguf", pad))
		writeModel(t, file, testShape, 37*pad, q8, mixed, [3]gguf.Type{gguf.Q8_0, gguf.Q8_0, gguf.Q6_K})
		models = append(models, openModel(t, file))
	}
	refs := make([]reference, len(models))
	for i, f := range models {
		refs[i] = reference{f: f, shape: testShape}
	}
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(models)-1).Draw(t, "model")
		o := Options{
			Plain:   rapid.Bool().Draw(t, "plain"),
			Readers: rapid.IntRange(1, 9).Draw(t, "readers"),
		}
		least, most, err := Sizes(models[i], testShape, o)
		if err != nil {
			t.Fatal(err)
		}
		o.Bytes = rapid.Int64Range(least, most+1<<20).Draw(t, "bytes")
		s, err := Open(models[i], testShape, o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}()
		lookups := int64(0)
		for range rapid.IntRange(1, 12).Draw(t, "batches") {
			layer := rapid.IntRange(0, testShape.Layers-1).Draw(t, "layer")
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
			want := ids(r, testShape.Experts, rapid.IntRange(0, testShape.Experts).Draw(t, "experts"))
			if rapid.Bool().Draw(t, "ahead") {
				s.Ahead(layer, 1+r.IntN(Farthest), ids(r, testShape.Experts, 4))
			}
			b, err := s.Begin(layer, want, nil)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[int32]bool{}
			if _, err := all(b, func(x Expert) error {
				seen[x.ID] = true
				return refs[i].check(s, layer, x)
			}); err != nil {
				t.Fatal(err)
			}
			for _, id := range want {
				if !seen[id] {
					t.Fatalf("layer %d: expert %d was asked for, but not given", layer, id)
				}
			}
			if len(seen) != len(want) {
				t.Fatalf("layer %d: %d experts given, %d asked for", layer, len(seen), len(want))
			}
			lookups += int64(len(want))
			if n := s.held(); n > o.Bytes || n != s.Stats().Bytes {
				t.Fatalf("%d bytes are mapped, Stats says %d, the budget is %d", n, s.Stats().Bytes, o.Bytes)
			}
		}
		st := s.Stats()
		if st.Lookups != lookups || st.Hits > lookups || st.AheadUsed+st.AheadWasted > st.AheadRead {
			t.Fatalf("%d lookups were made: %+v", lookups, st)
		}
	})
}

func TestHits(t *testing.T) {
	s := open(t, model(t), testShape, Options{Bytes: 64 << 20})
	want := []int32{3, 1, 2}
	for round := range 3 {
		for layer := range testShape.Layers {
			b, err := s.Begin(layer, want, nil)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := all(b, func(Expert) error { return nil }); n != 3 || err != nil {
				t.Fatalf("round %d: %d experts, %v", round, n, err)
			}
		}
	}
	st := s.Stats()
	if st.Lookups != 27 || st.Hits != 18 || st.Reads != 27 || st.Resident != 9 || st.InFlight != 0 || st.Evictions != 0 {
		t.Errorf("9 experts three times: %+v", st)
	}
	var bytes int64
	for l := range testShape.Layers {
		for p := range 3 {
			bytes += 3 * int64(s.origins[l][p].bytes)
		}
	}
	if st.BytesRead != bytes {
		t.Errorf("%d bytes read, want the 9 experts' %d", st.BytesRead, bytes)
	}
}

// Experts at hand must not cost the garbage collector anything.
func TestNoAllocations(t *testing.T) {
	s := open(t, model(t), testShape, Options{Bytes: 64 << 20})
	want := []int32{3, 1, 2}
	n := testing.AllocsPerRun(100, func() {
		for layer := range testShape.Layers {
			b, err := s.Begin(layer, want, nil)
			if err != nil {
				t.Fatal(err)
			}
			for {
				group, err := b.Next()
				if err != nil {
					t.Fatal(err)
				}
				if len(group) == 0 {
					break
				}
			}
			b.End()
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a pass of hits, want none", n)
	}
}

// What is at hand comes at once, while the rest is still being read.
func TestOverlap(t *testing.T) {
	f := model(t)
	files, err := OpenFiles(f)
	if err != nil {
		t.Fatal(err)
	}
	gate := &gated{Reader: files, open: make(chan struct{})}
	close(gate.open)
	s := open(t, f, testShape, Options{Bytes: 64 << 20, Reader: gate})
	t.Cleanup(func() { _ = files.Close() })
	b, err := s.Begin(0, []int32{5}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all(b, func(Expert) error { return nil }); err != nil {
		t.Fatal(err)
	}
	gate.open = make(chan struct{}) // no reads are under way
	if b, err = s.Begin(0, []int32{1, 5}, nil); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	group, err := b.Next()
	if err != nil || len(group) != 1 || group[0].ID != 5 {
		t.Fatalf("the first group is %v, %v; want expert 5, which is in memory", group, err)
	}
	close(gate.open)
	if group, err = b.Next(); err != nil || len(group) != 1 || group[0].ID != 1 {
		t.Fatalf("the second group is %v, %v; want expert 1", group, err)
	}
	if group, err = b.Next(); err != nil || len(group) != 0 {
		t.Fatalf("then came %v, %v", group, err)
	}
}

// gated reads when open is closed.
type gated struct {
	Reader
	open chan struct{}
}

func (g *gated) ReadAt(shard int, b []byte, off int64) (int, error) {
	<-g.open
	return g.Reader.ReadAt(shard, b, off)
}

// Several goroutines with the smallest budget get what they asked for.
func TestConcurrent(t *testing.T) {
	f := model(t)
	s := open(t, f, testShape, Options{Bytes: least(t, f, 5), Readers: 5})
	ref := &reference{f: f, shape: testShape}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 2))
			for range 25 {
				layer := r.IntN(testShape.Layers)
				if r.IntN(3) == 0 {
					s.Ahead(r.IntN(testShape.Layers), 1+r.IntN(Farthest), ids(r, testShape.Experts, 3))
				}
				want := ids(r, testShape.Experts, 1+r.IntN(testShape.Experts))
				b, err := s.Begin(layer, want, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if r.IntN(8) == 0 { // the request was cancelled
					_, _ = b.Next()
					b.End()
					continue
				}
				n, err := all(b, func(x Expert) error { return ref.check(s, layer, x) })
				if err != nil || n != len(want) {
					t.Errorf("%d of %d experts: %v", n, len(want), err)
					return
				}
				_ = s.Stats()
			}
		})
	}
	wg.Wait()
}

// least is the smallest budget that Open takes.
func least(t *testing.T, f *gguf.File, readers int) int64 {
	t.Helper()
	n, _, err := Sizes(f, testShape, Options{Readers: readers})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// What Sizes says is exactly what Open takes, and what holds all experts.
func TestSizes(t *testing.T) {
	f := model(t)
	least, most, err := Sizes(f, testShape, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(f, testShape, Options{Bytes: least - 1}); err == nil {
		t.Errorf("%d bytes are taken, but Sizes says %d at least", least-1, least)
	}
	open(t, f, testShape, Options{Bytes: least})
	s := open(t, f, testShape, Options{Bytes: most})
	for range 2 {
		for layer := range testShape.Layers {
			b, err := s.Begin(layer, ids(rand.New(rand.NewPCG(1, 1)), testShape.Experts, testShape.Experts), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := all(b, func(Expert) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	if st := s.Stats(); st.Evictions != 0 || st.Resident != testShape.Layers*testShape.Experts {
		t.Errorf("%d bytes do not hold all: %+v", most, st)
	}
}

func TestOpenRefuses(t *testing.T) {
	f := model(t)
	other := testShape
	other.Experts = 13
	for _, c := range []struct {
		shape Shape
		bytes int64
		want  string
	}{
		{testShape, 1 << 20, "1.0 MiB of memory for experts are too few: it takes "},
		{other, 64 << 20, "blk.0.ffn_gate_exps.weight has dimensions [256 512 12], but the metadata ask for [256 512 13]"},
		{Shape{}, 64 << 20, "no mixture of experts"},
	} {
		_, err := Open(f, c.shape, Options{Bytes: c.bytes})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c, err, c.want)
		}
	}
}

func TestBeginRefuses(t *testing.T) {
	s := open(t, model(t), testShape, Options{Bytes: 64 << 20})
	for _, c := range []struct {
		layer     int
		ids, uses []int32
	}{{-1, nil, nil}, {3, nil, nil}, {0, []int32{12}, nil}, {0, []int32{-1}, nil}, {0, []int32{1}, []int32{}}} {
		if _, err := s.Begin(c.layer, c.ids, c.uses); err == nil {
			t.Errorf("Begin(%d, %v, %v) took it", c.layer, c.ids, c.uses)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(0, nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// What was read ahead is kept until its layer comes, and counted.
func TestAhead(t *testing.T) {
	s := open(t, model(t), testShape, Options{Bytes: 64 << 20})
	for i := range s.layers[1].records[0] {
		s.layers[1].records[0][i] = record{someGuesses, someGuesses}
	}
	s.Ahead(1, 1, []int32{1, 2, 3, 99, -1})
	for end := time.Now().Add(20 * time.Second); s.Stats().Resident < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("nothing is read ahead: %+v", s.Stats())
		}
	}
	b, err := s.Begin(1, []int32{2, 7}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all(b, func(Expert) error { return nil }); err != nil {
		t.Fatal(err)
	}
	st := s.Stats()
	if st.AheadRead != 3 || st.AheadUsed != 1 || st.AheadWasted != 2 || st.Hits != 1 || st.Lookups != 2 {
		t.Errorf("three read ahead, one used: %+v", st)
	}
}

// A long prompt goes through all experts again and again. With memory for two
// thirds of them, more than a third are there each time.
func TestLongPrompt(t *testing.T) {
	f := model(t)
	least, most, err := Sizes(f, testShape, Options{Readers: 3})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, f, testShape, Options{Bytes: least + (most-least)*6/10, Readers: 3})
	var everything, uses []int32
	for i := range int32(testShape.Experts) {
		everything, uses = append(everything, i), append(uses, 100)
	}
	for range 20 {
		for layer := range testShape.Layers {
			b, err := s.Begin(layer, everything, uses)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := all(b, func(Expert) error { return nil }); n != testShape.Experts || err != nil {
				t.Fatal(n, err)
			}
		}
	}
	st := s.Stats()
	t.Logf("%d slots for %d experts: %d hits of %d", st.Slots, testShape.Layers*testShape.Experts, st.Hits, st.Lookups)
	if 3*st.Hits < st.Lookups {
		t.Errorf("%d hits of %d with %d slots for %d experts", st.Hits, st.Lookups, st.Slots, testShape.Layers*testShape.Experts)
	}
}

// The experts of a split model are found in all its files.
func TestSplit(t *testing.T) {
	whole := model(t)
	dir := t.TempDir()
	half := len(whole.Tensors()) / 2
	for no := range 2 {
		b := gguf.NewBuilder()
		b.Set("general.architecture", "test")
		b.Set("split.no", uint16(no))
		b.Set("split.count", uint16(2))
		b.Set("split.tensors.count", int32(len(whole.Tensors())))
		for i, tensor := range whole.Tensors() {
			if (i < half) == (no == 0) {
				b.Tensor(tensor.Name, tensor.Type, tensor.Dims, tensor.Data())
			}
		}
		var out bytes.Buffer
		if _, err := b.WriteTo(&out); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("m-0000%d-of-00002.gguf", no+1)), out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := openModel(t, filepath.Join(dir, "m-00001-of-00002.gguf"))
	everything(t, open(t, f, testShape, Options{Bytes: 64 << 20}), &reference{f: whole, shape: testShape})
}

// A file system without direct reads gives the same bytes.
func TestBuffered(t *testing.T) {
	f := model(t)
	r, err := OpenFiles(f)
	if err != nil {
		t.Fatal(err)
	}
	if !buffered(r) {
		t.Skip("reads are buffered anyway here")
	}
	s := open(t, f, testShape, Options{Bytes: least(t, f, DefaultReaders), Reader: r})
	everything(t, s, &reference{f: f, shape: testShape})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// everything compares all experts with the file.
func everything(t *testing.T, s *Store, ref *reference) {
	t.Helper()
	for layer := range testShape.Layers {
		b, err := s.Begin(layer, ids(rand.New(rand.NewPCG(1, 1)), testShape.Experts, testShape.Experts), nil)
		if err != nil {
			t.Fatal(err)
		}
		n, err := all(b, func(x Expert) error { return ref.check(s, layer, x) })
		if n != testShape.Experts || err != nil {
			t.Fatalf("layer %d: %d experts, %v", layer, n, err)
		}
	}
}

func TestSlabSize(t *testing.T) {
	for _, room := range []int{4096, 400 << 10, 909312, 3 << 20, 50<<20 + 4096} {
		n, size := slabSize(room)
		if n < 1 || size < n*room || size%hugePage != 0 || size-n*room > size/8 && n*room < 24<<20 {
			t.Errorf("slots of %d: %d in a slab of %d", room, n, size)
		}
	}
}
