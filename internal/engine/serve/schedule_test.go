package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"assay/internal/engine"
	"assay/internal/gguf"
	"assay/models/seedling"
)

// newServer is a ready server with an engine of its own.
func newServer(t *testing.T, o engine.Options) testServer {
	t.Helper()
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	log := &lockedBuffer{}
	s := New(Config{ModelPath: seedling.Name, Build: "assay-test", Log: log})
	o.Threads, o.Context, o.Log = 1, 32768, s.LogEngine // an endless answer takes seconds
	e, err := engine.Load(context.Background(), f, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SetEngine(e)
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return testServer{s, h.URL, log}
}

// The second turn of a chat reads only what is new, and everything says so: usage,
// timings, progress, the log and the counters. A request with cache_prompt: false
// reads all, and leaves nothing.
func TestReuseIsToldOf(t *testing.T) {
	alone(t)
	s := newServer(t, engine.Options{ReuseBytes: 64 << 20})
	first := `{"role":"user","content":"` + strings.Repeat("Alice was beginning to get very tired. ", 20) + `"}`
	body := func(messages, more string) string {
		return `{"messages":[` + messages + `],"max_tokens":16,"temperature":0,"ignore_eos":true` + more + `}`
	}
	answer := ask[received](t, s.url+"/v1/chat/completions", body(first, ""))
	if n := answer.Usage.Details.CachedTokens; n != 0 {
		t.Errorf("the first turn reused %d tokens", n)
	}
	text, _ := json.Marshal(answer.Choices[0].Message.Content)
	turns := first + `,{"role":"assistant","content":` + string(text) + `},{"role":"user","content":"And then?"}`

	off := ask[received](t, s.url+"/v1/chat/completions", body(turns, `,"cache_prompt":false`))
	if u := off.Usage; u.Details.CachedTokens != 0 || off.Timings.CacheN != 0 || off.Timings.PromptN != u.PromptTokens {
		t.Errorf("without reuse: %+v, %+v", u, off.Timings)
	}
	frames, _ := stream(t, s.url+"/v1/chat/completions", body(turns, `,"stream":true,"stream_options":{"include_usage":true},"return_progress":true`))
	last := frames[len(frames)-1]
	u, tm := last.Usage, last.Timings
	if u.PromptTokens != off.Usage.PromptTokens || u.Details.CachedTokens < answer.Usage.PromptTokens || u.Details.CachedTokens != tm.CacheN ||
		tm.CacheN+tm.PromptN != u.PromptTokens || u.PromptTokens-tm.CacheN > 40 {
		t.Errorf("the second turn: %+v, %+v; the first had %d tokens", u, tm, answer.Usage.PromptTokens)
	}
	if got := textOf(frames); got != off.Choices[0].Message.Content {
		t.Errorf("it answered %q, without reuse %q", got, off.Choices[0].Message.Content)
	}
	if p := frames[1].Progress; p == nil || p.Cache != tm.CacheN || p.Processed < p.Cache || p.Total != u.PromptTokens {
		t.Errorf("progress %+v", p)
	}
	if want := fmt.Sprintf("request 3: prompt %d tokens = %d reused + %d read in ", u.PromptTokens, tm.CacheN, tm.PromptN); !strings.Contains(s.log.String(), want) {
		t.Errorf("log %q has no %q", s.log, want)
	}
	m := readMetrics(t, s.url)
	if m["assay_prompt_tokens_cached_total"] != float64(tm.CacheN) || m["assay_reuse_hits_total"] != 1 || m["assay_reuse_lookups_total"] != 2 ||
		m["assay_reuse_entries"] != 1 || m["assay_reuse_bytes"] == 0 || m["assay_reuse_limit_bytes"] != 64<<20 {
		t.Errorf("metrics %v", m)
	}
}

// textOf joins the frames' text, all kinds of it.
func textOf(frames []received) string {
	var b strings.Builder
	for _, f := range frames {
		if len(f.Choices) > 0 && f.Choices[0].Delta.Content != nil {
			b.WriteString(*f.Choices[0].Delta.Content)
		}
	}
	return b.String()
}

// Requests at once are in a slot each, go through passes together, and those that
// find the queue full are told when to come again.
func TestSeveralAtOnce(t *testing.T) {
	s := newServer(t, engine.Options{Slots: 2, Queue: 1})
	for range 2 {
		open(t, s.url)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/completions", strings.NewReader(endless))
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
		}
	}()
	eventually(t, "one waiting", func() bool { return s.engine.Load().Stats().Waiting == 1 })
	eventually(t, "passes of two sequences", func() bool {
		st := s.engine.Load().Stats()
		return st.RoundSequences > st.Rounds+10
	})
	for _, body := range []string{`{"prompt":"Once"}`, endless} {
		status, header, answer := do(t, s.url+"/v1/completions", body)
		var e struct{ Error apiError }
		if err := json.Unmarshal([]byte(answer), &e); err != nil {
			t.Fatal(err)
		}
		after, err := strconv.Atoi(header.Get("Retry-After"))
		if status != 503 || err != nil || after < 1 || e.Error.Type != "unavailable_error" || e.Error.Code != 503 || !strings.Contains(e.Error.Message, "1 requests wait") {
			t.Errorf("status %d, Retry-After %q: %s", status, header.Get("Retry-After"), answer)
		}
	}
	for i, at := range ask[[]slot](t, s.url+"/slots", "") {
		if !at.Processing || at.ID != i || at.Prompt == nil || *at.Prompt != 5 || *at.Read != 5 || *at.Cached != 0 || at.Next[0].Decoded == 0 {
			t.Errorf("slot %d: %+v", i, at)
		}
	}
	m := readMetrics(t, s.url)
	if m["assay_requests_processing"] != 2 || m["assay_requests_deferred"] != 1 || m[`assay_requests_total{finish="refused"}`] != 2 ||
		m["assay_n_busy_slots_per_decode"] <= 1 || m["assay_decode_sequences_total"] <= m["assay_n_decode_total"] {
		t.Errorf("metrics %v", m)
	}
	cancel()
	<-waiting
	eventually(t, "none waiting", func() bool { return s.engine.Load().Stats().Waiting == 0 })
}

// Retry-After is about when those before are through.
func TestRetryAfter(t *testing.T) {
	s := New(Config{Log: &lockedBuffer{}})
	for _, c := range []struct {
		seconds, requests, waiting, slots int
		want                              int
	}{
		{0, 0, 0, 1, 1},
		{40, 10, 4, 2, 10},
		{1, 10, 0, 8, 1},
		{4000, 10, 100, 1, 300},
	} {
		s.metrics.ended, s.metrics.sum.DecodeTime = c.requests, time.Duration(c.seconds)*time.Second
		if got := s.refuse(&engine.BusyError{Slots: c.slots, Waiting: c.waiting}); got.retryAfter != c.want {
			t.Errorf("%+v: %d s", c, got.retryAfter)
		}
	}
}
