// Package replay is for the tests of adapters: it measures a server that answers as
// an engine once did, by the steps of a real run, and makes the row of it.
package replay

import (
	"encoding/json"
	"testing"
	"time"

	"assay/internal/kit/derive"
	"assay/internal/kit/evidence"
	"assay/internal/kit/figure"
	"assay/internal/kit/host"
	"assay/internal/kit/row"
	"assay/internal/kit/stream"
	"assay/internal/kit/target"
)

// Nonce stands at the beginning of every prompt here.
const Nonce = "Ticket 48213377."

// Message is a prompt as runs have it.
const Message = Nonce + "\n\nAlice was beginning to get very tired of sitting by her sister on the bank, and"

// Run asks a target for one completion between two readings of all else that it
// tells, as the runner does.
func Run(t testing.TB, tg *target.Target, a target.Ask) (*evidence.Record, *derive.Facts) {
	t.Helper()
	ctx := t.Context()
	rec, f := New(tg.Adapter, a.Prompt)
	f.Target.Found = tg.Identity.Found
	rec.Meta = evidence.Meta{Row: "arm/measure/a1/run-001", Method: "POST", URL: tg.Endpoint(), Header: tg.Header()}
	x := &f.Exchange
	*x = derive.Exchange{}
	var err error
	if rec.Request, err = tg.Body(a); err != nil {
		t.Fatal(err)
	}
	if rec.MetricsBefore, err = tg.Metrics(ctx); err != nil {
		x.MetricsBeforeWhy = err.Error()
	}
	offset, logErr := tg.LogEnd()
	began := time.Now()
	rec.Recording, err = stream.Do(ctx, stream.Options{}, stream.Request{URL: rec.Meta.URL, Header: rec.Meta.Header, Body: rec.Request})
	if err != nil && rec.Recording == nil {
		x.Err = err.Error()
	}
	x.MonotonicNS = time.Since(began).Nanoseconds()
	x.WallNS = x.MonotonicNS
	if rec.MetricsAfter, err = tg.Metrics(ctx); err != nil {
		x.MetricsAfterWhy = err.Error()
	}
	if logErr == nil {
		rec.Log, _, logErr = tg.RequestLog(ctx, offset)
	}
	if rec.Log == nil && logErr != nil {
		x.LogWhy = logErr.Error()
	}
	return rec, f
}

// New is evidence without what an exchange brings, for a recording that is at hand.
func New(a target.Adapter, message string) (*evidence.Record, *derive.Facts) {
	doc := a.Facts()
	rec := &evidence.Record{
		Meta:   evidence.Meta{Row: "arm/measure/a1/run-001", Method: "POST", URL: "http://127.0.0.1:8080" + a.Endpoint()},
		Prompt: message,
	}
	const no = "not read in this test"
	f := &derive.Facts{
		Form: derive.Form, AssayVersion: "test", TimingRule: figure.Rule,
		Plan: derive.Plan{Arm: "arm", Cell: "arm/64", Ctx: 20, Phase: row.Measure, Attempt: 1, Run: 1, Cache: "cold"},
		Target: derive.Target{
			Adapter: a.Name(), Engine: a.Name(), Why: map[string]string{"commit": no, "format": no},
			EndTokenCounted: doc.EndTokenCounted, DecodeBasis: doc.DecodeBasis, ThreadsWhy: no,
		},
		Model: derive.Model{Why: no}, Host: host.Read("/"), Around: derive.Around{Why: no},
		Prompt: derive.Prompt{Nonce: Nonce, Why: no}, Text: derive.Text{Why: no},
		Exchange: derive.Exchange{MetricsBeforeWhy: no, MetricsAfterWhy: no, LogWhy: no},
	}
	return rec, f
}

// Row makes the row, and sees to it that it is one that could be written.
func Row(t testing.TB, rec *evidence.Record, f *derive.Facts) *row.Row {
	t.Helper()
	c, _ := derive.Completion(rec)
	rec.Completion = c.Joined
	r, err := derive.Row(rec, f)
	if err != nil {
		t.Fatal(err)
	}
	r.Evidence = row.Evidence{Dir: new("evidence/x"), Files: map[string]string{}}
	r.Place(1, nil)
	for _, v := range row.Validate(r) {
		t.Errorf("the row can't be written: %s", v)
	}
	return r
}

// Block is the engine's own part of a row, as it will be written.
func Block(t testing.TB, r *row.Row, name string) map[string]any {
	t.Helper()
	var b map[string]any
	if err := json.Unmarshal(r.Extra[""][name], &b); err != nil {
		t.Fatalf("block %q: %v", name, err)
	}
	return b
}
