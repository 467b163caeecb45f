package ik

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/stream"
	"assay/internal/kit/target"
	"assay/internal/kit/target/llamaserver"
)

// decoded reads a stream in one piece.
func decoded(t testing.TB, body string) *stream.Completion {
	t.Helper()
	rec := &stream.Recording{Status: 200, Clean: true, Header: http.Header{"Content-Type": {"text/event-stream"}}, Reads: []stream.Read{{At: 9e9, Kernel: -1, Bytes: []byte(body)}}}
	kind, err := rec.KindOf()
	if err != nil {
		t.Fatal(err)
	}
	frames, err := stream.Frames(rec, kind)
	if err != nil {
		t.Fatal(err)
	}
	return stream.Decode(frames)
}

const (
	body = `data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}]}` + "\n\n" +
		`data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"the day"}}]}` + "\n\n" +
		`data: {"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"timings":` + timings + `}` + "\n\n" +
		`data: {"choices":[],"usage":{"completion_tokens":32,"prompt_tokens":48,"total_tokens":80,"prompt_tokens_details":{"cached_tokens":0}},"timings":` + timings + `}` + "\n\n" +
		"data: [DONE]\n\n"
	timings = `{"prompt_n":48,"prompt_ms":20.5,"prompt_per_token_ms":0.427,"prompt_per_second":2341.463,"predicted_n":32,"predicted_ms":310.25,"predicted_per_token_ms":9.695,"predicted_per_second":103.1426,"n_ctx":4096,"n_past":80,"draft_n":20,"draft_n_accepted":8,"draft_by_depth":[[10,6],[10,2]]}`
	lines   = "\nprompt eval time =      20.50 ms /    48 tokens (    0.43 ms per token,  2341.46 tokens per second)\n" +
		"       eval time =     310.25 ms /    32 tokens (    9.70 ms per token,   103.14 tokens per second)\n" +
		"      total time =     330.75 ms /    80 tokens\n" +
		"draft acceptance rate = 0.40000 (    8 accepted /    20 generated)\n"
)

func metrics(prompt, predicted, ms string) []byte {
	return []byte("llamacpp:prompt_tokens_total " + prompt + "\nllamacpp:prompt_seconds_total 0.02\nllamacpp:tokens_predicted_total " + predicted + "\nllamacpp:tokens_predicted_seconds_total " + ms + "\nllamacpp:kv_cache_usage_ratio 0\n")
}

func TestBlock(t *testing.T) {
	a := &target.Account{Stream: decoded(t, body), Asked: new(32), Log: []byte(lines), Before: metrics("0", "0", "0"), After: metrics("48", "32", "0.31")}
	a.Record, a.LogErr = Adapter{}.ReadLog(a.Log)
	a.Delta, a.DeltaErr = Adapter{}.Metered(a.Before, a.After)
	if a.LogErr != nil || a.DeltaErr != nil {
		t.Fatal(a.LogErr, a.DeltaErr)
	}
	got := Adapter{}.Block(a)
	if len(got.Failed) > 0 {
		t.Errorf("identities: %q", got.Failed)
	}
	data, err := json.Marshal(got.Fields)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"limit_reached": true, "n_ctx": 4096.0, "n_past": 80.0, "engine_generated": 32.0, "engine_decode_basis": "n", "drafts_offered": 20.0,
		"drafts_accepted": 8.0, "tokens_per_round": 32.0 / 24, "reused": 0.0, "from": "timings",
	}
	for name, v := range want {
		if diff := cmp.Diff(v, fields[name]); diff != "" {
			t.Errorf("%s: want -, got +:\n%s", name, diff)
		}
	}
	if depth, _ := json.Marshal(fields["draft_by_depth"]); string(depth) != "[[10,6],[10,2]]" {
		t.Errorf("draft_by_depth: %s", depth)
	}
	for name, v := range fields {
		if v == nil && got.Why[name] == "" {
			t.Errorf("%s is null without a reason", name)
		}
	}
	a.Stream = decoded(t, strings.ReplaceAll(body, `"prompt_tokens":48`, `"prompt_tokens":47`))
	if got := (Adapter{}).Block(a); len(got.Failed) != 1 || got.Failed[0] != "usage.prompt_tokens is 47, but usage.cached_tokens + timings.prompt_n is 48" {
		t.Errorf("identities: %q", got.Failed)
	}
}

