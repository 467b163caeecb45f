// Package expert holds a model's expert weights in a bounded part of memory and
// reads the others from the model's files when a pass asks for them.
//
// A pass asks for the experts of one layer with [Store.Begin] and takes them
// from the [Batch] in groups: first those that are in memory, then the others as
// they arrive, so that computing hides reading. The weights are those of the
// file, so the budget never changes a result.
//
//	b, err := store.Begin(layer, busy, uses)
//	if err != nil { ... }
//	defer b.End()
//	for {
//		group, err := b.Next() // gives the group before back
//		if err != nil || len(group) == 0 { ... }
//		... gate, up, activation and down of the group's experts
//	}
//
// Memory is taken in slabs outside the Go heap, each a multiple of 2 MiB and
// given back whole. Files are read past the page cache, several pieces at a
// time.
package expert

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"assay/internal/engine/kernel"
	"assay/internal/gguf"
)

// ErrClosed is what Begin returns after Close.
var ErrClosed = errors.New("the store of experts is closed")

// Shape is what the metadata say of a model's experts. Layers without any are
// allowed: those of which the file has none of the three tensors.
type Shape struct {
	Layers  int
	Experts int // a layer
	Used    int // experts a token
	Width   int // of the residual stream: gate and up are [Inner, Width], down is [Width, Inner]
	Inner   int
}

// Options say how much memory experts get.
type Options struct {
	// Bytes bounds slabs and read buffers together. 0: what is free, less a
	// reserve, adapted while the store is open.
	Bytes int64
	// Plain keeps experts as they lie in the file. They take less room in some
	// formats (a fifth less with IQ3_S), but kernels that want panels then repack
	// them at every use.
	Plain bool
	// Readers is how many reads are under way at most; 0 is DefaultReaders.
	Readers int
	// Reader reads the files; nil: directly from the disk.
	Reader Reader
	// Memory tells what is free, for Bytes 0; nil: this machine.
	Memory Memory
}

// DefaultReaders are the reads under way at most: two experts. Disks of our tests nearly
// reach their full rate with that. With twice as many, all of them come late together,
// and nothing can be computed meanwhile.
const DefaultReaders = 6

// Expert is one expert's matrices. They are valid until the batch that gave them
// is asked for more, or ends.
type Expert struct {
	ID             int32
	Gate, Up, Down *kernel.Matrix
}

// Store is the experts of one model. Its methods may be called from any number
// of goroutines; a Batch belongs to one.
type Store struct {
	shape   Shape
	name    string
	origins [][3]origin // [layer][part]
	layers  []layer
	plain   bool
	reader  Reader
	owned   bool // reader was opened here
	staging *mapping
	stage   int // bytes of each reader's part of staging
	window  int // experts that a batch has on their way at most
	total   int64

	workers sync.WaitGroup
	packing chan struct{} // one for each processor
	auto    *governor
	hash    string

	mu      sync.Mutex
	changed sync.Cond     // an expert arrived, failed or was given back
	changes atomic.Uint64 // how often
	work    sync.Cond     // there is something to read
	classes []*class
	entries []entry // [layer*experts + expert]
	budget  int64   // of slabs
	least   int64   // a slab for each class
	demand  queue
	ahead   queue
	batches []*Batch // that wait for slots, in order
	spare   []*Batch
	open    int    // batches
	begun   uint64 // batches, ever
	closed  bool
	policy  policy
	missing float64 // experts that a layer lacks when it is asked for, in the mean; what was read ahead counts
	stats   Stats
}

// parts of an expert.
const (
	gate = iota
	up
	down
)

var partNames = [3]string{"gate", "up", "down"}

// origin is where the experts of one tensor lie.
type origin struct {
	name       string
	kind       gguf.Type
	shard      int
	offset     int64 // of the first expert
	bytes      int   // of each
	rows, cols int
	packed     bool // kept in panels
	room       int  // of each in a slot
}

// layer is what changes of a layer.
type layer struct {
	class   *class             // nil: it has no experts
	records [Farthest][]record // of guesses so many layers before, less one, by rank
	passes  [Farthest]int      // that asked whether to guess
	guesses int                // of its experts that are not judged yet
}

type state uint8

const (
	absent state = iota
	loading
	ready
)

// entry is what is known of one expert.
type entry struct {
	index   int32 // layer*experts + expert
	state   state
	left    int8            // parts still to be read
	begun   bool            // a reader has taken one of its parts
	ahead   bool            // read before it was asked for, and not used since
	guess   [Farthest]int32 // rank of the guesses that it will be asked for, and 1; 0: none
	refs    int32
	slot    *slot
	lookups int64
	asker   uint64  // number of the last batch that asked for a read of it
	err     error   // of a read that failed, while somebody waits for it
	key     float64 // see policy
	pending int32   // uses that the policy has not counted yet
	place   int     // in the class's heap; -1: not there
	given   uint64  // when it was given back; orders equal keys
}

