package page

import (
	"strings"
	"testing"

	"assay/internal/kit/row"
)

// The answer in one sentence, for what comparisons can come to.
func TestLead(t *testing.T) {
	scaled := func(by float64, ctxs ...string) func(*row.Row) {
		return func(r *row.Row) {
			for _, c := range ctxs {
				if r.Arm == "b" && r.Ctx == c {
					r.DecodeTokS = new(*r.DecodeTokS * by)
				}
			}
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*row.Row)
		want   string
	}{
		{"faster everywhere", func(*row.Row) {}, "b is faster than a at both contexts: decode is 49 % higher (95 % interval of each within 48 to 51 % higher)."},
		{
			"faster in one, slower in the other", scaled(0.5, "2K"),
			"b is faster than a at 512: decode is 49 % higher (95 % interval 48 to 51 % higher); it is slower than a at 2K: decode is 25 % lower (95 % interval 25 to 26 % lower).",
		},
		{
			"the same", scaled(1/1.5, "512", "2K"),
			"b and a are the same within noise at both contexts (decode; between 1.5 % lower and 0.7 % higher can't be ruled out).",
		},
		{"withheld in one", func(r *row.Row) {
			if r.Arm == "b" && r.Ctx == "2K" {
				r.Withheld, r.DecodeTokS = []row.Withheld{{Figure: "decode_tok_s", Value: r.DecodeTokS, Codes: []string{"clumped"}, Why: "x"}}, nil
			}
		}, "b is faster than a at 512: decode is 49 % higher (95 % interval 48 to 51 % higher); whether they differ can't be told at 2K (decode is withheld in every run of b)."},
		{"not comparable", func(r *row.Row) {
			if r.Arm == "b" {
				r.Requested.MaxTokens = new(9)
			}
		}, "Whether b differs from a can't be told at both contexts (their runs differ in asked-tokens (64 against 9))."},
		{"one arm", func(r *row.Row) { r.Arm, r.Cell = "a", "a/"+r.Ctx }, "a: decode 126.2 tok/s at 512 and 126.2 tok/s at 2K."},
		{"no context in common", func(r *row.Row) {
			if r.Arm == "b" {
				r.Ctx, r.Cell = "9K", "b/9K"
			}
		}, "a: decode 101.2 tok/s at 512 and 101.2 tok/s at 2K."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rows := twoArms()
			for _, r := range rows {
				tc.change(r)
			}
			if got := pageOf(t, Options{}, rows...).view.Lead; got[0] != tc.want {
				t.Errorf("said %q\nwant %q", got, tc.want)
			}
		})
	}
}

// What stands against believing an answer is said first on the page.
func TestChecks(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*row.Row)
		want   string
	}{
		{"counts that differ", func(r *row.Row) { r.CountCheck.Verdict = new("count-mismatch") }, "✕ Token counts, of 24 runs: count-mismatch in 24."},
		{"no second count", func(r *row.Row) { r.CountCheck.Verdict = nil }, "! Token counts, of 24 runs: unchecked in 24."},
		{"a failure", func(r *row.Row) {
			if r.Ctx == "2K" && r.Arm == "b" && r.Repeat == 0 {
				r.Status = row.Failed
			}
		}, "✕ Of 24 rows: 1 run failed or stopped."},
		{"two rules", func(r *row.Row) {
			if r.Arm == "b" {
				r.TimingRule = "timing-0"
			}
		}, "✕ Timed by several rules (timing-0 and timing-1): their figures are not of the same thing."},
		{"noise", func(r *row.Row) { r.Telemetry.Load.NoiseProcsMax = new(3) }, "! The machine was not quiet: other busy processes ran during 24 of 24 runs, up to 3 at once."},
		{"another tool's", func(r *row.Row) { r.Schema, r.TimingRule = "", "" }, "! Timed by the rows' own rule, not by ours: another tool wrote them."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rows := twoArms()
			for _, r := range rows {
				tc.change(r)
			}
			var got []string
			for _, c := range pageOf(t, Options{}, rows...).view.Checks {
				got = append(got, c.Mark+" "+c.Text)
			}
			if all := "\n" + strings.Join(got, "\n") + "\n"; !strings.Contains(all, "\n"+tc.want+"\n") {
				t.Errorf("said%swant %s", all, tc.want)
			}
		})
	}
}
