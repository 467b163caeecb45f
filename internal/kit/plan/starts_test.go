package plan

import (
	"fmt"
	"testing"

	"assay/internal/kit/stats"
)

// As many starts as a comparison over them needs, for what the plan compares at once.
func TestStartsFor(t *testing.T) {
	for tests := 1; tests <= 200; tests++ {
		if got, want := startsFor(tests), stats.ShiftNeeds(1-0.05/float64(tests)); got != want {
			t.Errorf("%d tests: %d starts, want %d", tests, got, want)
		}
	}
}

func TestRounds(t *testing.T) {
	for _, tt := range []struct {
		arms, contexts, repeats, blocks int
		url                             string
		want                            int
	}{
		{arms: 1, contexts: 2, repeats: 6, want: 1},
		{arms: 2, contexts: 1, repeats: 6, want: 4},
		{arms: 2, contexts: 2, repeats: 6, want: 5},
		{arms: 4, contexts: 2, repeats: 12, want: 5},
		{arms: 4, contexts: 3, repeats: 12, want: 6},
		{arms: 2, contexts: 2, repeats: 3, want: 3},
		{arms: 2, contexts: 2, repeats: 6, blocks: 2, want: 2},
		{arms: 2, contexts: 2, repeats: 6, url: "http://127.0.0.1:1", want: 1}, // both are up: nothing is started
	} {
		p := Defaults()
		p.Contexts, p.Repeats, p.Blocks = nil, tt.repeats, tt.blocks
		for i := range tt.arms {
			p.Arms = append(p.Arms, Arm{Name: fmt.Sprint("a", i), Target: "assay", URL: tt.url})
		}
		for i := range tt.contexts {
			p.Contexts = append(p.Contexts, 512*(i+1))
		}
		if got := p.Rounds(); got != tt.want {
			t.Errorf("%+v: %d starts of each arm", tt, got)
		}
	}
}
