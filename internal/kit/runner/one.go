package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"assay/internal/kit/evidence"
	"assay/internal/kit/figure"
	"assay/internal/kit/plan"
	"assay/internal/kit/prompt"
	"assay/internal/kit/row"
	"assay/internal/kit/stream"
	"assay/internal/kit/target"
	"assay/internal/kit/telemetry"
)

// measured is all that one run brought back, before anything is computed.
type measured struct {
	run     plan.Run
	prompt  prompt.Prompt
	size    *PromptSize // nil because of sizeWhy
	sizeWhy string
	body    []byte // of the request
	url     string

	rec    *stream.Recording // nil: no connection
	err    error             // of the request
	within time.Duration     // by the monotonic clock
	wall   time.Duration     // by the wall clock

	metricsBefore, metricsAfter       []byte
	metricsBeforeErr, metricsAfterErr error
	log                               []byte // what the target logged meanwhile
	logRecord                         target.LogRecord
	logErr                            error
	samples                           []telemetry.Sample // nil: the target is on another host

	requests              int // of this start so far, this one included
	interrupted, timedOut bool
	ended                 string // how the target ended by itself; empty: it did not
}

// one makes one run and appends its row. An error means that the row could not
// be made; a failed request is a row and no error.
func (s *session) one(ctx context.Context, run plan.Run) (*row.Row, error) {
	m := &measured{run: run, url: s.target.URL + target.ChatPath}
	var err error
	if m.prompt, err = s.maker.Prompt(s.slices[sliceKey{run.Ctx, run.Slice}]); err != nil {
		return nil, err
	}
	s.sizeOf(m)
	m.body, err = s.target.Body(target.Ask{
		Prompt: m.prompt.Text, MaxTokens: s.Plan.MaxTokens,
		Temperature: s.Plan.Temperature, Seed: s.Plan.Seed, IgnoreEOS: !s.Plan.NaturalStop,
	})
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.exchange(ctx, m)
	return s.record(m)
}

// sizeOf counts the whole chat prompt, where template and tokenizer are known.
func (s *session) sizeOf(m *measured) {
	switch {
	case s.tokens.Encode == nil:
		m.sizeWhy = s.tokens.Why
	case s.tokens.Prompt == nil:
		m.sizeWhy = "the model's chat template is not known"
	default:
		size, err := s.tokens.Prompt(m.prompt.Text, m.prompt.Nonce)
		if err != nil {
			m.sizeWhy = err.Error()
			return
		}
		m.size = &size
	}
}

// exchange sends the request between two readings of the counters and the log.
// What comes after the stream is read even when the run was interrupted.
func (s *session) exchange(ctx context.Context, m *measured) {
	after := context.WithoutCancel(ctx)
	m.metricsBefore, m.metricsBeforeErr = s.target.Metrics(ctx)
	logStart, logErr := s.target.LogEnd()

	sampler := s.startSampler()
	limited, cancel := context.WithTimeout(ctx, s.Plan.RunLimit)
	defer cancel()
	s.requests++
	m.requests = s.requests
	began := time.Now()
	m.rec, m.err = stream.Do(limited, stream.Options{}, stream.Request{URL: m.url, Header: s.target.Header(), Body: m.body})
	ended := time.Now()
	m.within, m.wall = ended.Sub(began), ended.Round(0).Sub(began.Round(0))
	m.interrupted = m.err != nil && ctx.Err() != nil
	m.timedOut = m.err != nil && !m.interrupted && errors.Is(limited.Err(), context.DeadlineExceeded)

	if sampler != nil {
		m.samples = sampler.Stop()
	}
	m.metricsAfter, m.metricsAfterErr = s.target.Metrics(after)
	if m.logErr = logErr; logErr == nil {
		m.log, m.logRecord, m.logErr = s.target.RequestLog(after, logStart)
	}
	if s.target.Process != nil {
		m.ended, _ = s.target.Process.Ended()
	}
}

// Facts are what the figures depend on beside the stream. They are kept with the
// evidence, so that the figures can be computed again without the target.
type Facts struct {
	Inputs    figure.Inputs      `json:"inputs"`
	Tokenizer string             `json:"tokenizer"`  // whose it was that counted the text
	TokenEnds []int              `json:"token_ends"` // byte offset in the text at which each of its tokens ends
	Samples   []telemetry.Sample `json:"samples"`    // of the host
}

// record computes the figures, keeps the evidence and appends the row.
func (s *session) record(m *measured) (*row.Row, error) {
	in := s.inputs(m)
	figs := figure.Compute(in)
	r := s.newRow(m)
	r.Fill(&in, figs)
	s.finish(m, r)

	facts, err := json.Marshal(Facts{Inputs: in, Tokenizer: s.tokens.Name, TokenEnds: in.TokenEnds, Samples: m.samples})
	if err != nil {
		return nil, fmt.Errorf("row %s: facts: %w", r.RowID, err)
	}
	dir := filepath.Join(EvidenceDir, filepath.FromSlash(r.RowID))
	files, err := evidence.Write(filepath.Join(s.Dir, dir), &evidence.Record{
		Meta:          evidence.Meta{Row: r.RowID, Method: "POST", URL: m.url, Header: s.target.Header(), Facts: facts},
		Recording:     m.rec,
		Request:       m.body,
		Prompt:        m.prompt.Text,
		Completion:    in.Completion.Joined,
		MetricsBefore: m.metricsBefore,
		MetricsAfter:  m.metricsAfter,
		Log:           m.log,
	}, s.secrets())
	if err != nil {
		return nil, err
	}
	r.Evidence = row.Evidence{Dir: new(filepath.ToSlash(dir)), Files: files}
	if err := s.journal.Append(r); err != nil {
		return nil, err
	}
	s.tally(r)
	return r, nil
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
