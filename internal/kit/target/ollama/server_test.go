package ollama_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/row"
	"assay/internal/kit/stream"
	"assay/internal/kit/target"
	"assay/internal/kit/target/adapters"
	"assay/internal/kit/target/ollama"
	"assay/internal/kit/target/replay"
)

// replayer answers as Ollama did when it was recorded, and keeps what it was asked.
type replayer struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string // method, path and body
}

func serve(t *testing.T, answers map[string]*recorded) *replayer {
	t.Helper()
	r := &replayer{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		name := q.Method + " " + q.URL.Path
		r.mu.Lock()
		r.asked = append(r.asked, strings.TrimSpace(name+" "+string(body)))
		r.mu.Unlock()
		a, ok := answers[name]
		if !ok {
			http.NotFound(w, q)
			return
		}
		for _, h := range a.Headers {
			if k, v, _ := strings.Cut(h, ": "); k == "Content-Type" {
				w.Header().Set(k, v)
			}
		}
		w.WriteHeader(a.status())
		for _, b := range a.Body {
			_, _ = w.Write([]byte(b.Text))
			w.(http.Flusher).Flush()
			time.Sleep(200 * time.Microsecond)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func answers(t *testing.T) map[string]*recorded {
	out := map[string]*recorded{}
	for path, name := range map[string]string{
		"GET /api/version": "version", "GET /api/tags": "tags", "GET /api/ps": "ps-loaded", "POST /api/show": "show",
		"POST /api/generate": "preload", "POST /api/chat": "chat-stream",
	} {
		out[path] = readRecorded(t, name)
	}
	out["GET /v1/models"] = readRecorded(t, "tags")
	out["GET /v1/models"].Body[0].Text = `{"object":"list","data":[{"id":"seedling:latest","object":"model","created":1796164271,"owned_by":"library"}]}`
	return out
}

// The model is loaded before anything is measured, with the settings that the runs
// have, and only then is looked at.
func TestAttach(t *testing.T) {
	s := serve(t, answers(t))
	tg, err := target.Attach(t.Context(), s.URL, target.Options{Adapters: adapters.All, Settings: target.Settings{Context: 4096, Threads: new(2)}})
	if err != nil {
		t.Fatal(err)
	}
	if tg.Adapter.Name() != "ollama" || tg.Endpoint() != s.URL+"/api/chat" {
		t.Errorf("taken for %s at %s", tg.Adapter.Name(), tg.Endpoint())
	}
	want := target.Identity{
		Engine: "ollama", Version: new("0.0.0"), Model: "seedling:latest", Format: new("Q8_0"), Context: new(4096),
		Found: map[string]string{
			"version": "0.0.0", "digest": "6340501c55a5e50f9ae752891c4d500abf1d9043652183e51e0a9f1ba138a49f",
			"model_file": "/models/blobs/sha256-f76633b942374f76bd0179c3b01072be7e8dcd9a6cd7aa64e71aab2f542576f3",
		},
		Why: map[string]string{
			"commit": "the API names a version and no commit, neither its own nor that of the llama.cpp within",
			"slots":  "OLLAMA_NUM_PARALLEL, which only the log of its start tells",
		},
	}
	if diff := cmp.Diff(want, tg.Identity); diff != "" {
		t.Errorf("identity: want -, got +:\n%s", diff)
	}
	var order []string
	for _, q := range s.asked {
		if strings.HasPrefix(q, "POST") || strings.Contains(q, "/api/ps") || strings.Contains(q, "/api/tags") {
			order = append(order, q)
		}
	}
	wantOrder := []string{
		`POST /api/generate {"keep_alive":"1h","model":"seedling:latest","options":{"num_ctx":4096,"num_thread":2},"shift":false,"stream":false}`,
		"GET /api/tags", "GET /api/ps", `POST /api/show {"model":"seedling:latest"}`,
	}
	if diff := cmp.Diff(wantOrder, order); diff != "" {
		t.Errorf("what was asked: want -, got +:\n%s", diff)
	}
}

// A run by the real path: preload, request, stream, log, row.
func TestRun(t *testing.T) {
	log := filepath.Join(t.TempDir(), "serve.log")
	if err := os.WriteFile(log, []byte("time=x msg=\"Listening on 127.0.0.1:1 (version 0.0.0)\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := serve(t, answers(t))
	tg, err := target.Attach(t.Context(), s.URL, target.Options{Adapters: adapters.All, Log: log, Settings: target.Settings{Context: 4096}})
	if err != nil {
		t.Fatal(err)
	}
	line := serveLog(t, "452.170509ms", "452.170509ms")
	timer := time.AfterFunc(60*time.Millisecond, func() { // the log comes after the stream
		f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, _ = f.Write(line)
			f.Close()
		}
	})
	defer timer.Stop()
	rec, f := replay.Run(t, tg, target.Ask{Prompt: replay.Message, MaxTokens: 48, Temperature: new(0.0), Seed: new(int64(7)), Reasoning: "off"})
	r := replay.Row(t, rec, f)
	if r.Status != row.OK || *r.CompletionTokens != 48 || *r.Requested.MaxTokens != 48 || *r.Requested.Sampling.Seed != 7 || *r.Requested.Sampling.Temperature != 0 || *r.Requested.Reasoning != "off" {
		t.Errorf("status %s, requested %+v", r.Status, r.Requested)
	}
	if !strings.Contains(string(rec.Request), `"num_ctx":4096`) {
		t.Errorf("the request has another context than the model was loaded with: %s", rec.Request)
	}
	if *r.Requested.Endpoint != "/api/chat" {
		t.Errorf("endpoint %s", *r.Requested.Endpoint)
	}
	b := replay.Block(t, r, "ollama")
	if b["served_ms_log"] != 452.170509 || b["prompt_cut_line"] != "absent" || b["digest"] == nil {
		t.Errorf("block %v", b)
	}
}

func TestNoModel(t *testing.T) {
	a := answers(t)
	a["GET /v1/models"].Body[0].Text = `{"object":"list","data":null}`
	if _, err := target.Attach(t.Context(), serve(t, a).URL, target.Options{Adapters: adapters.All}); err == nil || !strings.Contains(err.Error(), "it has no model: pull or create one") {
		t.Errorf("no model: %v", err)
	}
	a = answers(t)
	a["POST /api/generate"] = readRecorded(t, "error-no-model")
	if _, err := target.Attach(t.Context(), serve(t, a).URL, target.Options{Adapters: adapters.All, Model: "nope"}); err == nil || !strings.Contains(err.Error(), "POST /api/generate: status 404: model 'nope' not found") {
		t.Errorf("another model: %v", err)
	}
}

// What unloads a model is not what loads it.
func TestUnloadIsRecorded(t *testing.T) {
	for name, want := range map[string]string{"preload": `"done_reason":"load"`, "unload": `"done_reason":"unload"`} {
		if s := readRecorded(t, name).text(); !strings.Contains(s, want) {
			t.Errorf("%s: %s", name, s)
		}
	}
}

func TestBody(t *testing.T) {
	got, err := json.Marshal(ollama.Adapter{}.Body(target.Ask{
		Prompt: "Hello", MaxTokens: 16, Temperature: new(0.0), Seed: new(int64(3)), TopK: new(40), TopP: new(0.9), MinP: new(0.1),
		RepeatPenalty: new(1.0), PresencePenalty: new(0.5), FrequencyPenalty: new(0.25), Reasoning: "low", IgnoreEOS: true,
		Context: 4096, Threads: new(2), GPULayers: new(0),
	}, "m"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"keep_alive":"1h","messages":[{"content":"Hello","role":"user"}],"model":"m",` +
		`"options":{"frequency_penalty":0.25,"min_p":0.1,"num_ctx":4096,"num_gpu":0,"num_predict":16,"num_thread":2,"presence_penalty":0.5,"repeat_penalty":1,"seed":3,"temperature":0,"top_k":40,"top_p":0.9},` +
		`"shift":false,"stream":true,"think":"low","truncate":false}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestCommand(t *testing.T) {
	got, err := ollama.Adapter{}.Command(target.Settings{Model: "m", Port: 9001, Context: 2048})
	want := target.Command{Argv: []string{"ollama", "serve"}, Env: []string{
		"OLLAMA_HOST=127.0.0.1:9001", "OLLAMA_NUM_PARALLEL=1", "OLLAMA_MAX_LOADED_MODELS=1", "OLLAMA_KEEP_ALIVE=1h", "OLLAMA_NOPRUNE=1", "LLAMA_ARG_CACHE_RAM=0", "OLLAMA_CONTEXT_LENGTH=2048",
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("want -, got +:\n%s%v", diff, err)
	}
	m := ollama.Adapter{}.Readiness().Address.FindSubmatch(serveLog(t, "Listening on", "Listening on"))
	if m == nil || string(m[1]) != "127.0.0.1:18434" {
		t.Errorf("address %q", m)
	}
}

// An exact length and a cache that is off can't be had, and the facts say so.
func TestFacts(t *testing.T) {
	f := ollama.Adapter{}.Facts()
	if f.ExactLength || !strings.HasPrefix(f.Exactly, "can't be") || !strings.HasPrefix(f.CacheOff, "can't be turned off") {
		t.Errorf("%+v", f)
	}
}

func TestLog(t *testing.T) {
	a := ollama.Adapter{}
	one := serveLog(t, "452.170509ms", "452.170509ms")
	rec, err := a.ReadLog(one)
	if err != nil || rec.Line != `[GIN] 2026/12/01 - 22:31:26 | 200 |  452.170509ms |       127.0.0.1 | POST     "/api/chat"` || rec.Generated != nil {
		t.Errorf("%+v, %v", rec, err)
	}
	if _, err := a.ReadLog(one[:len(one)-1]); err == nil {
		t.Error("a line that is being written was read")
	}
	if _, err := a.ReadLog(serveLog(t, "452.170509ms", "272.512494ms")); err == nil || !strings.Contains(err.Error(), "other requests too") {
		t.Errorf("two requests: %v", err)
	}
	// Versions that run a llama-server have its lines in theirs.
	rec, err = a.ReadLog([]byte("slot print_timing: id  0 | task 0 | prompt eval time =      31.42 ms /    64 tokens (    0.49 ms per token,  2036.92 tokens per second)\n" +
		"slot print_timing: id  0 | task 0 |        eval time =    1270.00 ms /   128 tokens (   10.00 ms per token,   100.00 tokens per second)\n" +
		"slot print_timing: id  0 | task 0 | draft acceptance = 0.57576 (   57 accepted /    99 generated), mean len =  2.71\n" + string(one)))
	if err != nil || *rec.Generated != 128 || *rec.DraftAccepted != 57 || *rec.PromptN != 64 {
		t.Errorf("%+v, %v", rec, err)
	}
	// What 0.33.0 logged of a prompt that it had read before.
	data, err := os.ReadFile("testdata/served-0.33.0.log")
	if err != nil {
		t.Fatal(err)
	}
	rec, err = a.ReadLog(data)
	if err != nil || *rec.Generated != 24 || *rec.PromptN != 1 || *rec.Cached != 41 {
		t.Errorf("0.33.0: %+v, %v", rec, err)
	}
	threads, err := a.ReadThreads(serveLog(t, "server config", "346.462573ms"))
	if err != nil || *threads.Workers != 1 || !*threads.HostThread || !strings.Contains(threads.Line, "NumThreads:2") {
		t.Errorf("threads %+v, %v", threads, err)
	}
	if _, err := a.ReadThreads([]byte("nothing")); err == nil {
		t.Error("threads of a log without them")
	}
}

func FuzzReadLog(f *testing.F) {
	f.Add(serveLog(f, "452.170509ms", "452.170509ms"))
	f.Add(serveLog(f, "truncating input prompt", "19.242726033s"))
	f.Fuzz(func(t *testing.T, log []byte) {
		rec, err := ollama.Adapter{}.ReadLog(log)
		if err == nil && rec.Line == "" {
			t.Error("a record without its line")
		}
		_, _ = ollama.Adapter{}.ReadThreads(log)
		_ = ollama.Adapter{}.Spoils(&target.Account{Log: log, Request: log})
	})
}

// Whatever the last frame holds, the block can be written.
func FuzzLastFrame(f *testing.F) {
	f.Add(`{"message":{"role":"assistant","content":""},"done":true,"done_reason":"length","total_duration":452001818,"load_duration":12731343,"prompt_eval_count":41,"prompt_eval_duration":31308010,"eval_count":48,"eval_duration":396620740}`)
	f.Add(`{"done":true,"eval_count":1e300,"load_duration":-1,"total_duration":"x","prompt_eval_count":1.5}`)
	f.Add(`{"done":true}`)
	f.Fuzz(func(t *testing.T, frame string) {
		c := stream.Decode([]stream.Frame{{Data: `{"message":{"content":"a"},"done":false}`, At: 1e6}, {Data: frame, At: 2e6}})
		a := &target.Account{Stream: c, Request: []byte(`{"options":{"num_ctx":4096,"num_predict":48}}`), LogErr: target.ErrNoLog, TTFTMS: new(1.0)}
		replay.Check(t, ollama.Adapter{}.Block(a))
		a.Request, a.Log, a.LogErr = []byte(frame), []byte(frame+"\n"), nil
		replay.Check(t, ollama.Adapter{}.Block(a))
		_ = ollama.Adapter{}.Spoils(a)
	})
}
