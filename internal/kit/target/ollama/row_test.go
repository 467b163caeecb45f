package ollama_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/derive"
	"assay/internal/kit/evidence"
	"assay/internal/kit/row"
	"assay/internal/kit/target/replay"
)

// withLog gives a run its part of the log.
func withLog(rec *evidence.Record, f *derive.Facts, log []byte) {
	rec.Log, f.Exchange.LogWhy = log, ""
}

// Every recorded reply, as a row has it. The text is counted by the model's own
// tokenizer; an end token has no text.
func TestRecordings(t *testing.T) {
	for _, c := range []struct {
		name, status        string
		completion, text    int
		prompt              any
		finish, verdict     string
		promptMS, evalMS    any
		loadMS              any
		frames, tokenFrames int
	}{
		{"chat-stream", "ok", 48, 48, 41, "length", "agree-independent", 31.308010, 396.620740, 12.731343, 49, 48},
		{"chat-stream-again-cached", "ok", 48, 48, 41, "length", "agree-independent", 37.268823, 223.235407, 6.170521, 49, 48},
		{"chat-logprobs", "ok", 8, 8, 41, "length", "agree-independent", 14.871419, 318.314466, 8.528611, 9, 8},
		{"chat-natural-stop", "ok", 71, 70, 41, "stop", "agree-independent", 17.134978, 422.086227, 9.541835, 1, 1},
		{"generate-raw-stream", "ok", 24, 24, nil, "length", "agree-independent", nil, nil, nil, 25, 24},
		{"v1-chat-usage", "ok", 24, 24, 41, "length", "agree-independent", nil, nil, nil, 26, 24},
		{"v1-completions-usage", "ok", 12, 12, nil, "length", "agree-independent", nil, nil, nil, 14, 12},
		{"error-bad-request", "failed", -1, -1, nil, "", "unchecked", nil, nil, nil, -1, 0},
		{"error-no-model", "failed", -1, -1, nil, "", "unchecked", nil, nil, nil, -1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec, f := evidenceOf(t, readRecorded(t, c.name))
			if c.prompt == nil {
				f.Prompt = derive.Prompt{Nonce: replay.Nonce, Why: "another prompt"}
			}
			r := replay.Row(t, rec, f)
			if string(r.Status) != c.status || *r.CountCheck.Verdict != c.verdict {
				t.Fatalf("status %s, verdict %s (%v, %v)", r.Status, *r.CountCheck.Verdict, r.Error, *r.CountCheck.Why)
			}
			if r.CachedTokens != nil {
				t.Errorf("cached_tokens %d, though Ollama does not say it", *r.CachedTokens)
			}
			if len(r.IdentitiesFailed) > 0 {
				t.Errorf("identities failed: %v", r.IdentitiesFailed)
			}
			if c.status == "failed" {
				return
			}
			if *r.CompletionTokens != c.completion || *r.FinishReason != c.finish || *r.TokenFrames != c.tokenFrames {
				t.Errorf("%d tokens, finish %s, %d token frames", *r.CompletionTokens, *r.FinishReason, *r.TokenFrames)
			}
			if n := len(f.Text.Ends) + len(f.Text.IDs); n != c.text {
				t.Errorf("the text has %d tokens, want %d", n, c.text)
			}
			if c.prompt != nil && *r.PromptTokens != c.prompt {
				t.Errorf("%d prompt tokens", *r.PromptTokens)
			}
			if c.evalMS == nil {
				return
			}
			b := replay.Block(t, r, "ollama")
			for name, want := range map[string]any{"prompt_eval_ms": c.promptMS, "eval_ms": c.evalMS, "load_ms": c.loadMS, "eval_count": float64(c.completion), "num_ctx": 4096.0, "done_reason": c.finish, "model_loaded": false} {
				if diff := cmp.Diff(want, b[name]); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
			if note := r.Notes["ttft_ms"]; !strings.HasPrefix(note, "nonce only") {
				t.Errorf("the note of ttft_ms is %q", note)
			}
		})
	}
}

// eval_duration is the time from the first token to the last: of n tokens it holds
// n-1 steps, less the time that sampling took. The documented rate divides n by it.
func TestBasisOfEvalDuration(t *testing.T) {
	for _, name := range []string{"chat-stream", "chat-stream-again-cached"} {
		rec, f := evidenceOf(t, readRecorded(t, name))
		r := replay.Row(t, rec, f)
		reads := rec.Recording.Reads
		window := float64(reads[len(reads)-1].At-reads[0].At) / 1e6
		eval := *r.ServerTimings.PredictedMS
		if eval > window || eval < 0.97*window {
			t.Errorf("%s: eval_duration %.3f ms, first to last frame %.3f ms", name, eval, window)
		}
		if *r.EngineRates.Decode.Basis != "n" || math.Abs(*r.DecodeTokSServer-48/eval*1e3) > 1e-9 {
			t.Errorf("%s: basis %s, rate %v", name, *r.EngineRates.Decode.Basis, *r.DecodeTokSServer)
		}
	}
}

