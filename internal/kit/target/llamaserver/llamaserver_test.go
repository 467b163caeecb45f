package llamaserver

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/target"
)

// recorded is one exchange of the real llama-server, as ../../stream/testdata has
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
	data, err := os.ReadFile("../../stream/testdata/llamacpp/" + name + ".json")
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
	tg, err := target.Attach(t.Context(), s.URL+"/v1/", target.Options{Adapters: []target.Adapter{Adapter{}}})
	if err != nil {
		t.Fatal(err)
	}
	if tg.Adapter.Name() != "llama-server" || tg.URL != s.URL {
		t.Errorf("adapter %s at %s", tg.Adapter.Name(), tg.URL)
	}
	want := target.Identity{
		Engine: "llama-server", Version: new("b1-de3ff81"), Model: "/models/seedling-15m-q8_0.gguf",
		Format: new("Q8_0"), Context: new(8192), Slots: new(1),
		Why:   map[string]string{"commit": `build_info "b1-de3ff81": built from a checkout without history, so the hash may not be upstream's`},
		Found: map[string]string{"slots": "1"},
	}
	if diff := cmp.Diff(want, tg.Identity); diff != "" {
		t.Errorf("identity: want -, got +:\n%s", diff)
	}
	if _, err := tg.LogEnd(); err != target.ErrNoLog {
		t.Errorf("the log of an attached target: %v", err)
	}
}

func TestLlamaServerCounters(t *testing.T) {
	before, after := []byte(readRecorded(t, "metrics-before").text()), []byte(readRecorded(t, "metrics-after").text())
	d, err := Adapter{}.Metered(before, after)
	if err != nil {
		t.Fatal(err)
	}
	// Between the two readings lies chat-usage: 41 tokens read, 48 generated.
	if *d.Prompt != 41 || *d.Cached != 0 || *d.Predicted != 48 || *d.PromptSeconds <= 0 || *d.PredictedSeconds <= 0 {
		t.Errorf("difference: prompt %v, cached %v, predicted %v", *d.Prompt, *d.Cached, *d.Predicted)
	}
	if _, err := (Adapter{}).Metered(after, before); !errors.Is(err, target.ErrRestarted) {
		t.Errorf("counters that fall: %v", err)
	}
}

// The lines of task 2 in the recorded log, and with drafts those of task 65
// of the other one.
func TestLlamaServerLog(t *testing.T) {
	segment := func(file, from, to string) string {
		data, err := os.ReadFile("../../stream/testdata/llamacpp/" + file)
		if err != nil {
			t.Fatal(err)
		}
		s := string(data)
		s = s[strings.Index(s, from):]
		return s[:strings.Index(s, to)]
	}
	one := segment("server.log", "task 2 | processing", "task 2 | stop processing")
	got, err := Adapter{}.ReadLog([]byte(one))
	if err != nil {
		t.Fatal(err)
	}
	got.Line = ""
	want := target.LogRecord{
		PromptN: new(41), PromptMS: new(18.44), PromptRate: new(2222.95),
		Generated: new(48), DecodeMS: new(21.20), DecodeRate: new(2216.77),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	two := segment("server.log", "task 2 | processing", "task 52 | stop processing")
	if _, err := (Adapter{}).ReadLog([]byte(two)); err == nil || !strings.Contains(err.Error(), "other requests too") {
		t.Errorf("two requests in one segment: %v", err)
	}
	if _, err := (Adapter{}).ReadLog([]byte("nothing here\n")); err == nil {
		t.Error("no request in a segment, and no error")
	}
	all, err := os.ReadFile("../../stream/testdata/llamacpp/server.log")
	if err != nil {
		t.Fatal(err)
	}
	threads, err := Adapter{}.ReadThreads(all)
	if err != nil || *threads.Workers != 0 || !*threads.HostThread || !strings.Contains(threads.Line, "n_threads = 1") {
		t.Errorf("threads %+v, %v", threads, err)
	}
}

func TestLlamaServerLogWithDrafts(t *testing.T) {
	data, err := os.ReadFile("../../stream/testdata/llamacpp/server-spec.log")
	if err != nil {
		t.Fatal(err)
	}
	tasks := strings.Split(string(data), "stop processing")
	got, err := Adapter{}.ReadLog([]byte(tasks[1]))
	if err != nil {
		t.Fatal(err)
	}
	want := target.LogRecord{
		Line: "prompt eval time =       8.99 ms /    44 tokens (    0.20 ms per token,  4892.69 tokens per second) | " +
			"eval time =      64.88 ms /    64 tokens (    1.03 ms per token,   970.96 tokens per second) | " +
			"draft acceptance = 0.16667 (   14 accepted /    84 generated), mean len =  5.67",
		PromptN: new(44), PromptMS: new(8.99), PromptRate: new(4892.69),
		Generated: new(64), DecodeMS: new(64.88), DecodeRate: new(970.96),
		DraftN: new(84), DraftAccepted: new(14),
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
			got, err := Adapter{}.ReadLog([]byte(log))
			if err != nil {
				t.Fatal(err)
			}
			if *got.PromptN != 10 || *got.Generated != 20 || *got.DecodeMS != 200 {
				t.Errorf("%+v", got)
			}
		})
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

func TestRequestBody(t *testing.T) {
	tg := &target.Target{Adapter: Adapter{}, Identity: target.Identity{Model: "m"}}
	got, err := tg.Body(target.Ask{Prompt: "Ticket 1.\n\nText", MaxTokens: 128, Temperature: new(0.0), Seed: new(int64(7)), IgnoreEOS: true})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"cache_prompt":false,"ignore_eos":true,"max_tokens":128,"messages":[{"content":"Ticket 1.\n\nText","role":"user"}],"model":"m","seed":7,"stream":true,"stream_options":{"include_usage":true},"temperature":0}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
