package serve

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"assay/internal/engine"
)

// watch adds the engine's own counters, in place of those of an earlier engine.
func (m *metrics) watch(e *engine.Engine) {
	for _, c := range m.watched {
		m.registry.Unregister(c)
	}
	m.watched = nil
	add := func(c prometheus.Collector) {
		m.registry.MustRegister(c)
		m.watched = append(m.watched, c)
	}
	counter := func(name, help string, read func(engine.Stats) float64) {
		add(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "assay", Name: name, Help: help}, func() float64 { return read(e.Stats()) }))
	}
	gauge := func(name, help string, read func(engine.Stats) float64) {
		add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "assay", Name: name, Help: help}, func() float64 { return read(e.Stats()) }))
	}
	counter("n_decode_total", "Passes of the model, prompts' included.", func(s engine.Stats) float64 { return float64(s.Rounds) })
	counter("decode_tokens_total", "Tokens that passes computed: of prompts, drawn ones, and drafts.", func(s engine.Stats) float64 { return float64(s.RoundTokens) })
	counter("decode_sequences_total", "Sequences that passes took, summed.", func(s engine.Stats) float64 { return float64(s.RoundSequences) })
	counter("decode_experts_total", "Experts that passes computed, each once a layer and pass.", func(s engine.Stats) float64 { return float64(s.Experts) })
	gauge("n_busy_slots_per_decode", "Sequences in a pass, on average since the start.", func(s engine.Stats) float64 {
		return ratio(float64(s.RoundSequences), float64(s.Rounds))
	})
	watchExperts(e, add)
	if e.Options().ReuseBytes == 0 {
		return
	}
	gauge("reuse_entries", "Sequences kept in memory for reuse.", func(s engine.Stats) float64 { return float64(s.Reuse.Entries) })
	gauge("reuse_bytes", "Memory that they hold.", func(s engine.Stats) float64 { return float64(s.Reuse.Bytes) })
	gauge("reuse_limit_bytes", "Memory that they may hold.", func(s engine.Stats) float64 { return float64(s.Reuse.Limit) })
	counter("reuse_lookups_total", "Prompts that were looked up.", func(s engine.Stats) float64 { return float64(s.Reuse.Lookups) })
	counter("reuse_hits_total", "Prompts whose beginning was there.", func(s engine.Stats) float64 { return float64(s.Reuse.Hits) })
	counter("reuse_evicted_total", "Sequences that had to leave memory.", func(s engine.Stats) float64 { return float64(s.Reuse.Evicted) })
	if e.Options().ReuseDir == "" {
		return
	}
	gauge("reuse_disk_entries", "Sequences kept on disk for reuse.", func(s engine.Stats) float64 { return float64(s.Reuse.DiskEntries) })
	gauge("reuse_disk_bytes", "Bytes of their files.", func(s engine.Stats) float64 { return float64(s.Reuse.DiskBytes) })
	counter("reuse_disk_hits_total", "Prompts whose beginning was read from disk.", func(s engine.Stats) float64 { return float64(s.Reuse.DiskHits) })
	counter("reuse_disk_failed_total", "Files that could not be used.", func(s engine.Stats) float64 { return float64(s.Reuse.DiskFailed) })
	counter("reuse_disk_missing_total", "Files that somebody else had removed.", func(s engine.Stats) float64 { return float64(s.Reuse.DiskMissing) })
	counter("reuse_spilled_total", "Sequences written to disk.", func(s engine.Stats) float64 { return float64(s.Reuse.Spilled) })
	counter("reuse_spill_failed_total", "Sequences that could not be written, or came too fast.", func(s engine.Stats) float64 { return float64(s.Reuse.SpillFailed) })
}

// logReuse says in the log what is kept of earlier prompts.
func (s *Server) logReuse(o engine.Options) {
	if o.ReuseBytes == 0 {
		return
	}
	line := fmt.Sprintf("reuse: up to %d MiB of earlier prompts in memory", o.ReuseBytes>>20)
	if o.ReuseDir != "" {
		line += fmt.Sprintf(", and %d MiB in %s", o.ReuseDiskBytes>>20, o.ReuseDir)
	}
	s.logf("%s", line)
}

// LogEngine is for engine.Options.Log.
func (s *Server) LogEngine(format string, args ...any) { s.logf(format, args...) }

// Bounds of Retry-After.
const (
	retryLeast = time.Second
	retryMost  = 5 * time.Minute
)

// refuse tells a client that too many wait already, and when those before it should
// be through, by what requests took so far.
func (s *Server) refuse(b *engine.BusyError) *apiError {
	wait := time.Duration(float64(s.metrics.mean()) * float64(b.Waiting+1) / float64(b.Slots))
	wait = min(max(wait, retryLeast), retryMost)
	return &apiError{
		Message: b.Error(), Type: typeUnavailable, Code: http.StatusServiceUnavailable,
		retryAfter: int(math.Ceil(wait.Seconds())),
	}
}

// mean is what a request took so far, the wait for a slot left out.
func (m *metrics) mean() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return (m.sum.PromptTime + m.sum.DecodeTime) / time.Duration(max(1, m.ended))
}
