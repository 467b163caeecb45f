package tabbyapi

import (
	"encoding/json"
	"strings"
	"testing"

	"assay/internal/kit/stream"
	"assay/internal/kit/target"
)

// The log wraps long lines and puts its prefix before each.
const log = `INFO:     Metrics (ID: 4f7a): 128 tokens generated in 2.5 seconds
(Queue: 0.0 s, Process: 12 cached tokens and 500 new tokens at 1000.0 T/s,
Generate: 64.0 T/s, Context: 640 tokens, Draft: 40 / 60 tokens accepted (66.67%))
`

func TestReadLog(t *testing.T) {
	rec, err := Adapter{}.ReadLog([]byte(log))
	if err != nil {
		t.Fatal(err)
	}
	if *rec.Generated != 128 || *rec.Cached != 12 || *rec.PromptN != 500 || *rec.PromptMS != 500 || *rec.DecodeMS != 2000 || *rec.DraftAccepted != 40 || *rec.DraftN != 60 {
		t.Errorf("%+v", rec)
	}
	if _, err := (Adapter{}).ReadLog([]byte(log + log)); err == nil || !strings.Contains(err.Error(), "other requests too") {
		t.Errorf("two requests: %v", err)
	}
	if _, err := (Adapter{}).ReadLog(nil); err == nil {
		t.Error("no line, and no error")
	}
}

func completion(usage string) *stream.Completion {
	return &stream.Completion{
		Usage:   &stream.Usage{Prompt: new(512), Completion: new(128)},
		Objects: map[string]json.RawMessage{"usage": []byte(usage)},
	}
}

// A rate that the server can't give is a text.
func TestOwnTime(t *testing.T) {
	c := completion(`{"prompt_time":0.0,"prompt_tokens_per_sec":"Indeterminate","completion_time":2.0,"completion_tokens_per_sec":64.0}`)
	own := Adapter{}.OwnTime(c)
	if own == nil || *own.PredictedMS != 2000 || *own.PredictedN != 128 || *own.PredictedPerSecond != 64 || own.PromptPerSecond != nil {
		t.Errorf("%+v", own)
	}
	if own := (Adapter{}).OwnTime(completion(`{"completion_tokens":128}`)); own != nil {
		t.Errorf("no times: %+v", own)
	}
}

// The server rounds its time to 0.01 s: what lies within that is no contradiction.
func TestIdentities(t *testing.T) {
	for usage, bad := range map[string]string{
		`{"completion_time":2.0,"completion_tokens_per_sec":64.0}`:  "",
		`{"completion_time":2.0,"completion_tokens_per_sec":64.15}`: "",
		`{"completion_time":2.0,"completion_tokens_per_sec":70.0}`:  "128 tokens in 2.00 s are not 70.00 tok/s",
		`{"completion_time":0.0,"completion_tokens_per_sec":9999}`:  "",
	} {
		a := &target.Account{Log: []byte(log), Stream: completion(usage)}
		a.Record, a.LogErr = Adapter{}.ReadLog(a.Log)
		got := strings.Join(Adapter{}.Block(a).Failed, "; ")
		if got != bad {
			t.Errorf("%s: %q, want %q", usage, got, bad)
		}
	}
	a := &target.Account{Log: []byte(strings.Replace(log, "500 new", "400 new", 1)), Stream: completion(`{}`)}
	a.Record, a.LogErr = Adapter{}.ReadLog(a.Log)
	if got := (Adapter{}).Block(a).Failed; len(got) != 1 || !strings.Contains(got[0], "reads 400 and reuses 12") {
		t.Errorf("%q", got)
	}
}

func TestRecognise(t *testing.T) {
	p := &target.Probe{Answers: map[string]target.Answer{
		"/v1/models": {Status: 200, Body: []byte(`{"data":[{"id":"a","owned_by":"x"},{"id":"m","owned_by":"x"}]}`)},
		"/health":    {Status: 200, Body: []byte(`{"status":"healthy","issues":[]}`)},
		"/v1/model":  {Status: 200, Body: []byte(`{"id":"m","parameters":{"max_seq_len":4096,"max_batch_size":1}}`)},
	}}
	if !(Adapter{}).Recognise(p) {
		t.Error("not recognised")
	}
	if id := (Adapter{}).Identify(p); id.Model != "m" || *id.Context != 4096 || *id.Slots != 1 {
		t.Errorf("%+v", id)
	}
	p.Answers["/health"] = target.Answer{Status: 200, Body: []byte(`{"status":"ok"}`)}
	if (Adapter{}).Recognise(p) {
		t.Error("llama-server's health is not TabbyAPI's")
	}
}

// Its port may be another one than was asked for: the log says which.
func TestAddress(t *testing.T) {
	m := Adapter{}.Readiness().Address.FindStringSubmatch("INFO:     Uvicorn running on http://127.0.0.1:5001 (Press CTRL+C to quit)")
	if m == nil || m[1] != "http://127.0.0.1:5001" {
		t.Errorf("%q", m)
	}
}

func FuzzReadLog(f *testing.F) {
	f.Add([]byte(log), []byte(`{"completion_time":2.0}`))
	f.Fuzz(func(t *testing.T, log, usage []byte) {
		a := &target.Account{Log: log, Stream: completion(string(usage))}
		a.Record, a.LogErr = Adapter{}.ReadLog(log)
		_ = Adapter{}.Block(a)
		_ = Adapter{}.OwnTime(a.Stream)
	})
}
