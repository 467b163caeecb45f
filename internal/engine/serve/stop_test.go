package serve

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestStopper(t *testing.T) {
	tests := []struct {
		name   string
		stops  []string
		pieces []string
		want   []string // what each push lets through, then the flush
	}{
		{"no stop strings", nil, []string{"a", "b"}, []string{"a", "b", ""}},
		{"never seen", []string{"xyz"}, []string{"one ", "two"}, []string{"one ", "two", ""}},
		{"in one piece", []string{"END"}, []string{"one END two"}, []string{"one "}},
		{"over three pieces", []string{"END"}, []string{"one E", "N", "D two"}, []string{"one ", "", ""}},
		{"begun, then not", []string{"END"}, []string{"E", "N", "O"}, []string{"", "", "ENO", ""}},
		{"begun when all ends", []string{"END"}, []string{"one", " EN"}, []string{"one", " ", "EN"}},
		{"begun again inside itself", []string{"aab"}, []string{"aa", "a", "b"}, []string{"", "a", ""}},
		{"complete first wins", []string{"bcd", "c"}, []string{"abcd"}, []string{"ab"}},
		{"longest of those that end together", []string{"c", "bc"}, []string{"abc"}, []string{"a"}},
		{"at the very start", []string{"\n\n"}, []string{"\n", "\n"}, []string{"", ""}},
		{"of several bytes a character", []string{"日本"}, []string{"は日", "本"}, []string{"は", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := stopper{stops: tt.stops}
			var got []string
			stopped := false
			for _, p := range tt.pieces {
				if stopped {
					t.Fatalf("stopped before the piece %q", p)
				}
				var out string
				out, stopped = s.push(p)
				got = append(got, out)
			}
			if !stopped {
				got = append(got, s.flush())
			}
			if strings.Join(got, "|") != strings.Join(tt.want, "|") || len(got) != len(tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// However text is cut into pieces, the same is let through: what comes before
// the stop string that is complete first. Letters are few, so that stop strings
// overlap and repeat.
func TestStopperDoesNotDependOnTheCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[abé]{0,30}`).Draw(t, "text")
		stops := rapid.SliceOfN(rapid.StringMatching(`[abé]{1,4}`), 0, 3).Draw(t, "stops")
		want, wantStopped := cutAtFirstStop(text, stops)

		s := stopper{stops: stops}
		got, stopped, rest := "", false, text
		for rest != "" && !stopped {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			var out string
			out, stopped = s.push(rest[:n])
			rest = rest[n:]
			got += out
			if !strings.HasPrefix(want, got) {
				t.Fatalf("%q was let through, but only %q may be", got, want)
			}
		}
		if !stopped {
			got += s.flush()
		}
		if got != want || stopped != wantStopped {
			t.Fatalf("let through %q (stopped %v), want %q (stopped %v)", got, stopped, want, wantStopped)
		}
	})
}

// cutAtFirstStop is the rule, written plainly: the first place where some stop
// string ends; what comes before the longest that ends there.
func cutAtFirstStop(text string, stops []string) (string, bool) {
	for end := range len(text) + 1 {
		longest := 0
		for _, stop := range stops {
			if strings.HasSuffix(text[:end], stop) {
				longest = max(longest, len(stop))
			}
		}
		if longest > 0 {
			return text[:end-longest], true
		}
	}
	return text, false
}
