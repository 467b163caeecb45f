package derive

import (
	"testing"

	"assay/internal/kit/target"
)

// What was learnt of a server's window of drafts, the figures know: how many tokens
// may come in one read depends on it.
func TestDraftWindow(t *testing.T) {
	for found, want := range map[string]int{"": 0, "8": 8, "64": 64, "-3": 0, "many": 0} {
		rec, f := sample()
		f.Target.Found = map[string]string{target.DraftWindow: found}
		s, err := read(rec, f)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.inputs().DraftWindow; got != want {
			t.Errorf("%q: a window of %d, want %d", found, got, want)
		}
	}
}
