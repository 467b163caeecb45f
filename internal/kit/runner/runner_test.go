package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"assay/internal/gguf"
	"assay/internal/kit/evidence"
	"assay/internal/kit/plan"
	"assay/internal/kit/prompt"
	"assay/internal/kit/row"
	"assay/internal/kit/target"
	"assay/internal/kit/target/adapters"
	"assay/internal/kit/tokens"
	"assay/models/seedling"
)

// TestMain makes this test binary a server where its one argument is a port.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && strings.Trim(os.Args[1], "0123456789") == "" {
		serve(os.Args[1])
	}
	goleak.VerifyTestMain(m)
}

// fake is a small server with OpenAI's API and llama-server's counters. It says
// the same words whatever it is asked; a test changes how it says them.
type fake struct {
	words    []string
	pace     time.Duration // between words
	usage    func(n int) int
	before   func(w http.ResponseWriter, r *http.Request) bool // true: it has answered
	after    int                                               // words after which end is called
	end      func(w http.ResponseWriter)
	total    int
	requests int
}

func (f *fake) chat(w http.ResponseWriter, r *http.Request) {
	f.requests++
	_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice a client that is gone
	if f.before != nil && f.before(w, r) {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(format string, args ...any) {
		fmt.Fprintf(w, "data: "+format+"\n\n", args...)
		w.(http.Flusher).Flush()
	}
	say(`{"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}`)
	for i, word := range f.words {
		if f.end != nil && i == f.after {
			f.end(w)
			return
		}
		time.Sleep(f.pace)
		say(`{"choices":[{"index":0,"delta":{"content":%q}}]}`, word)
	}
	n := len(f.words)
	f.total += n
	said := n
	if f.usage != nil {
		said = f.usage(n)
	}
	say(`{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`)
	say(`{"choices":[],"usage":{"prompt_tokens":80,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":0}}}`, said)
	say(`[DONE]`)
}

func (f *fake) serve(t *testing.T) string {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"/models/tiny.gguf","owned_by":"llamacpp","meta":{"n_ctx":1024,"ftype":"Q8_0"}}]}`)
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE llamacpp:tokens_predicted_total counter\nllamacpp:tokens_predicted_total %d\n", f.total)
	})
	mux.HandleFunc("POST "+target.ChatPath, f.chat)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// story are words that are one token each in the built-in model's tokenizer.
func story(t *testing.T, counter *tokens.Counter, n int) []string {
	text, err := prompt.NewMaker(prompt.Books(), counter.Encode, "").Slice(n, 0)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := counter.Encode(text.Text)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, id := range ids {
		words = append(words, string(counter.Piece(id)))
	}
	return words
}

func seedlingTokens(t *testing.T) *tokens.Counter {
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	counter, err := tokens.FromGGUF(f, seedling.File)
	if err != nil {
		t.Fatal(err)
	}
	return counter
}

func config(t *testing.T, url string, counter *tokens.Counter) Config {
	return Config{
		Plan: plan.Plan{
			Arms:     []plan.Arm{{Name: "tiny", Target: "auto", URL: url}},
			Contexts: []int{64}, Warmups: 1, Repeats: 2, MaxTokens: 40, RunLimit: 10 * time.Second,
		},
		Dir:     filepath.Join(t.TempDir(), "rows"),
		Version: "test", Text: prompt.Books(), Adapters: adapters.All,
		Arms: map[string]Files{"tiny": {Tokens: counter, Model: Model{Why: "attached: the files that the server loaded are not known"}}},
	}
}

// rows reads the journal back and checks what holds for the row of any run: every
// null in it has a reason, its evidence is whole, and the row is the one that the
// evidence on the disk gives, word for word.
func rows(t *testing.T, dir string) []*row.Row {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, row.RowsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []*row.Row
	for line := range row.Lines(f) {
		r, err := line.Row()
		if err != nil {
			t.Fatal(err)
		}
		if bad := row.Validate(r); len(bad) > 0 {
			t.Errorf("row %s: %v", r.RowID, bad)
		}
		if errs := evidence.Check(filepath.Join(dir, *r.Evidence.Dir), r.Evidence.Files); len(errs) > 0 {
			t.Errorf("row %s: %v", r.RowID, errs)
		}
		again, err := fromEvidence(filepath.Join(dir, *r.Evidence.Dir))
		if err != nil {
			t.Fatal(err)
		}
		again.Evidence = r.Evidence
		again.Place(r.Seq, r.PrevSHA256)
		if diff := cmp.Diff(r, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("row %s: written -, by the evidence +:\n%s", r.RowID, diff)
		}
		out = append(out, r)
	}
	return out
}

func TestRun(t *testing.T) {
	counter := seedlingTokens(t)
	f := &fake{words: story(t, counter, 40), pace: 3 * time.Millisecond}
	c := config(t, f.serve(t), counter)
	var kinds []Kind
	c.Progress = func(e Event) { kinds = append(kinds, e.Kind) }
	sum, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if sum.OK != 3 || sum.Failed+sum.Stopped+sum.Missing != 0 {
		t.Errorf("%+v", sum)
	}
	if got := fmt.Sprint(kinds); got != "[0 1 2 3 2 3 2 3]" {
		t.Errorf("events %s", got)
	}
	all := rows(t, c.Dir)
	if len(all) != 3 || f.requests != 3 {
		t.Fatalf("%d rows of %d requests", len(all), f.requests)
	}
	nonces := map[string]bool{}
	for i, r := range all {
		nonces[*r.Nonce] = true
		if r.Status != row.OK || *r.CountCheck.Verdict != "agree-independent" || *r.CompletionTokens != 40 || *r.CachedTokens != 0 {
			t.Errorf("row %d: status %s, verdict %s (%s)", i, r.Status, *r.CountCheck.Verdict, *r.CountCheck.Why)
		}
		if r.CountCheck.Against["/metrics"] != 40 || r.CountCheck.Against["text by "+seedling.File] != 40 {
			t.Errorf("row %d: counts %v", i, r.CountCheck.Against)
		}
		if *r.TokenFrames != 40 || r.Arm != "tiny" || r.Engine != "llama-server" || *r.Quant != "Q8_0" {
			t.Errorf("row %d: %d token frames, arm %s of %s %s", i, *r.TokenFrames, r.Arm, r.Engine, *r.Quant)
		}
		if r.Telemetry.Window.HostSamples == nil || *r.Telemetry.Window.HostSamples < 2 || r.Telemetry.Memory.MemAvailableGiBMin == nil {
			t.Errorf("row %d: no samples of the host", i)
		}
	}
	if len(nonces) != 3 {
		t.Errorf("%d nonces in 3 runs", len(nonces))
	}
	if all[0].Phase != row.Warmup || all[1].Phase != row.Measure || *all[1].SliceSHA256 != *all[2].SliceSHA256 || *all[0].SliceSHA256 == *all[1].SliceSHA256 {
		t.Error("the warm-up comes first and has a slice of its own; the repeats share one")
	}
	if all[2].RowID != "tiny/measure/a1/run-003" || all[2].Repeat != 1 || all[2].Seq != 3 {
		t.Errorf("row 3: %s, repeat %d, seq %d", all[2].RowID, all[2].Repeat, all[2].Seq)
	}
}

// Each of these is a server that goes wrong in its own way. The rows say how,
// and no figure of such a run counts.
func TestRunsThatFail(t *testing.T) {
	counter := seedlingTokens(t)
	words := story(t, counter, 40)
	hangUp := func(w http.ResponseWriter) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	}
	for _, c := range []struct {
		name        string
		fake        fake
		kind, error string
	}{
		{"hangs up in the middle", fake{words: words, after: 20, end: hangUp}, "stream-error", "body: "},
		{"ends cleanly without finish_reason", fake{words: words, after: 20, end: func(http.ResponseWriter) {}}, "truncated", "neither a finish_reason nor [DONE] came"},
		{"error object after status 200", fake{words: words, after: 20, end: func(w http.ResponseWriter) {
			fmt.Fprint(w, "data: {\"error\":{\"message\":\"out of memory\"}}\n\ndata: [DONE]\n\n")
		}}, "stream-error", "out of memory"},
		{"refuses", fake{before: func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":{"message":"the prompt is too long"}}`)
			return true
		}}, "stream-error", "the prompt is too long"},
		{"never answers", fake{before: func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}}, "run-limit", "longer than its limit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.fake
			cfg := config(t, f.serve(t), counter)
			cfg.Plan.RunLimit = time.Second
			cfg.Plan.Warmups, cfg.Plan.Repeats = 0, 1
			sum, err := Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			all := rows(t, cfg.Dir)
			if sum.Failed != 1 || len(all) != 1 {
				t.Fatalf("%+v, %d rows", sum, len(all))
			}
			r := all[0]
			if r.Status != row.Failed || *r.FailKind != c.kind || !strings.Contains(*r.Error, c.error) {
				t.Errorf("status %s, kind %s, error %q; want %s, %q", r.Status, *r.FailKind, *r.Error, c.kind, c.error)
			}
			if r.TTFTMS != nil || r.DecodeTokS != nil || r.PromptTokSClient != nil {
				t.Error("a figure of a failed run is shown")
			}
			if f.requests != 1 {
				t.Errorf("%d requests for one run", f.requests)
			}
		})
	}
}

