package derive

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/evidence"
	"assay/internal/kit/row"
	"assay/internal/kit/stream"
	"assay/internal/kit/target"
	"assay/internal/kit/target/adapters"
)

// wire collects the frames of a stream with their times in ms.
type wire struct {
	ndjson bool
	reads  []stream.Read
}

func (w *wire) raw(ms float64, text string) {
	ns := int64(ms * 1e6)
	w.reads = append(w.reads, stream.Read{At: ns, Kernel: ns - 1000, Bytes: []byte(text)})
}

// send sends a value as a frame: a text as it is, anything else as JSON.
func (w *wire) send(ms float64, v any) {
	text, ok := v.(string)
	if !ok {
		data, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		text = string(data)
	}
	if w.ndjson {
		w.raw(ms, text+"\n")
		return
	}
	w.raw(ms, "data: "+text+"\n\n")
}

func (w *wire) recording() *stream.Recording {
	kind := "text/event-stream"
	if w.ndjson {
		kind = "application/x-ndjson"
	}
	return &stream.Recording{
		T0: 1796161490_000000000, DialNS: 1000, Remote: "127.0.0.1:8080", SentAt: 1000, HeadersAt: 2000, Proto: "HTTP/1.1",
		Status: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Clean: true, Reads: w.reads, EndAt: w.reads[len(w.reads)-1].At + 1e6,
	}
}

type obj = map[string]any

