package strata_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/derive"
	"assay/internal/kit/evidence"
	"assay/internal/kit/row"
	"assay/internal/kit/stream"
	"assay/internal/kit/target"
	"assay/internal/kit/target/adapters"
	"assay/internal/kit/target/replay"
)

// run is a run against a replayer, with the client's stamps of the recording: the
// replayer is in less of a hurry than the engine was.
func run(t *testing.T, r *replayer) (*evidence.Record, *derive.Facts) {
	t.Helper()
	tg, err := target.Attach(t.Context(), r.url, target.Options{Adapters: adapters.All, Log: r.log})
	if err != nil {
		t.Fatal(err)
	}
	if tg.Adapter.Name() != "strata" {
		t.Fatalf("taken for %s", tg.Adapter.Name())
	}
	rec, f := replay.Run(t, tg, target.Ask{Prompt: replay.Message, MaxTokens: 256, Temperature: new(0.0)})
	stretch(rec.Recording, r.TTFT, r.Latency)
	return rec, f
}

// stretch gives each event a read of its own: the role at once, the first token
// after ttft, what comes at the end at the end, and the others evenly in between.
func stretch(rec *stream.Recording, ttft, end float64) {
	events := strings.SplitAfter(string(rec.Body()), "\n\n")
	rec.Reads = nil
	tokens := float64(strings.Count(fmt.Sprint(events), `"content":`))
	at, n := 0.01, 0.0
	for _, e := range events {
		switch {
		case e == "":
			continue
		case strings.Contains(e, `"usage"`):
			at = end
		case strings.Contains(e, `"content":`) && !strings.Contains(e, `"role"`):
			at = ttft + (end-ttft)*n/tokens
			n++
		}
		rec.Reads = append(rec.Reads, stream.Read{At: int64(at * 1e9), Kernel: -1, Bytes: []byte(e)})
	}
	rec.SentAt, rec.HeadersAt, rec.EndAt = 1000, 2000, int64(end*1e9)
}

// The block of a run has what the recording has, under the keys of the published
// rows, though the log comes late and in pieces.
func TestRecordedRun(t *testing.T) {
	r := serve(t, &replayer{recorded: readRecorded(t), middle: 120, lag: 150 * time.Millisecond})
	rec, f := run(t, r)
	got := replay.Row(t, rec, f)
	if got.Status != row.OK || len(got.IdentitiesFailed) != 0 {
		t.Errorf("status %s, identities that failed: %v", got.Status, got.IdentitiesFailed)
	}
	block := replay.Block(t, got, "strata")
	line := r.Lines[1]
	want := map[string]any{
		"hit_rate_log": 78.5, "hits": 101070.0, "lookups": 128724.0, "hit_rate_line": line,
		"offloaded": nil, "pcie_share_log": nil, "routed": nil,
		"drafts_accepted": 161.0, "drafts_offered": 217.0, "engine_generated": 256.0,
		"engine_decode_tok_s": 44.9, "engine_prompt_tok_s": 31.8, "reused": 0.0,
		"metrics": map[string]any{
			"hit_rate": 0.785, "pcie_share": nil, "decode_tok_s": 44.9, "engine_generated": 256.0, "prompt_ms": 2957.3,
			"decode_ms": 5699.2, "reused": 0.0, "output_tokens": 256.0, "finish": "length", "projection": nil,
		},
		"tokens_per_round_derived": 256.0 / 95.0, "tokens_per_round_rule": block["tokens_per_round_rule"],
		"prompt_total": 94.0, "prompt_read": 94.0, "cancelled": false, "parts": 1.0,
		"suffix_drafts": map[string]any{"windows": 2.0, "accepted": 6.0, "offered": 6.0, "line": r.Lines[3]},
		"kv_streaming":  map[string]any{"hit_percent": 99.5, "block_reads": 211584.0, "ram_mib": 4.3, "line": r.Lines[2]},
		"blobs":         map[string]any{"ram": 0.0, "file": 0.0, "file_mb": 0.0},
	}
	var after struct{ Engine map[string]any }
	if err := json.Unmarshal(r.After, &after); err != nil {
		t.Fatal(err)
	}
	want["engine"] = after.Engine
	if diff := cmp.Diff(want, block); diff != "" {
		t.Errorf("block: want -, got +:\n%s", diff)
	}
	for _, e := range []struct {
		name      string
		got, want any
	}{
		{"verdict", *got.CountCheck.Verdict, "agree-same-origin"},
		{"count by the log", got.CountCheck.Against["log"], 256},
		{"count by /metrics", got.CountCheck.Against["/metrics"], 256},
		{"count by timings", got.CountCheck.Against["timings.predicted_n"], 256},
		{"basis", *got.EngineRates.Decode.Basis, "n"},
		{"prompt_tokens", *got.PromptTokens, 94},
		{"cached_tokens", *got.CachedTokens, 0},
		{"draft_n", *got.ServerTimings.DraftN, 217},
		{"finish_reason", *got.FinishReason, "length"},
		{"requested.max_tokens", *got.Requested.MaxTokens, 256},
	} {
		if e.got != e.want {
			t.Errorf("%s: %v, want %v", e.name, e.got, e.want)
		}
	}
	if v := *got.DecodeTokSServer; math.Abs(v-256/5.6992) > 1e-9 {
		t.Errorf("decode_tok_s_server %v", v)
	}
	if rec.Recording.Proto != "HTTP/1.0" || !rec.Recording.Clean {
		t.Errorf("%s, clean %v", rec.Recording.Proto, rec.Recording.Clean)
	}
}

