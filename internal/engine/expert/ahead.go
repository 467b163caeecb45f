package expert

import "container/heap"

// Ahead starts to read experts of a layer that a pass will probably ask for soon,
// when nothing that was asked for is left to be read. They are kept until that
// layer is asked for, as far as there is room. It is advice: it has no errors, and
// what finds no room is left out.
func (s *Store) Ahead(layer int, ids []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || layer < 0 || layer >= s.shape.Layers || s.layers[layer].class == nil {
		return
	}
	l := &s.layers[layer]
	for _, id := range ids {
		if id < 0 || int(id) >= s.shape.Experts {
			continue
		}
		e := &s.entries[layer*s.shape.Experts+int(id)]
		if e.state != absent || e.err != nil {
			continue
		}
		if len(s.batches) > 0 || !s.spareSlot(l.class) {
			return
		}
		t, err := s.take(l.class)
		if t == nil || err != nil {
			return
		}
		e.ahead = true
		l.ahead++
		s.stats.AheadRead++
		s.fetch(e, t, &s.ahead)
	}
}

// spareSlot says whether a slot can be had without dropping what was read ahead.
func (s *Store) spareSlot(c *class) bool {
	return len(c.free) > 0 || len(c.slabs) < s.limit(c) ||
		len(c.idle) > 0 && !c.idle[0].ahead
}

// unmark makes an expert that was read ahead one like the others.
func (s *Store) unmark(e *entry) {
	e.ahead = false
	s.layers[int(e.index)/s.shape.Experts].ahead--
	if e.place >= 0 {
		heap.Fix(&e.slot.class.idle, e.place)
	}
}

// settle ends the reading ahead of a layer that is asked for: what was asked for is
// read with the rest, what was not and has not begun is left.
func (s *Store) settle(layer int) {
	l := &s.layers[layer]
	first := int32(layer * s.shape.Experts)
	ours := func(j job) bool { return j.e.index >= first && j.e.index < first+int32(s.shape.Experts) }
	s.ahead.filter(func(j job) bool {
		if !ours(j) || j.e.ahead && j.e.begun {
			return true
		}
		if !j.e.ahead { // it was asked for
			s.demand.push(j)
			return false
		}
		if j.e.left--; j.e.left == 0 {
			s.stats.AheadWasted++
			s.unmark(j.e)
			t := j.e.slot
			j.e.state, j.e.slot, t.owner = absent, nil, nil
			t.class.free = append(t.class.free, t)
		}
		return false
	})
	for i := first; l.ahead > 0 && i < first+int32(s.shape.Experts); i++ {
		if e := &s.entries[i]; e.ahead {
			s.stats.AheadWasted++
			s.unmark(e)
		}
	}
}
