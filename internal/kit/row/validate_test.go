package row

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func violations(r *Row) []string {
	var out []string
	for _, v := range Validate(r) {
		out = append(out, v.String())
	}
	return out
}

// Each case breaks a valid row in one way.
func TestValidate(t *testing.T) {
	tests := map[string]struct {
		change func(r *Row)
		want   []string
	}{
		"valid":            {func(*Row) {}, nil},
		"no reason":        {func(r *Row) { r.TTFTMS = nil }, []string{"ttft_ms: null without a reason"}},
		"reason above":     {func(r *Row) { r.Gaps = Gaps{}; r.Null("one frame", "gaps") }, nil},
		"reason elsewhere": {func(r *Row) { r.TTFTMS = nil; r.Null("x", "ttfv") }, []string{"ttft_ms: null without a reason", "why.ttfv: a reason for a field that the row does not have"}},
		"empty reason":     {func(r *Row) { r.TTFTMS = nil; r.Null("", "ttft_ms") }, []string{`why.ttft_ms: "" is not a text that says something`}},
		"idle reason":      {func(r *Row) { r.Null("x", "ttft_ms") }, []string{"why.ttft_ms: a reason, but nothing there is null"}},
		"null list":        {func(r *Row) { r.CommandLine = nil }, []string{"command_line: null without a reason"}},
		"null map":         {func(r *Row) { r.EngineEnv = nil }, []string{"engine_env: null without a reason"}},
		"other's block": {func(r *Row) {
			r.Extra[""]["other"] = []byte(`{"a": -1, "prompt_sha256": "x", "b": [null]}`)
		}, []string{"other.b[0]: null without a reason"}},
		"schema":     {func(r *Row) { r.Schema = "2" }, []string{`schema: "2" is none of ["assay-row-1"]`}},
		"no version": {func(r *Row) { r.AssayVersion = " " }, []string{`assay_version: " " is not a text that says something`}},
		"phase":      {func(r *Row) { r.Phase = "" }, []string{`phase: "" is none of ["warmup" "measure"]`}},
		"status": {func(r *Row) {
			r.Status = "good"
			r.FailKind, r.Error = new("x"), new("x")
			clearWhy(r, "fail_kind", "error")
		}, []string{`status: "good" is none of ["ok" "failed" "stopped"]`}},
		"verdict":     {func(r *Row) { r.CountCheck.Verdict = new("fine") }, []string{`count_check.verdict: "fine" is none of ["agree-independent" "agree-same-origin" "count-mismatch" "unchecked"]`}},
		"engine name": {func(r *Row) { r.Engine = "telemetry" }, []string{`engine: "telemetry" is the name of a field of rows`}},
		"our block":   {func(r *Row) { r.Assay = new(EngineBlock); r.Null("x", "assay") }, []string{`assay: only rows of engine "assay" have this block, this one's engine is "strata"`}},
		"attempt 0":   {func(r *Row) { r.Attempt = 0 }, []string{"attempt: 0, want a number from 1"}},
		"run 0":       {func(r *Row) { r.Run = 0 }, []string{"run: 0, want a number from 1"}},
		"failed, no error": {func(r *Row) { r.Status = Failed }, []string{
			`fail_kind: missing, though the status is "failed"`, `error: missing, though the status is "failed"`,
		}},
		"ok, with error": {func(r *Row) { r.Error = new("x"); clearWhy(r, "error") }, []string{"error: given, though the status is ok"}},
		"negative":       {func(r *Row) { r.TTFTMS, r.TTFVMS = new(-1.0), nil; r.Null("x", "ttfv_ms") }, []string{"ttft_ms: -1 can't be negative"}},
		"may be negative": {func(r *Row) {
			r.Requested.Sampling.Seed = new(int64(-1))
			r.Telemetry.VRAM.GrowthMiB = new(-3.0)
			r.CountCheck.Gaps["metrics output_tokens"] = -1
		}, nil},
		"redacted": {func(r *Row) {
			r.TTFTMS, r.TTFVMS, r.Redacted = nil, nil, map[string]string{"ttft_ms": "withheld-2026-10-13", "gaps": "redacted-2026-10-13"}
			r.Null("x", "ttfv_ms")
			r.Gaps = Gaps{}
			clearWhy(r, "gaps.p90_ms", "gaps.p99_ms", "gaps")
		}, []string{
			`gaps: "redacted-2026-10-13" stands in place of the value: rows are not redacted when they are written`,
			`ttft_ms: "withheld-2026-10-13" stands in place of the value: rows are not redacted when they are written`,
		}},
		"flag": {func(r *Row) { r.Flags = []string{"odd"} }, []string{`flags[0]: "odd" is none of ["short" "left-out" "imported"]`}},
		"code": {func(r *Row) {
			r.Withheld = []Withheld{{Figure: "gaps.p99_ms", Value: new(1.0), Unit: "ms", Codes: []string{"bad-luck"}, Why: "x"}}
		}, []string{`withheld[0].codes[0]: "bad-luck" is none of ["count-mismatch" "n-first-unknown" "cached-prompt" "clumped" "short" "stream-error" "truncated" "engine-restarted" "prompt-cut" "model-load" "client-lag" "energy-short" "energy-gap" "energy-disagree" "clock-step"]`}},
		"not finite":      {func(r *Row) { r.TTFTMS = new(math.NaN()) }, []string{": row R-S139-IQ3/speed/a1/run-001: ttft_ms: NaN is not a finite number"}},
		"short hash":      {func(r *Row) { r.PromptSHA256 = new("abc") }, []string{`prompt_sha256: "abc" is not a sha256 in lower-case hex`}},
		"hash of a file":  {func(r *Row) { r.FileSHA256["1"] = "ABC" }, []string{`file_sha256.1: "ABC" is not a sha256 in lower-case hex`}},
		"hash of a proof": {func(r *Row) { r.Evidence.Files["x"] = "" }, []string{`evidence.files.x: "" is not a sha256 in lower-case hex`}},
		"frames":          {func(r *Row) { r.ContentFrames = new(9999) }, []string{"content_frames: 9999 is more than token_frames, 247"}},
		"cached":          {func(r *Row) { r.CachedTokens = new(9999) }, nil},
		"withheld": {func(r *Row) {
			r.Withheld = []Withheld{{Figure: "decode_tok_s", Value: r.DecodeTokS, Unit: "tok/s", Codes: []string{"count-mismatch"}, Why: "usage says 256, the text 180"}}
			r.DecodeTokSWithheld, r.DecodeTokS = r.DecodeTokS, nil
			clearWhy(r, "decode_tok_s_withheld")
			r.Explain()
		}, nil},
		"withheld and shown": {func(r *Row) {
			r.Withheld = []Withheld{{Figure: "decode_tok_s", Value: new(1.0), Unit: "tok/s", Codes: []string{"clumped"}, Why: "x"}}
		}, []string{"decode_tok_s: shown, though withheld"}},
		"withheld what": {func(r *Row) {
			r.Withheld = []Withheld{{Figure: "speed", Value: new(1.0), Codes: []string{}}}
		}, []string{
			"withheld[0].codes: empty", `withheld[0].figure: "speed" is not the path of a number of a row`,
			`withheld[0].unit: "" is not a text that says something`, `withheld[0].why: "" is not a text that says something`,
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := valid(t)
			tt.change(r)
			if diff := cmp.Diff(tt.want, violations(r)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func clearWhy(r *Row, paths ...string) {
	for _, p := range paths {
		delete(r.Why, p)
	}
}

// Because leaves no null without a reason, whatever the row holds, and names
// no more places than needed.
func TestBecause(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRow(t)
		r.Why = nil
		if err := r.Because("the request failed"); err != nil {
			t.Fatal(err)
		}
		for _, v := range violations(r) {
			if strings.Contains(v, "without a reason") || strings.HasPrefix(v, "why.") {
				t.Error(v)
			}
		}
	})

	r := &Row{Status: Failed, FailKind: new("connect")}
	r.Null("not sampled", "telemetry.board")
	r.Explain()
	if err := r.Because("nothing was received"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"server_timings":         "nothing was received",
		"gaps":                   "nothing was received",
		"telemetry.window":       "nothing was received",
		"telemetry.board":        "not sampled",
		"error":                  "nothing was received",
		"telemetry":              "",
		"fail_kind":              "",
		"server_timings.cache_n": "",
		"prev_sha256":            "the first row of its journal",
	} {
		if got := r.Why[path]; got != want {
			t.Errorf("why[%q] = %q, want %q", path, got, want)
		}
	}
}

func TestExplainKeepsGivenReasons(t *testing.T) {
	r := &Row{Status: OK}
	r.Null("the adapter can't tell", "requested", "fail_kind")
	r.Explain()
	if got := r.Why["fail_kind"]; got != "the adapter can't tell" {
		t.Errorf("fail_kind: %q", got)
	}
	for _, p := range []string{"requested.sampling", "requested.reasoning"} {
		if got, ok := r.Why[p]; ok {
			t.Errorf("%s: %q, though an object above it has a reason", p, got)
		}
	}
}