// Open finds the experts of shape in f and starts reading in the background.
// f may be closed afterwards, but its files must stay as they are.
func Open(f *gguf.File, shape Shape, o Options) (*Store, error) {
	s, err := newStore(f, shape, o)
	if err != nil {
		return nil, err
	}
	o.Readers = o.readers()
	s.window = max(2, (2*o.Readers+2)/3)
	if s.reader == nil {
		r, err := OpenFiles(f)
		if err != nil {
			return nil, err
		}
		s.reader, s.owned = r, true
	}
	if err := s.start(f, o); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

func (o *Options) readers() int {
	if o.Readers == 0 {
		return DefaultReaders
	}
	return o.Readers
}

// newStore is a store without memory or files.
func newStore(f *gguf.File, shape Shape, o Options) (*Store, error) {
	if shape.Layers < 1 || shape.Experts < 1 || shape.Used < 1 || shape.Used > shape.Experts {
		return nil, fmt.Errorf("%s: %d layers of %d experts, %d used a token: that is no mixture of experts", f.Name(), shape.Layers, shape.Experts, shape.Used)
	}
	s := &Store{shape: shape, name: f.Name(), plain: o.Plain, reader: o.Reader}
	s.changed.L, s.work.L = &s.mu, &s.mu
	s.packing = make(chan struct{}, runtime.NumCPU())
	if err := s.find(f); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Store) start(f *gguf.File, o Options) (err error) {
	if s.hash, err = identity(f, s.reader, s.shape); err != nil {
		return err
	}
	memory := o.Memory
	if o.Bytes == 0 {
		if memory == nil {
			memory = Machine("/")
		}
		free, err := memory.Free()
		if err != nil {
			return fmt.Errorf("how much memory is free is not to be read: %w; say how much experts may have, as in --expert-ram 4GiB", err)
		}
		o.Bytes = max(0, free.Bytes-Reserve(free.Limit))
	}
	if err := s.allot(o); err != nil {
		return err
	}
	if memory != nil {
		s.auto = govern(s, memory)
	}
	for i := range o.Readers {
		buf := s.staging.mem[i*s.stage:][:s.stage:s.stage]
		s.workers.Go(func() { s.read(buf) })
	}
	return nil
}

// find fills origins and checks dimensions.
func (s *Store) find(f *gguf.File) error {
	n := s.shape.Layers * s.shape.Experts
	s.entries = make([]entry, n)
	for i := range s.entries {
		s.entries[i] = entry{index: int32(i), place: -1}
	}
	s.policy.init(s.entries)
	s.origins, s.layers = make([][3]origin, s.shape.Layers), make([]layer, s.shape.Layers)
	shards := f.Shards()
	for l := range s.origins {
		if len(layerTensors(f, l)) == 0 {
			continue
		}
		for p := range s.origins[l] {
			rows, cols := s.shape.Inner, s.shape.Width
			if p == down {
				rows, cols = cols, rows
			}
			name := tensorName(l, p)
			t, ok := f.Tensor(name)
			if !ok {
				return fmt.Errorf("%s: tensor %s is missing", f.Name(), name)
			}
			d := t.Dims
			if len(d) != 3 || d[0] != uint64(cols) || d[1] != uint64(rows) || d[2] != uint64(s.shape.Experts) {
				return fmt.Errorf("%s: tensor %s has dimensions %v, but the metadata ask for %v", f.Name(), name, d, []int{cols, rows, s.shape.Experts})
			}
			if t.Bytes() == 0 {
				return fmt.Errorf("%s: tensor %s is %s, which this engine can't run", f.Name(), name, t.Type)
			}
			if end := int64(t.Offset + t.Bytes()); end > shards[t.Shard].Size {
				return fmt.Errorf("%s: tensor %s ends at byte %d of a file of %d", f.Name(), name, end, shards[t.Shard].Size)
			}
			g := origin{
				name: name, kind: t.Type, shard: t.Shard, offset: int64(t.Offset),
				bytes: int(t.Bytes()) / s.shape.Experts, rows: rows, cols: cols,
				packed: !s.plain && kernel.Packs(t.Type),
			}
			if g.room = covering(g.bytes); g.packed {
				g.room = padded(kernel.PanelBytes(g.kind, rows, cols), cacheLine)
			}
			s.stage = max(s.stage, covering(g.bytes))
			s.origins[l][p] = g
		}
		s.layers[l].class = s.classOf(l)
		for i := range s.layers[l].records {
			s.layers[l].records[i] = make([]record, s.shape.Used)
		}
	}
	if len(s.classes) == 0 {
		return fmt.Errorf("%s: tensor %s is missing, and those of all other layers", f.Name(), tensorName(0, gate))
	}
	return nil
}

func tensorName(layer, part int) string {
	return fmt.Sprintf("blk.%d.ffn_%s_exps.weight", layer, partNames[part])
}

// layerTensors are the names of those tensors of a layer's experts that f has.
func layerTensors(f *gguf.File, layer int) (names []string) {
	for p := range partNames {
		if name := tensorName(layer, p); has(f, name) {
			names = append(names, name)
		}
	}
	return names
}

func has(f *gguf.File, name string) bool {
	_, ok := f.Tensor(name)
	return ok
}

// Tensors are the names of the tensors of f that a store of that shape reads: nobody
// else needs them.
func Tensors(f *gguf.File, shape Shape) (names []string) {
	for l := range shape.Layers {
		names = append(names, layerTensors(f, l)...)
	}
	return names
}

// covering is the room for an aligned read that holds n bytes from anywhere.
func covering(n int) int { return padded(n+sector-1, sector) }

func padded(n, to int) int { return (n + to - 1) / to * to }

// origin of part p of e, and which expert of the layer e is.
func (s *Store) origin(e *entry, p int) (*origin, int) {
	return &s.origins[int(e.index)/s.shape.Experts][p], int(e.index) % s.shape.Experts
}

// Close waits for batches to end and for reads under way, and gives all memory
// back.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for s.open > 0 {
		s.changed.Wait()
	}
	s.work.Broadcast()
	s.mu.Unlock()
	if s.auto != nil {
		s.auto.close()
	}
	s.workers.Wait()
	return s.release()
}

