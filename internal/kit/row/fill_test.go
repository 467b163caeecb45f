package row

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"assay/internal/kit/count"
	"assay/internal/kit/figure"
	"assay/internal/kit/host"
	"assay/internal/kit/stream"
)

// reply is a stream of 40 frames, one token each: the first 100 ms after t0,
// the others 10 ms apart, and last, 5 ms after them, a frame with whatever end
// holds.
func reply(t testing.TB, end string) *stream.Completion {
	t.Helper()
	rec := &stream.Recording{Status: 200, Clean: true}
	send := func(ms int, data string) {
		rec.Reads = append(rec.Reads, stream.Read{At: int64(ms) * 1e6, Kernel: -1, Bytes: []byte("data: " + data + "\n\n")})
	}
	send(5, `{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`)
	for i := range 40 {
		send(100+10*i, `{"choices":[{"index":0,"delta":{"content":" a"}}]}`)
	}
	if end != "" {
		send(495, end)
	}
	frames, err := stream.Frames(rec, stream.SSE)
	if err != nil {
		t.Fatal(err)
	}
	return stream.Decode(frames)
}

// filled is the row of a reply whose text has n tokens by our own count.
func filled(t testing.TB, c *stream.Completion, n int) *Row {
	t.Helper()
	in := figure.Read(c)
	sources := count.FromStream(c)
	if n > 0 {
		sources = append(sources, count.Read("text", count.Text, &n, ""))
	}
	in.Count = count.Judge(sources)
	in.Asked = 40
	r := new(Row)
	r.Fill(&in, figure.Compute(in))
	r.Explain()
	return r
}

const wholeEnd = `{"choices":[{"index":0,"delta":{},"finish_reason":"length"}],` +
	`"usage":{"prompt_tokens":500,"completion_tokens":40,"prompt_tokens_details":{"cached_tokens":0}},` +
	`"timings":{"cache_n":0,"prompt_n":500,"prompt_ms":80,"prompt_per_second":6250,"predicted_n":40,"predicted_ms":390,"predicted_per_second":102.564}}`

func near(t *testing.T, r *Row, want map[string]float64) {
	t.Helper()
	n := r.numbers()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		got, ok := n[path]
		if !ok || got == nil {
			t.Errorf("%s is null (%s), want %v", path, r.Why[path], want[path])
		} else if math.Abs(*got-want[path]) > 1e-6*math.Abs(want[path]) {
			t.Errorf("%s = %v, want %v", path, *got, want[path])
		}
	}
}

// The values of a plain run, worked out by hand.
func TestFill(t *testing.T) {
	r := filled(t, reply(t, wholeEnd), 40)
	near(t, r, map[string]float64{
		"ttft_ms":                            100,
		"ttfv_ms":                            100,
		"decode_tok_s":                       39 / 0.390,
		"decode_tok_s_simple":                39 / 0.395,
		"prompt_tok_s_client":                500 / 0.1,
		"prompt_tok_s_server":                500 / 0.08,
		"decode_tok_s_server":                40 / 0.39,
		"decode.n_first":                     1,
		"decode.n_last":                      40,
		"decode.t_first_ms":                  100,
		"decode.t_last_ms":                   490,
		"decode.bursts":                      40,
		"decode.intervals":                   39,
		"gaps.n":                             39,
		"gaps.median_ms":                     10,
		"gaps.max_ms":                        10,
		"frames":                             42,
		"token_frames":                       40,
		"content_frames":                     40,
		"completion_tokens":                  40,
		"prompt_tokens":                      500,
		"cached_tokens":                      0,
		"server_timings.prompt_per_token_ms": 0.16,
		"engine_rates.decode.tok_s":          40 / 0.39,
		"engine_rates.decode.reported_tok_s": 102.564,
	})
	if r.Status != OK || *r.CountCheck.Verdict != "agree-independent" || *r.FinishReason != "length" || *r.EngineRates.Decode.Basis != "n" {
		t.Errorf("status %s, verdict %s, finish %s, basis %s", r.Status, *r.CountCheck.Verdict, *r.FinishReason, *r.EngineRates.Decode.Basis)
	}
	if want := hash([]byte(strings.Repeat(" a", 40))); *r.CompletionSHA256 != want {
		t.Errorf("completion_sha256 %s, want %s", *r.CompletionSHA256, want)
	}
	if len(r.Withheld) != 0 || len(r.Flags) != 0 || r.CacheFlag != nil {
		t.Errorf("withheld %v, flags %v, cache flag %v", r.Withheld, r.Flags, r.CacheFlag)
	}
}

