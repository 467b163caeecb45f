package expert

import "time"

// Free is what a machine, or the part of it that a process may use, has left.
type Free struct {
	Bytes int64 // that can still be taken; page cache that can be dropped counts
	Limit int64 // of all that lives there
	// Pressure is the share of the last ten seconds in which everything waited for
	// memory, in percent; 0 where the kernel does not tell.
	Pressure float64
}

// Memory tells what is free.
type Memory interface{ Free() (Free, error) }

// Reserve is what auto leaves free: a sixteenth of the limit, 32 MiB to 2 GiB. It
// holds what others take between two looks.
func Reserve(limit int64) int64 { return min(max(limit/16, 32<<20), 2<<30) }

const (
	// look is the time between two looks at what is free. A look takes some 0.1 ms;
	// between two, something that grows at 500 MB/s takes 25 MB, less than the smallest
	// reserve. The store itself only reads into memory that the last look found free.
	look = 50 * time.Millisecond
	// calm is how many looks must find enough memory before the budget grows again
	// after it shrank.
	calm = 40
	// highPressure is a share of time lost, in percent, that is worth giving memory up
	// for: a miss costs less.
	highPressure = 10
)

// governor adapts a store's budget to what is free.
type governor struct {
	s          *Store
	memory     Memory
	quiet      int // looks since the last shrinking
	stop, done chan struct{}
}

func govern(s *Store, m Memory) *governor {
	g := &governor{s: s, memory: m, quiet: calm, stop: make(chan struct{}), done: make(chan struct{})}
	go g.run()
	return g
}

func (g *governor) close() {
	close(g.stop)
	<-g.done
}

func (g *governor) run() {
	defer close(g.done)
	t := time.NewTicker(look)
	defer t.Stop()
	for {
		select {
		case <-g.stop:
			return
		case <-t.C:
		}
		g.look(0)
	}
}

// look adapts the budget to what is free, less what somebody is about to take.
func (g *governor) look(soon int64) {
	f, err := g.memory.Free()
	if err != nil {
		return // it could be read at the start: the next look will tell
	}
	s := g.s
	s.mu.Lock()
	defer s.mu.Unlock()
	held := int64(0)
	for _, c := range s.classes {
		held += c.bytes()
	}
	f.Bytes -= s.promised() + soon
	before := s.budget
	s.budget = g.next(held, before, f)
	if s.over() {
		s.stats.Shrinks++
		s.shrink()
	}
	if s.budget > before && len(s.batches) > 0 {
		s.serve()
		s.notify()
	}
}

// Cede has experts make room for so many bytes that the caller takes next, where they
// have what is free. Those in use stay till they are given back.
func (s *Store) Cede(bytes int64) {
	if s.auto != nil {
		s.auto.look(bytes)
	}
}

// next is the budget for slabs when held bytes of it are in use and f is what is
// free besides. Within a quarter of a reserve below what should be left nothing is given
// back, so that it does not swing.
func (g *governor) next(held, budget int64, f Free) int64 {
	r := Reserve(f.Limit)
	spare := f.Bytes - r
	g.quiet++
	switch {
	case spare < -r/4:
		g.quiet = 0
		budget = min(budget, held+spare)
	case f.Pressure > highPressure && g.quiet > calm:
		g.quiet = 0
		budget = min(budget, held-held/8)
	case spare < 0:
		budget = min(budget, held)
	case spare < budget-held:
		budget = held + spare
	case g.quiet > calm:
		budget = min(held+spare, max(budget, g.s.need()))
	}
	return max(budget, g.s.least)
}
