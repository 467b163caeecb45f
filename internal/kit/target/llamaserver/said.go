package llamaserver

import (
	"fmt"
	"math"
	"strings"

	"assay/internal/kit/stream"
	"assay/internal/kit/target"
)

// said is all that the engine said of one request, in its several places.
type said struct {
	usage   *stream.Usage
	timings *stream.Timings   // nil: none came
	log     *target.LogRecord // nil: there are no such lines
	more    more

	before, after map[string]float64 // series of /metrics by name, without the prefix
	metricsErr    error
	form          Form
}

func gather(a *target.Account, form Form) said {
	s := said{usage: a.Stream.Usage, timings: a.Stream.Timings, metricsErr: a.DeltaErr, form: form}
	if a.LogErr == nil {
		s.log = &a.Record
	}
	s.more = readMore(a.Log)
	if s.metricsErr != nil {
		return s
	}
	read := func(text []byte) map[string]float64 {
		all, err := target.ReadSeries(text)
		if err != nil && s.metricsErr == nil {
			s.metricsErr = err
		}
		out := map[string]float64{}
		for name, v := range all {
			if short, ok := strings.CutPrefix(name, form.Prefix); ok {
				out[short] = v
			}
		}
		return out
	}
	s.before, s.after = read(a.Before), read(a.After)
	return s
}

// added is what a run added to a total, and how far the printed digits leave it
// open.
type added struct{ v, off float64 }

// difference is what was added to a series; nil where it is not there.
func (s *said) difference(name string) *added {
	a, okA := s.after[name]
	b, okB := s.before[name]
	if s.metricsErr != nil || !okA {
		return nil
	}
	if !okB && !strings.Contains(name, "{") { // a series with labels appears when it is first counted
		return nil
	}
	off := target.Rounding(a, s.form.Digits) + target.Rounding(b, s.form.Digits)
	if strings.HasSuffix(name, "_seconds_total") {
		off += s.form.SecondsMS / 1e3
	}
	return &added{a - b, off}
}

// share is difference for a count that must be exact.
func (s *said) share(name string) *int {
	d := s.difference(name)
	if d == nil || d.off > 0.5 {
		return nil
	}
	return target.Whole(&d.v)
}

// has says whether a series is there, with labels or without.
func (s *said) has(name string) bool {
	for key := range s.after {
		if series, _, _ := strings.Cut(key, "{"); series == name {
			return true
		}
	}
	return false
}

// drafts are the tokens offered and accepted, from the first place that has them.
// The stream and the log leave both out where there were none.
func (s *said) drafts() (offered, accepted *int) {
	if t := s.timings; t != nil && t.DraftN != nil {
		return t.DraftN, t.DraftAccepted
	}
	if l := s.log; l != nil && l.DraftN != nil {
		return l.DraftN, l.DraftAccepted
	}
	return s.share("spec_decode_num_draft_tokens_total"), s.share("spec_decode_num_accepted_tokens_total")
}

// near says whether two numbers are within off of each other, and a little for
// the arithmetic.
func near(a, b, off float64) bool { return math.Abs(a-b) <= off+1e-9*(math.Abs(a)+math.Abs(b)) }

// The rounding of numbers as the log prints them, with two decimals, and of the
// milliseconds in timings, which are whole microseconds.
const (
	logOff     = 0.005
	timingsOff = 0.0005
)

// clocks is how far two clocks of one machine may drift apart, as a part of the
// time: what NTP slews at most.
const clocks = 500e-6

// contradictions are the identities that do not hold: each compares numbers that
// were read in two places, within what their printing left open.
func (s *said) contradictions(a *target.Account) []string {
	c := contradictions{}
	s.counts(&c)
	s.times(&c)
	s.rates(&c)
	s.draftCounts(&c)
	s.clock(&c, a.Stream, a.TTFTMS)
	return c
}

// contradictions collects those that are found.
type contradictions []string

// same demands that two counts are equal, where both are known.
func (c *contradictions) same(nameA string, a *int, nameB string, b *int) {
	if a != nil && b != nil && *a != *b {
		*c = append(*c, fmt.Sprintf("%s is %d, but %s is %d", nameA, *a, nameB, *b))
	}
}

