package kernel

import (
	"math"
	"math/bits"
)

// Seen says which positions of a page count: position p is bit p%64 of word p/64.
type Seen [PagePositions / 64]uint64

// Add lets a position count.
func (s *Seen) Add(p int) { s[p/64] |= 1 << (p % 64) }

// AddTo lets all positions before n count.
func (s *Seen) AddTo(n int) {
	for w := range s {
		switch left := n - 64*w; {
		case left >= 64:
			s[w] = ^uint64(0)
		case left > 0:
			s[w] |= 1<<left - 1
		}
	}
}

// span is from the first position that counts to behind the last; none: 0, 0.
func (s *Seen) span() (from, to int) {
	for w := len(s) - 1; w >= 0; w-- {
		if s[w] == 0 {
			continue
		}
		if from = 64*w + bits.TrailingZeros64(s[w]); to == 0 {
			to = 64*w + 64 - bits.LeadingZeros64(s[w])
		}
	}
	return from, to
}

// AddSeen is AddFrom for a page of which only some positions count. A page of
// which none counts is left out: it then says false. quant.Look.Attend is the
// definition.
func (a *Attention) AddSeen(s *AttentionState, l KVLayout, page []byte, seen *Seen, rows int, q, out []float32, first bool) bool {
	from, to := seen.span()
	if to == 0 {
		return false
	}
	for w := from / 64; 64*w < to; w++ {
		if seen[w] != 0 {
			scores(l, page, &a.weights, 64*w, min(64*w+64, to), rows, q)
		}
		for r := range rows {
			row := a.weights[r*PagePositions+64*w:][:64]
			for left := ^seen[w]; left != 0; left &= left - 1 {
				row[bits.TrailingZeros64(left)] = float32(math.Inf(-1)) // weighs nothing
			}
		}
	}
	a.weigh(s, l, page, from, to, rows, out, first)
	return true
}
