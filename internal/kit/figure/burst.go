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

// bursts groups token frames. Frames of one read are one arrival; arrivals
// closer than the gap that joinGap gives are one burst. middle is the median gap
// between arrivals in ns, 0 when there is only one arrival.
func bursts(frames []stream.TokenFrame) (out []burst, middle int64) {
	if len(frames) == 0 {
		return nil, 0
	}
	gaps := arrivalGaps(frames)
	join, middle := joinGap(gaps)
	first := 0
	for i := 1; i < len(frames); i++ {
		if frames[i].Read == frames[i-1].Read || frames[i].At-frames[i-1].At < join {
			continue
		}
		out = append(out, burst{first, i})
		first = i
	}
	return append(out, burst{first, len(frames)}), middle
}

// arrivalGaps gives the times between one read that completed token frames and
// the next.
func arrivalGaps(frames []stream.TokenFrame) []int64 {
	var gaps []int64
	for i := 1; i < len(frames); i++ {
		if frames[i].Read != frames[i-1].Read {
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
// within bursts, and the median says nothing about the rounds. Rounds are taken
// to be there when the gaps of 1 ms and more number at least four, fill over
// half of the time, and have a median above 2 ms and ten times that of the
// others; then 1 ms applies. Both shares guard against taking a fast engine that
// was stopped now and then for one that drafts.
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
