package strata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"assay/internal/kit/target"
)

// Meter is /metrics in JSON; to who accepts plain text it talks in Prometheus'
// format, which has totals only. It shows the last twelve requests, newest first:
// enough to see whether one came or more.
func (Adapter) Meter() target.Meter {
	return target.Meter{Path: "/metrics", Accept: "application/json"}
}

// page is one reading of /metrics.
type page struct {
	Engine   json.RawMessage `json:"engine"`
	Requests []entry         `json:"requests"` // newest first
	Totals   entry           `json:"totals"`
}

// entry is what the server remembers of one request, or its totals.
type entry map[string]json.RawMessage

func readPage(data []byte) (*page, error) {
	p := new(page)
	if err := json.Unmarshal(data, p); err != nil {
		head := strings.TrimSpace(string(data[:min(len(data), 40)]))
		return nil, fmt.Errorf("/metrics is not the JSON that was asked for (it begins %q): %w", head, err)
	}
	return p, nil
}

// key tells entries apart: by their time, which no two share.
func (e entry) key() string {
	if t := bytes.TrimSpace(e["time"]); len(t) > 0 && string(t) != "null" {
		return string(t)
	}
	b, _ := json.Marshal(e)
	return string(b)
}

// number is a field as it was printed; false where it is none.
func (e entry) number(name string) (printed, bool) { return parse(string(bytes.TrimSpace(e[name]))) }

func (e entry) float(name string) *float64 {
	p, ok := e.number(name)
	if !ok || p.v < 0 {
		return nil
	}
	return &p.v
}

func (e entry) count(name string) *int {
	p, ok := e.number(name)
	if !ok || p.v < 0 || p.v > math.MaxInt32 || p.v != math.Trunc(p.v) {
		return nil
	}
	return new(int(p.v))
}

// text is a field that is text; what is there and is none is given as it came.
func (e entry) text(name string) *string {
	raw := bytes.TrimSpace(e[name])
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		s = string(raw)
	}
	return &s
}

// reading is what two readings of /metrics say of the one request between them.
type reading struct {
	before, after *page
	request       entry
}

// read finds the one entry that the second reading has beside the first's.
func read(before, after []byte) (*reading, error) {
	b, err := readPage(before)
	if err != nil {
		return nil, fmt.Errorf("before the run: %w", err)
	}
	a, err := readPage(after)
	if err != nil {
		return nil, fmt.Errorf("after the run: %w", err)
	}
	if x, y := b.Totals["since"], a.Totals["since"]; x != nil && y != nil && !bytes.Equal(x, y) {
		return nil, fmt.Errorf("%w: its totals are since %s, and were since %s", target.ErrRestarted, y, x)
	}
	if x, y := b.Totals.count("requests"), a.Totals.count("requests"); x != nil && y != nil && *y < *x {
		return nil, fmt.Errorf("%w: its count of requests fell from %d to %d", target.ErrRestarted, *x, *y)
	}
	old := map[string]bool{}
	for _, e := range b.Requests {
		old[e.key()] = true
	}
	var fresh []entry
	for _, e := range a.Requests {
		if !old[e.key()] {
			fresh = append(fresh, e)
		}
	}
	switch len(fresh) {
	case 1:
		return &reading{b, a, fresh[0]}, nil
	case 0:
		return nil, fmt.Errorf("/metrics: no entry came for the request (%d are shown)", len(a.Requests))
	}
	return nil, fmt.Errorf("/metrics: %d entries came, exactly one must: the server worked on other requests too", len(fresh))
}

// Metered reads the request's own entry.
func (Adapter) Metered(before, after []byte) (target.Counters, error) {
	r, err := read(before, after)
	if err != nil {
		return target.Counters{}, err
	}
	e := r.request
	whole := func(name string) *float64 {
		n := e.count(name)
		if n == nil {
			return nil
		}
		return new(float64(*n))
	}
	seconds := func(name string) *float64 {
		ms := e.float(name)
		if ms == nil {
			return nil
		}
		return new(*ms / 1e3)
	}
	c := target.Counters{
		Prompt: whole("prompt_read"), Cached: whole("reused"), Predicted: whole("output_tokens"),
		PromptSeconds: seconds("prompt_ms"), PredictedSeconds: seconds("decode_ms"),
	}
	if c.Predicted == nil {
		c.Why = "the request's entry in /metrics has no output_tokens"
	}
	return c, nil
}
