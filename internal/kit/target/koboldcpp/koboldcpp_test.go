package koboldcpp

import (
	"errors"
	"strings"
	"testing"

	"assay/internal/kit/stream"
	"assay/internal/kit/target"
)

const (
	before = `{"last_process":0,"last_eval":0,"last_token_count":0,"last_input_count":0,"total_gens":6,"queue":0,"idle":1}`
	after  = `{"last_process":1.0,"last_eval":15.6,"last_process_time":0.5,"last_eval_time":2.0,"last_token_count":128,"last_input_count":512,"last_draft_success":9,"last_draft_failed":3,"stop_reason":1,"total_gens":7,"queue":0,"idle":1}`
)

// It tells of the last request, whoever sent it: exactly one may have been added.
func TestMetered(t *testing.T) {
	d, err := Adapter{}.Metered([]byte(before), []byte(after))
	if err != nil || *d.Predicted != 128 || *d.PredictedSeconds != 2 || d.Prompt != nil {
		t.Errorf("%+v, %v", d, err)
	}
	for name, c := range map[string]struct{ before, after, err string }{
		"two were added":  {strings.Replace(before, `"total_gens":6`, `"total_gens":5`, 1), after, "2 generations were added"},
		"none was added":  {after, after, "0 generations were added"},
		"not JSON":        {before, "busy", "/api/extra/perf"},
		"no count at all": {before, "{}", "no total_gens"},
	} {
		if _, err := (Adapter{}).Metered([]byte(c.before), []byte(c.after)); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (Adapter{}).Metered([]byte(after), []byte(before)); !errors.Is(err, target.ErrRestarted) {
		t.Errorf("counts that fall: %v", err)
	}
}

func TestReadLog(t *testing.T) {
	const line = "\n[10:00:00] CtxLimit:640/4096, Amt:128/128, Init:0.00s, Process:0.50s (1.0ms/T = 1024.00T/s), Generate:2.00s (15.6ms/T = 64.00T/s), Total:2.50s (51.20T/s)\n"
	rec, err := Adapter{}.ReadLog([]byte(line))
	if err != nil || *rec.Generated != 128 || *rec.PromptMS != 500 || *rec.DecodeMS != 2000 {
		t.Errorf("%+v, %v", rec, err)
	}
	if _, err := (Adapter{}).ReadLog([]byte(line + line)); err == nil {
		t.Error("two requests, and no error")
	}
}

func TestBlock(t *testing.T) {
	a := &target.Account{Before: []byte(before), After: []byte(after), Stream: &stream.Completion{Usage: &stream.Usage{Completion: new(100)}}}
	a.Delta, a.DeltaErr = Adapter{}.Metered(a.Before, a.After)
	b := Adapter{}.Block(a)
	f := b.Fields.(*Fields)
	if *f.DecodeMS != 2000 || *f.Input != 512 || *f.DraftsAccepted != 9 || *f.StopReason != 1 {
		t.Errorf("%+v", f)
	}
	// 1.77 says 100 for whatever it generated.
	if len(b.Failed) != 1 || !strings.Contains(b.Failed[0], "counts 128 tokens, usage says 100") {
		t.Errorf("%q", b.Failed)
	}
}

func TestRecognise(t *testing.T) {
	p := &target.Probe{Answers: map[string]target.Answer{
		"/v1/models":                         {Status: 200, Body: []byte(`{"data":[{"id":"koboldcpp/m","owned_by":"koboldcpp"}]}`)},
		"/api/extra/version":                 {Status: 200, Body: []byte(`{"result":"KoboldCpp","version":"1.122.1"}`)},
		"/api/extra/true_max_context_length": {Status: 200, Body: []byte(`{"value":4096}`)},
	}}
	if !(Adapter{}).Recognise(p) {
		t.Error("not recognised")
	}
	if id := (Adapter{}).Identify(p); *id.Version != "1.122.1" || *id.Context != 4096 || id.Model != "koboldcpp/m" {
		t.Errorf("%+v", id)
	}
}

func FuzzReadLog(f *testing.F) {
	f.Add([]byte("CtxLimit:640/4096, Amt:128/128"), []byte(before), []byte(after))
	f.Fuzz(func(t *testing.T, log, before, after []byte) {
		a := &target.Account{Log: log, Before: before, After: after, Stream: stream.Decode(nil)}
		a.Record, a.LogErr = Adapter{}.ReadLog(log)
		a.Delta, a.DeltaErr = Adapter{}.Metered(before, after)
		_ = Adapter{}.Block(a)
	})
}
