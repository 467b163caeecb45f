package llamaserver_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/derive"
	"assay/internal/kit/evidence"
	"assay/internal/kit/figure"
	"assay/internal/kit/row"
	"assay/internal/kit/stream"
	"assay/internal/kit/target"
	"assay/internal/kit/target/llamaserver"
	"assay/internal/kit/telemetry"
	"assay/models/seedling"

	"assay/internal/gguf"
	"assay/internal/kit/tokens"
)

var update = flag.Bool("update", false, "write the golden files anew")

const recordings = "../../stream/testdata/llamacpp"

// exchange is one recorded exchange with llama-server.
type exchange struct {
	Request struct {
		Path    string
		Request json.RawMessage
	}
	Status  string
	Headers []string
	Body    []struct {
		NS   int64
		Text string
	}
}

func load(t testing.TB, name string) exchange {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(recordings, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var x exchange
	if err := json.Unmarshal(data, &x); err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *exchange) text() []byte {
	var b bytes.Buffer
	for _, p := range x.Body {
		b.WriteString(p.Text)
	}
	return b.Bytes()
}

// recording is the exchange as package stream would have kept it.
func (x *exchange) recording() *stream.Recording {
	rec := &stream.Recording{
		T0: 1796161490_000000000, SentAt: 1000, HeadersAt: 1000, Proto: "HTTP/1.1", Remote: "127.0.0.1:8080",
		Status: 200, Header: http.Header{}, Clean: true,
	}
	if !strings.HasPrefix(x.Status, "HTTP/1.1 200") {
		rec.Status, rec.Phase, rec.Err = 400, "status", "HTTP status 400: "+string(x.text())
	}
	for _, h := range x.Headers {
		k, v, _ := strings.Cut(h, ": ")
		rec.Header.Set(k, v)
	}
	for _, p := range x.Body {
		rec.Reads = append(rec.Reads, stream.Read{At: p.NS, Kernel: -1, Bytes: []byte(p.Text)})
		rec.EndAt = p.NS
	}
	return rec
}

// segment is the part of a recorded log that belongs to one task.
func segment(t testing.TB, file, task string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(recordings, file))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for line := range bytes.Lines(data) {
		if bytes.Contains(line, []byte("| task "+task+" |")) {
			out.Write(line)
		}
	}
	return out.Bytes()
}

