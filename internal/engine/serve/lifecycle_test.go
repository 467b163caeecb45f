package serve

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"assay/internal/engine"
	"assay/internal/engine/sample"
)

// A long answer, which no test waits for.
const endless = `{"prompt":"Once upon a time","max_tokens":-1,"ignore_eos":true,"stream":true}`

// open starts a stream and reads its first frame.
func open(t *testing.T, url string) (*bufio.Reader, *http.Response) {
	t.Helper()
	resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(endless))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	r := bufio.NewReader(resp.Body)
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: {") {
		t.Fatalf("%q, %v", line, err)
	}
	return r, resp
}

// When its context ends, a request draws at most one more token.
func TestCancelStopsWithinOneToken(t *testing.T) {
	s := newTestServer(t, Config{})
	e := sharedEngine(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	j := job{Request: engine.Request{Prompt: []int32{2996, 331}, MaxTokens: -1, IgnoreEOS: true, Logprobs: -1}}
	j.Sampling.TopP, j.Sampling.RepeatPenalty = 1, 1
	shown := 0
	_, err := s.generate(ctx, e, j, func(segment, engine.Timings) error {
		if shown++; shown == 5 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || shown > 6 {
		t.Errorf("%d tokens after a cancel at 5, error %v", shown, err)
	}
	if log := s.log.String(); !strings.HasSuffix(log, "finish none (cancelled)\n") {
		t.Errorf("log %q", log)
	}
}

// A client that hangs up frees its slot, in the middle of an answer and while
// it waits for one.
func TestHangUp(t *testing.T) {
	s := newTestServer(t, Config{})
	var clients []*http.Response
	for range 2 {
		_, resp := open(t, s.url)
		clients = append(clients, resp)
	}
	waiting, cancel := context.WithCancel(context.Background())
	defer cancel()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r, _ := http.NewRequestWithContext(waiting, http.MethodPost, s.url+"/v1/completions", strings.NewReader(endless))
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
		}
	}()
	eventually(t, "two in work, one waiting", func() bool {
		m := readMetrics(t, s.url)
		return m["assay_requests_processing"] == 2 && m["assay_requests_deferred"] == 1
	})
	cancel()
	<-gone
	eventually(t, "none waiting", func() bool { return s.metrics.inFlight() == 2 })
	for _, c := range clients {
		c.Body.Close()
	}
	eventually(t, "none in work", func() bool { return s.metrics.inFlight() == 0 })
	if m := readMetrics(t, s.url); m[`assay_requests_total{finish="cancelled"}`] != 3 {
		t.Errorf("%v requests were counted as cancelled, want 3", m[`assay_requests_total{finish="cancelled"}`])
	}
}

// running is a server under Run.
type running struct {
	*Server
	url   string
	log   *lockedBuffer
	stop  context.CancelFunc // the first signal
	hurry context.CancelFunc // the second
	ended chan error
}

func start(t *testing.T, drain time.Duration, load func(context.Context) (*engine.Engine, error)) running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := running{log: &lockedBuffer{}, ended: make(chan error, 1), url: "http://" + l.Addr().String()}
	r.Server = New(Config{ModelPath: "builtin:seedling", Log: r.log})
	var ctx, second context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	second, r.hurry = context.WithCancel(context.Background())
	t.Cleanup(r.stop)
	t.Cleanup(r.hurry)
	go func() {
		r.ended <- r.Run(ctx, func() (context.Context, context.CancelFunc) { return second, func() {} }, l, drain, load)
	}()
	return r
}

func (r running) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(time.Minute):
		t.Fatalf("still running; log:\n%s", r.log)
		return nil
	}
}

func loadOne(context.Context) (*engine.Engine, error) { return loadEngine(1) }

func (r running) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, "ready", func() bool { return strings.Contains(r.log.String(), "listening on "+r.url+"\n") })
}

