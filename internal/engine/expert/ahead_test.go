package expert

import (
	"container/heap"
	"fmt"
	"slices"
	"testing"
)

// guessing has a store guess for passes that want some experts each time, of which it
// drops all between two passes.
type guessing struct {
	t      *testing.T
	s      *Store
	before int // layers
	wants  []int32
}

// pass says whether the layer was worth a guess.
func (g *guessing) pass(guess []int32) bool {
	g.t.Helper()
	worth := g.s.Foresees(1, g.before)
	if worth {
		g.s.Ahead(1, g.before, guess)
	}
	for _, ask := range []struct {
		layer int
		ids   []int32
	}{{1, g.wants}, {0, nil}} {
		b, err := g.s.Begin(ask.layer, ask.ids, nil)
		if err != nil {
			g.t.Fatal(err)
		}
		if _, err := all(b, func(Expert) error { return nil }); err != nil {
			g.t.Fatal(err)
		}
	}
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	for _, c := range g.s.classes {
		for _, e := range slices.Clone(c.idle) {
			heap.Remove(&c.idle, e.place)
			t := g.s.evict(e)
			t.class.free = append(t.class.free, t)
		}
	}
	return worth
}

// Experts are read ahead by guesses of a rank that came true, and not by those that did
// not; a layer of which nothing comes true is guessed ever more rarely.
func TestGuesses(t *testing.T) {
	for before := 1; before <= Farthest; before++ {
		t.Run(fmt.Sprint(before), func(t *testing.T) { guesses(t, before) })
	}
}

func guesses(t *testing.T, before int) {
	g := &guessing{t, open(t, model(t), testShape, Options{Bytes: 64 << 20}), before, []int32{1, 2}}
	for range someGuesses + 6 { // the first ones find too little missing to guess
		g.pass([]int32{1, 5})
	}
	st := g.s.Stats()
	if r := g.s.layers[1].records[before-1]; !r[0].sure() || r[1].sure() || r[1].right > 0 || st.Guessed != 2*st.GuessedRight || st.Guessed < 2*someGuesses {
		t.Errorf("%+v, %+v", r, st)
	}
	if st.AheadRead == 0 || st.AheadRead > 6 || st.AheadUsed != st.AheadRead || st.AheadWasted != 0 {
		t.Errorf("one guess of two comes true, after %d passes: %+v", someGuesses+6, st)
	}
	for range 2 * manyGuesses {
		g.pass([]int32{7, 5})
	}
	read, worth := g.s.Stats().AheadRead, 0
	for range 10 * probe {
		if g.pass([]int32{7, 5}) {
			worth++
		}
	}
	if n := g.s.Stats().AheadRead; n != read || worth != 10 {
		t.Errorf("of guesses that do not come true %d were read, and %d made in %d passes", n-read, worth, 10*probe)
	}
}

// Where nothing is missing, nothing is guessed.
func TestNothingToGuess(t *testing.T) {
	s := open(t, model(t), testShape, Options{Bytes: 64 << 20})
	pass := func() {
		for layer := range testShape.Layers {
			b, err := s.Begin(layer, []int32{1, 2}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := all(b, func(Expert) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	pass()
	if s.missing == 0 {
		t.Error("nothing was missing in the first pass")
	}
	for range 10 * missingMean {
		pass()
	}
	if s.Foresees(1, 1) {
		t.Errorf("a guess is wanted, although %g are missing", s.missing)
	}
}

// What two guesses of an expert say is judged of each: the one made two layers before
// that has it read, and the one made later.
func TestGuessedTwice(t *testing.T) {
	s := open(t, model(t), testShape, Options{Bytes: 64 << 20})
	s.layers[1].records[1][0] = record{someGuesses, someGuesses}
	s.Ahead(1, 2, []int32{3, 4})
	s.Ahead(1, 1, []int32{3, 5})
	b, err := s.Begin(1, []int32{3, 4}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all(b, func(Expert) error { return nil }); err != nil {
		t.Fatal(err)
	}
	want := [Farthest][]record{{{1, 1}, {0, 1}, {}}, {{someGuesses + 1, someGuesses + 1}, {1, 1}, {}}}
	if got := s.layers[1].records; !slices.Equal(got[0], want[0]) || !slices.Equal(got[1], want[1]) {
		t.Errorf("%v, want %v", got, want)
	}
	st := s.Stats()
	if st.AheadRead != 1 || st.AheadUsed != 1 || st.Guessed != 4 || st.GuessedRight != 3 || s.layers[1].guesses != 0 {
		t.Errorf("%+v", st)
	}
}
