package kv

import (
	"testing"

	"pgregory.net/rapid"

	"assay/internal/engine/kernel"
)

// A cache behaves as a plain list of numbers would, through any sequence of
// extending, giving up, truncating, keeping and restoring, and no page and no
// state is lost. Its layers differ, and one of them is recurrent: it remembers the
// last two numbers, and the sum of all of them, as a DeltaNet of one number would.
func TestCacheIsAList(t *testing.T) {
	layout := kernel.KVLayout{Dim: 1, Format: kernel.KVF32}
	shapes := map[string]Shape{
		"attention": {Layers: []Layer{{Heads: 2, Layout: layout}, {Heads: 1, Layout: layout, Floats: 3}}},
		"recurrent": {Layers: []Layer{{Heads: 2, Layout: layout}, {Heads: 1, Layout: layout, Floats: 3}, {Memory: []MemoryShape{{Width: 1, Reach: 2}, {KeyHeads: 1, Heads: 1, Size: 1}}}}},
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { checkList(t, shape) }) })
	}
}

// list is what the cache should hold.
type list struct {
	numbers []float32
	least   int    // what it can be cut to for certain
	kept    []list // checkpoints
}

func (l list) clone() list {
	return list{append([]float32(nil), l.numbers...), l.least, append([]list(nil), l.kept...)}
}

// reach is to how many numbers, at least, a recurrent list can be cut for n.
func (l *list) reach(n int) int {
	best := 0
	for _, k := range append([]list{*l}, l.kept...) {
		if to := min(n, len(k.numbers)); to >= k.least {
			best = max(best, to)
		}
	}
	return best
}

func (l *list) truncate(n int) {
	if n < l.least {
		l.least = n // of the checkpoint that it comes from
	}
	l.numbers = l.numbers[:n]
	for len(l.kept) > 0 && len(l.kept[len(l.kept)-1].numbers) > n {
		l.kept = l.kept[:len(l.kept)-1]
	}
}

// extend adds numbers, and says whether they can be taken back.
func (l *list) extend(numbers []float32) {
	if l.least = len(l.numbers); len(numbers) > WindowTokens {
		l.least += len(numbers)
	}
	l.numbers = append(l.numbers, numbers...)
}

// remember does to the recurrent layer what a model would. Giving up, it may leave
// off in the middle.
func remember(t *rapid.T, c *Cache, at int, numbers []float32, aborts bool) {
	history, sum := c.Memory(2, 0), c.Memory(2, 1)
	if at >= 2 && c.Len()-len(numbers) == at {
		for pos := at - 2; pos < at; pos++ {
			if got := history.Row(pos)[0]; got != float32(pos%997) {
				t.Fatalf("the history has %g at position %d", got, pos)
			}
		}
	}
	if aborts && rapid.Bool().Draw(t, "aborts early") {
		return
	}
	rows := make([]float32, 3*len(numbers))
	for i := range numbers {
		rows[3*i] = float32((at + i) % 997)
	}
	history.Write(rows, 3)
	keep := sum.Keep()
	state, lacks, n := sum.State(0)
	for i := range n {
		state[0] = lacks.Decay[i]*state[0] + lacks.K[i]*lacks.Wrong[i]
	}
	for i, v := range numbers {
		if keep == nil {
			state[0] += v
		} else {
			keep.K[i], keep.Wrong[i], keep.Decay[i] = 1, v, 1
		}
	}
	sum.Corrected()
}

// sum is what the DeltaNet's state comes to.
func (c *Cache) sum() float32 {
	m := &c.state.parts[1]
	sum := m.states[0]
	for i := range c.n - m.at {
		sum += m.kept[m.newest].Wrong[i]
	}
	return sum
}

