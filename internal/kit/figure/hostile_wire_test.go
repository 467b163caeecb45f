package figure_test

import (
	"strings"
	"testing"

	"assay/internal/kit/count"
	"assay/internal/kit/figure"
	"assay/internal/kit/stream"
)

func hostileErrors() []hostile {
	const (
		after200  = "data: {\"error\":...} after HTTP 200 counted as success"
		truncated = "A clean close after a tenth of the tokens"
	)
	// What was seen before the end is kept aside, and nothing is shown.
	gone := func(codes, why string, n int, verdict count.Verdict) want {
		return want{
			TTFT: "100.000 withheld: " + strings.TrimPrefix(codes, "short, "), Decode: "100.000 withheld: " + codes, N: n, Verdict: verdict,
			Withheld: codes, Why: why, Failed: true,
		}
	}
	const oom = `{"error":{"message":"out of memory","type":"server_error","code":500}}`
	half := every(100, 10, 20, 1)
	return []hostile{
		{
			// [DONE] is sent after an error too (vLLM, SGLang), and a usage may be.
			pitfall: after200, name: "an error, usage, [DONE]",
			reads: join(half, at(300, oom), at(301, finish("stop"), usage(5, 20), done())),
			want:  gone("stream-error", "out of memory (server_error)", 20, count.AgreeIndependent),
		},
		{
			pitfall: after200, name: "an error as an event of that name",
			reads: join(half, wire(300, "event: error\ndata: {\"message\":\"out of memory\"}\n\n"), at(301, finish("stop"), usage(5, 20), done())),
			want:  gone("stream-error", "out of memory", 20, count.AgreeIndependent),
		},
		{
			// Not even JSON. 19 tokens in 190 ms by the text.
			pitfall: after200, name: "an error in words, then [DONE]",
			reads: join(half, at(300, "Internal Server Error"), at(301, done())),
			want:  gone("stream-error", "no finish_reason came, but this: frame 20", 20, count.Unchecked),
		},
		{
			pitfall: after200, name: "an error as the reason to finish",
			reads: join(half, at(300, finish("abort"), usage(5, 20), done())),
			want:  gone("stream-error", `"abort"`, 20, count.AgreeIndependent),
		},
		{
			pitfall: after200, name: "an error alone, before any token",
			reads: join(at(50, role()), at(60, oom)),
			want: want{
				TTFT: "null: no frame carries text", Decode: "null: no frame carries text", N: unknown, Verdict: count.Unchecked,
				Withheld: "stream-error, truncated", Failed: true,
			},
		},
		{
			pitfall: after200, name: "an error as the whole body", kind: stream.JSON,
			reads: []read{wire(60, oom)},
			want: want{
				TTFT: "null: no frame carries text", Decode: "null: no frame carries text", N: unknown, Verdict: count.Unchecked,
				Withheld: "stream-error, truncated", Failed: true,
			},
		},
		{
			// Ollama: no done frame follows.
			pitfall: after200, name: "an error as a line of JSON", kind: stream.NDJSON, noText: true,
			reads: []read{wire(100, `{"message":{"content":"a"},"done":false}`+"\n"), wire(110, `{"error":"out of memory"}`+"\n")},
			want: want{
				TTFT: "100.000 withheld: clumped, stream-error, truncated", Decode: "null: the number of tokens is not known", N: unknown, Verdict: count.Unchecked,
				Withheld: "n-first-unknown, clumped, stream-error, truncated", Failed: true,
			},
		},
		{
			// A field for errors with none in it is no error.
			pitfall: after200, name: "error: null and an empty error in every frame",
			reads: func() []read {
				var out []read
				for i := range 40 {
					e := []string{`null`, `""`}[i%2]
					out = append(out, at(100+10*float64(i), `{"error":`+e+`,"choices":[{"delta":{"content":" w"}}]}`))
				}
				return join(out, ending())
			}(),
			want: plain(),
		},

		{
			// 20 of 200 tokens, and the connection ends as HTTP says it should.
			pitfall: truncated, name: "neither finish_reason nor [DONE]",
			reads: half,
			in:    func(in *figure.Inputs) { in.Asked = 200 },
			want:  gone("short, truncated", "neither a finish_reason nor [DONE] came", 20, count.Unchecked),
		},
		{
			// 19 tokens in 190 ms; a usage on every frame does not make it whole.
			pitfall: truncated, name: "usage on every frame", noText: true,
			reads: running(100, span(1, 20)...),
			in:    func(in *figure.Inputs) { in.Asked = 200 },
			want:  gone("short, truncated", "neither a finish_reason nor [DONE] came", 20, count.Unchecked),
		},
		{
			// The frame that was cut holds no finish_reason, whatever it began to say.
			pitfall: truncated, name: "cut within the finish frame", noText: true,
			reads: join(running(100, span(1, 20)...), wire(300, `data: {"choices":[{"delta":{},"finish_reason":"len`)),
			want:  gone("stream-error, truncated", "neither a finish_reason nor [DONE] came", 20, count.Unchecked),
		},
		{
			// HTTP itself noticed: the client says how.
			pitfall: truncated, name: "hung up within a chunk", noText: true,
			reads: running(100, span(1, 20)...),
			rec:   func(rec *stream.Recording) { rec.Clean = false },
			in:    func(in *figure.Inputs) { in.StreamErr = "body: the server hung up before the last chunk of the body" },
			want:  gone("stream-error, truncated", "", 20, count.Unchecked),
		},
		{
			// [DONE] came: the reply is whole, but short of what was asked for, and 19
			// intervals are too few to keep its rate.
			pitfall: truncated, name: "a tenth, then [DONE]",
			reads: join(half, at(300, done())),
			in:    func(in *figure.Inputs) { in.Asked = 200 },
			want: want{
				TTFT: "100.000", Decode: "100.000 withheld: short", N: 20, Verdict: count.Unchecked,
				Withheld: "short", Why: "20 of 200 asked tokens, in 19 intervals",
			},
			also: func(t *testing.T, f *figure.Figures) {
				if !f.Short || !f.LeaveOut {
					t.Errorf("short %v, left out %v", f.Short, f.LeaveOut)
				}
			},
		},
		{
			// 40 intervals carry the rate, but the row still stays out of summaries.
			pitfall: truncated, name: "41 of 200, then finish_reason without [DONE]",
			reads: join(every(100, 10, 41, 1), at(500, finish("length"), usage(5, 41))),
			in:    func(in *figure.Inputs) { in.Asked = 200 },
			want:  want{TTFT: "100.000", Decode: "100.000", N: 41, Verdict: count.AgreeIndependent},
			also: func(t *testing.T, f *figure.Figures) {
				if !f.Short || !f.LeaveOut {
					t.Errorf("short %v, left out %v", f.Short, f.LeaveOut)
				}
			},
		},
	}
}