func TestRecognise(t *testing.T) {
	answer := func(path, body string) *target.Probe {
		return &target.Probe{Answers: map[string]target.Answer{path: {Status: 200, Body: []byte(body)}}}
	}
	for _, tc := range []struct {
		path, body string
		want       bool
	}{
		{"/version", `{"version":4,"features":{"x":true}}`, true},
		{"/version", `{"version":"0.9.1"}`, false}, // vLLM's
		{"/health", `{"status":"ok","slots_idle":1,"slots_processing":0}`, true},
		{"/health", `{"status":"ok"}`, false},
	} {
		if got := (Adapter{}).Recognise(answer(tc.path, tc.body)); got != tc.want {
			t.Errorf("%s %s: %v", tc.path, tc.body, got)
		}
	}
}

func TestIdentifyBuild(t *testing.T) {
	for text, want := range map[string]string{
		"version: 4123 (b8b6ed92)\nbuilt with cc":                        "b4123-b8b6ed92",
		`INFO [ main] build info | tid="1" build=4123 commit="b8b6ed92"`: "b4123-b8b6ed92",
		"nothing": "",
	} {
		for _, p := range []*target.Probe{{Version: text}, {Log: []byte(text)}} {
			id := Adapter{}.Identify(p)
			if (id.Version == nil) != (want == "") || want != "" && (*id.Version != want || *id.Commit != "b8b6ed92") || (id.Commit == nil) != (id.Why["commit"] != "") {
				t.Errorf("%q: version %v, why %q", text, id.Version, id.Why)
			}
		}
	}
}

func TestReady(t *testing.T) {
	for body, want := range map[string]bool{
		`{"status":"ok","slots_idle":1}`: true, `{"status":"no slot available"}`: true, `{"status":"loading model"}`: false, `x`: false, ``: false,
	} {
		got, missing := ready(target.Answer{Status: 200, Body: []byte(body)})
		if got != want || got != (missing == "") {
			t.Errorf("%s: %v, %q", body, got, missing)
		}
	}
}

func TestCommand(t *testing.T) {
	c, err := Adapter{}.Command(target.Settings{
		Model: "m.gguf", Port: 8080, Context: 4096, Threads: new(2), Args: []string{"-fa"},
		Help: "  -m, --model FNAME\n  --ctx-checkpoints N\n  --metrics\n",
	})
	const want = "llama-server -m m.gguf --host 127.0.0.1 --port 8080 -np 1 -c 4096 -t 2 -tb 2 --ctx-checkpoints 0 --metrics -fa"
	if err != nil || strings.Join(c.Argv, " ") != want {
		t.Errorf("%q, %v\nwant %q", c.Argv, err, want)
	}
}

func FuzzBlock(f *testing.F) {
	f.Add([]byte(body), []byte(lines), metrics("0", "0", "0"), metrics("48", "32", "0.31"))
	f.Fuzz(func(t *testing.T, body, log, before, after []byte) {
		rec := &stream.Recording{Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}}
		if len(body) > 0 {
			rec.Reads = []stream.Read{{At: 1, Kernel: -1, Bytes: body}}
		}
		frames, err := stream.Frames(rec, stream.SSE)
		if err != nil {
			t.Skip()
		}
		a := &target.Account{Stream: stream.Decode(frames), Log: log, Before: before, After: after, Request: body}
		a.Record, a.LogErr = Adapter{}.ReadLog(log)
		a.Delta, a.DeltaErr = Adapter{}.Metered(before, after)
		for _, b := range []*target.Block{(Adapter{}).Block(a), (llamaserver.Adapter{}).Block(a)} {
			if _, err := json.Marshal(b.Fields); err != nil {
				t.Errorf("the block does not encode: %v", err)
			}
		}
		_, _ = Adapter{}.ReadThreads(log)
	})
}