// within demands that two numbers are, within off.
func (c *contradictions) within(nameA string, a *float64, nameB string, b *float64, off float64) {
	if a != nil && b != nil && !near(*a, *b, off) {
		*c = append(*c, fmt.Sprintf("%s is %v, but %s is %v, further apart than rounding explains (%.3g)", nameA, *a, nameB, *b, off))
	}
}

// sum is nil unless both are known.
func sum(a, b *int) *int {
	if a == nil || b == nil {
		return nil
	}
	return new(*a + *b)
}

func (s *said) counts(c *contradictions) {
	u, t, l := s.usage, s.timings, s.log
	if u != nil && t != nil {
		c.same("usage.completion_tokens", u.Completion, "timings.predicted_n", t.PredictedN)
		if t.CacheN == nil {
			c.same("usage.prompt_tokens", u.Prompt, "usage.cached_tokens + timings.prompt_n", sum(u.Cached, t.PromptN))
		}
		c.same("usage.prompt_tokens", u.Prompt, "timings.cache_n + prompt_n", sum(t.CacheN, t.PromptN))
		c.same("usage.cached_tokens", u.Cached, "timings.cache_n", t.CacheN)
	}
	if t != nil && l != nil {
		c.same("timings.predicted_n", t.PredictedN, "the log's eval tokens", l.Generated)
		c.same("timings.prompt_n", t.PromptN, "the log's prompt eval tokens", l.PromptN)
	}
	if l != nil {
		c.same("the log's total tokens", s.more.total, "its prompt and eval tokens", sum(l.PromptN, l.Generated))
	}
	predicted, computed, cached := s.share("tokens_predicted_total"), s.share("prompt_tokens_total"), s.share("prompt_tokens_cached_total")
	switch {
	case t != nil:
		c.same("what /metrics added to tokens_predicted_total", predicted, "timings.predicted_n", t.PredictedN)
		c.same("what /metrics added to prompt_tokens_total", computed, "timings.prompt_n", t.PromptN)
		c.same("what /metrics added to prompt_tokens_cached_total", cached, "timings.cache_n", t.CacheN)
	case l != nil:
		c.same("what /metrics added to tokens_predicted_total", predicted, "the log's eval tokens", l.Generated)
		c.same("what /metrics added to prompt_tokens_total", computed, "the log's prompt eval tokens", l.PromptN)
	}
	// The last token is not computed any more, so it takes no position. Drafts that
	// were accepted behind the end take some.
	if t == nil || s.more.positions == nil || s.more.truncated == nil || *s.more.truncated {
		return
	}
	if offered, _ := s.drafts(); offered == nil || *offered == 0 {
		if n := sum(sum(t.CacheN, t.PromptN), t.PredictedN); n != nil {
			c.same("the log's n_tokens at the end", s.more.positions, "timings.cache_n + prompt_n + predicted_n - 1", new(*n-1))
		}
	}
}

func (s *said) times(c *contradictions) {
	t, l := s.timings, s.log
	if l != nil && l.PromptMS != nil && l.DecodeMS != nil {
		c.within("the log's total time", s.more.totalMS, "its prompt eval and eval time", new(*l.PromptMS+*l.DecodeMS), 3*logOff)
	}
	if t == nil {
		return
	}
	if l != nil {
		c.within("timings.predicted_ms", t.PredictedMS, "the log's eval time", l.DecodeMS, logOff+timingsOff)
		c.within("timings.prompt_ms", t.PromptMS, "the log's prompt eval time", l.PromptMS, logOff+timingsOff)
	}
	if d := s.difference("tokens_predicted_seconds_total"); d != nil && t.PredictedMS != nil && t.PredictedN != nil && *t.PredictedN > 1 {
		c.within("what /metrics added to tokens_predicted_seconds_total, in ms,", new(d.v*1e3), "timings.predicted_ms", t.PredictedMS, d.off*1e3+timingsOff)
	}
	// /metrics ends the prompt's time before the first token is chosen, timings after.
	if d := s.difference("prompt_seconds_total"); d != nil && t.PromptMS != nil && d.v*1e3 > *t.PromptMS+d.off*1e3+timingsOff+1e-9 {
		*c = append(*c, fmt.Sprintf("what /metrics added to prompt_seconds_total, in ms, is %.6g, more than timings.prompt_ms, %v", d.v*1e3, *t.PromptMS))
	}
}