// A server that counts wrongly: the run is ok, its decode rate is withheld.
func TestCountMismatch(t *testing.T) {
	counter := seedlingTokens(t)
	f := &fake{words: story(t, counter, 40), pace: 2 * time.Millisecond, usage: func(n int) int { return n + 20 }}
	c := config(t, f.serve(t), counter)
	sum, err := Run(t.Context(), c)
	if err != nil || sum.Withheld != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
	for _, r := range rows(t, c.Dir) {
		if *r.CountCheck.Verdict != "count-mismatch" || r.DecodeTokS != nil || r.DecodeTokSWithheld == nil {
			t.Errorf("verdict %s, decode %v", *r.CountCheck.Verdict, r.DecodeTokS)
		}
	}
}

// The server knows no tokenizer and none is given: the size of the prompt is not
// exact, the count has one origin, and the row says both.
func TestWithoutTokenizer(t *testing.T) {
	f := &fake{words: story(t, seedlingTokens(t), 40), pace: 2 * time.Millisecond}
	c := config(t, f.serve(t), nil)
	if _, err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows(t, c.Dir) {
		if *r.CountCheck.Verdict != "agree-same-origin" || r.PromptTokensExpected != nil || !strings.HasPrefix(r.Why["prompt_tokens_expected"], "no tokenizer of this model") {
			t.Errorf("verdict %s, why %q", *r.CountCheck.Verdict, r.Why["prompt_tokens_expected"])
		}
	}
}

