package assay

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"

	"assay/internal/kit/row"
	"assay/internal/kit/target"
)

// Of a model whose experts are not all in memory, the engine tells what it looked up:
// in its timings, in its log and in its totals. hit rate = hits/lookups, where a lookup
// is an expert that a pass asked for, once a layer and pass, and a hit one that was in
// memory then. Passes of the prompt are among them.

// looked are lookups and hits by one source. nil: it does not tell.
type looked struct {
	source        string
	lookups, hits *int64
}

// rate is the share of hits in percent; nil where there is none.
func (l *looked) rate() *float64 {
	if l.lookups == nil || l.hits == nil || *l.lookups <= 0 {
		return nil
	}
	return new(100 * float64(*l.hits) / float64(*l.lookups))
}

type expertLookups struct {
	timings, log, metrics looked
	line                  string // of the log, where it tells
	metricsWhy            string // why the totals gave no share
}

var atHand = regexp.MustCompile(`, experts at hand (\d+) of (\d+) \(`)

func expertsSaid(a *target.Account) *expertLookups {
	e := &expertLookups{timings: looked{source: "timings"}, log: looked{source: "the log"}, metrics: looked{source: "/metrics"}}
	var t struct {
		Lookups *int64 `json:"expert_lookups"`
		Hits    *int64 `json:"expert_hits"`
	}
	if json.Unmarshal(a.Stream.Objects["timings"], &t) == nil && t.Lookups != nil && t.Hits != nil && *t.Lookups >= 0 && *t.Hits >= 0 {
		e.timings.lookups, e.timings.hits = t.Lookups, t.Hits
	}
	if a.LogErr == nil {
		if m := atHand.FindSubmatch([]byte(a.Record.Line)); m != nil {
			e.line = a.Record.Line
			g := target.Groups(m)
			e.log.hits, e.log.lookups = whole64(g.Float(1)), whole64(g.Float(2))
		}
	}
	e.readMetrics(a)
	return e
}

// whole64 is v as a whole number; nil where it is none.
func whole64(v *float64) *int64 {
	if v == nil || *v < 0 || *v >= 1<<53 || *v != math.Trunc(*v) {
		return nil
	}
	return new(int64(*v))
}

// readMetrics takes the request's share of the totals, if it was the only request that
// ended between their two readings.
func (e *expertLookups) readMetrics(a *target.Account) {
	if a.DeltaErr != nil {
		e.metricsWhy = a.DeltaErr.Error()
		return
	}
	before, err := target.ReadSeries(a.Before)
	if err != nil {
		e.metricsWhy = err.Error()
		return
	}
	after, err := target.ReadSeries(a.After)
	if err != nil {
		e.metricsWhy = err.Error()
		return
	}
	if _, ok := after["assay_expert_lookups_total"]; !ok {
		e.metricsWhy = "all experts are in memory: nothing is looked up"
		return
	}
	if n := grown(before, after, "assay_requests_total"); n == nil || *n != 1 {
		e.metricsWhy = "the totals do not tell of this request alone"
		return
	}
	e.metrics.lookups = whole64(grown(before, after, "assay_expert_lookups_total"))
	e.metrics.hits = whole64(grown(before, after, "assay_expert_hits_total"))
	e.metricsWhy = "nothing was looked up"
}

// fill sets the lookups of a block, and which of their numbers contradict each other.
func (e *expertLookups) fill(b *row.EngineBlock, out *target.Block) {
	null := func(why string, names ...string) {
		for _, name := range names {
			out.Why[name] = why
		}
	}
	for _, l := range []*looked{&e.timings, &e.log, &e.metrics} {
		if l.lookups != nil && l.hits != nil {
			b.Lookups, b.Hits = l.lookups, l.hits
			break
		}
	}
	if b.Lookups == nil {
		null("the engine tells of no lookups: all experts are in memory", "hits", "lookups")
	}
	if b.HitRateLog = e.log.rate(); b.HitRateLog != nil {
		b.HitRateLine = new(e.line)
		delete(out.Why, "hit_rate_log")
	} else if out.Why["hit_rate_log"] == "" {
		null("the log tells of no lookups: all experts are in memory", "hit_rate_log")
	}
	sources := []*looked{&e.timings, &e.log, &e.metrics}
	for i, l := range sources {
		if l.lookups != nil && l.hits != nil && *l.hits > *l.lookups {
			out.Failed = append(out.Failed, fmt.Sprintf("%s: %d of %d experts were at hand", l.source, *l.hits, *l.lookups))
		}
		for _, o := range sources[:i] {
			for _, c := range []struct {
				what string
				a, b *int64
			}{{"expert lookups", o.lookups, l.lookups}, {"experts at hand", o.hits, l.hits}} {
				if c.a != nil && c.b != nil && *c.a != *c.b {
					out.Failed = append(out.Failed, fmt.Sprintf("%s: %d by %s, but %d by %s", c.what, *c.a, o.source, *c.b, l.source))
				}
			}
		}
	}
}
