package expert

import (
	"container/heap"
	"fmt"
	"slices"

	"assay/internal/engine/kernel"
	"assay/internal/gguf"
)

const (
	hugePage  = 2 << 20
	cacheLine = 64
	sector    = 4096 // what direct reads are multiples of, on every disk that is in use
)

// class is the slots of experts that are kept alike: layers may differ in their
// formats, and so in the size of an expert. Each class has its share of the
// budget.
type class struct {
	kinds   [3]gguf.Type
	sample  [3]origin // of any of its layers
	layers  int
	room    int // bytes of a slot
	perSlab int
	slab    int // bytes of a slab
	share   float64
	slabs   []*slab
	free    []*slot
	idle    idle // ready experts that nobody holds
}

type slab struct {
	memory *mapping
	slots  []*slot
}

// slot is the place of one expert.
type slot struct {
	class *class
	slab  *slab
	mem   [3][]byte
	owner *entry // nil: free
	used  bool   // its memory is really there, not only promised
	view  Expert
}

// classOf finds the class of layer l, or makes it.
func (s *Store) classOf(l int) *class {
	var kinds [3]gguf.Type
	room := 0
	for p, g := range s.origins[l] {
		kinds[p] = g.kind
		room += g.room
	}
	for _, c := range s.classes {
		if c.kinds == kinds {
			c.layers++
			return c
		}
	}
	c := &class{kinds: kinds, sample: s.origins[l], layers: 1, room: padded(room, sector)}
	c.perSlab, c.slab = slabSize(c.room)
	s.classes = append(s.classes, c)
	return c
}

// slabSize is how many slots of room bytes a slab holds, and its size: the
// smallest one that wastes at most 5 %, or else the best up to 32 MiB.
func slabSize(room int) (n, size int) {
	least := 2.0
	for size := padded(room, hugePage); size <= max(32<<20, padded(room, hugePage)); size += hugePage {
		k := size / room
		waste := 1 - float64(k*room)/float64(size)
		if waste < least {
			least, n = waste, k
		}
		if waste <= 0.05 {
			break
		}
	}
	return n, padded(n*room, hugePage)
}

// bytes of the class's slabs.
func (c *class) bytes() int64 { return int64(len(c.slabs)) * int64(c.slab) }

// most is how many slabs are enough for all the class's experts.
func (c *class) most(experts int) int {
	return (c.layers*experts + c.perSlab - 1) / c.perSlab
}

// limit is how many slabs the class may have: one, and its share of what the
// budget leaves when every class has one.
func (s *Store) limit(c *class) int {
	n := 1 + int(c.share*float64(max(0, s.budget-s.least))/float64(c.slab))
	return min(n, c.most(s.shape.Experts))
}

// sizes sets least and total and the classes' shares, and returns what the read
// buffers take.
func (s *Store) sizes(readers int) (buffers int64) {
	s.least, s.total = 0, 0
	for _, c := range s.classes {
		s.least += int64(c.slab)
		s.total += int64(c.layers*s.shape.Experts) * int64(c.room)
	}
	for _, c := range s.classes {
		c.share = float64(c.layers) * float64(c.room) * float64(s.shape.Experts) / float64(s.total)
	}
	return int64(padded(readers*s.stage, hugePage))
}

// allot checks the budget and makes room for the readers.
func (s *Store) allot(o Options) error {
	buffers := s.sizes(o.Readers)
	if least := s.least + buffers; o.Bytes < least {
		return fmt.Errorf("%s: %.1f MiB of memory for experts are too few: it takes %.1f MiB to run at all, and %.0f MiB to hold all of them; give --expert-ram more, free memory, or use less of it for the context",
			s.name, mib(o.Bytes), mib(least), mib(s.need()+buffers))
	}
	m, err := newMapping(int(buffers))
	if err != nil {
		return fmt.Errorf("%d bytes of memory to read experts into: %w", buffers, err)
	}
	// All of it will be used at once; what is free must not look larger till then.
	for i := 0; i < len(m.mem); i += sector {
		m.mem[i] = 0
	}
	s.staging, s.budget = m, o.Bytes-buffers
	return nil
}

// Sizes says how many bytes a store takes at least, and to hold all experts, with
// the same meaning as Options.Bytes.
func Sizes(f *gguf.File, shape Shape, o Options) (least, all int64, err error) {
	s, err := newStore(f, shape, o)
	if err != nil {
		return 0, 0, err
	}
	buffers := s.sizes(o.readers())
	return s.least + buffers, s.need() + buffers, nil
}

