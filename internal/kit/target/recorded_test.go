package target

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recorded is one exchange of the real llama-server, as ../stream/testdata has
// it.
type recorded struct {
	Request struct {
		Method string
		Path   string
	}
	Status  string
	Headers []string
	Body    []struct{ Text string }
}

func readRecorded(t *testing.T, name string) recorded {
	t.Helper()
	data, err := os.ReadFile("../stream/testdata/llamacpp/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var r recorded
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r recorded) serve(w http.ResponseWriter, _ *http.Request) {
	for _, h := range r.Headers {
		if k, v, _ := strings.Cut(h, ": "); k != "Connection" {
			w.Header().Set(k, v)
		}
	}
	status, _ := strconv.Atoi(strings.Fields(r.Status)[1])
	w.WriteHeader(status)
	for _, b := range r.Body {
		_, _ = w.Write([]byte(b.Text))
	}
}

func (r recorded) text() string {
	var b strings.Builder
	for _, part := range r.Body {
		b.WriteString(part.Text)
	}
	return b.String()
}

// llamaServerReplay answers as llama-server did when it was recorded.
func llamaServerReplay(t *testing.T) *httptest.Server {
	mux := http.NewServeMux()
	for path, name := range map[string]string{
		"GET /v1/models": "models", "GET /props": "props", "GET /health": "health-ready", "GET /metrics": "metrics-after",
		"POST /tokenize": "tokenize", "POST /apply-template": "apply-template",
	} {
		mux.HandleFunc(path, readRecorded(t, name).serve)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestAttachToRecordedLlamaServer(t *testing.T) {
	s := llamaServerReplay(t)
	tg, err := Attach(t.Context(), s.URL+"/v1/", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if tg.Adapter.Name() != "llama-server" || tg.URL != s.URL {
		t.Errorf("adapter %s at %s", tg.Adapter.Name(), tg.URL)
	}
	want := Identity{
		Engine: "llama-server", Version: ptr("b1-de3ff81"), Model: "/models/seedling-15m-q8_0.gguf",
		Format: ptr("Q8_0"), Context: ptr(8192), Slots: ptr(1),
		Why: map[string]string{"commit": `build_info "b1-de3ff81": built from a checkout without history, so the hash may not be upstream's`},
	}
	if diff := cmp.Diff(want, tg.Identity); diff != "" {
		t.Errorf("identity: want -, got +:\n%s", diff)
	}
	if _, err := tg.LogEnd(); err != ErrNoLog {
		t.Errorf("the log of an attached target: %v", err)
	}
}

func TestLlamaServerCounters(t *testing.T) {
	names := llamaServer{}.Counters()
	before, err := ReadCounters([]byte(readRecorded(t, "metrics-before").text()), names)
	if err != nil {
		t.Fatal(err)
	}
	after, err := ReadCounters([]byte(readRecorded(t, "metrics-after").text()), names)
	if err != nil {
		t.Fatal(err)
	}
	d, err := after.Since(before)
	if err != nil {
		t.Fatal(err)
	}
	// Between the two readings lies chat-usage: 41 tokens read, 48 generated.
	if *d.Prompt != 41 || *d.Cached != 0 || *d.Predicted != 48 || *d.PromptSeconds <= 0 || *d.PredictedSeconds <= 0 {
		t.Errorf("difference: prompt %v, cached %v, predicted %v", *d.Prompt, *d.Cached, *d.Predicted)
	}
	if _, err := before.Since(after); err == nil || !strings.Contains(err.Error(), "started anew") {
		t.Errorf("counters that fall: %v", err)
	}
}

func TestReadCounters(t *testing.T) {
	for _, c := range []struct {
		name, text, err string
		want            float64
	}{
		{"plain", "# HELP x y\nn 12\n", "", 12},
		{"labels with a brace and a quote", `n{a="}\" {",b=""} 3` + "\n" + `n{a="2"} 4 1700000000` + "\n", "", 7},
		{"exponent", "n 1.5e+03\n", "", 1500},
		{"other names only", "m 1\n", "none of the engine's counters", 0},
		{"not a number", "n many\n", `line 1: "many" is not a number`, 0},
		{"labels without end", "n{a=\"b\" 1\n", "labels do not end", 0},
		{"no value", "n\n", "has no value", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ReadCounters([]byte(c.text), CounterNames{Predicted: "n"})
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
			case err != nil:
				t.Error(err)
			case got.Predicted == nil || *got.Predicted != c.want:
				t.Errorf("got %v, want %v", got.Predicted, c.want)
			}
		})
	}
}

// The lines of task 2 in the recorded log, and with drafts those of task 65
// of the other one.
func TestLlamaServerLog(t *testing.T) {
	segment := func(file, from, to string) string {
		data, err := os.ReadFile("../stream/testdata/llamacpp/" + file)
		if err != nil {
			t.Fatal(err)
		}
		s := string(data)
		s = s[strings.Index(s, from):]
		return s[:strings.Index(s, to)]
	}
	one := segment("server.log", "task 2 | processing", "task 2 | stop processing")
	got, err := llamaServer{}.ReadLog([]byte(one))
	if err != nil {
		t.Fatal(err)
	}
	got.Line = ""
	want := LogRecord{
		PromptN: ptr(41), PromptMS: ptr(18.44), PromptRate: ptr(2222.95),
		Generated: ptr(48), DecodeMS: ptr(21.20), DecodeRate: ptr(2216.77),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	two := segment("server.log", "task 2 | processing", "task 52 | stop processing")
	if _, err := (llamaServer{}).ReadLog([]byte(two)); err == nil || !strings.Contains(err.Error(), "other requests too") {
		t.Errorf("two requests in one segment: %v", err)
	}
	if _, err := (llamaServer{}).ReadLog([]byte("nothing here\n")); err == nil {
		t.Error("no request in a segment, and no error")
	}
	all, err := os.ReadFile("../stream/testdata/llamacpp/server.log")
	if err != nil {
		t.Fatal(err)
	}
	threads, err := llamaServer{}.ReadThreads(all)
	if err != nil || *threads.Workers != 0 || !*threads.HostThread || !strings.Contains(threads.Line, "n_threads = 1") {
		t.Errorf("threads %+v, %v", threads, err)
	}
}

func TestLlamaServerLogWithDrafts(t *testing.T) {
	data, err := os.ReadFile("../stream/testdata/llamacpp/server-spec.log")
	if err != nil {
		t.Fatal(err)
	}
	tasks := strings.Split(string(data), "stop processing")
	got, err := llamaServer{}.ReadLog([]byte(tasks[1]))
	if err != nil {
		t.Fatal(err)
	}
	want := LogRecord{
		Line: "prompt eval time =       8.99 ms /    44 tokens (    0.20 ms per token,  4892.69 tokens per second) | " +
			"eval time =      64.88 ms /    64 tokens (    1.03 ms per token,   970.96 tokens per second) | " +
			"draft acceptance = 0.16667 (   14 accepted /    84 generated)",
		PromptN: ptr(44), PromptMS: ptr(8.99), PromptRate: ptr(4892.69),
		Generated: ptr(64), DecodeMS: ptr(64.88), DecodeRate: ptr(970.96),
		DraftN: ptr(84), DraftAccepted: ptr(14),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// Lines as older versions and pasted logs have them.
func TestLlamaServerLogForms(t *testing.T) {
	for name, log := range map[string]string{
		"no prefix": "prompt eval time =     100.00 ms /    10 tokens (   10.00 ms per token,   100.00 tokens per second)\n" +
			"       eval time =     200.00 ms /    20 tokens (   10.00 ms per token,   100.00 tokens per second)\n",
		"runs": "llama_perf: prompt eval time =     100.00 ms /    10 tokens (   10.00 ms per token,   100.00 tokens per second)\r\n" +
			"llama_perf:        eval time =     200.00 ms /    20 runs   (   10.00 ms per token,   100.00 tokens per second)\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := llamaServer{}.ReadLog([]byte(log))
			if err != nil {
				t.Fatal(err)
			}
			if *got.PromptN != 10 || *got.Generated != 20 || *got.DecodeMS != 200 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// The library's lines, as llama-cpp-python logs them: 31 passes for 32 tokens.
func TestLlamaCppPythonLog(t *testing.T) {
	log := "llama_perf_context_print:        load time =      58.16 ms\n" +
		"llama_perf_context_print: prompt eval time =      58.10 ms /    90 tokens (    0.65 ms per token,  1549.05 tokens per second)\n" +
		"llama_perf_context_print:        eval time =     310.00 ms /    31 runs   (   10.00 ms per token,   100.00 tokens per second)\n" +
		"llama_perf_context_print:       total time =     400.00 ms /   121 tokens\n"
	got, err := llamaCppPython{}.ReadLog([]byte(log))
	if err != nil || *got.Generated != 31 || got.Offset != 1 || *got.PromptN != 90 || *got.DecodeMS != 310 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAssayLog(t *testing.T) {
	log := "assay serve: threads 2 (1 workers + the caller), context 4096, slots 1, model Seedling IQ3_S\n" +
		"assay serve: listening on http://127.0.0.1:40001\n" +
		"assay serve: request 7: prompt 515 tokens = 3 reused + 512 read in 812.34 ms (630.28 tok/s), 128 generated in 402.12 ms (315.82 tok/s), finish length\n"
	threads, err := assay{}.ReadThreads([]byte(log))
	if err != nil || *threads.Workers != 1 || !*threads.HostThread {
		t.Errorf("threads %+v, %v", threads, err)
	}
	got, err := assay{}.ReadLog([]byte(log))
	if err != nil {
		t.Fatal(err)
	}
	got.Line = ""
	want := LogRecord{
		PromptN: ptr(512), Cached: ptr(3), PromptMS: ptr(812.34), PromptRate: ptr(630.28),
		Generated: ptr(128), DecodeMS: ptr(402.12), DecodeRate: ptr(315.82), Finish: ptr("length"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestAssayCommit(t *testing.T) {
	for info, want := range map[string]string{"assay-0.1.0-dev-0123abcde": "0123abcde", "assay-0.1.0-dev-unknown": "", "": ""} {
		p := &Probe{Answers: map[string]Answer{"/props": {Status: 200, Body: []byte(`{"build_info":"` + info + `"}`)}}}
		id := assay{}.Identify(p)
		if (id.Commit == nil) != (want == "") || id.Commit != nil && *id.Commit != want || (id.Commit == nil) != (id.Why["commit"] != "") {
			t.Errorf("build_info %q: commit %v, why %q", info, id.Commit, id.Why["commit"])
		}
	}
}

func TestCommitOf(t *testing.T) {
	for info, want := range map[string]string{
		"b6497-cd08fc3e": "cd08fc3e", "b1-de3ff81": "", "": "", "unknown": "", "0.5.0 b9-0123456": "0123456",
	} {
		got, err := commitOf(info)
		if (err == nil) != (want != "") || err == nil && *got != want {
			t.Errorf("commitOf(%q) = %v, %v; want %q", info, got, err, want)
		}
	}
}
