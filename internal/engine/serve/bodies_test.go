package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"assay/internal/engine"
)

// pending is a request that has sent n bytes of its body and sends no more until it is
// let go.
func pending(t *testing.T, url string, n int) (let func(), answer chan int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	body, to := io.Pipe()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	answer = make(chan int, 1)
	go func() {
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			answer <- 0
			return
		}
		resp.Body.Close()
		answer <- resp.StatusCode
	}()
	if _, err := to.Write([]byte(`{"prompt":"` + strings.Repeat("x", n-11))); err != nil {
		t.Fatal(err)
	}
	let = func() { cancel(); to.CloseWithError(context.Canceled) }
	t.Cleanup(let)
	return let, answer
}

// Requests whose bodies have no room beside those of others are told to come again, and
// find room when those are through. All together never take more than the limit.
func TestBodiesTogether(t *testing.T) {
	const limit = 300 << 10
	s := newTestServer(t, Config{Bodies: limit})
	let, answer := pending(t, s.url+"/v1/completions", 200<<10)
	eventually(t, "the body is there", func() bool { held, _ := s.bodies.counted(); return held >= 200<<10 })
	small := `{"content":"` + strings.Repeat("word ", 10_000) + `"}`
	status, header, got := do(t, s.url+"/tokenize", small)
	var e struct{ Error apiError }
	if err := json.Unmarshal([]byte(got), &e); err != nil {
		t.Fatal(err)
	}
	if after, err := strconv.Atoi(header.Get("Retry-After")); status != 503 || err != nil || after < 1 || e.Error.Type != typeUnavailable || !strings.Contains(e.Error.Message, "try again later") {
		t.Errorf("status %d, Retry-After %q: %s", status, header.Get("Retry-After"), got)
	}
	if m := readMetrics(t, s.url); m["assay_request_bodies_refused_total"] != 1 || m["assay_request_body_bytes"] < 200<<10 {
		t.Errorf("metrics %v", m)
	}
	let()
	<-answer
	eventually(t, "the body is gone", func() bool { held, _ := s.bodies.counted(); return held == 0 })
	if status, _, got := do(t, s.url+"/tokenize", small); status != 200 {
		t.Errorf("status %d: %s", status, got)
	}

	var clients sync.WaitGroup
	for range 20 {
		clients.Go(func() {
			for range 5 {
				if held, _ := s.bodies.counted(); held > limit {
					t.Errorf("%d bytes are held", held)
				}
				if status, _, got := do(t, s.url+"/tokenize", small); status != 200 && status != 503 {
					t.Errorf("status %d: %s", status, got)
				}
			}
		})
	}
	clients.Wait()
	// Bodies that are no requests are given back too.
	for _, body := range []string{"", "[]", "{", `{"content":5}`, `{}`} {
		for _, path := range []string{"/v1/completions", "/v1/chat/completions", "/completion", "/tokenize", "/detokenize", "/apply-template"} {
			if status, _, got := send(t, http.MethodPost, s.url+path, body); status != 400 {
				t.Errorf("%s %q: status %d: %s", path, body, status, got)
			}
		}
	}
	if held, _ := s.bodies.counted(); held != 0 {
		t.Errorf("%d bytes are still held", held)
	}
}

// Who sends nothing more is given up, and its room is there for others.
func TestBodyStalls(t *testing.T) {
	s := newTestServer(t, Config{Stall: 50 * time.Millisecond})
	_, answer := pending(t, s.url+"/v1/completions", 100)
	if status := <-answer; status != http.StatusRequestTimeout {
		t.Errorf("status %d, want 408", status)
	}
	// An answer that takes longer than that is another matter.
	a := ask[received](t, s.url+"/v1/completions", `{"prompt":"Once","max_tokens":600,"ignore_eos":true}`)
	if a.Usage.CompletionTokens != 600 {
		t.Errorf("%d tokens of the answer", a.Usage.CompletionTokens)
	}
	if held, _ := s.bodies.counted(); held != 0 {
		t.Errorf("%d bytes are still held", held)
	}
}

// A body is read as it is, whatever its size and however it comes, and counts at least
// as much as it has.
func TestReadBody(t *testing.T) {
	all := make([]byte, maxBody+1)
	for i := range all {
		all[i] = byte(i * i >> 7)
	}
	for _, n := range []int{0, 1, block - 1, block, block + 1, 3*block + 5, 8 * block, maxBody - 1, maxBody, maxBody + 1} {
		for _, known := range []bool{true, false} {
			b := bodies{limit: defaultBodies}
			r := httptest.NewRequest(http.MethodPost, "/", iotest.HalfReader(bytes.NewReader(all[:n])))
			if r.ContentLength = -1; known {
				r.ContentLength = int64(n)
			}
			got, release, err := b.read(httptest.NewRecorder(), r, time.Minute)
			held, _ := b.counted()
			if n > maxBody {
				if err == nil || err.Code != 413 || held != 0 {
					t.Errorf("%d bytes: %v, %d held", n, err, held)
				}
				continue
			}
			if err != nil || !bytes.Equal(got, all[:n]) || held < int64(n) || known && n > 0 && held > int64(n+1) {
				t.Errorf("%d bytes, known %v: %d of them, %v, %d held", n, known, len(got), err, held)
				continue
			}
			if release(); b.held != 0 {
				t.Errorf("%d bytes: %d are still held", n, b.held)
			}
		}
	}
	b := bodies{limit: defaultBodies}
	r := httptest.NewRequest(http.MethodPost, "/", iotest.ErrReader(errors.New("cut off")))
	if _, _, err := b.read(httptest.NewRecorder(), r, time.Minute); err == nil || err.Code != 400 || b.held != 0 || !strings.Contains(err.Message, "cut off") {
		t.Errorf("%v, %d held", err, b.held)
	}
}

// What has no memory beside others may be asked again, and what has none at all not.
func TestMemoryErrors(t *testing.T) {
	for _, c := range []struct {
		full   engine.MemoryError
		status int
		after  string
	}{
		{engine.MemoryError{Need: 5 << 20, Taken: 6 << 20, Most: 10 << 20}, 503, "1"},
		{engine.MemoryError{Need: 11 << 20, Most: 10 << 20}, 400, ""},
	} {
		w := httptest.NewRecorder()
		writeError(w, asAPIError(fmt.Errorf("request: %w", &c.full)))
		if w.Code != c.status || w.Header().Get("Retry-After") != c.after || !strings.Contains(w.Body.String(), "beside the experts") {
			t.Errorf("%+v: status %d, %v: %s", c.full, w.Code, w.Header(), w.Body)
		}
	}
}