func counter(t testing.TB) *tokens.Counter {
	t.Helper()
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tokens.FromGGUF(f, seedling.File)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// replay makes a row of a recording, as a run that attached to the server would
// have.
func replay(t testing.TB, c *tokens.Counter, x *exchange, log, before, after []byte) *row.Row {
	t.Helper()
	const nonce = "Ticket 48213377."
	rec := &evidence.Record{
		Meta:      evidence.Meta{Row: "arm/measure/a1/run-001", Method: "POST", URL: "http://127.0.0.1:8080" + x.Request.Path},
		Recording: x.recording(), Request: x.Request.Request, Prompt: nonce + "\n\n" + "text",
		MetricsBefore: before, MetricsAfter: after, Log: log,
	}
	facts := llamaserver.Adapter{}.Facts()
	f := &derive.Facts{
		Form: derive.Form, AssayVersion: "test", TimingRule: figure.Rule,
		Plan: derive.Plan{Arm: "arm", Cell: "arm/512", Ctx: 512, Phase: row.Measure, Attempt: 1, Run: 1, Cache: "cold"},
		Target: derive.Target{
			Adapter: "llama-server", Engine: "llama-server", Why: map[string]string{"commit": "test", "format": "test"}, EndTokenCounted: facts.EndTokenCounted,
			ThreadsWhy: "test", Found: map[string]string{"slots": "1"},
		},
		Model:    derive.Model{Why: "test"},
		Prompt:   derive.Prompt{Nonce: nonce, Why: "test"},
		Around:   derive.Around{Why: "test", Baseline: &telemetry.Baseline{Why: "test"}},
		Exchange: derive.Exchange{MonotonicNS: 1e9, WallNS: 1e9},
	}
	if log == nil {
		f.Exchange.LogWhy = "not recorded"
	}
	if before == nil {
		f.Exchange.MetricsBeforeWhy = "not recorded"
	}
	completion, _ := derive.Completion(rec)
	rec.Completion = completion.Joined
	f.Text = derive.CountText(c, rec)
	r, err := derive.Row(rec, f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// replayed is what the golden files hold of a row.
type replayed struct {
	Status     row.Status         `json:"status"`
	Error      *string            `json:"error"`
	Verdict    *string            `json:"verdict"`
	Against    map[string]int     `json:"against"`
	Prompt     *int               `json:"prompt_tokens"`
	Cached     *int               `json:"cached_tokens"`
	TTFTMS     *float64           `json:"ttft_ms"`
	DecodeTokS *float64           `json:"decode_tok_s"`
	PerRound   *float64           `json:"tokens_per_round"`
	Rates      row.EngineRates    `json:"engine_rates"`
	Withheld   map[string]string  `json:"withheld"`
	Block      *llamaserver.Block `json:"llamacpp"`
	Why        map[string]string  `json:"why"`
	Failed     []string           `json:"identities_failed"`
}

func shown(t testing.TB, r *row.Row) []byte {
	t.Helper()
	out := replayed{
		Status: r.Status, Error: r.Error, Verdict: r.CountCheck.Verdict, Against: r.CountCheck.Against, Prompt: r.PromptTokens, Cached: r.CachedTokens,
		TTFTMS: r.TTFTMS, DecodeTokS: r.DecodeTokS, PerRound: r.TokensPerRound, Rates: r.EngineRates,
		Withheld: map[string]string{}, Why: map[string]string{}, Failed: r.IdentitiesFailed,
	}
	for _, w := range r.Withheld {
		out.Withheld[w.Figure] = strings.Join(w.Codes, " ")
	}
	for path, why := range r.Why {
		if strings.HasPrefix(path, llamaserver.BlockName+".") {
			out.Why[path] = why
		}
	}
	if err := json.Unmarshal(r.Extra[""][llamaserver.BlockName], &out.Block); err != nil {
		t.Fatal(err)
	}
	everyNullHasAReason(t, r)
	data, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

// everyNullHasAReason looks at the engine's block.
func everyNullHasAReason(t testing.TB, r *row.Row) {
	t.Helper()
	var walk func(path string, raw json.RawMessage)
	walk = func(path string, raw json.RawMessage) {
		if string(raw) == "null" && r.Why[path] == "" {
			t.Errorf("%s is null without a reason", path)
		}
		var inner map[string]json.RawMessage
		if json.Unmarshal(raw, &inner) == nil {
			for name, v := range inner {
				walk(path+"."+name, v)
			}
		}
	}
	walk(llamaserver.BlockName, r.Extra[""][llamaserver.BlockName])
}

// Every recorded completion, with its part of the log and, where they were
// recorded, the counters around it. What llama-server says in four places fits
// together in all of them.
func TestReplay(t *testing.T) {
	before, after := load(t, "metrics-before"), load(t, "metrics-after")
	c := counter(t)
	for _, tc := range []struct {
		name, log, task string
		metrics         bool
	}{
		{"chat-usage", "server.log", "2", true},
		{"chat-timings-per-token-progress", "server.log", "52", false},
		{"chat-no-usage-natural-stop", "server.log", "77", false},
		{"completions", "server.log", "278", false},
		{"native-completion", "server.log", "295", false},
		{"chat-nonstream", "server.log", "312", false},
		{"error-too-long", "server.log", "329", false},
		{"chat-cached-1", "server.log", "892", false},
		{"chat-cached-2", "server.log", "901", false},
		{"spec-completions", "server-spec.log", "0", false},
		{"spec-chat", "server-spec.log", "65", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := load(t, tc.name)
			var log, b, a []byte
			if tc.log != "" {
				log = segment(t, tc.log, tc.task)
			}
			if tc.metrics {
				b, a = before.text(), after.text()
			}
			r := replay(t, c, &x, log, b, a)
			if len(r.IdentitiesFailed) > 0 {
				t.Errorf("identities failed: %q", r.IdentitiesFailed)
			}
			golden(t, tc.name, shown(t, r))
		})
	}
}

func golden(t testing.TB, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden.json")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// What was recorded, with one number changed: each identity is seen to fail.
func TestIdentitiesFail(t *testing.T) {
	before, after := load(t, "metrics-before"), load(t, "metrics-after")
	c := counter(t)
	for _, tc := range []struct{ name, where, from, to, want string }{
		{"usage", "stream", `"completion_tokens":48`, `"completion_tokens":47`, "usage.completion_tokens is 47, but timings.predicted_n is 48"},
		{"prompt", "stream", `"cache_n":0`, `"cache_n":1`, "usage.prompt_tokens is 41, but timings.cache_n + prompt_n is 42"},
		{"cached", "stream", `"cached_tokens":0`, `"cached_tokens":3`, "usage.cached_tokens is 3, but timings.cache_n is 0"},
		{"rate", "stream", `"predicted_per_second":2216.77`, `"predicted_per_second":2300.77`, "timings.predicted_per_second is 2300.77"},
		{"prompt rate", "stream", `"prompt_per_second":2222.94`, `"prompt_per_second":2222.04`, "timings.prompt_per_second is 2222.04"},
		{"server longer than client", "stream", `"prompt_ms":18.444`, `"prompt_ms":91.444`, "less than the server's timings.prompt_ms"},
		{"log count", "log", " 48 tokens", " 49 tokens", "timings.predicted_n is 48, but the log's eval tokens is 49"},
		{"log time", "log", "21.20 ms", "21.22 ms", "timings.predicted_ms is 21.202, but the log's eval time is 21.22"},
		{"log rate", "log", "2216.77 tokens", "2290.77 tokens", "the log's eval rate is 2290.77, but its 48 tokens in 21.2 ms are another"},
		{"log total", "log", "39.65 ms", "39.75 ms", "the log's total time is 39.75"},
		{"log positions", "log", "n_tokens = 88", "n_tokens = 89", "the log's n_tokens at the end is 89, but timings.cache_n + prompt_n + predicted_n - 1 is 88"},
		{"counter", "metrics", "tokens_predicted_total 48", "tokens_predicted_total 49", "what /metrics added to tokens_predicted_total is 49, but timings.predicted_n is 48"},
		{"counter of seconds", "metrics", "tokens_predicted_seconds_total 0.021202", "tokens_predicted_seconds_total 0.021302", "what /metrics added to tokens_predicted_seconds_total, in ms, is 21.302"},
		{"prompt seconds", "metrics", "prompt_seconds_total 0.017974", "prompt_seconds_total 0.018974", "is 18.974, more than timings.prompt_ms, 18.444"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := load(t, "chat-usage")
			log, b, a := segment(t, "server.log", "2"), before.text(), after.text()
			swap := func(s string) string {
				out := strings.Replace(s, tc.from, tc.to, 1)
				return out
			}
			switch tc.where {
			case "stream":
				for i := range x.Body {
					x.Body[i].Text = swap(x.Body[i].Text)
				}
			case "log":
				if log = []byte(swap(string(log))); !bytes.Contains(log, []byte(tc.to)) {
					t.Fatal("nothing was changed")
				}
			case "metrics":
				if a = []byte(swap(string(a))); !bytes.Contains(a, []byte(tc.to)) {
					t.Fatal("nothing was changed")
				}
			}
			r := replay(t, c, &x, log, b, a)
			if got := strings.Join(r.IdentitiesFailed, "\n"); !strings.Contains(got, tc.want) {
				t.Errorf("identities failed: %q\nwant %q", got, tc.want)
			}
		})
	}
}

// A server whose cache of prompts is on, or at work: the times to the first token
// are marked.
func TestCacheIsMarked(t *testing.T) {
	c, x := counter(t), load(t, "chat-timings-per-token-progress")
	log := segment(t, "server.log", "52")
	if r := replay(t, c, &x, log, nil, nil); !strings.HasPrefix(r.Notes["ttft_ms"], "whether the engine's cache of prompts in memory is on is not known") {
		t.Errorf("note %q", r.Notes["ttft_ms"])
	}
	log = append([]byte("srv  get_availabl: prompt cache update took 12.34 ms\n"), log...)
	r := replay(t, c, &x, log, nil, nil)
	if got := r.Notes["ttft_ms"]; !strings.HasSuffix(got, "srv  get_availabl: prompt cache update took 12.34 ms") {
		t.Errorf("note %q", got)
	}
	a := &target.Account{Stream: &stream.Completion{FinishFrame: -1, FinishAt: -1}, LogErr: target.ErrNoLog, DeltaErr: target.ErrNoMeter, Found: map[string]string{"cache_ram": "on, as the log says: x"}}
	if got := (llamaserver.Adapter{}).Block(a).Notes["ttft_ms"]; !strings.Contains(got, "--cache-ram 0 turns it off") {
		t.Errorf("note %q", got)
	}
	a.Found["cache_ram"] = "off, as the log says: x"
	if got := (llamaserver.Adapter{}).Block(a).Notes; len(got) > 0 {
		t.Errorf("notes %q", got)
	}
}

// A log in JSON gives what the same log as text gives.
func TestLogJSONL(t *testing.T) {
	plain := segment(t, "server-spec.log", "65")
	var packed bytes.Buffer
	for line := range bytes.Lines(plain) {
		_, msg, _ := strings.Cut(string(line), " I ")
		data, err := json.Marshal(map[string]any{"type": "log", "time": 1, "level": "info", "msg": msg})
		if err != nil {
			t.Fatal(err)
		}
		// llama-server puts the type first.
		packed.WriteString(`{"type":"log",` + strings.Replace(string(data[1:]), `,"type":"log"`, "", 1) + "\n")
	}
	packed.WriteString(`{"type":"fit_memory_breakdown","data":{}}` + "\n")
	want, err := llamaserver.ReadLog(plain)
	if err != nil {
		t.Fatal(err)
	}
	got, err := llamaserver.ReadLog(packed.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	m := target.ListeningOn.FindSubmatch([]byte(`{"type":"log","time":5,"level":"info","msg":"srv  llama_server: listening on http://127.0.0.1:18202\n"}`))
	if m == nil || string(m[1]) != "http://127.0.0.1:18202" {
		t.Errorf("address %q", m)
	}
}