// chunk is a frame of OpenAI's chat API.
func chunk(delta obj, finish any, more obj) obj {
	out := obj{"object": "chat.completion.chunk", "choices": []obj{{"index": 0, "delta": delta, "finish_reason": finish}}}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// generation is what an engine made: its tokens, the first at 100 ms and each of
// the others 10 ms after the one before.
type generation struct{ tokens []string }

func (g generation) at(i int) float64 { return 100 + 10*float64(i) }

func (g generation) end() float64 { return g.at(len(g.tokens) - 1) }

// wires render a generation of 88 prompt tokens as each engine sends it
// (field notes on engines: the sections on streams).
var wires = map[string]func(g generation, w *wire){
	"assay":            llamaWire,
	"llama-server":     llamaWire,
	"llama-cpp-python": pythonWire,
	"ik_llama.cpp":     ikWire,
	"openai":           plainWire,
	"lmstudio":         plainWire,
	"strata": func(g generation, w *wire) {
		w.send(1, chunk(obj{"role": "assistant", "content": ""}, nil, nil))
		w.raw(50, ": keep-alive\n\n")
		for i, t := range g.tokens {
			w.send(g.at(i), chunk(obj{"content": t}, nil, nil))
		}
		w.send(g.end(), chunk(obj{}, "length", obj{"usage": fullUsage(g, 0), "timings": llamaTimings(g)}))
		w.send(g.end(), "[DONE]")
	},
	"ollama": func(g generation, w *wire) {
		w.ndjson = true
		for i, t := range g.tokens {
			w.send(g.at(i), obj{"model": "m", "created_at": "2026-12-02T00:00:00Z", "message": obj{"role": "assistant", "content": t}, "done": false})
		}
		w.send(g.end(), obj{
			"model": "m", "message": obj{"role": "assistant", "content": ""}, "done": true, "done_reason": "length",
			"total_duration": 489_000_000, "load_duration": 1_000_000, "prompt_eval_count": 88, "prompt_eval_duration": 90_000_000,
			"eval_count": len(g.tokens), "eval_duration": int64(len(g.tokens)-1) * 10_000_000,
		})
	},
	"vllm": func(g generation, w *wire) {
		usage := func(n int) obj {
			return obj{"usage": obj{"prompt_tokens": 88, "completion_tokens": n, "total_tokens": 88 + n, "prompt_tokens_details": obj{"cached_tokens": 0}}}
		}
		w.send(g.at(0), chunk(obj{"role": "assistant", "content": ""}, nil, usage(0)))
		for i, t := range g.tokens {
			c := chunk(obj{"content": t}, nil, usage(i+1))
			c["choices"].([]obj)[0]["token_ids"] = []int{100 + i}
			w.send(g.at(i), c)
		}
		n := len(g.tokens)
		w.send(g.end(), chunk(obj{"content": ""}, "length", usage(n)))
		last := usage(n)
		last["choices"] = []obj{}
		last["metrics"] = obj{"time_to_first_token_ms": 95, "generation_time_ms": float64(n-1) * 10, "queue_time_ms": 0.5, "tokens_per_second": 80.0}
		w.send(g.end(), last)
		w.send(g.end(), "[DONE]")
	},
	"sglang": func(g generation, w *wire) {
		usage := func(n int) obj {
			return obj{"usage": obj{"prompt_tokens": 88, "completion_tokens": n, "total_tokens": 88 + n, "reasoning_tokens": 0}}
		}
		w.send(g.at(0), chunk(obj{"role": "assistant", "content": ""}, nil, nil))
		for i, t := range g.tokens {
			w.send(g.at(i), chunk(obj{"content": t}, nil, usage(i+1)))
		}
		w.send(g.end(), chunk(obj{}, "length", obj{"matched_stop": nil}))
		w.send(g.end(), obj{"choices": []obj{}, "sglext": obj{}})
		last := usage(len(g.tokens))
		last["choices"] = []obj{}
		w.send(g.end(), last)
		w.send(g.end(), "[DONE]")
	},
	"koboldcpp": func(g generation, w *wire) {
		for i, t := range g.tokens {
			w.send(g.at(i), chunk(obj{"role": "assistant", "content": t}, nil, nil))
		}
		w.send(g.end(), chunk(obj{"role": "assistant", "content": ""}, "length", nil))
		w.send(g.end(), obj{"choices": []obj{}, "usage": plainUsage(g)})
		w.raw(g.end(), "data: [DONE]\n") // version 1.77 sends no blank line
	},
	"tabbyapi": func(g generation, w *wire) {
		for i, t := range g.tokens {
			w.send(g.at(i), chunk(obj{"content": t}, nil, nil))
		}
		u := plainUsage(g)
		u["prompt_time"], u["prompt_tokens_per_sec"], u["completion_time"], u["completion_tokens_per_sec"] = 0.0, "Indeterminate", 0.39, 102.56
		w.send(g.end(), chunk(obj{}, "length", obj{"usage": u}))
		w.send(g.end(), "[DONE]")
	},
	"mlx-lm": func(g generation, w *wire) {
		w.raw(20, ": keepalive 40/88\n\n")
		n := len(g.tokens)
		for i, t := range g.tokens {
			var finish any
			if i == n-1 {
				finish = "length" // the last frame has both
			}
			w.send(g.at(i), chunk(obj{"role": "assistant", "content": t}, finish, obj{"system_fingerprint": "0.32.0-0.31.1-macOS-26.1-arm64-applegpu_g17s"}))
		}
		w.send(g.end(), obj{"object": "chat.completion", "choices": []obj{}, "usage": fullUsage(g, 0)})
		w.send(g.end(), "[DONE]")
	},
}

func plainUsage(g generation) obj {
	n := len(g.tokens)
	return obj{"prompt_tokens": 88, "completion_tokens": n, "total_tokens": 88 + n}
}

func fullUsage(g generation, cached int) obj {
	u := plainUsage(g)
	u["prompt_tokens_details"] = obj{"cached_tokens": cached}
	return u
}

func llamaTimings(g generation) obj {
	n := len(g.tokens)
	return obj{
		"cache_n": 0, "prompt_n": 88, "prompt_ms": 90.0, "prompt_per_second": 88 / 0.09,
		"predicted_n": n, "predicted_ms": float64(n-1) * 10, "predicted_per_second": 100.0,
	}
}

func llamaWire(g generation, w *wire) {
	w.send(g.at(0), chunk(obj{"role": "assistant", "content": nil}, nil, nil))
	for i, t := range g.tokens {
		w.send(g.at(i), chunk(obj{"content": t}, nil, nil))
	}
	w.send(g.end(), chunk(obj{}, "length", nil))
	w.send(g.end(), obj{"choices": []obj{}, "usage": fullUsage(g, 0), "timings": llamaTimings(g)})
	w.send(g.end(), "[DONE]")
}

// ikWire says "stop" at the limit too, and has no cache_n.
func ikWire(g generation, w *wire) {
	for i, t := range g.tokens {
		w.send(g.at(i), chunk(obj{"content": t}, nil, nil))
	}
	t := llamaTimings(g)
	delete(t, "cache_n")
	w.send(g.end(), chunk(obj{}, "stop", obj{"timings": t}))
	w.send(g.end(), obj{"choices": []obj{}, "usage": fullUsage(g, 0)})
	w.send(g.end(), "[DONE]")
}

// pythonWire has no usage at all.
func pythonWire(g generation, w *wire) {
	w.send(g.at(0), chunk(obj{"role": "assistant"}, nil, nil))
	for i, t := range g.tokens {
		w.send(g.at(i), chunk(obj{"content": t}, nil, nil))
	}
	w.send(g.end(), chunk(obj{}, "length", nil))
	w.send(g.end(), "[DONE]")
}

func plainWire(g generation, w *wire) {
	for i, t := range g.tokens {
		d := obj{"content": t}
		if i == 0 {
			d["role"] = "assistant"
		}
		w.send(g.at(i), chunk(d, nil, nil))
	}
	w.send(g.end(), chunk(obj{}, "length", nil))
	w.send(g.end(), obj{"choices": []obj{}, "usage": plainUsage(g)})
	w.send(g.end(), "[DONE]")
}

// wireRow is the row of a stream by the named adapter.
func wireRow(t *testing.T, a target.Adapter, w *wire) *row.Row {
	t.Helper()
	rec, f := sample()
	f.Target.Adapter, f.Target.Engine = a.Name(), a.Name()
	f.Target.EndTokenCounted, f.Target.DecodeBasis = a.Facts().EndTokenCounted, a.Facts().DecodeBasis
	f.Target.ThreadsLog, f.Target.ThreadsWhy = "", "not read in this test"
	x := &f.Exchange
	x.MetricsBeforeWhy, x.MetricsAfterWhy, x.LogWhy = "not read", "not read", "not read"
	rec.MetricsBefore, rec.MetricsAfter, rec.Log = nil, nil, nil
	rec.Meta = evidence.Meta{Row: "arm/measure/a1/run-002", Method: "POST", URL: "http://127.0.0.1:8080" + a.Endpoint()}
	var err error
	if rec.Request, err = json.Marshal(a.Body(target.Ask{Prompt: rec.Prompt, MaxTokens: len(words), Temperature: new(0.0), IgnoreEOS: true}, "m")); err != nil {
		t.Fatal(err)
	}
	rec.Recording = w.recording()
	c, _ := Completion(rec)
	rec.Completion = c.Joined
	if c.Joined != strings.Join(words, "") {
		f.Text = Text{Why: "another text"}
	}
	r := derived(t, rec, f)
	if bad := row.Validate(r); len(bad) > 0 {
		t.Error(bad)
	}
	return r
}

// One generation gives the same figures however an engine writes it down; what
// an engine does not say is unknown, and nothing else is.
func TestOneGenerationInEveryWireFormat(t *testing.T) {
	shown := func(v *float64) string {
		if v == nil {
			return "null"
		}
		return fmt.Sprintf("%.6g", *v)
	}
	whole := func(v *int) string {
		if v == nil {
			return "null"
		}
		return fmt.Sprint(*v)
	}
	noUsage := map[string]string{"completion_tokens": "null", "prompt_tokens": "null"}
	differs := map[string]map[string]string{
		"llama-cpp-python": noUsage,
		"ik_llama.cpp":     {"finish_reason": "stop"},
	}
	for _, a := range adapters.All {
		t.Run(a.Name(), func(t *testing.T) {
			render, ok := wires[a.Name()]
			if !ok {
				t.Fatal("how this engine writes a stream is not stated: add it to wires")
			}
			w := &wire{}
			render(generation{words}, w)
			r := wireRow(t, a, w)
			want := map[string]string{
				"status": "ok", "ttft_ms": "100", "ttfv_ms": "100", "decode_tok_s": "100", "decode_tok_s_simple": "100",
				"completion_tokens": "40", "prompt_tokens": "88", "prompt_tok_s_client": "880",
				"token_frames": "40", "content_frames": "40", "gap p50": "10", "verdict": "agree-independent",
				"finish_reason": "length", "text": hash(strings.Join(words, "")), "identities_failed": "0", "max_tokens": "40",
			}
			for k, v := range differs[a.Name()] {
				want[k] = v
			}
			if want["completion_tokens"] == "null" { // nothing to hold the text against
				want["verdict"], want["prompt_tok_s_client"] = "unchecked", "null"
			}
			verdict, finish := "null", "null"
			if r.CountCheck.Verdict != nil {
				verdict = *r.CountCheck.Verdict
			}
			if r.FinishReason != nil {
				finish = *r.FinishReason
			}
			got := map[string]string{
				"status": string(r.Status), "ttft_ms": shown(r.TTFTMS), "ttfv_ms": shown(r.TTFVMS), "decode_tok_s": shown(r.DecodeTokS), "decode_tok_s_simple": shown(r.DecodeTokSSimple),
				"completion_tokens": whole(r.CompletionTokens), "prompt_tokens": whole(r.PromptTokens), "prompt_tok_s_client": shown(r.PromptTokSClient),
				"token_frames": whole(r.TokenFrames), "content_frames": whole(r.ContentFrames), "gap p50": shown(r.Gaps.MedianMS), "verdict": verdict,
				"finish_reason": finish, "text": *r.CompletionSHA256, "identities_failed": fmt.Sprint(len(r.IdentitiesFailed)), "max_tokens": whole(r.Requested.MaxTokens),
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("want -, got +:\n%s\nwithheld %+v, identities %q", diff, r.Withheld, r.IdentitiesFailed)
			}
		})
	}
}

// What engines do to a client that trusts them.
func TestHostileWires(t *testing.T) {
	g := generation{words}
	for _, c := range []struct {
		name, engine string
		render       func(w *wire)
		check        func(t *testing.T, r *row.Row)
	}{
		{"an error, then [DONE]", "vllm", func(w *wire) {
			w.send(100, chunk(obj{"role": "assistant", "content": " was"}, nil, nil))
			w.send(120, obj{"error": obj{"message": "CUDA out of memory", "type": "InternalServerError", "code": 500}})
			w.send(121, "[DONE]")
		}, failed("stream-error", "CUDA out of memory")},
		{"an error, then finish, usage and [DONE]", "sglang", func(w *wire) {
			w.send(100, chunk(obj{"content": " was"}, nil, nil))
			w.send(120, obj{"error": obj{"message": "the scheduler died"}})
			w.send(121, chunk(obj{}, "stop", nil))
			w.send(121, obj{"choices": []obj{}, "usage": plainUsage(g)})
			w.send(121, "[DONE]")
		}, failed("stream-error", "the scheduler died")},
		{"cached tokens are not told", "sglang", func(w *wire) { wires["sglang"](g, w) }, func(t *testing.T, r *row.Row) {
			if r.CachedTokens != nil || r.Why["cached_tokens"] == "" || r.CacheFlag == nil {
				t.Errorf("cached %v, why %q, flag %v", r.CachedTokens, r.Why["cached_tokens"], r.CacheFlag)
			}
		}},
		{"a rate that is the text Indeterminate", "tabbyapi", func(w *wire) { wires["tabbyapi"](g, w) }, func(t *testing.T, r *row.Row) {
			// 40 tokens in 0.39 s by the server's own time, basis n.
			if r.DecodeTokSServer == nil || math.Abs(*r.DecodeTokSServer-40/0.39) > 1e-9 || r.PromptTokSServer != nil {
				t.Errorf("decode %v, prompt %v", r.DecodeTokSServer, r.PromptTokSServer)
			}
		}},
		{"the time from the first token to the last", "vllm", func(w *wire) { wires["vllm"](g, w) }, func(t *testing.T, r *row.Row) {
			if r.DecodeTokSServer == nil || math.Abs(*r.DecodeTokSServer-100) > 1e-9 {
				t.Errorf("decode %v, not the rate with prefill that the server states", r.DecodeTokSServer)
			}
		}},
		{"frames every 20 ms", "koboldcpp", func(w *wire) {
			for i := 0; i < len(words); i += 2 {
				w.send(g.at(i+1), chunk(obj{"role": "assistant", "content": words[i] + words[i+1]}, nil, nil))
			}
			w.send(g.end(), chunk(obj{"role": "assistant"}, "length", nil))
			w.send(g.end(), obj{"choices": []obj{}, "usage": plainUsage(g)})
			w.send(g.end(), "[DONE]")
		}, func(t *testing.T, r *row.Row) {
			if r.DecodeTokS == nil || math.Abs(*r.DecodeTokS-100) > 1 || *r.TokenFrames != 20 || *r.Gaps.MedianMS != 20 {
				t.Errorf("decode %v, %d frames", r.DecodeTokS, *r.TokenFrames)
			}
		}},
		{"one token less at the limit", "lmstudio", func(w *wire) {
			for i, tok := range words {
				w.send(g.at(i), chunk(obj{"content": tok}, nil, nil))
			}
			w.send(g.end(), chunk(obj{}, "length", nil))
			w.send(g.end(), obj{"choices": []obj{}, "usage": obj{"prompt_tokens": 88, "completion_tokens": 39, "total_tokens": 127}})
			w.send(g.end(), "[DONE]")
		}, func(t *testing.T, r *row.Row) {
			if len(r.IdentitiesFailed) != 1 || !strings.Contains(r.IdentitiesFailed[0], "39 tokens though the limit of 40") {
				t.Errorf("identities %q", r.IdentitiesFailed)
			}
		}},
		{"ends without a word", "mlx-lm", func(w *wire) {
			w.send(100, chunk(obj{"role": "assistant", "content": " was"}, nil, nil))
		}, failed("truncated", "")},
		{"the engine's time is longer than ours", "vllm", func(w *wire) {
			wires["vllm"](g, w)
			for i := range w.reads {
				w.reads[i].Bytes = []byte(strings.Replace(string(w.reads[i].Bytes), `"generation_time_ms":390`, `"generation_time_ms":3900`, 1))
			}
		}, func(t *testing.T, r *row.Row) {
			if r.DecodeTokS != nil || len(r.IdentitiesFailed) != 1 {
				t.Errorf("decode %v, identities %q: our window is a tenth of the engine's", r.DecodeTokS, r.IdentitiesFailed)
			}
		}},
	} {
		t.Run(c.engine+": "+c.name, func(t *testing.T) {
			a, err := adapters.ByName(c.engine)
			if err != nil {
				t.Fatal(err)
			}
			w := &wire{}
			c.render(w)
			c.check(t, wireRow(t, a, w))
		})
	}
}

// failed says that the row is failed for a code, in words that hold a text.
func failed(code, words string) func(t *testing.T, r *row.Row) {
	return func(t *testing.T, r *row.Row) {
		t.Helper()
		if r.Status != row.Failed || r.Error == nil || !strings.Contains(*r.Error, words) || r.DecodeTokS != nil || r.TTFTMS != nil {
			t.Errorf("status %s, error %v, decode %v", r.Status, r.Error, r.DecodeTokS)
		}
		if !slices.ContainsFunc(r.Withheld, func(w row.Withheld) bool { return slices.Contains(w.Codes, code) }) && (r.FailKind == nil || *r.FailKind != code) {
			t.Errorf("fail_kind %v, withheld %+v: want %s", r.FailKind, r.Withheld, code)
		}
	}
}