// The keys of the block are those of the published rows, and more.
func TestKeysOfSeedRows(t *testing.T) {
	rec, f := run(t, serve(t, &replayer{recorded: readRecorded(t)}))
	block := replay.Block(t, replay.Row(t, rec, f), "strata")
	seeds, err := readSeedBlocks()
	if err != nil {
		t.Fatal(err)
	}
	for i, seed := range seeds {
		for name, v := range seed {
			if _, ok := block[name]; !ok {
				t.Errorf("seed row %d: %s is not in our block", i+1, name)
			}
			inner, ok := v.(map[string]any)
			for n := range inner {
				if _, have := block[name].(map[string]any)[n]; ok && !have {
					t.Errorf("seed row %d: %s.%s is not in our block", i+1, name, n)
				}
			}
		}
		generated, accepted := seed["engine_generated"].(float64), seed["drafts_accepted"].(float64)
		if v := seed["tokens_per_round_derived"].(float64); math.Abs(v-generated/(generated-accepted)) > 5e-4 {
			t.Errorf("seed row %d: tokens_per_round_derived %v is not by our rule", i+1, v)
		}
	}
}

// What can be wrong with a run's log and counters, and what the row then says.
func TestOtherRuns(t *testing.T) {
	hit := func(r *recorded, line string) { r.Lines = []string{r.Lines[0], line} }
	page := func(raw *json.RawMessage, change func(p map[string]any)) {
		var p map[string]any
		if err := json.Unmarshal(*raw, &p); err != nil {
			t.Fatal(err)
		}
		change(p)
		*raw, _ = json.Marshal(p)
	}
	request := func(p map[string]any) map[string]any { return p["requests"].([]any)[0].(map[string]any) }
	for _, c := range []struct {
		name   string
		change func(r *recorded)
		check  map[string]any // of the block
		why    string         // in the row's reasons
		failed string         // in the identities that failed; empty: none
	}{
		{
			"all experts in VRAM: no line of a hit rate", func(r *recorded) {
				r.Lines = r.Lines[:1]
				page(&r.After, func(p map[string]any) { request(p)["hit_rate"] = nil })
			},
			map[string]any{"hit_rate_line": "absent", "hits": nil, "engine_generated": 256.0},
			"all experts are in VRAM", "",
		},
		{
			"a line of a hit rate is missing though there was one", func(r *recorded) { r.Lines = r.Lines[:1] },
			map[string]any{"hit_rate_line": "absent"},
			"", "hit rate 0.785 in /metrics, but the log has no line",
		},
		{
			"0.1.39: some read over PCIe", func(r *recorded) {
				hit(r, "strata serve: decode expert cache hit rate: 71.8% (107670 hits / 149974 lookups); 19946 more read by the GPU over PCIe or from another GPU (11.7% of all 169920 routed)")
				page(&r.After, func(p map[string]any) { request(p)["hit_rate"], request(p)["pcie_share"] = 0.718, 0.117 })
			},
			map[string]any{"hit_rate_log": 71.8, "offloaded": 19946.0, "pcie_share_log": 11.7, "routed": 169920.0},
			"", "",
		},
		{
			"routed is not the sum", func(r *recorded) {
				hit(r, "strata serve: decode expert cache hit rate: 78.5% (101070 hits / 128724 lookups); 10 more read by the GPU over PCIe or from another GPU (0.0% of all 128735 routed)")
			},
			map[string]any{"routed": 128735.0},
			"", "128724 lookups and 10 offloaded, but 128735 routed",
		},
		{
			"a hit rate that its own numbers contradict", func(r *recorded) {
				hit(r, "strata serve: decode expert cache hit rate: 78.7% (101070 hits / 128724 lookups)")
			},
			map[string]any{"hit_rate_log": 78.7},
			"", "hit rate 78.7 %, but 101070 hits of 128724 lookups are 78.517 %",
		},
		{
			"two entries came", func(r *recorded) {
				page(&r.After, func(p map[string]any) {
					other := map[string]any{"time": 1791028780.5, "output_tokens": 8}
					p["requests"] = append([]any{other}, p["requests"].([]any)...)
				})
			},
			map[string]any{"hits": 101070.0},
			"2 entries came, exactly one must: the server worked on other requests too", "",
		},
		{
			"no entry came", func(r *recorded) { r.After = r.Before },
			nil, "no entry came for the request (1 are shown)", "",
		},
		{
			"prometheus in spite of what was asked", func(r *recorded) { r.After = json.RawMessage("# HELP strata_output_tokens_total") },
			nil, "/metrics is not the JSON that was asked for (it begins", "",
		},
		{
			"other drafts in the log", func(r *recorded) {
				r.Lines = slices.Clone(r.Lines)
				r.Lines[0] = strings.Replace(r.Lines[0], "161 of 217", "171 of 217", 1)
			},
			map[string]any{"drafts_accepted": 171.0},
			"", "draft_n_accepted 161, but the log's accepted drafts 171",
		},
		{
			"other times in the log", func(r *recorded) {
				r.Lines = slices.Clone(r.Lines)
				r.Lines[0] = strings.Replace(r.Lines[0], "5699 ms", "5701 ms", 1)
			},
			nil, "", "decode_ms 5699.2 in /metrics, but 5701 in the log",
		},
		{
			"an engine faster than the client's clock", func(r *recorded) { r.TTFT = 2.9 },
			nil, "", "prompt_ms 2957.3, but the first token came after 2900.000 ms",
		},
		{
			"a budget for reasoning: the engine was had to go on", func(r *recorded) {
				r.Lines = []string{
					"strata serve: prompt 94 tokens = 0 reused + 94 read in 2957 ms (31.8 tok/s), 200 generated in 4500 ms (44.4 tok/s), drafts accepted 121 of 160, 1 checkpoints",
					"strata serve: decode expert cache hit rate: 50.0% (100 hits / 200 lookups)",
					"strata serve: prompt 300 tokens = 294 reused + 6 read in 120 ms (50.0 tok/s), 56 generated in 1199 ms (46.7 tok/s), drafts accepted 40 of 57",
					"strata serve: decode expert cache hit rate: 75.0% (75 hits / 100 lookups)",
				}
				page(&r.After, func(p map[string]any) { request(p)["hit_rate"] = nil })
			},
			map[string]any{"engine_generated": 256.0, "drafts_accepted": 161.0, "drafts_offered": 217.0, "parts": 2.0, "hits": 175.0, "lookups": 300.0, "reused": 0.0, "prompt_total": 94.0, "engine_decode_tok_s": nil},
			"", "",
		},
		{
			"another client's request in the log", func(r *recorded) {
				r.Lines = append(slices.Clone(r.Lines), "strata serve: prompt 27 tokens = 0 reused + 27 read in 536 ms (50.4 tok/s), 256 generated in 5681 ms (45.1 tok/s)")
			},
			map[string]any{"hits": nil},
			"2 lines \"strata serve: prompt\": the server worked on other requests too", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := readRecorded(t)
			c.change(r)
			rec, f := run(t, serve(t, &replayer{recorded: r}))
			got := replay.Row(t, rec, f)
			block := replay.Block(t, got, "strata")
			for name, want := range c.check {
				if diff := cmp.Diff(want, block[name]); diff != "" {
					t.Errorf("%s: want -, got +:\n%s", name, diff)
				}
			}
			if all := fmt.Sprint(got.Why, got.CountCheck.Unread); !strings.Contains(all, c.why) {
				t.Errorf("no reason says %q: %s", c.why, all)
			}
			switch all := strings.Join(got.IdentitiesFailed, "\n"); {
			case c.failed == "" && all != "":
				t.Errorf("identities failed: %s", all)
			case !strings.Contains(all, c.failed):
				t.Errorf("identities failed: %q, want one that says %q", all, c.failed)
			}
		})
	}
}
