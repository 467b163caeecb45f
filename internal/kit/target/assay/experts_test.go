package assay

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"assay/internal/kit/row"
	"assay/internal/kit/stream"
	"assay/internal/kit/target"
)

// Lookups and hits come from three sources; they must agree, and a source that does not
// tell is told of.
func TestExperts(t *testing.T) {
	type pair *[2]int64 // hits, lookups
	for _, c := range []struct {
		name                  string
		timings, log, metrics pair
		requests              int
		lookups, hits         int64   // -1: null
		logged, metered       float64 // percent; -1: null
		failed                string
		why                   map[string]string
	}{
		{"all agree", &[2]int64{60, 80}, &[2]int64{60, 80}, &[2]int64{60, 80}, 1, 80, 60, 75, 75, "", nil},
		{
			"nothing is told: all experts are in memory", nil, nil, nil, 1, -1, -1, -1, -1, "",
			map[string]string{"hits": "all experts are in memory", "hit_rate_log": "all experts are in memory", "metrics.hit_rate": "all experts are in memory"},
		},
		{"the log alone", nil, &[2]int64{1, 4}, nil, 1, 4, 1, 25, -1, "", nil},
		{
			"others ended too", &[2]int64{60, 80}, &[2]int64{60, 80}, &[2]int64{90, 160}, 2, 80, 60, 75, -1, "",
			map[string]string{"metrics.hit_rate": "do not tell of this request alone"},
		},
		{"timings and log differ", &[2]int64{60, 80}, &[2]int64{61, 80}, nil, 1, 80, 60, 76.25, -1, "experts at hand: 60 by timings, but 61 by the log", nil},
		{"totals differ", &[2]int64{60, 80}, nil, &[2]int64{60, 90}, 1, 80, 60, -1, 100 * 60.0 / 90, "expert lookups: 80 by timings, but 90 by /metrics", nil},
		{"more hits than lookups", &[2]int64{9, 8}, nil, nil, 1, 8, 9, -1, -1, "timings: 9 of 8 experts were at hand", nil},
	} {
		a := &target.Account{Stream: &stream.Completion{FinishFrame: -1, FinishAt: -1}}
		if v := c.timings; v != nil {
			a.Stream.Objects = map[string]json.RawMessage{"timings": fmt.Appendf(nil, `{"expert_hits":%d,"expert_lookups":%d}`, v[0], v[1])}
		}
		line := "assay serve: request 7: prompt 5 tokens = 0 reused + 5 read in 8.00 ms (625.00 tok/s), 20 generated in 500.00 ms (38.00 tok/s), drafts accepted 3 of 9 in 16 rounds"
		if v := c.log; v != nil {
			line += fmt.Sprintf(", experts at hand %d of %d (%.2f %%)", v[0], v[1], 100*float64(v[0])/float64(v[1]))
		}
		a.Record, a.LogErr = Adapter{}.ReadLog([]byte(line + ", finish length\n"))
		if a.LogErr != nil || *a.Record.Finish != "length" || *a.Record.Rounds != 16 {
			t.Errorf("%s: the log's line: %+v, %v", c.name, a.Record, a.LogErr)
		}
		page := func(v [2]int64, requests int) []byte {
			s := fmt.Sprintf("assay_tokens_predicted_total 20\nassay_prompt_tokens_total 20\nassay_requests_total{finish=\"length\"} %d\n", requests)
			if c.metrics != nil {
				s += fmt.Sprintf("assay_expert_hits_total %d\nassay_expert_lookups_total %d\n", v[0], v[1])
			}
			return []byte(s)
		}
		var grew [2]int64
		if c.metrics != nil {
			grew = *c.metrics
		}
		a.Before, a.After = page([2]int64{1000, 3000}, 5), page([2]int64{1000 + grew[0], 3000 + grew[1]}, 5+c.requests)
		a.Delta, a.DeltaErr = Adapter{}.Metered(a.Before, a.After)
		out := Adapter{}.Block(a)
		b := out.Fields.(*row.EngineBlock)
		whole := func(what string, got *int64, want int64) {
			if (got == nil) != (want < 0) || got != nil && *got != want {
				t.Errorf("%s: %s is %v, want %d", c.name, what, got, want)
			}
		}
		percent := func(what string, got *float64, want float64) {
			if (got == nil) != (want < 0) || got != nil && math.Abs(*got-want) > 1e-9 {
				t.Errorf("%s: %s is %v, want %g", c.name, what, got, want)
			}
		}
		whole("lookups", b.Lookups, c.lookups)
		whole("hits", b.Hits, c.hits)
		percent("hit_rate_log", b.HitRateLog, c.logged)
		percent("metrics.hit_rate", b.Metrics.HitRate, c.metered)
		for name, null := range map[string]bool{"lookups": b.Lookups == nil, "hits": b.Hits == nil, "hit_rate_log": b.HitRateLog == nil, "metrics.hit_rate": b.Metrics.HitRate == nil} {
			if null && out.Why[name] == "" {
				t.Errorf("%s: %s is null without a reason", c.name, name)
			}
		}
		if c.log != nil && !strings.Contains(*b.HitRateLine, "experts at hand") {
			t.Errorf("%s: hit_rate_line is %q", c.name, *b.HitRateLine)
		}
		if failed := strings.Join(out.Failed, "; "); c.failed == "" && failed != "" || !strings.Contains(failed, c.failed) {
			t.Errorf("%s: failed %q, want %q", c.name, failed, c.failed)
		}
		for name, want := range c.why {
			if !strings.Contains(out.Why[name], want) {
				t.Errorf("%s: %s is null because %q, want %q", c.name, name, out.Why[name], want)
			}
		}
	}
}
