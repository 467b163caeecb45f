package figure

import (
	"slices"

	"assay/internal/kit/stream"
)

// joinNS: token frames that arrive closer than this may belong together. A
// server that writes the tokens of one round one after the other needs far less
// between two of them, and no engine measured here needs as much for a burst.
const joinNS = 1e6

// A burst is a run of token frames that arrived together: frames[first:next].
type burst struct{ first, next int }

// bursts groups token frames. Frames of one read, or of one stamp, are one
// arrival; arrivals closer than the gap that joinGap gives are one burst. middle
// is the median gap between arrivals in ns, 0 when there is only one arrival.
func bursts(frames []stream.TokenFrame) (out []burst, middle int64) {
	if len(frames) == 0 {
		return nil, 0
	}
	gaps := arrivalGaps(frames)
	join, middle := joinGap(gaps)
	first := 0
	for i := 1; i < len(frames); i++ {
		if together(&frames[i-1], &frames[i]) || frames[i].At-frames[i-1].At < join {
			continue
		}
		out = append(out, burst{first, i})
		first = i
	}
	return append(out, burst{first, len(frames)}), middle
}

// together says whether two neighbours are one arrival: of one read, which has
// one stamp, or of two reads with the same one, where the clock is coarse.
func together(a, b *stream.TokenFrame) bool { return a.At == b.At }

// arrivalGaps gives the times between one arrival of token frames and the next.
func arrivalGaps(frames []stream.TokenFrame) []int64 {
	var gaps []int64
	for i := 1; i < len(frames); i++ {
		if !together(&frames[i-1], &frames[i]) {
			gaps = append(gaps, frames[i].At-frames[i-1].At)
		}
	}
	return gaps
}

// joinGap is the gap below which two arrivals are one burst: 1 ms, or half the
// median gap where that is less, so that the single tokens of a fast engine
// stay apart.
//
// Where an engine drafts and writes each accepted token by itself, most gaps lie
// within rounds, and half their median would split the first round: its tokens
// would count as made within the window, though the time of their round lies
// before it. (With four tokens a round of 8 ms and 80 tokens the rate would be
// 3.8 % too high.) Rounds are taken to be there when the gaps of 1 ms and more
// number at least four, fill over half of the time, and have a median above 2 ms
// and ten times that of the others; then 1 ms applies. Should a fast engine that
// is stopped often be taken for one that drafts, its rate stays right, for whole
// bursts are counted over whole gaps; only the number of intervals falls.
func joinGap(gaps []int64) (join, middle int64) {
	if len(gaps) == 0 {
		return joinNS, 0
	}
	sorted := slices.Sorted(slices.Values(gaps))
	middle = medianNS(sorted)
	if middle > 2*joinNS {
		return joinNS, middle
	}
	at, _ := slices.BinarySearch(sorted, int64(joinNS))
	within, between := sorted[:at], sorted[at:]
	if len(within) > 0 && len(between) >= 4 && 2*sum(between) > sum(sorted) &&
		medianNS(between) > max(2*joinNS, 10*medianNS(within)) {
		return joinNS, middle
	}
	return middle / 2, middle
}

func sum(v []int64) (s int64) {
	for _, x := range v {
		s += x
	}
	return s
}

// medianNS of sorted values, at least one.
func medianNS(sorted []int64) int64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return sorted[n/2-1] + (sorted[n/2]-sorted[n/2-1])/2
}
