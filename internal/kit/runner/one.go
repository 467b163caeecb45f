package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"time"

	"assay/internal/kit/derive"
	"assay/internal/kit/evidence"
	"assay/internal/kit/plan"
	"assay/internal/kit/prompt"
	"assay/internal/kit/row"
	"assay/internal/kit/stream"
	"assay/internal/kit/target"
)

// one makes one run and appends its row. An error means that the row could not
// be made; a failed request is a row and no error.
func (s *session) one(ctx context.Context, l *live, run plan.Run, cool *derive.Cool) (*row.Row, error) {
	text, nonce, err := s.ask(l, run)
	if err != nil {
		return nil, err
	}
	rec := &evidence.Record{
		Meta:   evidence.Meta{Row: run.ID(run.Arm), Method: "POST", URL: l.target.Endpoint(), Header: l.target.Header()},
		Prompt: text,
	}
	ask := s.asking(text, s.past.tokensFor(run))
	ask.Before = l.talk.said
	rec.Request, err = l.target.Body(ask)
	if err != nil {
		return nil, err
	}
	f := s.facts(l, run)
	f.Around = l.aroundOf(cool)
	f.Prompt = derive.CountPrompt(l.tokens, rec.Request, nonce)
	if err := s.soft.Err(); err != nil {
		return nil, err
	}
	s.exchange(ctx, l, rec, f)
	r, said, err := s.record(l, rec, f)
	if err != nil {
		return nil, err
	}
	l.talk.said = append(l.talk.said, prompt.Message{Role: "user", Content: text}, prompt.Message{Role: "assistant", Content: said})
	if l.talk.nonce = nonce; r.Status != row.OK {
		l.talk.failed = *r.Error
	}
	s.outcome(l, run, f)
	return r, nil
}

// asking is a request of the plan's, for a text and so many tokens.
func (s *session) asking(text string, tokens int) target.Ask {
	p := &s.Plan
	return target.Ask{
		Prompt: text, MaxTokens: tokens, IgnoreEOS: !p.NaturalStop,
		Temperature: p.Temperature, Seed: p.Seed, TopP: p.TopP, PresencePenalty: p.PresencePenalty, FrequencyPenalty: p.FrequencyPenalty,
		TopK: p.TopK, MinP: p.MinP, RepeatPenalty: p.RepeatPenalty,
		Reasoning: p.Reasoning, WarmCache: p.Cache == plan.Warm,
	}
}

// endPatience is how long the end of a process may come after that of its
// connection, on a machine that is busy.
const endPatience = 3 * time.Second

// brokeOff says whether a request failed as it does when the server is gone, and not
// by the server's answer.
func brokeOff(err error) bool {
	var failed *stream.Error
	return errors.As(err, &failed) && failed.Phase != stream.PhaseStatus
}

// exchange sends the request between two readings of the counters and the log.
// What comes after the stream is read even when the run was interrupted.
func (s *session) exchange(ctx context.Context, l *live, rec *evidence.Record, f *derive.Facts) {
	after := context.WithoutCancel(ctx)
	x := &f.Exchange
	var err error
	if rec.MetricsBefore, err = l.target.Metrics(ctx); err != nil {
		x.MetricsBeforeWhy = err.Error()
	}
	logStart, logErr := l.target.LogEnd()

	l.requests++
	if f.Start != nil {
		f.Start.Requests = l.requests
	}
	if l.watched {
		s.look(l).Begin() // all that it reads by itself lies outside the window
	}
	limited, cancel := context.WithTimeout(ctx, s.Plan.RunLimit)
	defer cancel()
	stopped, stop := context.WithCancel(limited)
	defer stop()
	watch := s.guard(l, stop)
	began := time.Now()
	rec.Recording, err = stream.Do(stopped, stream.Options{Reads: &l.reads}, stream.Request{URL: rec.Meta.URL, Header: rec.Meta.Header, Body: rec.Request})
	ended := time.Now()
	if watch != nil {
		x.Guard = new(watch.End())
	}
	if l.watched {
		s.samples(l, rec, f)
	}
	tripped := x.Guard != nil && x.Guard.Trip != nil
	x.MonotonicNS, x.WallNS = ended.Sub(began).Nanoseconds(), ended.Round(0).Sub(began.Round(0)).Nanoseconds()
	x.Interrupted = err != nil && !tripped && ctx.Err() != nil
	x.TimedOut = err != nil && !tripped && !x.Interrupted && errors.Is(limited.Err(), context.DeadlineExceeded)
	if err != nil && rec.Recording == nil {
		x.Err = err.Error()
	}

	if l.target.Process != nil && !tripped {
		patience := time.Duration(0)
		if brokeOff(err) && !x.Interrupted && !x.TimedOut {
			patience = endPatience
		}
		x.Ended, _ = l.target.Process.EndedWithin(patience)
	}
	if rec.MetricsAfter, err = l.target.Metrics(after); err != nil {
		x.MetricsAfterWhy = err.Error()
	}
	if logErr == nil {
		rec.Log, _, logErr = l.target.RequestLog(after, logStart)
	}
	if rec.Log == nil && logErr != nil { // what the log holds is read from the evidence
		x.LogWhy = logErr.Error()
	}
}

