package assay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"assay/internal/kit/row"
	"assay/internal/kit/target"
)

// counts are a request's tokens and rounds by one source. A nil count was not
// there.
type counts struct {
	source                              string
	generated, offered, accepted, round *int
}

// drafting is what was said of a request's drafts, and where. The engine's timings
// and its log tell of drafts only where some were made; its totals always.
type drafting struct {
	timings, log, metrics counts
	drafter               string // by the labels of the totals; empty: it does not draft
	most                  *int   // drafts of a round
	metricsWhy            string // why the totals gave no share; empty: they did
	logErr                error
	decodeMS              *float64
}

func draftsSaid(a *target.Account) *drafting {
	d := &drafting{timings: counts{source: "timings"}, log: counts{source: "the log"}, metrics: counts{source: "/metrics"}, logErr: a.LogErr}
	if n, err := strconv.Atoi(a.Found[target.DraftWindow]); err == nil && n > 0 {
		d.most = &n
	}
	if t := a.Stream.Timings; t != nil {
		var more struct {
			Rounds *int `json:"rounds"`
		}
		if json.Unmarshal(a.Stream.Objects["timings"], &more) != nil || more.Rounds != nil && *more.Rounds < 0 {
			more.Rounds = nil
		}
		d.timings = counts{"timings", t.PredictedN, t.DraftN, t.DraftAccepted, more.Rounds}
		d.decodeMS = t.PredictedMS
	}
	if a.LogErr == nil {
		l := &a.Record
		d.log = counts{"the log", l.Generated, l.DraftN, l.DraftAccepted, l.Rounds}
		if d.decodeMS == nil {
			d.decodeMS = l.DecodeMS
		}
	}
	d.readMetrics(a)
	return d
}

// readMetrics takes the request's share of the totals, if it was the only request
// that ended between their two readings.
func (d *drafting) readMetrics(a *target.Account) {
	if a.DeltaErr != nil {
		d.metricsWhy = a.DeltaErr.Error()
		return
	}
	before, err := target.ReadSeries(a.Before)
	if err != nil {
		d.metricsWhy = err.Error()
		return
	}
	after, err := target.ReadSeries(a.After)
	if err != nil {
		d.metricsWhy = err.Error()
		return
	}
	grown := func(name string) *int { return target.Whole(grown(before, after, name)) }
	const offered = "assay_drafts_offered_total"
	var names []string
	for series := range after {
		if label, ok := strings.CutPrefix(series, offered+`{drafter="`); ok {
			names = append(names, strings.TrimSuffix(label, `"}`))
		}
	}
	slices.Sort(names)
	d.drafter = strings.Join(names, ", ")
	if n := grown("assay_requests_total"); n == nil || *n != 1 {
		d.metricsWhy = "the totals do not tell of this request alone"
		return
	}
	d.metrics = counts{"/metrics", grown("assay_tokens_predicted_total"), grown(offered), grown("assay_drafts_accepted_total"), grown("assay_rounds_total")}
	if d.metrics.offered == nil {
		d.metricsWhy = "no such figure in this engine's /metrics"
	}
}

// grown is by how much a total grew, its series added up; nil: there is none.
func grown(before, after map[string]float64, name string) *float64 {
	sum, found := 0.0, false
	for series, v := range after {
		if n, _, _ := strings.Cut(series, "{"); n == name {
			sum, found = sum+v-before[series], true
		}
	}
	if !found {
		return nil
	}
	return &sum
}

// first is the first source that tells of drafts; nil: none does.
func (d *drafting) first() *counts {
	for _, c := range []*counts{&d.timings, &d.log, &d.metrics} {
		if c.offered != nil && c.accepted != nil {
			return c
		}
	}
	return nil
}

// The rules of tokens_per_round.
const (
	derivedRule = "derived: generated / (generated - drafts accepted)"
	countedRule = "counted: (rounds + drafts accepted) / rounds; the first token is the prompt's pass's"
)