// rewrite changes the bytes of each read and leaves its time.
func rewrite(reads []read, with func(bytes string) string) []read {
	var out []read
	for _, r := range reads {
		out = append(out, read{r.ms, with(r.bytes)})
	}
	return out
}

// replace is rewrite by pairs of old and new text.
func replace(reads []read, pairs ...string) []read {
	return rewrite(reads, strings.NewReplacer(pairs...).Replace)
}

// late moves the last n bytes of each read to a read of their own, by ms later.
func late(reads []read, n int, by float64) []read {
	var out []read
	for _, r := range reads {
		cut := len(r.bytes) - n
		out = append(out, read{r.ms, r.bytes[:cut]}, read{r.ms + by, r.bytes[cut:]})
	}
	return out
}

func hostileWire() []hostile {
	whole := func() []read { return join(at(50, role()), forty(), ending()) }
	// Reads that are cut in two, with CRLF, and an end that comes at 500 ms: the
	// simple rule has 39 tokens in 400 ms.
	cut := func(n int) []read {
		return join(late(replace(forty(), "\n", "\r\n"), n, 5), at(500, finish("length"), usage(5, 40), done()))
	}
	uncut := but(func(w *want) { w.Simple = "97.500" })
	// Each stamp is 5 ms later, the end too: the rates stay.
	moved := but(func(w *want) { w.TTFT, w.TTFV = "105.000", "105.000" })
	return []hostile{
		{pitfall: "data: without a space", name: "every line", reads: replace(whole(), "data: ", "data:"), want: plain()},
		{
			// Reading the prompt takes five seconds, with a ping each second. The first
			// token comes at 5100 ms.
			pitfall: "bare : pings every second", name: "while the prompt is read",
			reads: join(at(50, role()), wire(1000, ":\n\n"), wire(2000, ":\n\n"), wire(3000, ":\n\n"), wire(4000, ":\n\n"), wire(5000, ":\n\n"),
				every(5100, 10, 40, 1), at(5490, finish("length"), usage(5, 40), done())),
			want: but(func(w *want) { w.TTFT, w.TTFV, w.Prompt = "5100.000", "5100.000", "0.980" }), // 5 tokens in 5.1 s
		},
		{
			// A comment may stand within an event, and in the read of the one before.
			pitfall: "bare : pings every second", name: "between and within events",
			reads: rewrite(whole(), func(s string) string { return ":\n\n" + strings.ReplaceAll(s, "\n\n", "\n:\n\n: x\n\n") }),
			want:  plain(),
		},

		{pitfall: "CRLF, lone CR, CR|LF split across reads", name: "CRLF", reads: replace(whole(), "\n", "\r\n"), want: plain()},
		{pitfall: "CRLF, lone CR, CR|LF split across reads", name: "lone CR", reads: replace(whole(), "\n", "\r"), want: plain()},
		{
			// The last LF comes 5 ms later. The CR before it ended the line, and the line
			// the event: nothing was waited for.
			pitfall: "CRLF, lone CR, CR|LF split across reads", name: "CR|LF of the blank line in two reads",
			reads: cut(1),
			want:  uncut,
		},
		{
			// The blank line itself comes 5 ms later: only then is the event there.
			pitfall: "CRLF, lone CR, CR|LF split across reads", name: "CR|LF of the data line in two reads",
			reads: cut(3),
			want:  but(func(w *want) { w.TTFT, w.TTFV, w.Simple = "105.000", "105.000", "98.734" }), // 39 in 395 ms
		},

		{
			pitfall: "BOM", name: "before the first line",
			reads: func() []read { r := whole(); r[0].bytes = "\xef\xbb\xbf" + r[0].bytes; return r }(),
			want:  plain(),
		},
		{
			// Missed, it would make the first line one of an unknown field, and the first
			// token be lost: 200 instead of 100 ms.
			pitfall: "BOM", name: "in reads of its own, before the first token",
			reads: join(wire(10, "\xef\xbb"), wire(20, "\xbf"), forty(), ending()),
			want:  plain(),
		},

		{
			pitfall: "event:/id: lines", name: "around every event",
			reads: rewrite(whole(), func(s string) string {
				return strings.ReplaceAll(s, "data: ", "event: message\nid: 7\nretry: 10\nnonsense\ndata: ")
			}),
			want: plain(),
		},
		{
			// The JSON is cut where a line may be: after a brace.
			pitfall: "several data lines in one event", name: "two of them",
			reads: rewrite(whole(), func(s string) string { return strings.ReplaceAll(s, `"delta":{`, "\"delta\":{\ndata: ") }),
			want:  plain(),
		},

		{
			pitfall: "[DONE] without a blank line or none", name: "one line end after it",
			reads: join(forty(), at(490, finish("length"), usage(5, 40)), wire(491, "data: [DONE]\n")),
			want:  plain(),
		},
		{
			// The text alone tells the count here; [DONE] is the only sign of an end.
			pitfall: "[DONE] without a blank line or none", name: "no line end after it, no finish_reason",
			reads: join(forty(), wire(491, "data: [DONE]")),
			want: want{
				TTFT: "100.000", Decode: "100.000", Simple: "null: no finish_reason came", N: 40, Verdict: count.Unchecked,
			},
		},
		{
			pitfall: "[DONE] without a blank line or none", name: "none",
			reads: join(forty(), at(490, finish("length"), usage(5, 40))),
			want:  plain(),
		},

		{
			// The first frame has 1 MiB that nobody needs, in 16 reads from 85 ms to 100.
			pitfall: "a 64 KB line limit", name: "a first frame of 1 MB",
			reads: func() []read {
				line := "data: {\"choices\":[{\"delta\":{\"content\":\" w\"}}],\"pad\":\"" + strings.Repeat("x", 1<<20) + "\"}\n\n"
				var out []read
				for i := range 16 {
					n := min(1<<16, len(line))
					if i == 15 {
						n = len(line)
					}
					out, line = append(out, wire(85+float64(i), line[:n])), line[n:]
				}
				return join(out, every(110, 10, 39, 1), ending())
			}(),
			want: plain(),
		},

		{
			// Each token is " é"; its last byte and what follows come 5 ms later.
			pitfall: "a UTF-8 character split over chunks", name: "by the reads",
			reads: func() []read {
				var out []read
				for i := range 40 {
					out = append(out, at(100+10*float64(i), text(" \u00e9")))
				}
				tail := len("\xa9\"}") + len(`,"finish_reason":null}]}`) + len("\n\n")
				return join(late(out, tail, 5), at(495, finish("length"), usage(5, 40), done()))
			}(),
			want: moved,
		},
		{
			// The server itself cut a character and made two U+FFFD of it: the text is
			// damaged and can't be counted, the frames and the server's count can.
			pitfall: "a UTF-8 character split over chunks", name: "by the server",
			reads: join(every(100, 10, 38, 1), at(480, text(" \ufffd")), at(490, text("\ufffd")), ending()),
			want:  but(func(w *want) { w.Verdict = count.Unchecked }),
		},
	}
}