// need is the budget that holds all experts.
func (s *Store) need() int64 {
	n := int64(0)
	for _, c := range s.classes {
		n = max(n, s.least+int64(float64((c.most(s.shape.Experts)-1)*c.slab)/c.share)+1)
	}
	return n
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// take finds a slot: a free one, one of a new slab, or that of the expert which
// will be missed least. nil: all are held.
func (s *Store) take(c *class) (*slot, error) {
	if len(c.free) == 0 && len(c.slabs) < s.limit(c) {
		if err := s.grow(c); err != nil && len(c.slabs) == 0 {
			return nil, fmt.Errorf("%s: %d bytes of memory for experts: %w", s.name, c.slab, err)
		}
	}
	if n := len(c.free); n > 0 {
		t := c.free[n-1]
		c.free = c.free[:n-1]
		return t, nil
	}
	if len(c.idle) == 0 {
		return nil, nil
	}
	e := heap.Pop(&c.idle).(*entry)
	return s.evict(e), nil
}

// evict takes the slot of an expert that is in no heap.
func (s *Store) evict(e *entry) *slot {
	t := e.slot
	s.stats.Evictions++
	if e.ahead {
		s.stats.AheadWasted++
		e.ahead = false
	}
	e.slot, e.state, t.owner = nil, absent, nil
	return t
}

// grow adds a slab. A system that refuses to map more keeps what there is.
func (s *Store) grow(c *class) error {
	m, err := newMapping(c.slab)
	if err != nil {
		return err
	}
	b := &slab{memory: m}
	for i := range c.perSlab {
		t := &slot{class: c, slab: b}
		mem := m.mem[i*c.room:][:c.room]
		// What is read in place comes first: it must begin at a sector.
		for _, packed := range []bool{false, true} {
			for p, g := range c.sample {
				if g.packed == packed {
					t.mem[p], mem = mem[:g.room:g.room], mem[g.room:]
				}
			}
		}
		for p, g := range c.sample {
			if g.packed {
				*t.view.part(p) = kernel.NewPanels(g.kind, g.rows, g.cols, t.mem[p])
			}
		}
		b.slots = append(b.slots, t)
		c.free = append(c.free, t)
	}
	c.slabs = append(c.slabs, b)
	return nil
}

func (e *Expert) part(p int) **kernel.Matrix {
	return [...]**kernel.Matrix{&e.Gate, &e.Up, &e.Down}[p]
}

// shrink gives slabs back until the budget holds, those first whose experts will
// be missed least. Slabs with experts in use stay; it is called again when those
// are given back.
func (s *Store) shrink() {
	for _, c := range s.classes {
		for len(c.slabs) > s.limit(c) {
			best, least := -1, 0.0
			for i, b := range c.slabs {
				if k, ok := b.value(); ok && (best < 0 || k < least) {
					best, least = i, k
				}
			}
			if best < 0 {
				break
			}
			b := c.slabs[best]
			for _, t := range b.slots {
				if e := t.owner; e != nil {
					heap.Remove(&c.idle, e.place)
					s.evict(e)
				}
			}
			c.free = slices.DeleteFunc(c.free, func(t *slot) bool { return t.slab == b })
			c.slabs = slices.Delete(c.slabs, best, best+1)
			if err := b.memory.close(); err != nil {
				panic(fmt.Sprintf("expert: giving a slab back: %v", err)) // not mapped: a bug here
			}
		}
	}
}

// over says whether slabs are held beyond the budget.
func (s *Store) over() bool {
	for _, c := range s.classes {
		if len(c.slabs) > s.limit(c) {
			return true
		}
	}
	return false
}

// value is the key of the most wanted expert in the slab; false: one is in use.
func (b *slab) value() (float64, bool) {
	k := lowest
	for _, t := range b.slots {
		switch e := t.owner; {
		case e == nil:
		case e.place < 0:
			return 0, false
		default:
			k = max(k, e.key)
		}
	}
	return k, true
}

// promised is memory of slabs that has not been written to yet, and so is not known
// to the system as taken.
func (s *Store) promised() int64 {
	n := int64(0)
	for _, c := range s.classes {
		for _, b := range c.slabs {
			for _, t := range b.slots {
				if !t.used {
					n += int64(c.room)
				}
			}
		}
	}
	return n
}
