package derive

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"assay/internal/kit/count"
	"assay/internal/kit/evidence"
	"assay/internal/kit/figure"
	"assay/internal/kit/guard"
	"assay/internal/kit/plan"
	"assay/internal/kit/stream"
	"assay/internal/kit/target"
	"assay/internal/kit/telemetry"
)

// source is evidence, read.
type source struct {
	rec        *evidence.Record
	facts      *Facts
	adapter    target.Adapter
	request    *request
	completion *stream.Completion
	own        *stream.Timings // the engine's time, where the stream has it in its own words; nil: it has not
	streamErr  string          // why the request failed; empty: it did not

	log      target.LogRecord
	logErr   error
	delta    target.Counters // what the run added to the server's totals
	deltaErr error

	sampled *telemetry.Record // nil: no samples were kept
	samples *telemetry.Figures
}

func read(rec *evidence.Record, f *Facts) (*source, error) {
	s := &source{rec: rec, facts: f}
	var err error
	if s.adapter, err = f.adapter(); err != nil {
		return nil, err
	}
	if s.request = new(request); f.Exchange.NotSent == "" {
		if s.request, err = readRequest(rec.Request); err != nil {
			return nil, err
		}
	}
	s.completion, s.streamErr = Completion(rec)
	s.completion.Timings = sane(s.completion.Timings)
	s.own = sane(s.adapter.OwnTime(s.completion))
	s.streamErr = f.Exchange.failure(s.streamErr)
	if err := f.Text.check(s.completion.Joined); err != nil {
		return nil, err
	}
	if s.logErr = asError(f.Exchange.LogWhy); s.logErr == nil {
		s.log, s.logErr = s.adapter.ReadLog(rec.Log)
	}
	s.delta, s.deltaErr = s.counters()
	if s.sampled, err = readSamples(rec); err != nil {
		return nil, err
	}
	return s, nil
}

func asError(why string) error {
	if why == "" {
		return nil
	}
	return errors.New(why)
}

// Completion reads the recording, and says why the request failed where the
// recording tells it.
func Completion(rec *evidence.Record) (*stream.Completion, string) {
	r := rec.Recording
	if r == nil {
		return stream.Decode(nil), ""
	}
	failed := ""
	if r.Err != "" {
		failed = string(r.Phase) + ": " + r.Err
	}
	kind, err := r.KindOf()
	if err != nil {
		if failed == "" {
			failed = err.Error()
		}
		return stream.Decode(nil), failed
	}
	frames, err := stream.Frames(r, kind)
	if err != nil && failed == "" {
		failed = err.Error()
	}
	return stream.Decode(frames), failed
}

// sane leaves out times and rates that no clock gives. A server's nonsense must
// not keep its row from being written.
func sane(t *stream.Timings) *stream.Timings {
	if t == nil {
		return nil
	}
	out := *t
	for _, v := range []**float64{&out.PromptMS, &out.PromptPerSecond, &out.PredictedMS, &out.PredictedPerSecond} {
		if *v != nil && **v < 0 {
			*v = nil
		}
	}
	return &out
}

// Contradictions are files of evidence that do not fit each other.
func Contradictions(rec *evidence.Record) []error {
	var out []error
	if c, _ := Completion(rec); c.Joined != rec.Completion {
		out = append(out, fmt.Errorf("%s: it is not the text of %s", evidence.CompletionFile, evidence.StreamFile))
	}
	if rec.Recording == nil && len(rec.Request) == 0 && rec.Prompt == "" {
		return out // nothing was sent
	}
	q, err := readRequest(rec.Request)
	switch {
	case err != nil:
		out = append(out, err)
	case !slices.ContainsFunc(q.Messages, func(m message) bool { return m.Content == rec.Prompt }):
		out = append(out, fmt.Errorf("%s: it is not what %s asks", evidence.PromptFile, evidence.RequestFile))
	}
	return out
}

// tripped is the guard's limit that ended the run; nil: none did.
func (x *Exchange) tripped() *guard.Trip {
	if x.Guard == nil {
		return nil
	}
	return x.Guard.Trip
}

// failure is why the request failed, of which the run may know more than the
// recording.
func (x *Exchange) failure(recorded string) string {
	switch {
	case x.NotSent != "":
		return x.NotSent
	case x.tripped() != nil:
		return x.tripped().String()
	case x.Interrupted:
		return interrupted
	case x.TimedOut:
		return fmt.Sprintf("the run took longer than its limit of %v", time.Duration(x.MonotonicNS).Round(time.Second))
	case recorded == "":
		return x.Err
	}
	return recorded
}

// check sees to it that the kept tokens are those of the text, as far as that
// can be told without the tokenizer.
func (t *Text) check(text string) error {
	at := 0
	for i, end := range t.Ends {
		if end <= at || end > len(text) {
			return fmt.Errorf("%s: facts.text.ends: token %d ends at byte %d, but the one before it at %d and the text at %d", evidence.MetaFile, i, end, at, len(text))
		}
		at = end
	}
	if t.Ends != nil && at != len(text) {
		return fmt.Errorf("%s: facts.text.ends: the tokens end at byte %d, the text at %d", evidence.MetaFile, at, len(text))
	}
	return nil
}