// rates demands that each rate is that of its own count and time.
func (s *said) rates(c *contradictions) {
	if t := s.timings; t != nil {
		rate(c, "timings.predicted_per_second", t.PredictedPerSecond, t.PredictedN, t.PredictedMS, timingsOff, 0, true)
		rate(c, "timings.prompt_per_second", t.PromptPerSecond, t.PromptN, t.PromptMS, timingsOff, 0, false)
	}
	if l := s.log; l != nil {
		rate(c, "the log's eval rate", l.DecodeRate, l.Generated, l.DecodeMS, logOff, logOff, true)
		rate(c, "the log's prompt eval rate", l.PromptRate, l.PromptN, l.PromptMS, logOff, logOff, false)
	}
}

// rate holds a rate against n and, for a decode, n-1 over a time that is known
// within msOff. A server that gives less than two tokens has no rate to give.
func rate(c *contradictions, name string, said *float64, n *int, ms *float64, msOff, off float64, decode bool) {
	if said == nil || n == nil || ms == nil || *ms <= msOff || *n < 1 || decode && *n < 2 {
		return
	}
	allowed := func(count int) bool {
		low, high := float64(count)/(*ms+msOff)*1e3, float64(count)/(*ms-msOff)*1e3
		return *said >= low-off-1e-9*low && *said <= high+off+1e-9*high
	}
	if allowed(*n) || decode && allowed(*n-1) {
		return
	}
	*c = append(*c, fmt.Sprintf("%s is %v, but its %d tokens in %v ms are another", name, *said, *n, *ms))
}

func (s *said) draftCounts(c *contradictions) {
	t, l := s.timings, s.log
	offered, accepted := s.share("spec_decode_num_draft_tokens_total"), s.share("spec_decode_num_accepted_tokens_total")
	if t != nil && t.DraftN != nil {
		if l != nil {
			c.same("timings.draft_n", t.DraftN, "the log's drafts generated", l.DraftN)
			c.same("timings.draft_n_accepted", t.DraftAccepted, "the log's drafts accepted", l.DraftAccepted)
		}
		c.same("what /metrics added to spec_decode_num_draft_tokens_total", offered, "timings.draft_n", t.DraftN)
		c.same("what /metrics added to spec_decode_num_accepted_tokens_total", accepted, "timings.draft_n_accepted", t.DraftAccepted)
	}
	if n, of := s.drafts(); n != nil && of != nil && *of > *n {
		*c = append(*c, fmt.Sprintf("%d drafts were accepted of %d", *of, *n))
	}
	if at := s.acceptedAt(); at != nil && accepted != nil {
		total := 0
		for _, n := range at {
			total += n
		}
		c.same("the sum of spec_decode_num_accepted_tokens_per_pos_total", &total, "what /metrics added to spec_decode_num_accepted_tokens_total", accepted)
	}
	if rounds := s.share("spec_decode_num_drafts_total"); rounds != nil && *rounds > 0 && accepted != nil {
		c.within("the log's mean len", s.more.meanLen, "1 + accepted/rounds of /metrics", new(1+float64(*accepted)/float64(*rounds)), logOff)
	}
}

// clock demands that the client waited at least as long as the server worked.
func (s *said) clock(c *contradictions, stream *stream.Completion, ttft *float64) {
	t := s.timings
	if t == nil || t.PromptMS == nil {
		return
	}
	wait := func(name string, client *float64, server float64, what string) {
		if client != nil && *client*(1+clocks)+2*timingsOff < server {
			*c = append(*c, fmt.Sprintf("%s is %.3f ms by the client's clock, less than the server's %s, %.3f ms", name, *client, what, server))
		}
	}
	wait("the first token frame", ttft, *t.PromptMS, "timings.prompt_ms")
	if stream.FinishAt >= 0 && t.PredictedMS != nil {
		wait("the finish frame", new(float64(stream.FinishAt)/1e6), *t.PromptMS+*t.PredictedMS, "timings.prompt_ms + predicted_ms")
	}
}
