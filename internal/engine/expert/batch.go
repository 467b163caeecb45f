package expert

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"assay/internal/engine/pool"
)

// Batch is the experts of one layer that a pass asked for. It is to be ended.
type Batch struct {
	s      *Store
	number uint64 // of all batches
	class  *class
	want   []*entry // that wait for a slot
	coming []*entry // in memory, or being read; they are held
	atHand int      // of coming: in memory from the start
	given  []*entry // of the last group; they are held
	group  []Expert
	err    error
}

// Begin asks for experts of a layer, each named once, and starts reading those
// that are not in memory, in the order in which they are named. uses[i] is how
// many of the pass's tokens want ids[i]; nil stands for one each. Passes ask layer
// after layer; a layer that is not above the last one begins a new pass.
//
// The batch must be ended, whatever happens, and no goroutine may begin one while
// it holds another.
func (s *Store) Begin(layer int, ids, uses []int32) (*Batch, error) {
	if layer < 0 || layer >= s.shape.Layers || uses != nil && len(uses) != len(ids) {
		return nil, fmt.Errorf("expert: layer %d of %d, %d experts with %d uses", layer, s.shape.Layers, len(ids), len(uses))
	}
	if s.layers[layer].class == nil {
		return nil, fmt.Errorf("expert: layer %d has none", layer)
	}
	for _, id := range ids {
		if id < 0 || int(id) >= s.shape.Experts {
			return nil, fmt.Errorf("expert: number %d of %d in layer %d", id, s.shape.Experts, layer)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	s.open++
	b := s.newBatch(layer)
	s.policy.pass(layer)
	s.policy.tokens = s.tokens(ids, uses)
	entries, lacked := s.entries[layer*s.shape.Experts:][:s.shape.Experts], 0
	for i, id := range ids {
		e, n := &entries[id], int32(1)
		if uses != nil {
			n = uses[i]
		}
		s.policy.use(e, n)
		s.stats.Lookups++
		e.lookups++
		if e.state != ready || e.ahead {
			lacked++
		}
		if e.state == ready {
			s.stats.Hits++
			b.atHand++
			if e.ahead {
				s.stats.AheadHits++
			}
		}
		s.judge(&s.layers[layer], e, true)
		if e.ahead {
			s.stats.AheadUsed++
			s.unmark(e)
		}
		if e.state == absent {
			b.want = append(b.want, e)
		} else {
			s.hold(e)
			b.coming = append(b.coming, e)
		}
	}
	s.settle(layer)
	s.missing += (float64(lacked) - s.missing) / missingMean
	if len(b.want) > 0 {
		s.batches = append(s.batches, b)
		s.serve()
	}
	return b, nil
}

// tokens of a pass that uses experts so often, in half lives.
func (s *Store) tokens(ids, uses []int32) float64 {
	n := int64(len(ids))
	if uses != nil {
		n = 0
		for _, u := range uses {
			n += int64(u)
		}
	}
	return float64(n) / float64(s.shape.Used) / halfLife
}

func (s *Store) newBatch(layer int) *Batch {
	var b *Batch
	if n := len(s.spare); n > 0 {
		b, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		b = new(Batch)
	}
	s.begun++
	b.s, b.number, b.class, b.err, b.atHand = s, s.begun, s.layers[layer].class, nil, 0
	return b
}

// hold keeps e, in memory or on its way, from being evicted.
func (s *Store) hold(e *entry) {
	if e.refs++; e.place >= 0 {
		heap.Remove(&e.slot.class.idle, e.place)
	}
}

// drop undoes hold.
func (s *Store) drop(e *entry) {
	if e.refs--; e.refs > 0 {
		return
	}
	switch e.state {
	case ready:
		s.rest(e)
	case absent:
		e.err = nil // all who waited for it know
	}
}

// rest makes e one that can be evicted.
func (s *Store) rest(e *entry) {
	s.policy.given++
	e.given = s.policy.given
	heap.Push(&e.slot.class.idle, e)
}

// serve gives slots to the experts that wait for one, batch after batch, and
// queues their reads. A batch gets no more at a time than keep the readers busy: a
// long prompt wants all experts of a layer, and taking slots for all of them at
// once would drop what the next layers want, while those that were just computed
// could go.
func (s *Store) serve() {
	if s.over() {
		s.shrink()
	}
	s.batches = slices.DeleteFunc(s.batches, func(b *Batch) bool {
		n := 0
		for _, e := range b.want {
			if len(b.coming)-b.atHand >= s.window {
				break
			}
			if e.err != nil { // of a read that failed: those who asked for it give it back first
				break
			}
			if e.state == absent {
				t, err := s.take(b.class)
				if err != nil {
					b.err = err
					s.notify()
				}
				if t == nil {
					break
				}
				e.asker = b.number
				s.fetch(e, t, &s.demand)
			}
			if e.state != loading { // another batch asked for it and has it
				s.notify()
			}
			s.hold(e)
			b.coming = append(b.coming, e)
			n++
		}
		b.want = b.want[:copy(b.want, b.want[n:])]
		return len(b.want) == 0
	})
}

// Next gives the last group's experts back and returns those that have arrived
// since, at least one, in no particular order; none when the batch is done. The
// slice is valid until the next call. After an error the batch can only be ended.
func (b *Batch) Next() ([]Expert, error) {
	s := b.s
	s.mu.Lock()
	defer s.mu.Unlock()
	b.giveBack()
	s.freed()
	var since time.Time
	for {
		if b.collect(); b.err != nil {
			return nil, b.err
		}
		if len(b.want) > 0 {
			s.serve() // in place of those collected
		}
		if len(b.group) > 0 || len(b.coming)+len(b.want) == 0 {
			break
		}
		if since.IsZero() {
			since = time.Now()
		}
		s.await()
	}
	if !since.IsZero() {
		s.stats.Wait += time.Since(since)
	}
	return b.group, nil
}

// notify tells those who wait that something changed.
func (s *Store) notify() {
	s.changes.Add(1)
	s.changed.Broadcast()
}

// await waits for a change.
func (s *Store) await() {
	seen := s.changes.Load()
	s.mu.Unlock()
	for began := time.Now(); s.changes.Load() == seen && time.Since(began) < pool.Patience; {
		pool.Yield()
	}
	s.mu.Lock()
	if s.changes.Load() == seen {
		s.changed.Wait()
	}
}

// giveBack drops the experts of the last group.
func (b *Batch) giveBack() {
	for _, e := range b.given {
		b.s.drop(e)
	}
	b.given, b.group = b.given[:0], b.group[:0]
}

// collect moves what has arrived to the group. A read that failed is the batch's error
// only if the batch asked for it: else it began earlier, and is tried again.
func (b *Batch) collect() {
	n := 0
	for _, e := range b.coming {
		switch e.state {
		case ready:
			b.given = append(b.given, e)
			x := e.slot.view
			x.ID = e.index % int32(b.s.shape.Experts)
			b.group = append(b.group, x)
		case absent:
			if e.asker != b.number {
				b.again(e)
				continue
			}
			b.err = e.err
			fallthrough
		default:
			b.coming[n] = e
			n++
		}
	}
	b.coming, b.atHand = b.coming[:n], 0
}

// again waits for e to be read once more.
func (b *Batch) again(e *entry) {
	b.s.drop(e)
	if len(b.want) == 0 {
		b.s.batches = append(b.s.batches, b)
	}
	b.want = append(b.want, e)
}

// End gives all experts back. Reads that are under way go on, for later batches.
// A batch must not be used after End.
func (b *Batch) End() {
	s := b.s
	s.mu.Lock()
	defer s.mu.Unlock()
	b.giveBack()
	for _, e := range b.coming {
		s.drop(e)
	}
	if len(b.want) > 0 {
		s.batches = slices.DeleteFunc(s.batches, func(o *Batch) bool { return o == b })
	}
	b.coming, b.want = b.coming[:0], b.want[:0]
	s.spare = append(s.spare, b)
	s.freed()
	s.leave()
}

// freed is to be called when experts were given back.
func (s *Store) freed() {
	if len(s.batches) > 0 || s.over() {
		s.serve()
	}
}

// leave ends what open counts; Close may wait for it.
func (s *Store) leave() {
	if s.open--; s.closed {
		s.work.Broadcast()
		s.notify()
	}
}

// Resident says whether an expert is in memory now.
func (s *Store) Resident(layer, id int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[layer*s.shape.Experts+id].state == ready
}