func (s *source) counters() (target.Counters, error) {
	if s.adapter.Meter().Path == "" {
		return target.Counters{}, target.ErrNoMeter
	}
	x := &s.facts.Exchange
	if why := reasons(x.MetricsBeforeWhy, x.MetricsAfterWhy); why != "" {
		return target.Counters{}, errors.New(why)
	}
	return s.adapter.Metered(s.rec.MetricsBefore, s.rec.MetricsAfter)
}

// inputs is all that the figures depend on, but for the samples.
func (s *source) inputs() figure.Inputs {
	in := figure.Read(s.completion)
	in.StreamErr = s.streamErr
	if s.request.MaxTokens != nil {
		in.Asked = *s.request.MaxTokens
	}
	in.NaturalStop = s.facts.Plan.NaturalStop
	if in.EndTokenCounted = s.facts.Target.EndTokenCounted; s.adapter.Facts().StopAtLimit && s.atLimit() {
		in.EndTokenCounted = new(false)
	}
	if n, err := strconv.Atoi(s.facts.Target.Found[target.DraftWindow]); err == nil && n > 0 {
		in.DraftWindow = n
	}
	in.BeforeNonce, in.WarmCache = s.facts.Prompt.BeforeNonce, s.facts.Plan.Cache == string(plan.Warm)
	s.account(&in)
	in.Engine.Basis = figure.Basis(s.facts.Target.DecodeBasis)

	log := count.Read("log", count.ServerCounter, s.log.Generated, reason(s.logErr, "the log does not say"))
	log.Offset, log.OffsetWhy = s.log.Offset, s.log.OffsetWhy
	metrics := count.Read("/metrics", count.ServerCounter, target.Whole(s.delta.Predicted), reason(s.deltaErr, cmp.Or(s.delta.Why, "the counter is not there")))
	in.Count = count.Judge(append(count.FromStream(s.completion), log, metrics, s.recount()))
	if in.TokenEnds = s.facts.Text.Ends; in.TokenEnds != nil {
		in.TokenEnds = slices.Clone(in.TokenEnds)
	}
	in.Checks = s.checks()
	s.spoils(&in)
	return in
}

// atLimit says whether the run has all tokens that it asked for.
func (s *source) atLimit() bool {
	u, asked := s.completion.Usage, s.request.MaxTokens
	return u != nil && u.Completion != nil && asked != nil && *u.Completion >= *asked
}

// account is the engine's own count and time: from the stream where it has them,
// else from the log, else from the counters.
func (s *source) account(in *figure.Inputs) {
	e, l, d := &in.Engine, &s.log, &s.delta
	if e.Generated == nil || e.DecodeMS == nil {
		switch {
		case s.own != nil && s.own.PredictedN != nil && s.own.PredictedMS != nil:
			*e = figure.Engine{
				Source: "stream", Generated: s.own.PredictedN, DecodeMS: s.own.PredictedMS, ReportedRate: s.own.PredictedPerSecond,
				PromptN: s.own.PromptN, PromptMS: s.own.PromptMS,
			}
		case s.logErr == nil && l.Generated != nil && l.DecodeMS != nil:
			*e = figure.Engine{
				Source: "log", Generated: new(*l.Generated + l.Offset), DecodeMS: l.DecodeMS, ReportedRate: l.DecodeRate,
				PromptN: l.PromptN, PromptMS: l.PromptMS, DraftN: l.DraftN, DraftAccepted: l.DraftAccepted,
			}
		case d.Predicted != nil && d.PredictedSeconds != nil && *d.Predicted > 0:
			*e = figure.Engine{
				Source: "/metrics", Generated: target.Whole(d.Predicted), DecodeMS: target.Milliseconds(d.PredictedSeconds),
				PromptN: target.Whole(d.Prompt), PromptMS: target.Milliseconds(d.PromptSeconds),
			}
		}
	}
	if in.CachedTokens == nil && s.logErr == nil {
		in.CachedTokens = l.Cached
	}
	if in.CachedTokens == nil {
		in.CachedTokens = target.Whole(d.Cached)
	}
}

// recount is the count of the text, tokenised once and whole.
func (s *source) recount() count.Source {
	t := &s.facts.Text
	if t.Tokenizer == "" {
		return count.Read("text", count.Text, nil, t.Why)
	}
	name := "text by " + t.Tokenizer
	if ok, why := s.completion.WholeText(); !ok {
		return count.Read(name, count.Text, nil, why)
	}
	n := len(t.IDs)
	switch {
	case t.Ends != nil:
		n = len(t.Ends)
	case t.IDs == nil:
		return count.Read(name, count.Text, nil, t.Why)
	}
	return count.Read(name, count.Text, &n, "")
}

// checks are the readings of the kit itself.
func (s *source) checks() figure.Checks {
	var c figure.Checks
	x := &s.facts.Exchange
	switch {
	case x.Ended != "":
		c.EngineRestarted = "the target ended by itself: " + x.Ended
	case errors.Is(s.deltaErr, target.ErrRestarted):
		c.EngineRestarted = s.deltaErr.Error()
	}
	// A wall clock that is slewed moves by at most 0.05 %, one that is set by more.
	within, wall := time.Duration(x.MonotonicNS), time.Duration(x.WallNS)
	if step := wall - within; step.Abs() > max(50*time.Millisecond, within/1000) {
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