// 9,013 tokens were asked, 4,096 were read, and the stream says nothing of it. Each
// sign alone is enough: the log, a context that is filled, our own count.
func TestPromptThatWasCut(t *testing.T) {
	cut := func() (*evidence.Record, *derive.Facts) {
		return evidenceOf(t, readRecorded(t, "chat-truncated-prompt"))
	}
	line := serveLog(t, "truncating input prompt", "19.242726033s")
	for _, c := range []struct {
		name   string
		change func(rec *evidence.Record, f *derive.Facts)
		why    string
	}{
		{"by all signs", func(rec *evidence.Record, f *derive.Facts) { withLog(rec, f, line) }, "the prompt of 9013 tokens was cut to 4096; its log says: "},
		{"by the context", func(_ *evidence.Record, f *derive.Facts) {
			f.Prompt = derive.Prompt{Nonce: replay.Nonce, Why: "no tokenizer"}
		}, "prompt_eval_count 4096 fills num_ctx 4096"},
		{"by our count", func(rec *evidence.Record, _ *derive.Facts) {
			rec.Request = []byte(strings.Replace(string(rec.Request), `"num_ctx":4096,`, "", 1))
		}, "the server counts 4096 tokens of a prompt that has 9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec, f := cut()
			c.change(rec, f)
			r := replay.Row(t, rec, f)
			if r.TTFTMS != nil || r.DecodeTokS != nil || r.PromptTokSClient != nil || r.PromptTokSServer != nil || r.DecodeTokSServer != nil {
				t.Error("a figure of a run whose prompt was cut is shown")
			}
			for _, w := range r.Withheld {
				if !slices.Contains(w.Codes, "prompt-cut") || !strings.Contains(w.Why, c.why) {
					t.Errorf("%s: %v: %s", w.Figure, w.Codes, w.Why)
				}
			}
			if len(r.Withheld) < 5 {
				t.Errorf("%d figures are withheld", len(r.Withheld))
			}
		})
	}
	rec, f := cut()
	withLog(rec, f, line)
	b := replay.Block(t, replay.Row(t, rec, f), "ollama")
	if s, _ := b["prompt_cut_line"].(string); !strings.Contains(s, "limit=4096 prompt=9013") || b["served_ms_log"] != 19242.726033 {
		t.Errorf("prompt_cut_line %v, served_ms_log %v", b["prompt_cut_line"], b["served_ms_log"])
	}
}

// A stream without its last frame: Ollama leaves it out when it gives up, and says
// status 200.
func TestStreamWithoutItsEnd(t *testing.T) {
	r := readRecorded(t, "chat-stream")
	r.Body = r.Body[:len(r.Body)-1]
	rec, f := evidenceOf(t, r)
	got := replay.Row(t, rec, f)
	if got.Status != row.Failed || *got.FailKind != "truncated" || got.DecodeTokS != nil || got.CompletionTokens != nil {
		t.Errorf("status %s, kind %v", got.Status, got.FailKind)
	}
	b := replay.Block(t, got, "ollama")
	if b["eval_count"] != nil || got.Why["ollama.eval_count"] != "no last frame came" {
		t.Errorf("eval_count %v, because %q", b["eval_count"], got.Why["ollama.eval_count"])
	}
}

// A model that is loaded within the run stands in TTFT: neither that nor the prompt
// rate is shown. What comes after the first token is not touched.
func TestModelLoadedWithinTheRun(t *testing.T) {
	loading := serveLog(t, "starting runner\" cmd=\"ollama runner --ollama-engine --model", "/api/generate")
	for name, c := range map[string]struct {
		load string
		log  []byte
		why  string
		says any // model_loaded
	}{
		"by load_duration": {`"load_duration":543000000`, nil, "load_duration is 543 ms: the model was loaded, or the request waited for its turn", nil},
		"by the log":       {`"load_duration":12731343`, loading, "its log says: time=", true},
		"neither":          {`"load_duration":12731343`, serveLog(t, "452.170509ms", "452.170509ms"), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := readRecorded(t, "chat-stream").change(`"load_duration":12731343`, c.load)
			rec, f := evidenceOf(t, r)
			if c.log != nil {
				withLog(rec, f, c.log)
			}
			got := replay.Row(t, rec, f)
			loaded := c.why != ""
			if (got.TTFTMS == nil) != loaded || (got.PromptTokSClient == nil) != loaded || got.DecodeTokS == nil || got.Status != row.OK {
				t.Errorf("ttft %v, prompt rate %v, decode %v, status %s: %v", got.TTFTMS, got.PromptTokSClient, got.DecodeTokS, got.Status, got.Withheld)
			}
			if all := fmt.Sprint(got.Withheld); !strings.Contains(all, c.why) {
				t.Errorf("withheld %s, want %q", all, c.why)
			}
			if b := replay.Block(t, got, "ollama"); b["model_loaded"] != c.says {
				t.Errorf("model_loaded %v", b["model_loaded"])
			}
		})
	}
}

// Numbers of the last frame that contradict each other, or the client's clock.
func TestIdentities(t *testing.T) {
	for _, c := range []struct{ name, old, with, want string }{
		{"parts longer than the whole", `"eval_duration":396620740`, `"eval_duration":496620740`, "load, prompt_eval and eval take 540.660 ms, but total_duration is 452.002 ms"},
		{"longer than the client waited", `"total_duration":452001818`, `"total_duration":552001818`, "total_duration's stretches take 552.002 ms, but the client's time is 452.662 ms"},
		{"a prompt after the first token", `"prompt_eval_duration":31308010`, `"prompt_eval_duration":41308010`, "load and prompt_eval take 54.039 ms, but the time to the first token is 51.318 ms"},
		{"more than was asked for", `"eval_count":48`, `"eval_count":49`, "eval_count 49, but num_predict 48"},
		{"fewer, and yet for length", `"eval_count":48`, `"eval_count":47`, "done_reason length, but eval_count 47 of num_predict 48"},
		{"a prompt beyond the context", `"prompt_eval_count":41`, `"prompt_eval_count":5000`, "prompt_eval_count 5000, but num_ctx 4096"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec, f := evidenceOf(t, readRecorded(t, "chat-stream").change(c.old, c.with))
			if got := replay.Row(t, rec, f).IdentitiesFailed; !slices.Contains(got, c.want) {
				t.Errorf("failed: %q, want %q", got, c.want)
			}
		})
	}
}
