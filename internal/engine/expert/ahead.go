package expert

import "container/heap"

// Farthest is how many layers before it is asked for a layer can be guessed.
const Farthest = 2

const (
	// sure is the share of guesses that must have come true for experts to be read by
	// them. Reading what nobody wants takes the disk from what somebody waits for.
	sure = 0.75
	// someGuesses is how many it takes to tell, and manyGuesses how many count.
	someGuesses, manyGuesses = 32, 128
	// someMisses is how many experts of a layer passes must lack, in the mean, for a
	// guess to be worth its work.
	someMisses = 0.1
	// missingMean is over how many batches that mean goes, about.
	missingMean = 64
	// probe is how often a layer is guessed of which nothing is read for: in the first
	// manyGuesses passes always, later once in so many.
	probe = 16
)

// record is how guesses came true, of experts of one layer and rank that were not in
// memory: those that a router puts first come true more often.
type record struct{ right, all int32 }

func (r *record) note(right bool) {
	if r.all++; right {
		r.right++
	}
	if r.all >= manyGuesses {
		r.right, r.all = r.right/2, r.all/2
	}
}

func (r *record) sure() bool { return r.all >= someGuesses && float64(r.right) >= sure*float64(r.all) }

// Foresees says whether it is worth while to guess now, so many layers before, which
// experts of a layer come next, for Ahead.
func (s *Store) Foresees(layer, before int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.layers[layer]
	if s.closed || l.class == nil || s.missing < someMisses {
		return false
	}
	passes, records := &l.passes[before-1], l.records[before-1]
	if *passes++; *passes < manyGuesses || *passes%probe == 0 {
		return true
	}
	for i := range records {
		if records[i].sure() {
			return true
		}
	}
	return false
}

// Ahead is told which experts of a layer a pass will probably ask for, so many layers
// before: for each of its tokens as many as a token uses, the most likely first. Those
// whose like came true often enough so far are read, when nothing that was asked for is
// left to be read, and kept until that layer is asked for, as far as there is room. It
// is advice: it has no errors, and what finds no room is left out.
func (s *Store) Ahead(layer, before int, chosen []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || before < 1 || before > Farthest || layer < 0 || layer >= s.shape.Layers || s.layers[layer].class == nil {
		return
	}
	l := &s.layers[layer]
	room := true
	for rank := range s.shape.Used {
		for i := rank; i < len(chosen); i += s.shape.Used {
			id := chosen[i]
			if id < 0 || int(id) >= s.shape.Experts {
				continue
			}
			e := &s.entries[layer*s.shape.Experts+int(id)]
			if e.state != absent && !e.ahead || e.err != nil || e.guess[before-1] > 0 {
				continue
			}
			e.guess[before-1] = int32(rank) + 1
			l.guesses++
			room = room && len(s.batches) == 0
			if e.state == absent && room && l.records[before-1][rank].sure() {
				room = s.readAhead(e, l.class)
			}
		}
	}
}

// readAhead starts to read e; false: there is no room.
func (s *Store) readAhead(e *entry, c *class) bool {
	if !s.spareSlot(c) {
		return false
	}
	t, err := s.take(c)
	if t == nil || err != nil {
		return false
	}
	e.ahead = true
	s.stats.AheadRead++
	s.fetch(e, t, &s.ahead)
	return true
}

// spareSlot says whether a slot can be had without dropping what was read ahead.
func (s *Store) spareSlot(c *class) bool {
	return len(c.free) > 0 || len(c.slabs) < s.limit(c) ||
		len(c.idle) > 0 && !c.idle[0].ahead
}

// judge notes whether guesses that e will be asked for came true.
func (s *Store) judge(l *layer, e *entry, right bool) {
	for i, rank := range e.guess {
		if rank == 0 {
			continue
		}
		l.records[i][rank-1].note(right)
		e.guess[i] = 0
		l.guesses--
		if s.stats.Guessed++; right {
			s.stats.GuessedRight++
		}
	}
}

// unmark makes an expert that was read ahead one like the others.
func (s *Store) unmark(e *entry) {
	e.ahead = false
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
	for i := first; l.guesses > 0 && i < first+int32(s.shape.Experts); i++ {
		e := &s.entries[i]
		s.judge(l, e, false)
		if e.ahead {
			s.stats.AheadWasted++
			s.unmark(e)
		}
	}
}
