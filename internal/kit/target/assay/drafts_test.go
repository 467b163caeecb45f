package assay

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/row"
	"assay/internal/kit/stream"
	"assay/internal/kit/target"
)

// told is what the server said of one request's drafts, in its three places.
type told struct {
	timings, log, metrics *[4]int // generated, offered, accepted, rounds; nil: nothing is told of drafts
	before                [4]int  // totals before the request
	requests              int     // that ended between the readings
	noDrafter             bool
}

func (w told) account(t *testing.T) *target.Account {
	t.Helper()
	a := &target.Account{Found: map[string]string{target.DraftWindow: "8"}, Stream: &stream.Completion{FinishFrame: -1, FinishAt: -1}}
	if v := w.timings; v != nil {
		a.Stream.Timings = &stream.Timings{PredictedN: &v[0], PredictedMS: new(500.0), DraftN: &v[1], DraftAccepted: &v[2]}
		a.Stream.Objects = map[string]json.RawMessage{"timings": fmt.Appendf(nil, `{"rounds":%d}`, v[3])}
	}
	line := "assay serve: request 7: prompt 5 tokens = 0 reused + 5 read in 8.00 ms (625.00 tok/s), 20 generated in 500.00 ms (38.00 tok/s)"
	if v := w.log; v != nil {
		line = strings.Replace(line, "20 generated", fmt.Sprint(v[0], " generated"), 1) + fmt.Sprintf(", drafts accepted %d of %d in %d rounds", v[2], v[1], v[3])
	}
	a.Record, a.LogErr = Adapter{}.ReadLog([]byte(line + ", finish length\n"))
	page := func(v [4]int, requests int) []byte {
		s := fmt.Sprintf("assay_tokens_predicted_total %d\nassay_rounds_total %d\nassay_requests_total{finish=\"length\"} %d\n", v[0], v[3], requests)
		if !w.noDrafter {
			s += fmt.Sprintf("assay_drafts_offered_total{drafter=\"suffix\"} %d\nassay_drafts_accepted_total{drafter=\"suffix\"} %d\n", v[1], v[2])
		}
		return []byte(s)
	}
	after := w.before
	if w.metrics != nil {
		for i, n := range w.metrics {
			after[i] += n
		}
	}
	a.Before, a.After = page(w.before, 3), page(after, 3+w.requests)
	a.Delta, a.DeltaErr = Adapter{}.Metered(a.Before, a.After)
	if a.LogErr != nil || a.DeltaErr != nil {
		t.Fatal(a.LogErr, a.DeltaErr)
	}
	return a
}

