package figure

import (
	"fmt"
	"slices"

	"assay/internal/kit/stream"
)

// The smallest samples from which a percentile is given: those that MLPerf's
// rule (99 % confidence, margin a twentieth of the tail) asks for.
const (
	samplesP90 = 64
	samplesP99 = 662
)

// gaps gives statistics of the time from one token frame to the next. Frames of
// one read lie 0 apart. A gap is not the time of a token.
func (r *run) gaps() {
	const source = "time between token frames"
	frames, f := r.in.Completion.Tokens, r.figs
	v := make([]int64, 0, len(frames))
	for i := 1; i < len(frames); i++ {
		v = append(v, frames[i].At-frames[i-1].At)
	}
	slices.Sort(v)
	stat := func(need int, at func() int64) Figure {
		if len(v) < need {
			fig := missing("ms", source, fmt.Sprintf("%d gaps, at least %d are needed", len(v), need))
			fig.Samples = len(v)
			return fig
		}
		fig := shown(ms(at()), "ms", source)
		fig.Samples = len(v)
		return fig
	}
	f.GapMedian = stat(1, func() int64 { return medianNS(v) })
	f.GapP90 = stat(samplesP90, func() int64 { return nearestRank(v, 90) })
	f.GapP99 = stat(samplesP99, func() int64 { return nearestRank(v, 99) })
	f.GapMax = stat(1, func() int64 { return v[len(v)-1] })
}

// nearestRank is the smallest value that at least p percent of sorted do not
// exceed.
func nearestRank(sorted []int64, p int) int64 {
	rank := (p*len(sorted) + 99) / 100
	return sorted[max(rank, 1)-1]
}

// LagP99 is the client's own lag in ms, nearest rank over token frames: how long
// after the kernel had received a frame's bytes they were stamped. A late read
// counts as often as it held frames. It is nil when the kernel gave no times.
func LagP99(c *stream.Completion) *float64 {
	var v []int64
	for i := range c.Tokens {
		if t := &c.Tokens[i]; t.Kernel >= 0 {
			v = append(v, t.At-t.Kernel)
		}
	}
	if len(v) == 0 {
		return nil
	}
	slices.Sort(v)
	return ptr(ms(nearestRank(v, 99)))
}
