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
	"assay/internal/kit/row"
	"assay/internal/kit/stream"
	"assay/internal/kit/target"
)

// one makes one run and appends its row. An error means that the row could not
// be made; a failed request is a row and no error.
func (s *session) one(ctx context.Context, run plan.Run) (*row.Row, error) {
	p, err := s.maker.Prompt(s.slices[sliceKey{run.Ctx, run.Slice}])
	if err != nil {
		return nil, err
	}
	f := s.facts(run)
	f.Prompt = derive.CountPrompt(s.tokens, p.Text, p.Nonce)
	rec := &evidence.Record{
		Meta:   evidence.Meta{Row: run.ID(s.Plan.Arm), Method: "POST", URL: s.target.Endpoint(), Header: s.target.Header()},
		Prompt: p.Text,
	}
	rec.Request, err = s.target.Body(target.Ask{
		Prompt: p.Text, MaxTokens: s.Plan.MaxTokens,
		Temperature: s.Plan.Temperature, Seed: s.Plan.Seed, IgnoreEOS: !s.Plan.NaturalStop,
	})
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.exchange(ctx, rec, f)
	return s.record(rec, f)
}

// exchange sends the request between two readings of the counters and the log.
// What comes after the stream is read even when the run was interrupted.
func (s *session) exchange(ctx context.Context, rec *evidence.Record, f *derive.Facts) {
	after := context.WithoutCancel(ctx)
	x := &f.Exchange
	var err error
	if rec.MetricsBefore, err = s.target.Metrics(ctx); err != nil {
		x.MetricsBeforeWhy = err.Error()
	}
	logStart, logErr := s.target.LogEnd()

	s.requests++
	if f.Start != nil {
		f.Start.Requests = s.requests
	}
	if s.recorder != nil {
		s.recorder.Begin() // all that it reads by itself lies outside the window
	}
	limited, cancel := context.WithTimeout(ctx, s.Plan.RunLimit)
	defer cancel()
	began := time.Now()
	rec.Recording, err = stream.Do(limited, stream.Options{}, stream.Request{URL: rec.Meta.URL, Header: rec.Meta.Header, Body: rec.Request})
	ended := time.Now()
	x.MonotonicNS, x.WallNS = ended.Sub(began).Nanoseconds(), ended.Round(0).Sub(began.Round(0)).Nanoseconds()
	x.Interrupted = err != nil && ctx.Err() != nil
	x.TimedOut = err != nil && !x.Interrupted && errors.Is(limited.Err(), context.DeadlineExceeded)
	if err != nil && rec.Recording == nil {
		x.Err = err.Error()
	}

	if s.recorder != nil {
		rec.Samples, err = json.Marshal(s.recorder.End())
		if err != nil {
			f.Around.Why = err.Error()
		}
	}
	if rec.MetricsAfter, err = s.target.Metrics(after); err != nil {
		x.MetricsAfterWhy = err.Error()
	}
	if logErr == nil {
		rec.Log, _, logErr = s.target.RequestLog(after, logStart)
	}
	if rec.Log == nil && logErr != nil { // what the log holds is read from the evidence
		x.LogWhy = logErr.Error()
	}
	if s.target.Process != nil {
		x.Ended, _ = s.target.Process.Ended()
	}
}

// record keeps the evidence, makes the row from what was kept, and appends it.
// The row comes from the disk, as it will when it is verified.
func (s *session) record(rec *evidence.Record, f *derive.Facts) (*row.Row, error) {
	rec = rec.Masked(s.secrets())
	completion, _ := derive.Completion(rec)
	rec.Completion = completion.Joined
	f.Text = derive.CountText(s.tokens, rec)
	var err error
	if rec.Meta.Facts, err = json.Marshal(f); err != nil {
		return nil, fmt.Errorf("row %s: facts: %w", rec.Meta.Row, err)
	}
	name := path.Join(evidence.Folder, rec.Meta.Row)
	dir := filepath.Join(s.Dir, filepath.FromSlash(name))
	files, err := evidence.Write(dir, rec, s.secrets())
	if err != nil {
		return nil, err
	}
	r, err := fromEvidence(dir)
	if err != nil {
		return nil, fmt.Errorf("row %s: %w", rec.Meta.Row, err)
	}
	r.Evidence = row.Evidence{Dir: &name, Files: files}
	if err := s.journal.Append(r); err != nil {
		return nil, err
	}
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

func (s *session) secrets() []string {
	if s.Config.Target.Key == "" {
		return nil
	}
	return []string{s.Config.Target.Key}
}

func (s *session) tally(r *row.Row) {
	s.sum.Missing--
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
