package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"assay/internal/engine"
	"assay/internal/gguf"
	"assay/models/seedling"
)

// The engine with the built-in model, which the tests share: loaded on first
// use, with two slots.
var shared = sync.OnceValues(func() (*engine.Engine, error) { return loadEngine(2) })

func loadEngine(slots int) (*engine.Engine, error) {
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		return nil, err
	}
	return engine.Load(context.Background(), f, engine.Options{Threads: 1, Context: 2048, Slots: slots}, func(done, total int64) {})
}

func TestMain(m *testing.M) {
	status := m.Run()
	if e, err := shared(); err == nil {
		e.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); err != nil && status == 0 {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func sharedEngine(t *testing.T) *engine.Engine {
	t.Helper()
	e, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// testServer is a ready server, its address and its log.
type testServer struct {
	*Server
	url string
	log *lockedBuffer
}

func newTestServer(t *testing.T, c Config) testServer {
	t.Helper()
	log := &lockedBuffer{}
	c.Log = log
	if c.ModelPath == "" {
		c.ModelPath = seedling.Name
	}
	c.Build = "assay-test"
	s := New(c)
	s.SetEngine(sharedEngine(t))
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return testServer{s, h.URL, log}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// do sends a request and returns status, headers and body. A body makes it a
// POST.
func do(t *testing.T, url, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	return send(t, method, url, body, header...)
}

func send(t *testing.T, method, url, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(all)
}

// ask is do for a JSON answer that must have the status 200.
func ask[T any](t *testing.T, url, body string) T {
	t.Helper()
	var v T
	status, _, answer := do(t, url, body)
	if status != 200 {
		t.Fatalf("status %d: %s", status, answer)
	}
	if err := json.Unmarshal([]byte(answer), &v); err != nil {
		t.Fatalf("%v in %s", err, answer)
	}
	return v
}

// received is any answer or frame of the completion endpoints.
type received struct {
	Choices []struct {
		FinishReason *string `json:"finish_reason"`
		Text         string
		Message      struct {
			Role      string
			Content   string
			Reasoning string     `json:"reasoning_content"`
			Calls     []toolCall `json:"tool_calls"`
		}
		Delta struct {
			Role      string
			Content   *string
			Reasoning string      `json:"reasoning_content"`
			Calls     []callDelta `json:"tool_calls"`
		}
		TokenIDs []int32 `json:"token_ids"`
		Logprobs json.RawMessage
	}
	ID, Model, Object string
	Fingerprint       string `json:"system_fingerprint"`
	Usage             *usage
	Timings           *timings
	Progress          *promptProgress `json:"prompt_progress"`
	Error             *apiError
}

// content is the text of a chat or text frame.
func (r received) content() string {
	if len(r.Choices) == 0 {
		return ""
	}
	c := r.Choices[0]
	if c.Delta.Content != nil {
		return *c.Delta.Content
	}
	return c.Text
}

// stream reads a whole stream: its frames, and whether it ended with [DONE].
func stream(t *testing.T, url, body string) (frames []received, done bool) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || got != "text/event-stream" {
		all, _ := io.ReadAll(resp.Body)
		t.Fatalf("status %d, Content-Type %q: %s", resp.StatusCode, got, all)
	}
	return readFrames(t, resp.Body)
}

func readFrames(t *testing.T, r io.Reader) (frames []received, done bool) {
	t.Helper()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case lines.Text() == "":
		case !ok || done:
			t.Fatalf("unexpected line %q", lines.Text())
		case data == "[DONE]":
			done = true
		default:
			var f received
			if err := json.Unmarshal([]byte(data), &f); err != nil {
				t.Fatalf("%v in %s", err, data)
			}
			frames = append(frames, f)
		}
	}
	return frames, done
}

// text joins the frames' text.
func text(frames []received) string {
	var b strings.Builder
	for _, f := range frames {
		b.WriteString(f.content())
	}
	return b.String()
}

// alone skips a test with -short, as under the race detector, where the engine
// is fifty times slower: requests that come one after the other show no race.
func alone(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("one request at a time")
	}
}

// eventually waits for something that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 6000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("not within 30 s: %s", what)
}

// recorded is the body of an exchange with llama-server, see testdata/llamacpp.
func recorded(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/llamacpp/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var r struct{ Body []struct{ Text string } }
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, piece := range r.Body {
		b.WriteString(piece.Text)
	}
	return b.String()
}

// requestOf is the request of a recorded exchange, with more members put in
// front.
func requestOf(t *testing.T, name, more string) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/llamacpp/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Request struct{ Request json.RawMessage }
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return "{" + more + strings.TrimPrefix(string(r.Request.Request), "{")
}