// Withheld values leave their fields for the list.
func TestFillWithholds(t *testing.T) {
	r := filled(t, reply(t, wholeEnd), 30)
	if r.Status != OK || *r.CountCheck.Verdict != "count-mismatch" {
		t.Errorf("status %s, verdict %s", r.Status, *r.CountCheck.Verdict)
	}
	if r.DecodeTokS != nil || r.Why["decode_tok_s"] != "withheld: count-mismatch" {
		t.Errorf("decode_tok_s = %v, why %q", r.DecodeTokS, r.Why["decode_tok_s"])
	}
	near(t, r, map[string]float64{"decode_tok_s_withheld": 100, "decode_tok_s_server_withheld": 40 / 0.39, "ttft_ms": 100})
	i := slices.IndexFunc(r.Withheld, func(w Withheld) bool { return w.Figure == "decode_tok_s" })
	if i < 0 {
		t.Fatalf("decode_tok_s is not in %v", r.Withheld)
	}
	if w := r.Withheld[i]; *w.Value != 100 || w.Unit != "tok/s" || !slices.Equal(w.Codes, []string{"count-mismatch"}) || !strings.Contains(w.Why, "30") {
		t.Errorf("withheld: %+v", w)
	}
}

func TestFillFails(t *testing.T) {
	tests := map[string]struct{ end, kind, message string }{
		"truncated":       {"", "truncated", "neither a finish_reason nor [DONE] came"},
		"error in stream": {`{"error":{"message":"out of memory","type":"server_error"}}`, "stream-error", "out of memory"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := filled(t, reply(t, tt.end), 40)
			if r.Status != Failed || r.FailKind == nil || *r.FailKind != tt.kind || !strings.Contains(*r.Error, tt.message) {
				t.Errorf("status %s, kind %v, error %v", r.Status, r.FailKind, r.Error)
			}
			if r.TTFTMS != nil || r.DecodeTokS != nil {
				t.Errorf("figures of a failed run are shown: %v, %v", r.TTFTMS, r.DecodeTokS)
			}
		})
	}
}

// Whatever is missing, Fill gives a reason for each null that it leaves.
func TestFillGivesReasons(t *testing.T) {
	const usageOnly = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":500,"completion_tokens":30}}`
	rows := map[string]*Row{
		"whole":     filled(t, reply(t, wholeEnd), 40),
		"mismatch":  filled(t, reply(t, wholeEnd), 30),
		"truncated": filled(t, reply(t, ""), 0),
		"usage":     filled(t, reply(t, usageOnly), 0),
		"nothing":   filled(t, stream.Decode(nil), 0),
		"no count":  filled(t, reply(t, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`), 0),
		"text only": filled(t, reply(t, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`), 40),
	}
	// These are for the run to fill in.
	others := []string{"engine_commit", "quant", "file_sha256", "command_line", "start_id", "load_ms", "page_cache_percent", "slice_sha256", "prompt_sha256", "nonce", "requests_since_start", "requested.", "threads.", "telemetry.", "engine_env", "host.", "evidence.", "prompt_tokens_expected"}
	for name, r := range rows {
		for _, v := range Validate(r) {
			about := strings.HasPrefix(v.Problem, "null") || strings.HasPrefix(v.Path, "why.") || strings.HasPrefix(v.Path, "withheld")
			if about && !slices.ContainsFunc(others, func(p string) bool { return strings.HasPrefix(v.Path, p) }) {
				t.Errorf("%s: %s", name, v)
			}
		}
	}
}

func TestSetHost(t *testing.T) {
	r := new(Row)
	r.SetHost(host.Host{Kernel: new("6.1"), Cores: new(2), Why: map[string]string{"governor": "no cpufreq"}})
	if *r.Host.Kernel != "6.1" || *r.Host.Cores != 2 || r.Why["host.governor"] != "no cpufreq" {
		t.Errorf("%+v, %v", r.Host, r.Why)
	}
	// A field that package host adds must find a place here.
	theirs, err := json.Marshal(host.Host{})
	if err != nil {
		t.Fatal(err)
	}
	ours, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	have := leaves(t, ours)
	for name := range leaves(t, theirs) {
		if _, ok := have["host."+name]; !ok {
			t.Errorf("host.%s has no field in a row", name)
		}
	}
}

func TestSetEngineBlock(t *testing.T) {
	r := &Row{Engine: "llama-server"}
	if err := r.SetEngineBlock("llamacpp", map[string]int{"drafts_offered": 7}); err != nil {
		t.Fatal(err)
	}
	line, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(leaves(t, line)["llamacpp.drafts_offered"]); got != "7" {
		t.Errorf("block: %s", got)
	}
	r = &Row{Engine: "assay"}
	if err := r.SetEngineBlock("assay", &EngineBlock{DraftsOffered: new(7)}); err != nil {
		t.Fatal(err)
	}
	if r.Assay == nil || *r.Assay.DraftsOffered != 7 {
		t.Error("our block is not typed")
	}
}
