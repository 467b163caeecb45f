package figure

import (
	"fmt"
	"sort"

	"assay/internal/kit/stream"
)

// boundsWidth: when only bounds of the number of tokens are known, the middle is
// shown if they lie this close, as a share of it.
const boundsWidth = 0.01

// span is the window's number of tokens, N_last - N_first, as far as it is
// known.
type span struct {
	low, high     float64
	nFirst, nLast float64 // the middle of what is known
	source        string
	why           string // why there is no span at all; then the rest is zero
}

func (s *span) middle() float64 { return (s.low + s.high) / 2 }

// exactEnough says whether the middle may be shown.
func (s *span) exactEnough() bool {
	return s.why == "" && s.middle() > 0 && s.high-s.low <= boundsWidth*s.middle()
}

// tokensBetween finds the tokens produced after the first burst, frames[:next],
// up to the last token frame.
func tokensBetween(in *Inputs, next int) span {
	frames := in.Completion.Tokens
	pos, source := positions(in)
	if pos != nil {
		first, last := pos[next-1], pos[len(frames)-1]
		d := float64(last - first)
		return span{low: d, high: d, nFirst: float64(first), nLast: float64(last), source: source}
	}
	return bounds(in, next)
}

// positions gives the tokens produced by the end of each token frame, hidden
// ones included, where the server tells it: by a running count, or by the ids of
// the tokens. It is nil where neither can be relied on.
func positions(in *Inputs) (pos []int, source string) {
	frames := in.Completion.Tokens
	if in.Completion.RunningCount {
		if pos := runningCounts(in, frames); pos != nil {
			return pos, "running server count"
		}
	}
	if in.Completion.HasTokenIDs {
		if pos := idCounts(in, frames); pos != nil {
			return pos, "token ids"
		}
	}
	return nil, ""
}

// runningCounts wants a count on every token frame, never falling, never above
// the total, and one token at least for each read that brought text: anything
// else is not a running count of this reply, but the count of one frame, or one
// that is brought up to date now and then.
func runningCounts(in *Inputs, frames []stream.TokenFrame) []int {
	pos := make([]int, len(frames))
	last, reads := 0, 0
	for i := range frames {
		if i == 0 || frames[i].Read != frames[i-1].Read {
			reads++
		}
		n := frames[i].Running
		if n == nil || *n < last || *n < reads {
			return nil
		}
		pos[i], last = *n, *n
	}
	if n := in.Count.Completion; n != nil && last > *n && !in.Count.Estimated {
		return nil
	}
	return pos
}

// idCounts wants all ids: an engine may send no id for a token without text, and
// only the end token is known to be such a one.
func idCounts(in *Inputs, frames []stream.TokenFrame) []int {
	total := len(in.Completion.TokenIDs)
	if n := in.Count.Completion; n != nil && !in.Count.Estimated {
		_, end := endTokens(in)
		if missing := float64(*n - total); missing < 0 || missing > end {
			return nil
		}
	}
	pos := make([]int, len(frames))
	for i := range frames {
		if frames[i].IDs == 0 {
			return nil
		}
		pos[i] = frames[i].IDs
	}
	return pos
}

// bounds finds what can be said without the server's help. Every frame carries
// at least one token. Where the text is tokenised, the tokens that end within
// the first burst are N_first, give or take the tokens by which text and count
// differ: they may be hidden anywhere, or the text may have been generated in
// other pieces than the tokenizer makes. Where the first burst ends within a
// token of the text, the engine's tokens were others there, and one more may
// have been produced.
func bounds(in *Inputs, next int) span {
	c := in.Completion
	if in.Count.Completion == nil {
		return span{why: "the number of tokens is not known"}
	}
	n := float64(*in.Count.Completion)
	endLow, endHigh := endTokens(in)
	lastLow, lastHigh := n-endHigh, n-endLow
	after := float64(len(c.Tokens) - next)
	low, high := after, lastHigh-float64(next)
	if high < low {
		return span{why: fmt.Sprintf("%d frames carry text, but there are only %.0f tokens", len(c.Tokens), lastHigh)}
	}
	source := "bounds: at least one token a frame"
	if in.TokenEnds != nil {
		k, torn := tokensBy(in.TokenEnds, c.Tokens[next-1].End)
		diff := n - float64(len(in.TokenEnds))
		tlow := lastLow - k - torn - max(0, diff-endLow)
		thigh := lastHigh - k + max(0, endLow-diff)
		// Where text and frames contradict each other the frames are right: they
		// were seen.
		if l, h := max(low, tlow), min(high, thigh); l <= h {
			low, high, source = l, h, "text tokenised whole"
			if tlow < thigh {
				source += ", with bounds"
			}
		}
	}
	last := (lastLow + lastHigh) / 2
	return span{low: low, high: high, nFirst: last - (low+high)/2, nLast: last, source: source}
}

// endTokens bounds how many of the counted tokens come after the last frame:
// none after a length stop, else the end token, if the engine counts it.
func endTokens(in *Inputs) (low, high float64) {
	switch {
	case in.Completion.FinishReason == "length" || in.Count.Estimated:
		return 0, 0
	case in.EndTokenCounted != nil && !*in.EndTokenCounted:
		return 0, 0
	case in.EndTokenCounted != nil:
		return 1, 1
	case in.TokenEnds != nil && *in.Count.Completion > len(in.TokenEnds):
		return 1, 1
	case in.TokenEnds != nil && *in.Count.Completion == len(in.TokenEnds):
		return 0, 0
	}
	return 0, 1
}

// tokensBy is the number of tokens that end at or before the byte offset; torn
// is 1 when the offset lies within a token, else 0.
func tokensBy(ends []int, offset int) (n, torn float64) {
	i := sort.SearchInts(ends, offset+1)
	if offset > 0 && (i == 0 || ends[i-1] != offset) {
		torn = 1
	}
	return float64(i), torn
}