// An interrupt in the middle of a run: its row is written as stopped, and
// nothing is run after it.
func TestInterrupt(t *testing.T) {
	counter := seedlingTokens(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := &fake{words: story(t, counter, 40), pace: time.Millisecond, after: 20, end: func(http.ResponseWriter) {
		cancel()
		time.Sleep(50 * time.Millisecond)
	}}
	c := config(t, f.serve(t), counter)
	sum, err := Run(ctx, c)
	if !errors.Is(err, ErrInterrupted) {
		t.Fatalf("error %v", err)
	}
	all := rows(t, c.Dir)
	if sum.Stopped != 1 || sum.Missing != 2 || len(all) != 1 || f.requests != 1 {
		t.Fatalf("%+v, %d rows, %d requests", sum, len(all), f.requests)
	}
	if r := all[0]; r.Status != row.Stopped || *r.FailKind != "interrupted" || r.DecodeTokS != nil {
		t.Errorf("status %s, kind %s", r.Status, *r.FailKind)
	}
	if rec, err := evidence.Read(filepath.Join(c.Dir, *all[0].Evidence.Dir)); err != nil || len(rec.Recording.Reads) == 0 {
		t.Errorf("what came before the interrupt is not kept: %v", err)
	}
}

// The key reaches the server and nothing that is written, though the server says
// it back.
func TestKeyIsNeverWritten(t *testing.T) {
	const key = "sk-0123456789abcdef"
	counter := seedlingTokens(t)
	f := &fake{words: append([]string{key + " "}, story(t, counter, 40)...), before: func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "Bearer "+key {
			t.Errorf("Authorization: %q", r.Header.Get("Authorization"))
		}
		return false
	}}
	c := config(t, f.serve(t), counter)
	c.Plan.Arms[0].KeyEnv, c.Environ = "TINY_KEY", []string{"TINY_KEY=" + key}
	if _, err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(c.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), key) {
			t.Errorf("%s holds the key", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPlanThatDoesNotFit(t *testing.T) {
	f := &fake{}
	c := config(t, f.serve(t), seedlingTokens(t))
	c.Plan.Contexts = []int{64, 1000}
	_, err := Run(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "a prompt of 1K (1024 tokens with chat template and nonce, by seedling-15m-iq3_s.gguf) and 40 to generate need a context of 1064, but the target has 1024") || f.requests != 0 {
		t.Errorf("error %v after %d requests", err, f.requests)
	}
}

// A target that ends before it is ready: the error has its last words, and no
// row is made.
func TestTargetThatDies(t *testing.T) {
	c := config(t, "", seedlingTokens(t))
	c.Plan.Arms[0] = plan.Arm{Name: "tiny", Target: "auto", Command: []string{"/bin/sh", "-c", "echo the model file is bad >&2; exit 3"}}
	sum, err := Run(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "the model file is bad") {
		t.Errorf("error %v", err)
	}
	if sum.OK+sum.Failed+sum.Stopped != 0 {
		t.Errorf("%+v", sum)
	}
}

func TestCheckDir(t *testing.T) {
	dir := t.TempDir()
	if err := CheckDir(dir); err != nil {
		t.Errorf("an empty folder: %v", err)
	}
	if err := CheckDir(filepath.Join(dir, "new")); err != nil {
		t.Errorf("a new folder: %v", err)
	}
	for _, name := range []string{row.LockFile, row.RowsFile} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := CheckDir(dir); err != nil {
		t.Errorf("a try that had not begun: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, row.RowsFile), []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := CheckDir(dir); err == nil || !strings.Contains(err.Error(), "is not empty (it holds rows.jsonl)") {
		t.Errorf("a used folder: %v", err)
	}
}

func TestArmName(t *testing.T) {
	for model, want := range map[string]string{
		"builtin:seedling":         "assay-builtin-seedling",
		"/models/Qwen3 30B.gguf":   "assay-Qwen3-30B",
		`C:\models\x_Q4_K_M.gguf`:  "assay-x_Q4_K_M",
		"":                         "assay",
		strings.Repeat("long", 60): "assay-" + strings.Repeat("long", 60)[:74],
	} {
		if got := ArmName("assay", model); got != want {
			t.Errorf("ArmName(%q) = %q, want %q", model, got, want)
		}
	}
}

// This host's load and memory say nothing of a target on another one.
func TestRemoteTargetIsNotWatched(t *testing.T) {
	l := &live{target: &target.Target{URL: "http://192.0.2.1:8080"}}
	new(session).attached(l)
	if l.watched || !strings.HasPrefix(l.around.Why, "remote target") {
		t.Errorf("this host is read for a remote target: %+v", l.around)
	}
}

// A target that is attached to is found by the port that it listens on.
func TestAttachedTargetIsWatched(t *testing.T) {
	counter := seedlingTokens(t)
	f := &fake{words: story(t, counter, 40), pace: time.Millisecond}
	c := config(t, f.serve(t), counter)
	c.Plan.Warmups, c.Plan.Repeats = 0, 1
	if _, err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	r := rows(t, c.Dir)[0]
	tel := &r.Telemetry
	if _, err := os.Stat("/proc/self/fd"); err == nil && (tel.Pinned.VmRSSMaxBytes == nil || *tel.Pinned.VmRSSMaxBytes < 1<<20) {
		t.Errorf("memory of the target, which is this process: %v, %s", tel.Pinned.VmRSSMaxBytes, r.Why["telemetry.pinned.vmrss_max_bytes"])
	}
	for path, want := range map[string]string{
		"telemetry.data_reads_per_s.mean": "attached: which file",
		"telemetry.temps.ssd_max_c":       "", // or no sensors at all
		"telemetry.vram.growth_mib":       "",
	} {
		if why := r.Why[path]; why == "" || !strings.HasPrefix(why, want) {
			t.Errorf("%s: %q, want %q", path, why, want)
		}
	}
}

func TestPort(t *testing.T) {
	for raw, want := range map[string]int{"http://127.0.0.1:8080": 8080, "http://[::1]:99/v1": 99, "http://localhost": 80, "https://localhost": 443} {
		if got := port(raw); got != want {
			t.Errorf("%s: %d, want %d", raw, got, want)
		}
	}
}
