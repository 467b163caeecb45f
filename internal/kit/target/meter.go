package target

import (
	"context"
	"fmt"
	"net/http"
)

// Meter is where an engine tells its own counts over HTTP.
type Meter struct {
	Path   string // "/metrics"; empty: there is none
	Accept string // the Accept header of the question; empty: none
}

// Metrics reads the server's counters as it gives them.
func (t *Target) Metrics(ctx context.Context) ([]byte, error) {
	m := t.Adapter.Meter()
	if m.Path == "" {
		return nil, ErrNoMeter
	}
	a, err := t.askFor(ctx, http.MethodGet, m.Path, nil, quick, m.Accept)
	if err != nil {
		return nil, err
	}
	if a.Status != http.StatusOK {
		return nil, fmt.Errorf("GET %s: status %d: %s", m.Path, a.Status, inWords(a.Body))
	}
	return a.Body, nil
}

// MeterPrometheus is where most engines have their counters.
var MeterPrometheus = Meter{Path: "/metrics"}

// MeteredBy is the difference of the named totals in two readings of Prometheus'
// text format. The error is an ErrRestarted when a total went down.
func MeteredBy(names CounterNames, before, after []byte) (Counters, error) {
	b, err := ReadCounters(before, names)
	if err != nil {
		return Counters{}, fmt.Errorf("before the run: %w", err)
	}
	a, err := ReadCounters(after, names)
	if err != nil {
		return Counters{}, fmt.Errorf("after the run: %w", err)
	}
	return a.Since(b)
}