// The port answers before the model is there.
func TestRunAnswersWhileLoading(t *testing.T) {
	release := make(chan struct{})
	r := start(t, time.Second, func(ctx context.Context) (*engine.Engine, error) {
		<-release
		return loadEngine(1)
	})
	if status, _, body := do(t, r.url+"/health", ""); status != 503 || !strings.Contains(body, "Loading model") {
		t.Errorf("while loading: %d %s", status, body)
	}
	close(release)
	r.awaitReady(t)
	if status, _, _ := do(t, r.url+"/health", ""); status != 200 {
		t.Errorf("loaded: %d", status)
	}
	if want := "assay serve: threads 1 (0 workers + the caller), context 2048, slots 1, model "; !strings.Contains(r.log.String(), want) {
		t.Errorf("log %q has no %q", r.log, want)
	}
	r.stop()
	if err := r.wait(t); err != nil {
		t.Error(err)
	}
}

func TestRunReturnsAFailedLoad(t *testing.T) {
	want := errors.New("no such model")
	r := start(t, time.Second, func(context.Context) (*engine.Engine, error) { return nil, want })
	if err := r.wait(t); !errors.Is(err, want) {
		t.Errorf("Run returned %v", err)
	}
}

func TestASignalWhileLoadingEndsIt(t *testing.T) {
	r := start(t, time.Second, func(ctx context.Context) (*engine.Engine, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	r.stop()
	if err := r.wait(t); err != nil {
		t.Errorf("Run returned %v", err)
	}
}

// A signal lets requests in work finish, and takes no new ones.
func TestDrain(t *testing.T) {
	r := start(t, 5*time.Minute, loadOne)
	r.awaitReady(t)
	resp, err := http.Post(r.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"Once","max_tokens":30,"ignore_eos":true,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r.stop()
	eventually(t, "no new connections", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	frames, done := readFrames(t, resp.Body)
	if last := frames[len(frames)-1]; !done || last.Usage.CompletionTokens != 30 {
		t.Errorf("[DONE] %v, last frame %+v", done, last)
	}
	if err := r.wait(t); err != nil {
		t.Errorf("Run returned %v; log:\n%s", err, r.log)
	}
}

// What the drain leaves is cut off, and told so: no [DONE].
func TestDrainIsBounded(t *testing.T) {
	r := start(t, 50*time.Millisecond, loadOne)
	r.awaitReady(t)
	body, _ := open(t, r.url)
	r.stop()
	if err := r.wait(t); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if rest, _ := io.ReadAll(body); strings.Contains(string(rest), "[DONE]") {
		t.Error("a stream that was cut off ended with [DONE]")
	}
	if !strings.Contains(r.log.String(), "1 requests cut off") {
		t.Errorf("log:\n%s", r.log)
	}
}

// A second signal ends it at once, and Run says that it was hurried.
func TestHurry(t *testing.T) {
	r := start(t, time.Hour, loadOne)
	r.awaitReady(t)
	open(t, r.url)
	r.stop()
	eventually(t, "draining", func() bool { return strings.Contains(r.log.String(), "stopping: 1 requests in work") })
	r.hurry()
	if err := r.wait(t); !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
}

// brokenForm panics when it is asked for.
type brokenForm struct{ sample.Constraint }

func (brokenForm) Need() int { panic("broken") }

// A request that panics frees its slot and is counted out: the end waits for none.
func TestPanicIsCounted(t *testing.T) {
	alone(t)
	s := newTestServer(t, Config{})
	func() {
		defer func() { _ = recover() }() // as net/http does
		r := engine.Request{Prompt: []int32{42}, MaxTokens: 3, Sampling: sample.Defaults(), Logprobs: -1, Constraint: brokenForm{}}
		_, err := s.generate(t.Context(), sharedEngine(t), job{Request: r}, func(segment, engine.Timings) error { return nil })
		t.Errorf("it did not panic: %v", err)
	}()
	if n, st := s.metrics.inFlight(), sharedEngine(t).Stats(); n != 0 || st.Running != 0 {
		t.Errorf("%d requests are counted, %d in slots", n, st.Running)
	}
}