func checkList(t *rapid.T, shape Shape) {
	store := NewStore(shape)
	c := store.NewCache()
	var model list
	type kept struct {
		s     *Snapshot
		model list
	}
	var snapshots []kept
	next := float32(1)
	for range rapid.IntRange(1, 30).Draw(t, "steps") {
		switch rapid.IntRange(0, 6).Draw(t, "what") {
		case 0, 1:
			n := rapid.SampledFrom([]int{1, 2, 5, 16, 17, 18, 40, 300}).Draw(t, "extend")
			var numbers []float32
			at, abort := c.Len(), rapid.IntRange(0, 3).Draw(t, "abort") == 0
			was := model.clone()
			c.Extend(n)
			for pos := at; pos < at+n; pos++ {
				for l, layer := range shape.Layers {
					for h := range layer.Heads {
						c.Put(l, h, pos, []float32{next + float32(l)}, []float32{-next - float32(h)}, make([]uint16, 1))
					}
					if layer.Floats > 0 {
						c.Floats(l, pos)[2] = next
					}
				}
				numbers = append(numbers, next)
				next = float32(int(next)%1000 + 1) // exact in F16
			}
			if c.Recurrent() {
				remember(t, c, at, numbers, abort)
			}
			if model.extend(numbers); abort {
				c.Abort()
				model = was
				// What came before may not be known any more.
				model.least = len(model.numbers)
			} else {
				c.Commit()
			}
		case 2:
			n := rapid.IntRange(0, c.Len()).Draw(t, "truncate")
			if c.Recurrent() {
				if got, want := c.Reach(n), model.reach(n); got < want || got > n {
					t.Fatalf("to %d of %d: reaches %d, want %d at least", n, c.Len(), got, want)
				}
				n = c.Reach(n)
			}
			c.Truncate(n)
			model.truncate(n)
		case 3:
			snapshots = append(snapshots, kept{c.Snapshot(), model.clone()})
		case 4:
			if len(snapshots) > 0 {
				k := snapshots[rapid.IntRange(0, len(snapshots)-1).Draw(t, "restore")]
				c.Restore(k.s)
				model = k.model.clone()
			}
		case 5:
			c.Checkpoint()
			if n := c.Len(); c.Recurrent() && n > 0 && (len(model.kept) == 0 || len(model.kept[len(model.kept)-1].numbers) < n) {
				k := model.clone()
				k.kept = nil
				model.kept = append(model.kept, k)
			}
		case 6:
			n := rapid.IntRange(0, 3).Draw(t, "keep")
			c.Keep(n)
			model.kept = model.kept[max(0, len(model.kept)-n):]
		}
		checkSame(t, c, &model)
	}
	c.Release()
	c.Keep(0)
	for _, k := range snapshots {
		k.s.Release()
	}
	for _, p := range store.free {
		if p.refs.Load() != 0 {
			t.Fatalf("a free page has %d references", p.refs.Load())
		}
	}
	for _, s := range store.states {
		if s.refs.Load() != 0 {
			t.Fatalf("a free state has %d references", s.refs.Load())
		}
	}
	if store.zero != nil && store.zero.refs.Load() != 2 { // the store's and the empty cache's
		t.Fatalf("the zero state has %d references", store.zero.refs.Load())
	}
}

func checkSame(t *rapid.T, c *Cache, model *list) {
	if c.Len() != len(model.numbers) {
		t.Fatalf("length %d, want %d", c.Len(), len(model.numbers))
	}
	sum := float32(0)
	for pos, v := range model.numbers {
		k := c.Layout(1).Key(c.Page(1, 0, pos/PageSize), pos%PageSize, 0)
		w := c.Layout(0).Value(c.Page(0, 1, pos/PageSize), pos%PageSize, 0)
		if f := c.Floats(1, pos)[2]; k != v+1 || w != -v-1 || f != v {
			t.Fatalf("position %d: key %g, value %g, number %g; want %g, %g, %g", pos, k, w, f, v+1, -v-1, v)
		}
		sum += v
	}
	if c.Recurrent() && c.sum() != sum {
		t.Fatalf("the state is %g, want %g", c.sum(), sum)
	}
}

// What can't be undone is refused loudly, before anything changes.
func TestMisuseOfACache(t *testing.T) {
	panics := func(what string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", what)
			}
		}()
		f()
	}
	c := NewStore(Shape{Layers: []Layer{{Memory: []MemoryShape{{KeyHeads: 1, Heads: 1, Size: 1}}}}}).NewCache()
	c.Extend(50)
	c.Memory(0, 0).State(0)
	c.Memory(0, 0).Corrected()
	panics("a snapshot in the middle of a pass", func() { c.Snapshot() })
	panics("truncating in the middle of a pass", func() { c.Truncate(0) })
	c.Commit()
	panics("truncating to a length that nothing knows of", func() { c.Truncate(30) })
	if c.Len() != 50 {
		t.Errorf("length %d, want 50", c.Len())
	}
}
