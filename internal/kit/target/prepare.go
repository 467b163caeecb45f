package target

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Question is a request around the measurement.
type Question struct {
	Method string         // empty: GET
	Path   string         // empty: there is nothing to ask
	Body   map[string]any // nil: none
}

// Spoils is why a run is not what it was asked to be, though the server answered
// well. Empty texts: nothing is known to be wrong.
type Spoils struct {
	PromptCut string // the server read less of the prompt than it was sent
	ModelLoad string // it loaded the model before the first token, within the run
}

// prepare does what the adapter wants done before anything is measured. Its time is
// part of a started server's load time.
func (t *Target) prepare(ctx context.Context, a Adapter, model string) error {
	q, err := a.Prepare(t.settings, model)
	if err != nil || q.Path == "" {
		return err
	}
	began := time.Now()
	got, err := t.question(ctx, q, firstAnswer)
	switch {
	case err != nil:
		return err
	case got.Status != http.StatusOK:
		return fmt.Errorf("%s %s: status %d: %s", q.Method, q.Path, got.Status, inWords(got.Body))
	}
	if t.Process != nil {
		t.Process.LoadTime += time.Since(began)
	}
	return nil
}

// further asks what only servers of the adapter's kind are asked, and puts the
// answers beside the others.
func (t *Target) further(ctx context.Context, p *Probe, questions []Question) error {
	for _, q := range questions {
		got, err := t.question(ctx, q, quick)
		switch {
		case err == nil:
			p.Answers[q.Path] = got
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			p.Errs[q.Path] = err
		}
	}
	return nil
}

func (t *Target) question(ctx context.Context, q Question, limit time.Duration) (Answer, error) {
	if q.Method == "" {
		q.Method = http.MethodGet
	}
	var body []byte
	if q.Body != nil {
		var err error
		if body, err = json.Marshal(q.Body); err != nil {
			return Answer{}, fmt.Errorf("%s %s: %w", q.Method, q.Path, err)
		}
	}
	return t.ask(ctx, q.Method, q.Path, body, limit)
}
