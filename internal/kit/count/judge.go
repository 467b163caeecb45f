package count

import (
	"fmt"
	"math"
	"strings"
)

// Tolerance is how far an independent count may lie from n, in tokens.
func Tolerance(n int) float64 { return max(0.03*float64(n), 2) }

// Judge compares the sources. The reference is the first source that could be
// read: of the server's counters if there is one, else of the token ids, else
// of the text. Sources of the reference's origin must agree with it exactly
// (after their documented offsets), others within Tolerance.
func Judge(sources []Source) Result {
	r := Result{Verdict: Unchecked, Sources: append([]Source(nil), sources...)}
	ref := reference(r.Sources)
	if ref < 0 {
		r.Why = "no source of the token count could be read"
		return r
	}
	n := r.Sources[ref].count()
	r.Completion, r.From, r.Estimated = &n, r.Sources[ref].Name, r.Sources[ref].Origin == Text
	var same, other, bad []string
	for i := range r.Sources {
		s := &r.Sources[i]
		if s.Value == nil {
			continue
		}
		gap := s.count() - n
		s.Gap = &gap
		switch {
		case i == ref:
		case s.Origin == r.Sources[ref].Origin:
			if gap != 0 {
				bad = append(bad, fmt.Sprintf("%s says %d (must be equal: one counter seen twice)", s.Name, s.count()))
			}
			same = append(same, s.Name)
		default:
			if math.Abs(float64(gap)) > Tolerance(n) {
				bad = append(bad, fmt.Sprintf("%s says %d (more than %.1f away)", s.Name, s.count(), Tolerance(n)))
			}
			other = append(other, s.Name)
		}
	}
	switch {
	case len(bad) > 0:
		r.Verdict = Mismatch
		r.Why = fmt.Sprintf("%s says %d; %s", r.From, n, strings.Join(bad, "; "))
	case len(other) > 0:
		r.Verdict = AgreeIndependent
		r.Why = fmt.Sprintf("%s agrees with %s", r.From, strings.Join(append(other, same...), ", "))
	case len(same) > 0:
		r.Verdict = AgreeSameOrigin
		r.Why = fmt.Sprintf("%s agrees with %s, which repeats the same counter", r.From, strings.Join(same, ", "))
	default:
		r.Why = "nothing to hold against " + r.From
	}
	return r
}

// count is the source's number of tokens; Value is not nil.
func (s *Source) count() int { return *s.Value + s.Offset }

func reference(sources []Source) int {
	for _, o := range []Origin{ServerCounter, TokenIDs, Text} {
		for i := range sources {
			if sources[i].Origin == o && sources[i].Value != nil {
				return i
			}
		}
	}
	return -1
}
