package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// ollama answers as Ollama does, as far as a run needs it. Of its models the first
// is in the file that it names.
type ollama struct {
	mu    sync.Mutex
	file  string
	asked []string // path and num_ctx of what makes it work
}

func (o *ollama) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Options struct {
			Context int `json:"num_ctx"`
			Predict int `json:"num_predict"`
		} `json:"options"`
	}
	_ = json.NewDecoder(r.Body).Decode(&q)
	switch r.URL.Path {
	case "/api/version":
		fmt.Fprint(w, `{"version":"0.17.4"}`)
	case "/v1/models":
		fmt.Fprint(w, `{"object":"list","data":[{"id":"tiny:latest","owned_by":"library"}]}`)
	case "/api/tags", "/api/ps":
		fmt.Fprint(w, `{"models":[{"name":"tiny:latest","model":"tiny:latest","digest":"d1"}]}`)
	case "/api/show":
		fmt.Fprintf(w, `{"details":{"quantization_level":"Q8_0"},"modelfile":"# made by a test\nFROM %s\n"}`, o.file)
	case "/api/generate", "/api/chat":
		o.mu.Lock()
		o.asked = append(o.asked, fmt.Sprintf("%s %d", r.URL.Path, q.Options.Context))
		o.mu.Unlock()
		if r.URL.Path == "/api/generate" {
			fmt.Fprint(w, `{"model":"tiny:latest","done":true,"done_reason":"load"}`)
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		for i := range q.Options.Predict {
			fmt.Fprintf(w, `{"model":"tiny:latest","message":{"role":"assistant","content":%q},"done":false}`+"\n", said[i%len(said)])
			w.(http.Flusher).Flush()
		}
		fmt.Fprintf(w, `{"model":"tiny:latest","message":{"role":"assistant","content":""},"done":true,"done_reason":"length","prompt_eval_count":80,"prompt_eval_duration":1000000,"eval_count":%d,"eval_duration":1000000,"load_duration":1000,"total_duration":3000000}`+"\n", q.Options.Predict)
	default:
		http.NotFound(w, r)
	}
}

// An engine that is told its settings with each request gets those of the plan, and
// loads its model with the same before anything is measured. The file that it has
// the model from is hashed where it is on this machine and is what its name says.
func TestServerThatIsToldItsSettings(t *testing.T) {
	const sum = "f76633b942374f76bd0179c3b01072be7e8dcd9a6cd7aa64e71aab2f542576f3"
	missing := func(context.Context, string) (Model, error) {
		return Model{}, &fs.PathError{Op: "open", Path: "/secret/place", Err: fs.ErrPermission}
	}
	for name, c := range map[string]struct {
		hash func(context.Context, string) (Model, error)
		file string
		why  string
	}{
		"hashed":    {nil, "/blobs/sha256-" + sum, ""},
		"another":   {nil, "/blobs/sha256-" + strings.Repeat("0", 64), "but the file of that name here is another one"},
		"no name":   {nil, "/models/tiny.gguf", ""},
		"no file":   {missing, "/blobs/sha256-" + sum, "which can't be read here: permission denied"},
		"not known": {nil, "tiny", "attached"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &ollama{file: c.file}
			s := httptest.NewServer(o)
			defer s.Close()
			cfg := started(t, fmt.Sprintf(`arms: [{name: a, target: ollama, url: %q}]
contexts: [64]
max_tokens: 16
repeats: 1
warm_ups: 1
`, s.URL))
			cfg.Arms["a"] = Files{Tokens: cfg.Arms["a"].Tokens, Model: Model{Why: "attached"}}
			if cfg.ModelAt = c.hash; c.hash == nil {
				cfg.ModelAt = func(_ context.Context, path string) (Model, error) {
					if path != c.file {
						t.Errorf("hashed %s", path)
					}
					return Model{FileSHA256: map[string]string{"1": sum}}, nil
				}
			}
			if sum, err := Run(t.Context(), cfg); err != nil || sum.OK != 2 {
				t.Fatalf("%+v, %v", sum, err)
			}
			n := cfg.Plan.ContextFor(80) // 16 tokens more or less are within a page
			want := fmt.Sprintf("/api/generate %d, /api/chat %d, /api/chat %d", n, n, n)
			if got := strings.Join(o.asked, ", "); got != want {
				t.Errorf("asked %s\nwant  %s", got, want)
			}
			for _, r := range rows(t, cfg.Dir) {
				if c.why == "" && r.FileSHA256["1"] != sum || c.why != "" && (r.FileSHA256 != nil || !strings.Contains(r.Why["file_sha256"], c.why) || strings.Contains(r.Why["file_sha256"], "/")) {
					t.Errorf("%s: %v, %s", r.RowID, r.FileSHA256, r.Why["file_sha256"])
				}
			}
			clean(t, cfg.Dir)
		})
	}
}

// An engine that is started by its name is started by its adapter, and the log that
// counts is the one that its configuration names.
func TestEngineWithALogOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	log, file := filepath.Join(dir, "engine.log"), filepath.Join(dir, "strata.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"args":["--native","/models/m.gguf","--max-context","4096"],"log":%q}`, log), 0o644); err != nil {
		t.Fatal(err)
	}
	// The adapter's flags are --engine strata --config FILE --port N.
	cfg := started(t, fmt.Sprintf(`arms:
  - name: a
    target: strata
    program: [/bin/sh, -c, 'exec $SERVER $5']
    model: %s
    env: {SAYS: "ready: http://127.0.0.1:$PORT (no key)", HEALTH: '{"status":"ok","model":"m"}', LOGS: "%s:strata generate: 7 expert-pool workers + the host thread"}
contexts: [64]
max_tokens: 16
repeats: 1
warm_ups: 0
`, file, log))
	if sum, err := Run(t.Context(), cfg); err != nil || sum.OK != 1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	r := whole(t, &cfg)[0]
	if r.Engine != "strata" || r.Threads.Workers == nil || *r.Threads.Workers != 7 {
		t.Errorf("%s, threads %+v", r.Engine, r.Threads)
	}
	if got := strings.Join(r.CommandLine[3:7], " "); got != "--engine strata --config "+file {
		t.Errorf("started as %q", r.CommandLine)
	}
}