// release gives back what start took.
func (s *Store) release() error {
	var errs []error
	for _, c := range s.classes {
		for _, b := range c.slabs {
			errs = append(errs, b.memory.close())
		}
		c.slabs, c.free = nil, nil
	}
	if s.staging != nil {
		errs = append(errs, s.staging.close())
	}
	if s.owned {
		errs = append(errs, s.reader.Close())
	}
	return errors.Join(errs...)
}

// Stats counts what the store did since it was opened.
type Stats struct {
	Lookups   int64 // experts that batches asked for, each once a batch
	Hits      int64 // of them, those that were in memory when they were asked for
	Reads     int64 // pieces read, three an expert
	BytesRead int64 // of weights; what alignment adds is left out
	Errors    int64 // reads that failed
	InFlight  int   // experts that are being read, or queued for it, now
	// Wait is the time that batches had nothing to compute.
	Wait time.Duration
	// Read is the time that reads took, summed over those at the same time; Pack the
	// time of repacking.
	Read, Pack time.Duration
	// Guesses of Ahead of experts that were not in memory, and those that came true. An
	// expert may be guessed twice, from two layers.
	Guessed, GuessedRight int64
	// Experts read ahead; how many of them a batch asked for later, of these how many were
	// there by then, and how many were dropped before they were asked for.
	AheadRead, AheadUsed, AheadHits, AheadWasted int64

	Resident  int   // experts in memory
	Slots     int   // experts that the slabs have room for
	Bytes     int64 // of slabs and read buffers
	Budget    int64 // what Bytes may reach now
	AllBytes  int64 // what all experts would take
	Shrinks   int64 // how often auto gave memory back
	Evictions int64
}

// Count is lookups, and those of them that were hits. Of a difference between two,
// Hits/Lookups is the hit rate: an expert is looked up once by a batch, whatever
// the number of its tokens that want it.
type Count struct{ Lookups, Hits int64 }

// Count is how many there were so far.
func (s *Store) Count() Count {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Count{s.stats.Lookups, s.stats.Hits}
}

// Uses appends how often each expert was looked up, layer by layer.
func (s *Store) Uses(to []int64) []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.entries {
		to = append(to, s.entries[i].lookups)
	}
	return to
}

// Stats returns the counts so far.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.stats
	t.AllBytes, t.Budget = s.total, s.budget
	if s.staging != nil {
		t.Bytes = int64(len(s.staging.mem))
		t.Budget += t.Bytes
	}
	for _, c := range s.classes {
		t.Bytes += c.bytes()
		t.Slots += len(c.slabs) * c.perSlab
	}
	for i := range s.entries {
		switch s.entries[i].state {
		case ready:
			t.Resident++
		case loading:
			t.InFlight++
		}
	}
	return t
}
