package serve

import (
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"assay/internal/engine"
)

// metrics are llama-server's, under our name, in a registry of their own.
type metrics struct {
	handler  http.Handler
	registry *prometheus.Registry
	watched  []prometheus.Collector // the engine's own

	promptTokens, cachedTokens, promptSeconds prometheus.Counter
	predictedTokens, predictedSeconds, rounds prometheus.Counter
	requests, offered, accepted               *prometheus.CounterVec

	mu      sync.Mutex
	drafter string // who drafts; empty: nobody
	slots   int    // requests that can be in work; the others wait
	running int    // requests in work or waiting
	longest int    // tokens of the longest sequence so far
	ended   int    // requests that were served
	sum     engine.Timings
	steps   int // intervals between generated tokens, in all
}

func newMetrics() *metrics {
	reg := prometheus.NewRegistry()
	m := &metrics{registry: reg}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "assay", Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	vector := func(name, help, label string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "assay", Name: name, Help: help}, []string{label})
		reg.MustRegister(v)
		return v
	}
	gauge := func(name, help string, read func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "assay", Name: name, Help: help}, func() float64 {
			m.mu.Lock()
			defer m.mu.Unlock()
			return read()
		}))
	}
	m.promptTokens = counter("prompt_tokens_total", "Prompt tokens computed, those reused left out.")
	m.cachedTokens = counter("prompt_tokens_cached_total", "Prompt tokens reused.")
	m.promptSeconds = counter("prompt_seconds_total", "Time spent on prompts, the first token's included.")
	m.predictedTokens = counter("tokens_predicted_total", "Tokens generated, end tokens included.")
	m.predictedSeconds = counter("tokens_predicted_seconds_total", "Time spent generating, from a request's first token to its last.")
	m.requests = vector("requests_total", "Completion requests ended, by how.", "finish")
	m.offered = vector("drafts_offered_total", "Tokens drafted and verified, by who drafted them.", "drafter")
	m.accepted = vector("drafts_accepted_total", "Of these, the ones that were right.", "drafter")
	m.rounds = counter("rounds_total", "Passes that generated tokens, the prompts' own left out: each gives the drafts that it accepted and one token more.")
	gauge("requests_processing", "Requests in work.", func() float64 { return float64(min(m.running, m.slots)) })
	gauge("requests_deferred", "Requests waiting for a slot.", func() float64 { return float64(max(m.running-m.slots, 0)) })
	gauge("n_tokens_max", "Tokens of the longest sequence so far, prompt and answer.", func() float64 { return float64(m.longest) })
	gauge("prompt_tokens_seconds", "Prompt tokens a second since the start.", func() float64 {
		return ratio(float64(m.sum.Prompt), m.sum.PromptTime.Seconds())
	})
	gauge("predicted_tokens_seconds", "Tokens generated a second since the start, over n-1 tokens of each request.", func() float64 {
		return ratio(float64(m.steps), m.sum.DecodeTime.Seconds())
	})
	m.handler = promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
	return m
}

// watchBodies has /metrics tell of requests that are being read.
func (m *metrics) watchBodies(b *bodies) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "assay", Name: "request_body_bytes", Help: "Memory of requests that are being read and parsed."}, func() float64 {
			held, _ := b.counted()
			return float64(held)
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "assay", Name: "request_bodies_refused_total", Help: "Requests that there was no room to read for."}, func() float64 {
			_, refused := b.counted()
			return float64(refused)
		}),
	)
}

// serves says what the engine does: how many requests at once, and who drafts, if
// anybody does.
func (m *metrics) serves(o engine.Options) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slots, m.drafter = o.Slots, o.Drafter
	if m.drafter != "" { // 0 is told too
		m.offered.WithLabelValues(m.drafter)
		m.accepted.WithLabelValues(m.drafter)
	}
}

// inFlight is the number of requests in work or waiting.
func (m *metrics) inFlight() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running
}

// begin counts a request in; done counts it out with what it cost.
func (m *metrics) begin() (done func(ending, engine.Timings)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running++
	return func(end ending, t engine.Timings) {
		m.promptTokens.Add(float64(t.Prompt))
		m.cachedTokens.Add(float64(t.Cached))
		m.promptSeconds.Add(t.PromptTime.Seconds())
		m.predictedTokens.Add(float64(t.Predicted))
		m.predictedSeconds.Add(t.DecodeTime.Seconds())
		finish := end.finish
		if end.cancelled {
			finish = "cancelled"
		}
		m.requests.WithLabelValues(finish).Inc()
		m.rounds.Add(float64(t.Rounds))

		m.mu.Lock()
		defer m.mu.Unlock()
		if m.drafter != "" {
			m.offered.WithLabelValues(m.drafter).Add(float64(t.Offered))
			m.accepted.WithLabelValues(m.drafter).Add(float64(t.Accepted))
		}
		m.running--
		if t.Predicted > 0 {
			m.ended++
		}
		m.longest = max(m.longest, t.Prompt+t.Cached+t.Predicted)
		m.sum.Prompt += t.Prompt
		m.sum.PromptTime += t.PromptTime
		m.sum.DecodeTime += t.DecodeTime
		m.steps += max(t.Predicted-1, 0)
	}
}