// samples takes what was read of the machine around the run.
func (s *session) samples(l *live, rec *evidence.Record, f *derive.Facts) {
	var err error
	if rec.Samples, err = json.Marshal(s.look(l).End()); err != nil {
		f.Around.Why = err.Error()
	}
}

// outcome settles what a run means for those after it: a target that ended or was
// stopped serves no more of them.
func (s *session) outcome(l *live, run plan.Run, f *derive.Facts) {
	x := &f.Exchange
	switch {
	case x.Guard != nil && x.Guard.Trip != nil:
		if x.Guard.Trip.Limit.Then == plan.End {
			s.trip = x.Guard.Trip
		}
		l.over = fmt.Errorf("the guard stopped run %d (%s): %s", run.Number, run.Cell, x.Guard.Trip)
	case x.Ended != "":
		l.over = fmt.Errorf("the target ended by itself during run %d of %d: %s; its log is %s", run.Number, len(s.Plan.Runs()), x.Ended, filepath.Join(s.Dir, s.fileOf(l.arm, "target", ".log")))
	}
}

// notSent appends the row of a run that could not be made: kind says why in one
// word.
func (s *session) notSent(l *live, run plan.Run, kind, why string) (*row.Row, error) {
	f := s.facts(l, run)
	f.Around = derive.Around{Why: "nothing was sent"}
	f.Prompt = derive.Prompt{Why: "nothing was sent"}
	f.Exchange = derive.Exchange{NotSent: why, NotSentKind: kind}
	rec := &evidence.Record{Meta: evidence.Meta{Row: run.ID(run.Arm)}}
	r, _, err := s.record(l, rec, f)
	return r, err
}

// record keeps the evidence, makes the row from what was kept, and appends it.
// The row comes from the disk, as it will when it is verified. said is the visible
// text of the completion.
func (s *session) record(l *live, rec *evidence.Record, f *derive.Facts) (r *row.Row, said string, err error) {
	secrets := l.secrets()
	rec = rec.Masked(secrets)
	completion, _ := derive.Completion(rec)
	rec.Completion = completion.Joined
	f.Text = derive.Text{Why: "nothing was sent"}
	if f.Exchange.NotSent == "" {
		f.Text = derive.CountText(l.tokens, rec)
	}
	if rec.Meta.Facts, err = json.Marshal(f); err != nil {
		return nil, "", fmt.Errorf("row %s: facts: %w", rec.Meta.Row, err)
	}
	name := path.Join(evidence.Folder, rec.Meta.Row)
	dir := filepath.Join(s.Dir, filepath.FromSlash(name))
	files, err := evidence.Write(dir, rec, secrets)
	if err != nil {
		return nil, "", err
	}
	r, err = s.appendRow(name, files)
	return r, completion.Text, err
}

// appendRow makes the row of kept evidence and appends it.
func (s *session) appendRow(name string, files map[string]string) (*row.Row, error) {
	r, err := fromEvidence(filepath.Join(s.Dir, filepath.FromSlash(name)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r.Evidence = row.Evidence{Dir: &name, Files: files}
	if err := s.journal.Append(r); err != nil {
		return nil, err
	}
	s.past.see(r)
	s.tally(r)
	return r, nil
}

func fromEvidence(dir string) (*row.Row, error) {
	rec, err := evidence.Read(dir)
	if err != nil {
		return nil, err
	}
	f, err := derive.ReadFacts(rec)
	if err != nil {
		return nil, err
	}
	return derive.Row(rec, f)
}

func (l *live) secrets() []string {
	if l.key == "" {
		return nil
	}
	return []string{l.key}
}

func (s *session) tally(r *row.Row) {
	switch r.Status {
	case row.OK:
		s.sum.OK++
		if r.Phase == row.Measure && len(r.Withheld) > 0 {
			s.sum.Withheld++
		}
	case row.Failed:
		s.sum.Failed++
	case row.Stopped:
		s.sum.Stopped++
	}
}
