package figure_test

import (
	"fmt"
	"strings"
	"testing"

	"assay/internal/kit/count"
	"assay/internal/kit/figure"
	"assay/internal/kit/stream"
)

// proxied is a reply of n frames of size bytes, a token each, made 10 ms apart
// from 100 ms on, behind a proxy that passes on 16 KiB when it has them, and the
// rest with the last frame.
func proxied(n, size int) []read {
	const piece = 16 << 10
	frame := "data: " + choice(`{"content":" w"}`) + "\n\n"
	frame = ":" + strings.Repeat("x", size-len(frame)-2) + "\n" + frame
	body := strings.Repeat(frame, n)
	var out []read
	for sent := 0; sent < len(body); {
		end := min(sent+piece, len(body))
		frames := (end + size - 1) / size // so many must have been made
		out = append(out, wire(100+10*float64(frames-1), body[sent:end]))
		sent = end
	}
	return out
}

func hostileCaches() []hostile {
	const (
		prefix   = "Fixed seed or prompt + prefix cache"
		excludes = "prompt_n excludes cached tokens, prompt_eval_count is 0 or missing"
		lag      = "Client CPU-bound, own lag"
		clump    = "a proxy or gzip that clumps the stream"
	)
	cached := func(prompt, n int) read {
		return at(490, finish("length"), strings.Replace(usage(prompt, 40), `"cached_tokens":0`, fmt.Sprintf(`"cached_tokens":%d`, n), 1), done())
	}
	// The same reply from Ollama, with what it says of the prompt.
	ollama := func(prompt string) []read {
		var out []read
		for i := range 40 {
			out = append(out, wire(100+10*float64(i), `{"message":{"role":"assistant","content":" w"},"done":false}`+"\n"))
		}
		return append(out, wire(490, `{"message":{"role":"assistant","content":""},"done":true,"done_reason":"length",`+prompt+`"eval_count":40,"eval_duration":400000000}`+"\n"))
	}
	return []hostile{
		{
			// 990 of 1000 tokens were there: TTFT is not that of a prompt of 1000.
			pitfall: prefix, name: "nearly all of the prompt was cached",
			reads: join(forty(), cached(1000, 990)),
			want: but(func(w *want) {
				w.TTFT, w.TTFV, w.Prompt = "100.000 withheld: cached-prompt", "100.000 withheld: cached-prompt", "100.000 withheld: cached-prompt"
				w.Withheld, w.Why = "cached-prompt", "990 of 1000 prompt tokens came from a cache"
			}),
		},
		{
			// Ten tokens precede the nonce, and they may be cached: 990 in 100 ms.
			pitfall: prefix, name: "what precedes the nonce was cached",
			reads: join(forty(), cached(1000, 10)),
			in:    func(in *figure.Inputs) { in.BeforeNonce = ptr(10) },
			want:  but(func(w *want) { w.Prompt = "9900.000" }),
			also: func(t *testing.T, f *figure.Figures) {
				if f.TTFT.Note != "10 of 1000 prompt tokens came from a cache" {
					t.Errorf("TTFT is not marked: %q", f.TTFT.Note)
				}
			},
		},
		{
			// One more: the nonce itself was found in the cache, so it was not fresh.
			pitfall: prefix, name: "the nonce was cached",
			reads: join(forty(), cached(2000, 11)),
			in:    func(in *figure.Inputs) { in.BeforeNonce = ptr(10) },
			want: but(func(w *want) {
				w.TTFT, w.TTFV, w.Prompt = "100.000 withheld: cached-prompt", "100.000 withheld: cached-prompt", "19890.000 withheld: cached-prompt"
				w.Withheld, w.Why = "cached-prompt", "11 tokens came from a cache, but only 10 precede the nonce"
			}),
		},
		{
			pitfall: prefix, name: "the engine does not say",
			reads: join(forty(), at(490, finish("length"), `{"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":40}}`, done())),
			want:  but(func(w *want) { w.Prompt = "10000.000" }),
			also: func(t *testing.T, f *figure.Figures) {
				if !strings.HasPrefix(f.PromptClient.Note, "nonce only") || !strings.HasPrefix(f.TTFT.Note, "nonce only") {
					t.Errorf("notes %q, %q", f.PromptClient.Note, f.TTFT.Note)
				}
			},
		},

		{
			// llama-server: of 41 tokens 40 were cached, prompt_n says 1, in 2 ms. 41/2 ms
			// would be 20,500 a second, 1/2 ms is 500; neither is a prompt rate.
			pitfall: excludes, name: "timings alone, prompt_n 1, cache_n 40",
			reads: join(forty(), at(490, finish("length"), `{"choices":[],"timings":{"cache_n":40,"prompt_n":1,"prompt_ms":2,"predicted_n":40,"predicted_ms":390,"predicted_per_second":100}}`, done())),
			want: but(func(w *want) {
				w.TTFT, w.TTFV, w.Prompt = "100.000 withheld: cached-prompt", "100.000 withheld: cached-prompt", "10.000 withheld: cached-prompt"
				w.Withheld, w.Why = "cached-prompt", "40 of 41 prompt tokens came from a cache"
			}),
			also: func(t *testing.T, f *figure.Figures) {
				if value(f.PromptServer) != "500.000 withheld: cached-prompt" {
					t.Errorf("the engine's prompt rate %s", value(f.PromptServer))
				}
			},
		},
		{
			pitfall: excludes, name: "prompt_eval_count is missing", kind: stream.NDJSON,
			reads: ollama(""),
			want:  but(func(w *want) { w.Prompt = "null: the number of prompt tokens is not known" }),
			also: func(t *testing.T, f *figure.Figures) {
				if f.PromptServer.Value != nil {
					t.Errorf("the engine's prompt rate %s", value(f.PromptServer))
				}
			},
		},
		{
			pitfall: excludes, name: "prompt_eval_count is 0", kind: stream.NDJSON,
			reads: ollama(`"prompt_eval_count":0,"prompt_eval_duration":5000000,`),
			want:  but(func(w *want) { w.Prompt = "null: no prompt token was computed" }),
			also: func(t *testing.T, f *figure.Figures) {
				if got := value(f.PromptServer); !strings.HasPrefix(got, "null: the engine computed no prompt token") {
					t.Errorf("the engine's prompt rate %s", got)
				}
			},
		},
		{
			// prompt_eval_count has the cached ones in it, and nobody says how many: 50
			// tokens in 5 ms may be 50 or one. It is marked.
			pitfall: excludes, name: "prompt_eval_count of an unknown cache", kind: stream.NDJSON,
			reads: ollama(`"prompt_eval_count":50,"prompt_eval_duration":5000000,`),
			want:  but(func(w *want) { w.Prompt = "500.000" }),
			also: func(t *testing.T, f *figure.Figures) {
				if value(f.PromptServer) != "10000.000" || !strings.HasPrefix(f.PromptServer.Note, "nonce only") {
					t.Errorf("the engine's prompt rate %s, note %q", value(f.PromptServer), f.PromptServer.Note)
				}
			},
		},

		{
			// The kernel had each frame 0.5 ms before the client: under 1 % of both.
			pitfall: lag, name: "a client that keeps up",
			reads: join(forty(), ending()), rec: kernelBefore(0.5),
			want: plain(),
		},
		{
			// 2 ms are 2 % of a TTFT of 100 ms, and 0.5 % of a window of 390 ms.
			pitfall: lag, name: "a client too slow for TTFT",
			reads: join(forty(), ending()), rec: kernelBefore(2),
			want: but(func(w *want) {
				w.TTFT, w.TTFV, w.Prompt = "100.000 withheld: client-lag", "100.000 withheld: client-lag", "50.000 withheld: client-lag"
				w.Withheld, w.Why = "client-lag", "2.000 ms (p99), more than 1 % of 100.000 ms"
			}),
		},
		{
			// 5 ms are 1.3 % of the window too.
			pitfall: lag, name: "a client too slow for anything",
			reads: join(forty(), ending()), rec: kernelBefore(5),
			want: but(func(w *want) {
				w.TTFT, w.TTFV, w.Prompt = "100.000 withheld: client-lag", "100.000 withheld: client-lag", "50.000 withheld: client-lag"
				w.Decode, w.Simple, w.Withheld = "100.000 withheld: client-lag", "100.000 withheld: client-lag", "client-lag"
			}),
		},

		{
			// Frames of 128 bytes, 128 a piece, eight pieces. The first goes when its last
			// frame is made, at 100 + 127 x 10 ms: the first token has waited for 1270. The
			// rate, 896 tokens in 7 x 1280 ms, would even be right.
			pitfall: clump, name: "16 KB at a time, cut between frames",
			reads: join(proxied(1024, 128), at(10340, finish("length"), usage(5, 1024), done())),
			want: want{
				TTFT: "1370.000 withheld: clumped", Decode: "100.000 withheld: clumped", N: 1024, Verdict: count.AgreeIndependent,
				Withheld: "clumped", Why: "one read holds 128 tokens (the limit is 16)",
			},
		},
		{
			// Frames of 120 bytes, 136.53 a piece. Seven pieces bring 136, 137, 136, 137,
			// 136, 137 and 136 whole frames, the last one 70. The first goes when frame 137
			// is made, at 1460 ms; the last at 10340. 889 tokens in 8880 ms.
			pitfall: clump, name: "16 KB at a time, cut within frames",
			reads: join(proxied(1025, 120), at(10340, finish("length"), usage(5, 1025), done())),
			want: want{
				TTFT: "1460.000 withheld: clumped", Decode: "100.113 withheld: clumped", N: 1025, Verdict: count.AgreeIndependent,
				Withheld: "clumped", Why: "one read holds 137 tokens (the limit is 16)",
			},
		},
		{
			// The engine took 390 ms for 39 tokens; the proxy gave them to us in 200.
			pitfall: clump, name: "a proxy that held the beginning back",
			reads: join(every(300, 5, 40, 1), at(495, finish("length"), usage(5, 40), timings(40, 390, 100), done())),
			want: want{
				TTFT: "300.000 withheld: clumped", Decode: "200.000 withheld: clumped", N: 40, Verdict: count.AgreeIndependent,
				Withheld: "clumped", Why: "our window is 195.000 ms, the engine's for the same tokens 390.000 ms",
			},
		},
	}
}

// kernelBefore lets the kernel have each read some ms before its stamp.
func kernelBefore(ms float64) func(*stream.Recording) {
	return func(rec *stream.Recording) {
		for i := range rec.Reads {
			rec.Reads[i].Kernel = rec.Reads[i].At - int64(ms*1e6)
		}
	}
}
