package sglang

import (
	"strings"
	"testing"

	"assay/internal/kit/stream"
	"assay/internal/kit/target"
)

const prefix = "[2026-12-02 10:00:00] "

// A prompt of 512 tokens read in two chunks, then 80 rounds.
const log = prefix + "Prefill batch, #new-seq: 1, #new-token: 384, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, #pending-token: 0, cuda graph: False, input throughput (token/s): 812.31\n" +
	prefix + "Prefill batch, #new-seq: 1, #new-token: 120, #cached-token: 8, token usage: 0.00, #running-req: 0, #queue-req: 0, #pending-token: 0, cuda graph: False, input throughput (token/s): 812.31\n" +
	prefix + "Decode batch, #running-req: 1, #token: 640, token usage: 0.01, accept len: 2.50, accept rate: 0.50, cuda graph: True, gen throughput (token/s): 95.10, #queue-req: 0\n" +
	prefix + "Decode batch, #running-req: 1, #token: 740, token usage: 0.01, accept len: 3.50, accept rate: 0.60, cuda graph: True, gen throughput (token/s): 99.10, #queue-req: 0\n"

func TestReadLog(t *testing.T) {
	for _, c := range []struct {
		name, log, err string
		read, cached   int
	}{
		{"chunks", log, "", 504, 8},
		{"older, with full stops", strings.ReplaceAll(log, " batch,", " batch."), "", 504, 8},
		{"two prompts at once", strings.Replace(log, "#new-seq: 1", "#new-seq: 2", 1), "other requests too", 0, 0},
		{"others decode too", strings.Replace(log, "#running-req: 1,", "#running-req: 3,", 1), "several requests", 0, 0},
		{"nothing", "hello\n", `no line "Prefill batch" came`, 0, 0},
		{"a number out of range", strings.Replace(log, "#new-token: 384", "#new-token: 99999999999999999999", 1), "out of range", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec, err := Adapter{}.ReadLog([]byte(c.log))
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
			case err != nil:
				t.Error(err)
			case *rec.PromptN != c.read || *rec.Cached != c.cached || rec.Generated != nil:
				t.Errorf("%d read, %d cached, generated %v", *rec.PromptN, *rec.Cached, rec.Generated)
			}
		})
	}
}

func TestBlock(t *testing.T) {
	a := &target.Account{Log: []byte(log), Stream: &stream.Completion{Usage: &stream.Usage{Prompt: new(512), Completion: new(100), Reasoning: new(120)}}}
	a.Record, a.LogErr = Adapter{}.ReadLog(a.Log)
	b := Adapter{}.Block(a)
	f := b.Fields.(*Fields)
	if *f.AcceptLen != 3 || *f.AcceptSamples != 2 {
		t.Errorf("accept length %v over %v lines", *f.AcceptLen, *f.AcceptSamples)
	}
	if len(b.Failed) != 1 || !strings.Contains(b.Failed[0], "120 reasoning tokens of 100") {
		t.Errorf("failed %q", b.Failed)
	}
	a.Stream.Usage = &stream.Usage{Prompt: new(500)}
	if b = (Adapter{}).Block(a); len(b.Failed) != 1 || !strings.Contains(b.Failed[0], "reads 504 and reuses 8") {
		t.Errorf("failed %q", b.Failed)
	}
}

func TestIdentify(t *testing.T) {
	p := &target.Probe{Answers: map[string]target.Answer{
		"/v1/models":       {Status: 200, Body: []byte(`{"data":[{"id":"m","owned_by":"sglang"}]}`)},
		"/get_server_info": {Status: 200, Body: []byte(`{"version":"0.5.1","context_length":null,"max_running_requests":1,"quantization":"fp8"}`)},
	}}
	if !(Adapter{}).Recognise(p) {
		t.Error("not recognised")
	}
	id := Adapter{}.Identify(p)
	if *id.Version != "0.5.1" || *id.Slots != 1 || *id.Format != "fp8" || id.Context != nil || id.Why["context"] == "" {
		t.Errorf("%+v", id)
	}
}

func FuzzReadLog(f *testing.F) {
	f.Add([]byte(log))
	f.Fuzz(func(t *testing.T, log []byte) {
		rec, err := Adapter{}.ReadLog(log)
		if err == nil && (rec.PromptN == nil || rec.Cached == nil) {
			t.Errorf("no error, and %+v", rec)
		}
		(Adapter{}).Block(&target.Account{Log: log, Record: rec, LogErr: err, Stream: stream.Decode(nil)})
	})
}
