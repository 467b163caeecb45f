package serve

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"assay/internal/engine"
	"assay/internal/engine/expert"
)

// watchExperts has /metrics tell of experts that are read when they are wanted, by
// means of add.
func watchExperts(e *engine.Engine, add func(prometheus.Collector)) {
	if _, ok := e.ExpertStats(); !ok {
		return
	}
	read := func(get func(expert.Stats) int64) func() float64 {
		return func() float64 {
			s, _ := e.ExpertStats()
			return float64(get(s))
		}
	}
	counter := func(name, help string, get func(expert.Stats) int64) {
		add(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "assay", Name: "expert_" + name, Help: help}, read(get)))
	}
	gauge := func(name, help string, get func(expert.Stats) int64) {
		add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "assay", Name: "expert_" + name, Help: help}, read(get)))
	}
	counter("lookups_total", "Experts that passes asked for, each once a layer and pass.", func(s expert.Stats) int64 { return s.Lookups })
	counter("hits_total", "Of these, the ones that were in memory.", func(s expert.Stats) int64 { return s.Hits })
	counter("bytes_read_total", "Bytes of experts read from the file, those read ahead included.", func(s expert.Stats) int64 { return s.BytesRead })
	counter("read_errors_total", "Reads that failed.", func(s expert.Stats) int64 { return s.Errors })
	counter("ahead_read_total", "Experts read before they were asked for.", func(s expert.Stats) int64 { return s.AheadRead })
	counter("ahead_used_total", "Of these, the ones that were then asked for.", func(s expert.Stats) int64 { return s.AheadUsed })
	counter("ahead_hits_total", "Of these, the ones that were in memory by then: they are among the hits.", func(s expert.Stats) int64 { return s.AheadHits })
	counter("ahead_wasted_total", "Experts read ahead that were dropped unused.", func(s expert.Stats) int64 { return s.AheadWasted })
	counter("guesses_total", "Guesses, one or two layers before, that a layer would ask for an expert that is not in memory.", func(s expert.Stats) int64 { return s.Guessed })
	counter("guesses_right_total", "Of these, the ones that came true.", func(s expert.Stats) int64 { return s.GuessedRight })
	gauge("resident", "Experts in memory.", func(s expert.Stats) int64 { return int64(s.Resident) })
	gauge("resident_bytes", "Memory that experts and the buffers for reading them take.", func(s expert.Stats) int64 { return s.Bytes })
	gauge("budget_bytes", "Memory that they may take now.", func(s expert.Stats) int64 { return s.Budget })
	gauge("all_bytes", "Memory that all experts would take.", func(s expert.Stats) int64 { return s.AllBytes })
}

// logExperts says in the log how much memory experts have.
func (s *Server) logExperts(e *engine.Engine) {
	st, ok := e.ExpertStats()
	if !ok {
		return
	}
	line := fmt.Sprintf("experts: %d of %d MiB may be in memory", min(st.Budget, st.AllBytes)>>20, st.AllBytes>>20)
	if e.Options().ExpertRAM == engine.ExpertAuto {
		line += ", more or less as it is free"
	}
	s.logf("%s", line)
}

// expertProps is what /props says of experts that are read when they are wanted.
type expertProps struct {
	Auto     bool  `json:"auto"` // the budget follows what is free
	Budget   int64 `json:"budget_bytes"`
	Resident int64 `json:"resident_bytes"`
	All      int64 `json:"all_bytes"`
}

func newExpertProps(e *engine.Engine) *expertProps {
	st, ok := e.ExpertStats()
	if !ok {
		return nil
	}
	return &expertProps{Auto: e.Options().ExpertRAM == engine.ExpertAuto, Budget: st.Budget, Resident: st.Bytes, All: st.AllBytes}
}
