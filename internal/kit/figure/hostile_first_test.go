package figure_test

import (
	"testing"

	"assay/internal/kit/count"
	"assay/internal/kit/figure"
	"assay/internal/kit/stream"
)

func hostileFirst() []hostile {
	const (
		noToken = "Role frame, content:\"\", content:null, empty chunk"
		kinds   = "reasoning, reasoning_content, thinking, tool_calls ignored"
		nothing = "No token at all reported as TTFT 0.00"
	)
	// half in another field than content, then half visible.
	halves := func(frame string) []read {
		var out []read
		for i := range 20 {
			out = append(out, at(100+10*float64(i), choice(frame)))
		}
		return join(out, every(300, 10, 20, 1), ending())
	}
	// The first of all at 100 ms, the first visible one at 300; the window begins
	// with the first of any kind: 39 tokens in 390 ms. Begun with the visible ones
	// it would be 19 frames in 190 ms, or 39 tokens in 190. The tokens that mark
	// reasoning are not in the text, so nothing is held against the count.
	mixed := want{TTFT: "100.000", TTFV: "300.000", Decode: "100.000", Simple: "100.000", N: 40, Verdict: count.Unchecked}
	// A reply of Ollama, a JSON value a line.
	line := func(ms float64, message string) read {
		return wire(ms, `{"model":"m","message":{"role":"assistant",`+message+`},"done":false}`+"\n")
	}

	return []hostile{
		{
			// Six frames before the first token, from 50 ms on; none carries text.
			pitfall: noToken, name: "frames of every empty kind come first",
			reads: join(
				at(50, role()), at(60, choice(`{"role":"assistant","content":null}`)), at(70, text("")), at(75, choice(`{}`)), at(78, `{"choices":[]}`),
				wire(80, ": processing\n\n"), at(90, usage(5, 0)), forty(), ending()),
			want: plain(),
		},
		{
			pitfall: noToken, name: "all fields are there and empty",
			reads: join(at(50, choice(`{"role":"assistant","content":"","reasoning_content":"","reasoning":null,"thinking":"","tool_calls":[]}`)), forty(), ending()),
			want:  plain(),
		},
		{
			// Progress of the prompt comes with a role each time (llama-server).
			pitfall: noToken, name: "progress frames",
			reads: join(
				at(20, `{"choices":[{"delta":{"role":"assistant","content":null}}],"prompt_progress":{"total":5,"cache":0,"processed":0}}`),
				at(60, `{"choices":[{"delta":{"role":"assistant","content":null}}],"prompt_progress":{"total":5,"cache":0,"processed":5}}`), forty(), ending()),
			want: plain(),
		},
		{
			// The role in the frame of the first token takes nothing from it.
			pitfall: noToken, name: "role and first token in one frame",
			reads: join(at(100, choice(`{"role":"assistant","content":" w"}`)), every(110, 10, 39, 1), ending()),
			want:  plain(),
		},

		{pitfall: kinds, name: "reasoning_content, then content", reads: halves(`{"reasoning_content":" w"}`), want: mixed},
		{pitfall: kinds, name: "reasoning, then content", reads: halves(`{"reasoning":" w"}`), want: mixed},
		{pitfall: kinds, name: "thinking, then content", reads: halves(`{"thinking":" w"}`), want: mixed},
		{pitfall: kinds, name: "tool_calls, then content", reads: halves(`{"tool_calls":[{"index":0,"function":{"arguments":" w"}}]}`), want: mixed},
		{
			// The same text under two names is one text: joined it has 40 words.
			pitfall: kinds, name: "reasoning under two names at once",
			reads: halves(`{"reasoning":" w","reasoning_content":" w"}`), want: mixed,
			also: func(t *testing.T, f *figure.Figures) {
				if !near(f.Window.NLast, 40) {
					t.Errorf("N_last %v", *f.Window.NLast)
				}
			},
		},
		{
			// Nothing but tool calls: 39 in 390 ms, and no visible token.
			pitfall: kinds, name: "only tool_calls",
			reads: func() []read {
				var out []read
				for i := range 40 {
					out = append(out, at(100+10*float64(i), choice(`{"tool_calls":[{"function":{"arguments":" w"}}]}`)))
				}
				return join(out, at(490, finish("tool_calls"), usage(5, 40), done()))
			}(),
			in:   func(in *figure.Inputs) { in.EndTokenCounted = ptr(false) },
			want: want{TTFT: "100.000", TTFV: "null: no frame carries visible text", Decode: "100.000", N: 40, Verdict: count.Unchecked},
		},
		{
			// Ollama's own form: 20 of thinking from 100 ms, 20 visible from 300.
			pitfall: kinds, name: "thinking, then content, as Ollama writes it", kind: stream.NDJSON,
			reads: func() []read {
				var out []read
				for i := range 40 {
					field := `"content":"","thinking":" w"`
					if i >= 20 {
						field = `"content":" w"`
					}
					out = append(out, line(100+10*float64(i), field))
				}
				return append(out, wire(490, `{"message":{"role":"assistant","content":""},"done":true,"done_reason":"length","eval_count":40}`+"\n"))
			}(),
			want: mixed,
		},

		{
			// Not zero, and not a success.
			pitfall: nothing, name: "a role, an end, a usage of zero",
			reads: join(at(50, role()), at(60, finish("stop"), usage(5, 0), done())),
			want: want{
				TTFT: "null: no frame carries text", TTFV: "null: no frame carries visible text", Decode: "null: no frame carries text", Simple: "null: no frame carries text",
				Prompt: "null: no frame carries text", N: 0, Verdict: count.Unchecked, Withheld: "stream-error", Why: "no frame carries text", Failed: true,
			},
		},
		{
			pitfall: nothing, name: "an end token and nothing else",
			reads: join(at(50, role()), at(60, finish("stop"), usage(5, 1), done())),
			want: want{
				TTFT: "null: no frame carries text", Decode: "null: no frame carries text", N: 1, Verdict: count.Unchecked,
				Withheld: "stream-error", Failed: true,
			},
		},
		{
			pitfall: nothing, name: "an empty body",
			want: want{
				TTFT: "null: no frame carries text", Decode: "null: no frame carries text", N: unknown, Verdict: count.Unchecked,
				Withheld: "stream-error, truncated", Failed: true,
			},
		},
	}
}
