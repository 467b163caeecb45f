package spec

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func letters(s string) []int32 {
	ids := make([]int32, 0, len(s))
	for _, r := range s {
		ids = append(ids, r)
	}
	return ids
}

func draft(s *Suffix, n int, least float32) string {
	to := make([]Guess, n)
	var b strings.Builder
	for _, g := range to[:s.Draft(to, least)] {
		b.WriteRune(g.ID)
	}
	return b.String()
}

// What followed the longest known end of the text is guessed to follow again.
func TestSuffixDrafts(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"abcd", ""},                                        // nothing was there before
		{"the cat sat. the c", "at s"},                      // as before
		{"one two; one six; one ", "six;"},                  // the latest place wins
		{"xabcdefgh1 zefgh2 xabcdefgh", "1 ze"},             // unless a longer context is known
		{"ababab", "abab"},                                  // guesses are followed as if they were text
		{strings.Repeat("0123456789", 40) + "3456", "7893"}, // the latest place of 56789 was the end
	} {
		s := NewSuffix(1000)
		s.Begin(letters(c.text))
		if got := draft(s, 4, 0); got != c.want {
			t.Errorf("%q: drafted %q, want %q", c.text, got, c.want)
		}
	}
}

// A context that is followed by something else each time is not trusted; one that
// always goes on alike is.
func TestSuffixConfidence(t *testing.T) {
	s := NewSuffix(1000)
	s.Begin(letters("..a..b..c..d..e..f.."))
	if got := draft(s, 1, 0.4); got != "" {
		t.Errorf("drafted %q after a context that never went on alike", got)
	}
	s.Begin(letters(strings.Repeat("..abc", 10)))
	if got := draft(s, 5, 0.9); got != "..abc" {
		t.Errorf("drafted %q after one that always did", got)
	}
}

// Drafting leaves no trace: what is drafted depends on the tokens alone, not on how
// they came or on what was asked before.
func TestSuffixDependsOnTokensOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.Int32Range(0, 3), 0, 200).Draw(t, "ids")
		whole, pieces := NewSuffix(64), NewSuffix(64)
		whole.Begin(ids)
		pieces.Begin([]int32{1, 2, 3, 1, 2, 3}) // another sequence before
		at := rapid.IntRange(0, len(ids)).Draw(t, "prompt")
		pieces.Begin(ids[:at])
		to := make([]Guess, MaxDrafts)
		for rest := ids[at:]; len(rest) > 0; {
			pieces.Draft(to, 0)
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			pieces.Accept(rest[:n], nil)
			rest = rest[n:]
		}
		want, got := make([]Guess, MaxDrafts), make([]Guess, MaxDrafts)
		if n, m := whole.Draft(want, 0), pieces.Draft(got, 0); n != m || !slices.Equal(want, got) {
			t.Fatalf("drafted %v, want %v", got[:m], want[:n])
		}
		for _, g := range want {
			if !(g.P >= 0 && g.P <= 1) {
				t.Fatalf("probability %g", g.P)
			}
		}
	})
}

// A sequence that fits allocates nothing after NewSuffix.
func TestSuffixAllocatesNothing(t *testing.T) {
	s, r := NewSuffix(4096), rand.New(rand.NewPCG(1, 2))
	ids, to := make([]int32, 4096), make([]Guess, MaxDrafts)
	for i := range ids {
		ids[i] = int32(r.IntN(40))
	}
	if n := testing.AllocsPerRun(5, func() {
		s.Begin(ids[:100])
		for _, id := range ids[100:] {
			s.Draft(to, 0)
			s.Accept([]int32{id}, nil)
		}
	}); n > 0 {
		t.Errorf("%g allocations", n)
	}
}

func BenchmarkSuffix(b *testing.B) {
	s, r := NewSuffix(8192), rand.New(rand.NewPCG(1, 2))
	to, one := make([]Guess, 8), make([]int32, 1)
	s.Begin(nil)
	for i := 0; b.Loop(); i++ {
		if i%8192 == 0 {
			s.Begin(nil)
		}
		one[0] = int32(r.IntN(200))
		s.Accept(one, nil)
		s.Draft(to, 0)
	}
}
