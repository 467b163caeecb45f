package sample

import (
	"slices"
	"testing"
)

// word is a form for tests: tokens 0 ... 9 are digits of which there have to be
// want, in ascending order, the last of them 9.
type word struct {
	got  []int32
	want int
	plan bool
}

func (w *word) Allows(id int32) bool {
	left := w.want - len(w.got) - 1
	if left == 0 {
		return id == 9
	}
	return (len(w.got) == 0 || id > w.got[len(w.got)-1]) && int(id) < 10-left
}

func (w *word) Allowed() []uint64 {
	mask := []uint64{0}
	for id := range int32(10) {
		if w.Allows(id) {
			mask[0] |= 1 << id
		}
	}
	return mask
}

func (w *word) Need() int { return w.want - len(w.got) }

func (w *word) Fits(id int32, left int) bool { return w.Allows(id) && w.Need()-1 <= left }

func (w *word) Shortest() (int32, bool) {
	w.plan = true
	return w.Forced()
}

func (w *word) Forced() (int32, bool) { return int32(10 - w.Need()), w.plan }

func (w *word) Accept(id int32) { w.got = append(w.got, id) }

func (w *word) Ended() bool { return len(w.got) == w.want }

// Whatever the logits, greedy or not, what is drawn keeps to the form.
func TestDrawnTokensKeepToTheForm(t *testing.T) {
	logits := []float32{9, 1, 8, 2, 7, 3, 6, 4, 5, 0}
	for _, temperature := range []float32{0, 1} {
		for seed := range uint64(50) {
			p := plain(temperature)
			p.Seed, p.TopK = seed, 2 // the mask goes first: two of those allowed
			s := New(p, 10, 100)
			s.Accept(3) // of the prompt, of which the form knows nothing
			w := &word{want: 4}
			s.Constrain(w, 1, 100)
			for i := 1; !s.Ended(); i++ {
				s.Accept(s.Draw(logits, i, nil))
			}
			if len(w.got) != 4 || !slices.IsSorted(w.got) || w.got[3] != 9 || temperature == 0 && !slices.Equal(w.got, []int32{0, 2, 4, 9}) {
				t.Fatalf("temperature %g, seed %d: drew %v", temperature, seed, w.got)
			}
		}
	}
}

// A token that leaves no room to end is not drawn, and when none is left the
// shortest end is.
func TestTheEndIsForced(t *testing.T) {
	s := New(plain(1), 10, 100)
	w := &stubborn{word{want: 3}}
	s.Constrain(w, 0, 3)
	for i := 0; !s.Ended(); i++ {
		s.Accept(s.Draw(make([]float32, 10), i, nil))
	}
	if want := []int32{7, 8, 9}; !slices.Equal(w.got, want) {
		t.Errorf("drew %v, want the shortest end %v", w.got, want)
	}
	// Where there was no room from the start, nothing is forced.
	s, w = New(plain(0), 10, 100), &stubborn{word{want: 3}}
	s.Constrain(w, 0, 2)
	if id := s.Draw([]float32{1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0, nil); id == 7 && w.plan {
		t.Error("the end was forced though it could not be reached")
	}
}

// stubborn is a form of which no token ever leaves room but those of its plan.
type stubborn struct{ word }

func (s *stubborn) Fits(id int32, left int) bool { return left > 1000 && s.Allows(id) }
