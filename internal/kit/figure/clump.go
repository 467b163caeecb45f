package figure

import (
	"fmt"
	"slices"
)

// clumps is how the tokens came in reads, as far as is known: where neither a
// count of the server nor the text tells, frames are counted.
type clumps struct {
	limit   int // tokens that a read may hold without being a clump
	largest int // most tokens that one read held
	first   int // tokens produced by the first read that brought text, hidden ones before it included
	inClump int // tokens in reads that held more than limit
	all     int // tokens in all reads
}

func (r *run) readClumps() clumps {
	frames := r.in.Completion.Tokens
	pos := r.positionsOrFrames()
	c := clumps{limit: max(16, 3*r.in.DraftWindow)}
	begin, before, text := 0, 0, 0
	for i := range frames {
		if i+1 < len(frames) && frames[i+1].Read == frames[i].Read {
			continue
		}
		if begin == 0 {
			c.first = pos[i]
		}
		// Each token that a read shows has a byte there at least. What the count rose
		// by beyond that are hidden tokens, which no read held.
		held := min(pos[i]-before, frames[i].End-text)
		c.largest, c.all = max(c.largest, held), c.all+held
		if held > c.limit {
			c.inClump += held
		}
		begin, before, text = i+1, pos[i], frames[i].End
	}
	return c
}

// positionsOrFrames gives the tokens produced by the end of each token frame by
// the best source there is, at worst by counting frames.
func (r *run) positionsOrFrames() []int {
	if pos, _ := positions(r.in); pos != nil {
		return pos
	}
	frames := r.in.Completion.Tokens
	pos := make([]int, len(frames))
	for i := range frames {
		pos[i] = i + 1
		if r.in.TokenEnds != nil {
			n, _ := tokensBy(r.in.TokenEnds, frames[i].End)
			pos[i] = max(pos[i], int(n))
		}
	}
	return pos
}

// clumped looks for reads that brought more than an engine makes at once. One
// such read among many leaves the rate as it is, but not the time to the first
// token when it is the first, nor the gaps when most are like it.
func clumped(r *run, f *Named) string {
	if len(r.in.Completion.Tokens) == 0 {
		return ""
	}
	c := &r.clumps
	if n := r.in.Count.Completion; c.largest > c.limit && (n == nil || float64(c.largest) > 0.1*float64(*n)) {
		return fmt.Sprintf("one read holds %d tokens (the limit is %d)", c.largest, c.limit)
	}
	if ours, theirs := r.windowMS(), r.engineWindowMS(); theirs > 0 && ours < 0.95*theirs {
		return fmt.Sprintf("our window is %.3f ms, the engine's for the same tokens %.3f ms", ours, theirs)
	}
	if n := r.figs.Window.Intervals; n < 16 {
		return fmt.Sprintf("%d intervals, at least 16 are needed", n)
	}
	in := func(g Group) bool { return slices.Contains(f.Groups, g) }
	switch {
	case (in(TTFTs) || in(PromptRates)) && c.first > c.limit:
		return fmt.Sprintf("%d tokens had been generated when the first text came (the limit is %d)", c.first, c.limit)
	case in(Gaps) && 2*c.inClump > c.all:
		return fmt.Sprintf("%d of %d tokens came in reads that hold more than %d", c.inClump, c.all, c.limit)
	}
	return ""
}
