package runner

import (
	"errors"
	"fmt"
	"math"
	"time"

	"assay/internal/kit/count"
	"assay/internal/kit/figure"
	"assay/internal/kit/stream"
	"assay/internal/kit/target"
)

// inputs gathers all that the figures depend on from what a run brought back.
func (s *session) inputs(m *measured) figure.Inputs {
	completion, streamErr := decode(m)
	in := figure.Read(completion)
	in.StreamErr = streamErr
	in.Asked, in.NaturalStop = s.Plan.MaxTokens, s.Plan.NaturalStop
	facts := s.target.Adapter.Facts()
	in.EndTokenCounted = facts.EndTokenCounted
	if m.size != nil {
		in.BeforeNonce = &m.size.BeforeNonce
	}
	delta, deltaErr := s.counters(m)
	s.account(m, &in, delta)
	in.Engine.Basis = figure.Basis(facts.DecodeBasis)

	sources := count.FromStream(completion)
	sources = append(sources,
		count.Read("log", count.ServerCounter, m.logRecord.Generated, reason(m.logErr, "the log does not say")),
		count.Read("/metrics", count.ServerCounter, whole(delta.Predicted), reason(deltaErr, "the counter is not there")))
	var recount count.Source
	recount, in.TokenEnds = s.recount(completion)
	in.Count = count.Judge(append(sources, recount))
	in.Checks = s.checks(m, deltaErr)
	return in
}

// decode reads the recording as a completion, and says why the request failed
// where it did.
func decode(m *measured) (*stream.Completion, string) {
	failed := ""
	if m.err != nil {
		failed = m.err.Error()
	}
	switch {
	case m.interrupted:
		failed = "interrupted by the user"
	case m.timedOut:
		failed = fmt.Sprintf("the run took longer than its limit of %v", m.within.Round(time.Second))
	}
	if m.rec == nil {
		return stream.Decode(nil), failed
	}
	kind, err := m.rec.KindOf()
	if err != nil {
		if failed == "" {
			failed = err.Error()
		}
		return stream.Decode(nil), failed
	}
	frames, err := stream.Frames(m.rec, kind)
	if err != nil && failed == "" {
		failed = err.Error()
	}
	return stream.Decode(frames), failed
}

// errRestarted marks counters that went back.
var errRestarted = errors.New("restarted")

// counters is what the run added to the server's totals.
func (s *session) counters(m *measured) (target.Counters, error) {
	names := s.target.Adapter.Counters()
	if names == (target.CounterNames{}) {
		return target.Counters{}, errors.New("the adapter knows no counters of this engine")
	}
	if err := errors.Join(m.metricsBeforeErr, m.metricsAfterErr); err != nil {
		return target.Counters{}, err
	}
	before, err := target.ReadCounters(m.metricsBefore, names)
	if err != nil {
		return target.Counters{}, fmt.Errorf("before the run: %w", err)
	}
	after, err := target.ReadCounters(m.metricsAfter, names)
	if err != nil {
		return target.Counters{}, fmt.Errorf("after the run: %w", err)
	}
	d, err := after.Since(before)
	if err != nil {
		return target.Counters{}, fmt.Errorf("%w: %w", errRestarted, err)
	}
	return d, nil
}

// account is the engine's own count and time: from the stream where it has them,
// else from the log, else from the counters.
func (s *session) account(m *measured, in *figure.Inputs, delta target.Counters) {
	e := &in.Engine
	if e.Generated == nil || e.DecodeMS == nil {
		l := m.logRecord
		switch {
		case m.logErr == nil && l.Generated != nil && l.DecodeMS != nil:
			*e = figure.Engine{
				Source: "log", Generated: l.Generated, DecodeMS: l.DecodeMS, ReportedRate: l.DecodeRate,
				PromptN: l.PromptN, PromptMS: l.PromptMS, DraftN: l.DraftN, DraftAccepted: l.DraftAccepted,
			}
		case delta.Predicted != nil && delta.PredictedSeconds != nil && *delta.Predicted > 0:
			*e = figure.Engine{
				Source: "/metrics", Generated: whole(delta.Predicted), DecodeMS: milliseconds(delta.PredictedSeconds),
				PromptN: whole(delta.Prompt), PromptMS: milliseconds(delta.PromptSeconds),
			}
		}
	}
	if in.CachedTokens == nil && m.logErr == nil {
		in.CachedTokens = m.logRecord.Cached
	}
	if in.CachedTokens == nil {
		in.CachedTokens = whole(delta.Cached)
	}
}

// recount tokenises the kept text once, whole. The ends of its tokens are known
// only where the tokenizer is ours.
func (s *session) recount(c *stream.Completion) (count.Source, []int) {
	t := s.tokens
	if t.Encode == nil {
		return count.Read("text", count.Text, nil, t.Why), nil
	}
	name := "text by " + t.Name
	if ok, why := c.WholeText(); !ok {
		return count.Read(name, count.Text, nil, why), nil
	}
	ids, err := t.Encode(c.Joined)
	if err != nil {
		return count.Read(name, count.Text, nil, err.Error()), nil
	}
	n := len(ids)
	src := count.Read(name, count.Text, &n, "")
	if t.Piece == nil {
		return src, nil
	}
	ends, err := count.Ends(c.Joined, ids, t.Piece)
	if err != nil {
		return src, nil
	}
	return src, ends
}

// checks are the readings of the kit itself.
func (s *session) checks(m *measured, deltaErr error) figure.Checks {
	var c figure.Checks
	switch {
	case m.ended != "":
		c.EngineRestarted = "the target ended by itself: " + m.ended
	case errors.Is(deltaErr, errRestarted):
		c.EngineRestarted = deltaErr.Error()
	}
	// A wall clock that is slewed moves by at most 0.05 %, one that is set by more.
	if step := m.wall - m.within; step.Abs() > max(50*time.Millisecond, m.within/1000) {
		c.ClockStep = fmt.Sprintf("the wall clock moved by %v more than the monotonic one within the run", step)
	}
	return c
}

func reason(err error, otherwise string) string {
	if err != nil {
		return err.Error()
	}
	return otherwise
}

// whole turns a counter's difference into a number of tokens.
func whole(v *float64) *int {
	if v == nil || *v < 0 || *v > math.MaxInt32 {
		return nil
	}
	return new(int(math.Round(*v)))
}

func milliseconds(seconds *float64) *float64 {
	if seconds == nil {
		return nil
	}
	return new(*seconds * 1e3)
}