// The three sources of drafts, what the block has of them, and what is said when
// they contradict each other or themselves.
func TestDrafts(t *testing.T) {
	all := &[4]int{20, 12, 9, 10}
	plain := &[4]int{20, 0, 0, 19}
	for _, c := range []struct {
		name   string
		told   told
		change func(a *target.Account)
		want   row.EngineBlock // its drafts
		failed string
		why    map[string]string // parts of reasons
	}{
		{
			name: "all agree", told: told{timings: all, log: all, metrics: all, before: [4]int{100, 50, 25, 75}, requests: 1},
			want: row.EngineBlock{
				DraftsOffered: new(12), DraftsAccepted: new(9), TokensPerRoundDerived: new(20.0 / 11), TokensPerRoundRule: new(derivedRule),
				Drafting: &row.Drafting{
					From: new("timings"), Drafter: new("suffix"), Most: new(8), Rounds: new(10), TokensPerRound: new(1.9), TokensPerRoundRule: new(countedRule), RoundsPerS: new(20.0),
					Metrics: row.DraftingMetrics{DraftsOffered: new(12), DraftsAccepted: new(9), Rounds: new(10)},
				},
			},
		},
		{
			name: "no timings", told: told{log: all, metrics: all, requests: 1},
			want: row.EngineBlock{
				DraftsOffered: new(12), DraftsAccepted: new(9), TokensPerRoundDerived: new(20.0 / 11), TokensPerRoundRule: new(derivedRule),
				Drafting: &row.Drafting{
					From: new("the log"), Drafter: new("suffix"), Most: new(8), Rounds: new(10), TokensPerRound: new(1.9), TokensPerRoundRule: new(countedRule), RoundsPerS: new(20.0),
					Metrics: row.DraftingMetrics{DraftsOffered: new(12), DraftsAccepted: new(9), Rounds: new(10)},
				},
			},
		},
		{
			name: "no timings, no log: /metrics tells", told: told{metrics: all, requests: 1},
			change: func(a *target.Account) { a.Record, a.LogErr = target.LogRecord{}, errors.New("no log") },
			want: row.EngineBlock{
				DraftsOffered: new(12), DraftsAccepted: new(9), TokensPerRoundDerived: new(20.0 / 11), TokensPerRoundRule: new(derivedRule),
				Drafting: &row.Drafting{
					From: new("/metrics"), Drafter: new("suffix"), Most: new(8), Rounds: new(10), TokensPerRound: new(1.9), TokensPerRoundRule: new(countedRule),
					Metrics: row.DraftingMetrics{DraftsOffered: new(12), DraftsAccepted: new(9), Rounds: new(10)},
				},
			},
			why: map[string]string{"drafting.rounds_per_s": "no time"},
		},
		{
			name: "it can draft, and did not", told: told{metrics: plain, requests: 1},
			want: row.EngineBlock{
				DraftsOffered: new(0), DraftsAccepted: new(0),
				Drafting: &row.Drafting{
					From: new("/metrics"), Drafter: new("suffix"), Most: new(8), Rounds: new(19), TokensPerRound: new(1.0), TokensPerRoundRule: new(countedRule), RoundsPerS: new(38.0),
					Metrics: row.DraftingMetrics{DraftsOffered: new(0), DraftsAccepted: new(0), Rounds: new(19)},
				},
			},
			why: map[string]string{"tokens_per_round_derived": "no drafts were made"},
		},
		{
			name: "it can't draft", told: told{metrics: plain, requests: 1, noDrafter: true},
			why: map[string]string{"drafts_offered": "no drafts were made", "tokens_per_round_rule": "no drafts were made"},
		},
		{
			name: "another request ended meanwhile", told: told{timings: all, log: all, metrics: &[4]int{40, 24, 18, 20}, requests: 2},
			want: row.EngineBlock{
				DraftsOffered: new(12), DraftsAccepted: new(9), TokensPerRoundDerived: new(20.0 / 11), TokensPerRoundRule: new(derivedRule),
				Drafting: &row.Drafting{From: new("timings"), Drafter: new("suffix"), Most: new(8), Rounds: new(10), TokensPerRound: new(1.9), TokensPerRoundRule: new(countedRule), RoundsPerS: new(20.0)},
			},
			why: map[string]string{"drafting.metrics.rounds": "not tell of this request alone"},
		},
		{name: "the log differs", told: told{timings: all, log: &[4]int{20, 13, 9, 10}, metrics: all, requests: 1}, failed: "drafts offered: 12 by timings, but 13 by the log"},
		{name: "the totals differ", told: told{timings: all, log: all, metrics: &[4]int{20, 12, 8, 11}, requests: 1}, failed: "drafts accepted: 9 by timings, but 8 by /metrics"},
		{name: "more right than made", told: told{timings: &[4]int{20, 8, 9, 10}, requests: 1}, failed: "timings: 9 drafts were accepted of 8"},
		{name: "tokens from nowhere", told: told{log: &[4]int{20, 12, 9, 11}, requests: 1}, failed: "the log: 20 tokens were generated, but one of the prompt, one of each of 11 rounds and 9 accepted drafts are 21"},
		{name: "only the totals tell of drafts", told: told{metrics: all, requests: 1}, failed: "drafts offered: 12 by /metrics, but the log tells of none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := c.told.account(t)
			if c.change != nil {
				c.change(a)
			}
			out := Adapter{}.Block(a)
			b := out.Fields.(*row.EngineBlock)
			got := row.EngineBlock{
				DraftsOffered: b.DraftsOffered, DraftsAccepted: b.DraftsAccepted,
				TokensPerRoundDerived: b.TokensPerRoundDerived, TokensPerRoundRule: b.TokensPerRoundRule, Drafting: b.Drafting,
			}
			if c.failed != "" {
				if !slices.Contains(out.Failed, c.failed) {
					t.Errorf("failed: %q, want %q", out.Failed, c.failed)
				}
				return
			}
			if len(out.Failed) > 0 {
				t.Errorf("failed: %q", out.Failed)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			nulls, err := out.Nulls()
			if err != nil {
				t.Fatal(err)
			}
			for path, part := range c.why {
				if !strings.Contains(nulls[path], part) {
					t.Errorf("%s is null because %q, want %q", path, nulls[path], part)
				}
			}
		})
	}
}
