package spec

import (
	"math/bits"
	"unsafe"
)

// orders are how many of the last tokens are looked up, the most first.
var orders = [...]int{8, 5, 3, 2}

// maxEntries bounds the table of each order. A longer sequence loses the oldest
// of what falls on the same entry.
const maxEntries = 1 << 16

// Suffix guesses that what followed the last tokens before follows them again. It
// looks for the latest place where the same 8 tokens stood, in prompt and output,
// then 5, 3 and 2. Each step takes the same time however long the sequence is.
type Suffix struct {
	tokens  []int32 // the sequence
	entries [len(orders)][]entry
	shift   int // from hash to entry
}

// entry is what is known of one context: some last tokens.
type entry struct {
	next  int32  // position behind the latest place where it stood; 0: none
	seen  uint16 // how often it stood before that
	right uint16 // how often what followed was what had followed before
}

// NewSuffix makes a drafter for sequences of up to context tokens.
func NewSuffix(context int) *Suffix {
	size := tableSize(context)
	s := &Suffix{tokens: make([]int32, 0, context+MaxDrafts), shift: 64 - bits.Len(uint(size-1))}
	for i := range s.entries {
		s.entries[i] = make([]entry, size)
	}
	return s
}

// tableSize is the entries of each order, a power of two.
func tableSize(context int) int { return min(maxEntries, 1<<bits.Len(uint(max(context, 64)-1))) }

// SuffixBytes is the memory that NewSuffix takes.
func SuffixBytes(context int) int64 {
	const id = 4
	return int64(len(orders)*tableSize(context))*int64(unsafe.Sizeof(entry{})) + id*int64(context+MaxDrafts)
}

// Begin starts a sequence.
func (s *Suffix) Begin(tokens []int32) {
	s.tokens = s.tokens[:0]
	for i := range s.entries {
		clear(s.entries[i])
	}
	s.Accept(tokens, nil)
}

// Watches: it looks at tokens only.
func (s *Suffix) Watches() bool { return false }

// Accept learns what followed the contexts before each token.
func (s *Suffix) Accept(tokens []int32, _ []float32) {
	for _, id := range tokens {
		for i, n := range orders {
			if len(s.tokens) < n {
				continue
			}
			e := s.find(i, n)
			if !s.same(e, n) {
				*e = entry{next: int32(len(s.tokens))}
				continue
			}
			if e.seen == 1<<15 { // the old weighs less
				e.seen, e.right = e.seen/2, e.right/2
			}
			e.seen++
			if s.tokens[e.next] == id {
				e.right++
			}
			e.next = int32(len(s.tokens))
		}
		s.tokens = append(s.tokens, id)
	}
}

// find is the entry of the last n tokens.
func (s *Suffix) find(i, n int) *entry {
	h := uint64(n)
	for _, id := range s.tokens[len(s.tokens)-n:] {
		h = (h ^ uint64(uint32(id))) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return &s.entries[i][h*0x9e3779b97f4a7c15>>s.shift]
}

// same says whether the entry is of the last n tokens, and not of others with the
// same hash.
func (s *Suffix) same(e *entry, n int) bool {
	at := int(e.next)
	if at < n || at >= len(s.tokens) {
		return false
	}
	last := s.tokens[len(s.tokens)-n:]
	for i, id := range s.tokens[at-n : at] {
		if id != last[i] {
			return false
		}
	}
	return true
}

// Draft follows the sequence as if its guesses had joined it.
func (s *Suffix) Draft(to []Guess, least float32) int {
	n := len(s.tokens)
	defer func() { s.tokens = s.tokens[:n] }()
	for i := range to {
		g, ok := s.guess(n)
		if !ok || g.P < least {
			return i
		}
		to[i] = g
		s.tokens = append(s.tokens, g.ID)
	}
	return len(to)
}

// guess looks for the longest context that is known from the first n tokens.
func (s *Suffix) guess(n int) (Guess, bool) {
	for i, order := range orders {
		if len(s.tokens) < order {
			continue
		}
		e := s.find(i, order)
		if int(e.next) >= n || !s.same(e, order) {
			continue
		}
		// A context that was never tested yet counts as right once in two for 2
		// tokens, and more the longer it is.
		prior := 1 - 1/float32(order)
		p := (float32(e.right) + 2*prior) / (float32(e.seen) + 2)
		return Guess{ID: s.tokens[e.next], P: p}, true
	}
	return Guess{}, false
}
