package derive

import (
	"assay/internal/kit/row"
	"assay/internal/kit/target"
)

// block sets the engine's own part of the row, and which of the engine's numbers
// contradict each other.
func (s *source) block(r *row.Row) error {
	b := s.adapter.Block(s.engineSide())
	r.IdentitiesFailed = []string{}
	if b == nil {
		return nil
	}
	r.IdentitiesFailed = append(r.IdentitiesFailed, b.Failed...)
	for path, note := range b.Notes {
		r.Notes[path] = reasons(r.Notes[path], note)
	}
	nulls, err := b.Nulls()
	if err != nil {
		return err
	}
	for path, why := range nulls {
		r.Null(why, b.Name+"."+path)
	}
	return r.SetEngineBlock(b.Name, b.Fields)
}

// engineSide is what was read of the run on the engine's side.
func (s *source) engineSide() *target.Account {
	return &target.Account{
		Log: s.rec.Log, Record: s.log, LogErr: s.logErr,
		Before: s.rec.MetricsBefore, After: s.rec.MetricsAfter, Delta: s.delta, DeltaErr: s.deltaErr,
		Stream: s.completion, Request: s.rec.Request, Found: s.facts.Target.Found, Asked: s.request.MaxTokens, TTFTMS: s.ttft(), TotalMS: s.total(),
	}
}

// ttft is the time of the first token frame in ms, as it was received; withheld
// or not.
func (s *source) ttft() *float64 {
	if len(s.completion.Tokens) == 0 {
		return nil
	}
	return new(float64(s.completion.Tokens[0].At) / 1e6)
}

// total is the time of the last token frame in ms.
func (s *source) total() *float64 {
	n := len(s.completion.Tokens)
	if n == 0 {
		return nil
	}
	return new(float64(s.completion.Tokens[n-1].At) / 1e6)
}