// fill sets the drafts of a block, and which of their numbers contradict each other.
func (d *drafting) fill(b *row.EngineBlock, out *target.Block) {
	null := func(why string, names ...string) {
		for _, name := range names {
			out.Why[name] = why
		}
	}
	out.Failed = append(out.Failed, d.contradictions()...)
	derived := []string{"tokens_per_round_derived", "tokens_per_round_rule"}
	from := d.first()
	switch {
	case from == nil && d.logErr != nil && d.drafter == "":
		null("no drafts are told of, and the log: "+d.logErr.Error(), append(derived, "drafts_accepted", "drafts_offered")...)
	case from == nil:
		null("no drafts were made", append(derived, "drafts_accepted", "drafts_offered")...)
	default:
		b.DraftsOffered, b.DraftsAccepted = from.offered, from.accepted
		switch {
		case *from.offered == 0:
			null("no drafts were made", derived...)
		case from.generated == nil || *from.accepted >= *from.generated:
			null("as many drafts were accepted as tokens were generated, or their number is not known", derived...)
		default:
			b.TokensPerRoundDerived = new(float64(*from.generated) / float64(*from.generated-*from.accepted))
			b.TokensPerRoundRule = new(derivedRule)
		}
	}
	if from == nil && d.drafter == "" {
		return
	}
	b.Drafting = d.rounds(from, func(why string, names ...string) {
		for _, name := range names {
			out.Why["drafting."+name] = why
		}
	})
}

// rounds are the passes, as the source that told of drafts counts them.
func (d *drafting) rounds(from *counts, null func(why string, names ...string)) *row.Drafting {
	r := &row.Drafting{Most: d.most, Metrics: row.DraftingMetrics{DraftsOffered: d.metrics.offered, DraftsAccepted: d.metrics.accepted, Rounds: d.metrics.round}}
	if r.Most == nil {
		null("/props was not read, or does not say it", "most")
	}
	if r.Drafter = &d.drafter; d.drafter == "" {
		r.Drafter = nil
		null("not in /metrics", "drafter")
	}
	why := d.metricsWhy
	if why == "" {
		why = "not in /metrics"
	}
	null(why, "metrics.drafts_offered", "metrics.drafts_accepted", "metrics.rounds")
	perRound := []string{"tokens_per_round", "tokens_per_round_rule"}
	if from == nil {
		null("neither timings, log nor /metrics tell of drafts of this request", append(perRound, "from", "rounds", "rounds_per_s")...)
		return r
	}
	r.From, r.Rounds = &from.source, from.round
	switch {
	case r.Rounds == nil:
		null("not in "+from.source, append(perRound, "rounds", "rounds_per_s")...)
		return r
	case *r.Rounds == 0:
		null("there was no round: the prompt's pass gave the only token", append(perRound, "rounds_per_s")...)
		return r
	}
	r.TokensPerRound, r.TokensPerRoundRule = new(float64(*r.Rounds+*from.accepted)/float64(*r.Rounds)), new(countedRule)
	if d.decodeMS != nil && *d.decodeMS > 0 {
		r.RoundsPerS = new(float64(*r.Rounds) / *d.decodeMS * 1e3)
	} else {
		null("the engine tells no time", "rounds_per_s")
	}
	return r
}

// contradictions are the equations between these numbers that do not hold: each
// source within itself, and any two of them.
func (d *drafting) contradictions() []string {
	var out []string
	fail := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	sources := []*counts{&d.timings, &d.log, &d.metrics}
	for i, c := range sources {
		if c.offered != nil && c.accepted != nil && *c.accepted > *c.offered {
			fail("%s: %d drafts were accepted of %d", c.source, *c.accepted, *c.offered)
		}
		if c.generated != nil && *c.generated > 0 && c.accepted != nil && c.round != nil && *c.generated != 1+*c.round+*c.accepted {
			fail("%s: %d tokens were generated, but one of the prompt, one of each of %d rounds and %d accepted drafts are %d", c.source, *c.generated, *c.round, *c.accepted, 1+*c.round+*c.accepted)
		}
		for _, o := range sources[:i] {
			same := func(what string, a, b *int) {
				if a != nil && b != nil && *a != *b {
					fail("%s: %d by %s, but %d by %s", what, *a, o.source, *b, c.source)
				}
			}
			same("drafts offered", o.offered, c.offered)
			same("drafts accepted", o.accepted, c.accepted)
			same("rounds", o.round, c.round)
		}
	}
	// Timings and log leave drafts out where there were none.
	if n := d.metrics.offered; n != nil && *n > 0 {
		if d.timings.generated != nil && d.timings.offered == nil {
			fail("drafts offered: %d by /metrics, but the timings tell of none", *n)
		}
		if d.log.generated != nil && d.log.offered == nil {
			fail("drafts offered: %d by /metrics, but the log tells of none", *n)
		}
	}
	return out
}
