package kv

import (
	"bytes"
	"errors"
	"testing"

	"assay/internal/engine/kernel"
)

var exported = Shape{Layers: []Layer{
	{Heads: 1, Layout: kernel.KVLayout{Dim: 1, Format: kernel.KVF32}},
	{Memory: []MemoryShape{{Width: 1, Reach: 2}, {KeyHeads: 1, Heads: 1, Size: 1}}},
}}

// pass extends c as a model with recurrent layers would.
func pass(c *Cache, n int, v float32) {
	at := c.Len()
	c.Extend(n)
	rows := make([]float32, n)
	for i := range n {
		rows[i] = v + float32(i)
		c.Put(0, 0, at+i, []float32{rows[i]}, []float32{-rows[i]}, make([]uint16, 1))
	}
	c.Memory(1, 0).Write(rows, 1)
	sum := c.Memory(1, 1)
	keep := sum.Keep()
	state, lacks, k := sum.State(0)
	for i := range k {
		state[0] += lacks.Wrong[i]
	}
	for i, r := range rows {
		if keep == nil {
			state[0] += r
			continue
		}
		keep.K[i], keep.Decay[i], keep.Wrong[i] = 1, 1, r
	}
	sum.Corrected()
	c.Commit()
}

// sum is what the DeltaNet of a sequence would begin its next pass with.
func sum(c *Cache) float32 {
	c.Extend(1)
	defer c.Abort()
	m := c.Memory(1, 1)
	m.Keep()
	state, lacks, n := m.State(0)
	v := state[0]
	for _, w := range lacks.Wrong[:n] {
		v += w
	}
	return v
}

// What is imported is what was exported, and goes on as the original does: after a
// long pass, a short one, and when drafts were taken back.
func TestImportIsExport(t *testing.T) {
	for name, prepare := range map[string]func(c *Cache){
		"long":   func(c *Cache) { pass(c, 300, 1) },
		"short":  func(c *Cache) { pass(c, 300, 1); pass(c, 5, 7) },
		"window": func(c *Cache) { pass(c, 300, 1); pass(c, 9, 7); c.Truncate(303) },
	} {
		t.Run(name, func(t *testing.T) {
			store := NewStore(exported)
			c := store.NewCache()
			prepare(c)
			s := c.Snapshot()
			pages, state := s.Pages(), s.State()
			other := NewStore(exported)
			if other.Layout() != store.Layout() {
				t.Errorf("layouts %q and %q", other.Layout(), store.Layout())
			}
			got, err := other.Import(s.Len(), func(i int, data []byte) error { copy(data, pages[i]); return nil }, state)
			if err != nil {
				t.Fatal(err)
			}
			again := other.NewCache()
			again.Restore(got)
			if again.Len() != c.Len() || sum(again) != sum(c) {
				t.Errorf("%d positions and a sum of %g, want %d and %g", again.Len(), sum(again), c.Len(), sum(c))
			}
			for _, cache := range []*Cache{c, again} {
				pass(cache, 3, 50)
				pass(cache, 40, 60)
			}
			a, b := c.Snapshot(), again.Snapshot()
			if !bytes.Equal(a.State(), b.State()) || !bytes.Equal(a.Pages()[1][:64], b.Pages()[1][:64]) {
				t.Error("they went on differently")
			}
		})
	}
}

// An import that fails leaves nothing behind.
func TestImportFails(t *testing.T) {
	store := NewStore(exported)
	c := store.NewCache()
	pass(c, 300, 1)
	state := c.Snapshot().State()
	broken := errors.New("broken")
	fill := func(int, []byte) error { return nil }
	if _, err := store.Import(300, func(i int, _ []byte) error {
		if i == 1 {
			return broken
		}
		return nil
	}, state); !errors.Is(err, broken) {
		t.Errorf("a page that can't be read: %v", err)
	}
	for name, bad := range map[string][]byte{"none": nil, "short": state[:len(state)-1], "long": append(bytes.Clone(state), 0)} {
		if _, err := store.Import(300, fill, bad); err == nil {
			t.Errorf("%s: it was imported", name)
		}
	}
	if _, err := store.Import(200, fill, state); err == nil {
		t.Error("the state of 300 positions was imported as one of 200")
	}
}

func FuzzImportState(f *testing.F) {
	store := NewStore(exported)
	for _, n := range []int{300, 5} {
		c := store.NewCache()
		pass(c, n, 1)
		f.Add(c.Snapshot().State(), uint16(n))
	}
	f.Fuzz(func(t *testing.T, data []byte, n uint16) {
		s, err := NewStore(exported).Import(int(n)+1, func(int, []byte) error { return nil }, data)
		if err != nil {
			return
		}
		c := s.store.NewCache()
		c.Restore(s)
		pass(c, 3, 1)
		pass(c, 30, 1)
	})
}
