package figure_test

import (
	"strings"
	"testing"

	"assay/internal/kit/count"
	"assay/internal/kit/figure"
)

func hostileCounts() []hostile {
	const (
		frames   = "Frames counted as tokens"
		pieces   = "Each chunk tokenised by itself, or with BOS added"
		noUsage  = "Usage missing and max_tokens taken in its place"
		back     = "Text that does not tokenise back"
		disagree = "Client and server disagree"
	)
	return []hostile{
		{
			// 78 tokens in 39 x 20 ms. Frames counted as tokens: 50 a second.
			pitfall: frames, name: "frames of two tokens",
			reads: join(every(100, 20, 40, 2), at(880, finish("length"), usage(5, 80), done())),
			want:  want{TTFT: "100.000", Decode: "100.000", N: 80, Verdict: count.AgreeIndependent},
		},
		{
			// 95 tokens in 19 x 50 ms. Frames counted as tokens: 20 a second.
			pitfall: frames, name: "frames of five tokens",
			reads: join(every(100, 50, 20, 5), at(1050, finish("length"), usage(5, 100), done())),
			want:  want{TTFT: "100.000", Decode: "100.000", N: 100, Verdict: count.AgreeIndependent},
		},
		{
			// Frames of five, and nobody to say so: 19 tokens at least after the first
			// frame, 99 at most. The middle of that, 59 in 950 ms, is no result.
			pitfall: frames, name: "frames of five tokens, without a tokenizer", noText: true,
			reads: join(every(100, 50, 20, 5), at(1050, finish("length"), usage(5, 100), done())),
			want: want{
				TTFT: "100.000", Decode: "62.105 withheld: n-first-unknown", N: 100, Verdict: count.Unchecked,
				Withheld: "n-first-unknown", Why: "between 19 and 99 tokens",
			},
		},
		{
			// Rounds of one to four tokens, 40 ms apart, a frame each: four in the first;
			// then four times 1, 4, 3, 2 and once 1, 4, 3, which is 48 in 19 x 40 ms.
			pitfall: frames, name: "rounds of changing size",
			reads: func() []read {
				out, n := []read{at(100, text(words(4)))}, 4
				for i := range 19 {
					k := 1 + (3*i)%4
					out, n = append(out, at(140+40*float64(i), text(words(k)))), n+k
				}
				return join(out, at(860, finish("length"), usage(5, n), done()))
			}(),
			want: want{TTFT: "100.000", Decode: "63.158", N: 52, Verdict: count.AgreeIndependent},
		},
		{
			// A character of three bytes and one token shown as two frames: more frames
			// than tokens. Then a frame does not even hold one token, and no bound holds.
			pitfall: frames, name: "more frames than tokens", noText: true,
			reads: join(forty(), at(490, finish("length"), usage(5, 38), done())),
			want: want{
				TTFT: "100.000", Decode: "null: 40 frames carry text, but there are only 38 tokens", N: 38, Verdict: count.Unchecked,
				Withheld: "n-first-unknown",
			},
		},

		{
			// 200 frames of six letters are 1200 bytes, 300 tokens of four. Each frame by
			// itself would give two, 400 in all, and a mismatch. The first frame ends
			// within the second token, so one or two were made by then: 298 or 299 in
			// 1990 ms, in the middle 150.
			pitfall: pieces, name: "frames that end within tokens", tok: quads,
			reads: func() []read {
				var out []read
				for i := range 200 {
					out = append(out, at(100+10*float64(i), text("abcdef")))
				}
				return join(out, at(2090, finish("length"), usage(5, 300), done()))
			}(),
			want: want{TTFT: "100.000", Decode: "150.000", N: 300, Verdict: count.AgreeIndependent},
			also: func(t *testing.T, f *figure.Figures) {
				if !near(f.Window.NLow, 298) || !near(f.Window.NHigh, 299) {
					t.Errorf("bounds %v to %v", *f.Window.NLow, *f.Window.NHigh)
				}
			},
		},
		{
			// The same with 40 frames: 240 bytes, 60 tokens; 58 or 59 are 1.7 % apart.
			pitfall: pieces, name: "too few of them to leave one token open", tok: quads,
			reads: func() []read {
				var out []read
				for i := range 40 {
					out = append(out, at(100+10*float64(i), text("abcdef")))
				}
				return join(out, at(490, finish("length"), usage(5, 60), done()))
			}(),
			want: want{
				TTFT: "100.000", Decode: "150.000 withheld: n-first-unknown", N: 60, Verdict: count.AgreeIndependent,
				Withheld: "n-first-unknown", Why: "between 58 and 59",
			},
		},

		{
			// 256 were asked for. That says nothing of how many came.
			pitfall: noUsage, name: "no usage, no tokenizer", noText: true,
			reads: join(forty(), at(490, finish("length"), done())),
			in:    func(in *figure.Inputs) { in.Asked = 256 },
			want: want{
				TTFT: "100.000", Decode: "null: the number of tokens is not known", Simple: "null: the number of tokens is not known",
				N: unknown, Verdict: count.Unchecked, Withheld: "n-first-unknown",
			},
			also: func(t *testing.T, f *figure.Figures) {
				if f.Short {
					t.Error("called short by a number that is not known")
				}
			},
		},
		{
			// Counted in the text: 40, and so far under 256 that the row is left out.
			pitfall: noUsage, name: "no usage, but a tokenizer",
			reads: join(forty(), at(490, finish("length"), done())),
			in:    func(in *figure.Inputs) { in.Asked = 256 },
			want:  want{TTFT: "100.000", Decode: "100.000", Simple: "100.000", N: 40, Verdict: count.Unchecked},
			also: func(t *testing.T, f *figure.Figures) {
				if !f.Short || !f.LeaveOut || f.Decode.Note == "" {
					t.Errorf("short %v, left out %v, note %q", f.Short, f.LeaveOut, f.Decode.Note)
				}
			},
		},
		{
			// A usage without the number is no number.
			pitfall: noUsage, name: "usage is there but empty", noText: true,
			reads: join(forty(), at(490, finish("length"), `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":null}}`, done())),
			want: want{
				TTFT: "100.000", Decode: "null: the number of tokens is not known", N: unknown, Verdict: count.Unchecked,
				Withheld: "n-first-unknown",
			},
		},

		{
			// Each token is a run of two spaces and a word; our tokenizer makes two of it.
			// The server's 40 stay the count, the text's 80 only accuse it.
			pitfall: back, name: "runs of spaces",
			reads: func() []read {
				var out []read
				for i := range 40 {
					out = append(out, at(100+10*float64(i), text("  w")))
				}
				return join(out, ending())
			}(),
			want: want{
				TTFT: "100.000", Decode: "100.000 withheld: count-mismatch", N: 40, Verdict: count.Mismatch,
				Withheld: "count-mismatch", Why: "text by words says 80",
			},
		},
		{
			// One token of 40 comes back as two: within two tokens, and 39 frames follow
			// the first one whatever the text says.
			pitfall: back, name: "one token too many",
			reads: join(every(100, 10, 39, 1), at(490, text(" w w")), ending()),
			want:  plain(),
		},

		{
			// The text has 40 tokens, the server says 60: 50 % more.
			pitfall: disagree, name: "usage says half as much again",
			reads: join(forty(), at(490, finish("length"), usage(5, 60), done())),
			want: want{
				// 39 to 59 tokens in 390 ms; the middle is kept aside for both reasons.
				TTFT: "100.000", Decode: "125.641 withheld: count-mismatch, n-first-unknown", N: 60, Verdict: count.Mismatch,
				Withheld: "count-mismatch, n-first-unknown",
			},
		},
		{
			// One counter of the server seen twice must be the same number.
			pitfall: disagree, name: "usage and timings are one apart",
			reads: join(forty(), at(490, finish("length"), usage(5, 40), timings(41, 390, 102.564), done())),
			want: but(func(w *want) {
				w.Decode, w.Simple, w.Verdict = "100.000 withheld: count-mismatch", "100.000 withheld: count-mismatch", count.Mismatch
				w.Withheld, w.Why = "count-mismatch", "timings.predicted_n says 41"
			}),
			also: func(t *testing.T, f *figure.Figures) {
				if f.DecodeServer.Value != nil {
					t.Errorf("the engine's rate is shown: %s", value(f.DecodeServer))
				}
			},
		},
		{
			// 3 % of 200 are 6 tokens: 194 agree, 193 do not.
			pitfall: disagree, name: "the text falls short by the most that is allowed",
			reads: join(every(100, 10, 194, 1), at(2030, finish("length"), usage(5, 200), done())),
			want: want{
				// 193 to 199 in 1930 ms.
				TTFT: "100.000", Decode: "101.554 withheld: n-first-unknown", N: 200, Verdict: count.AgreeIndependent,
				Withheld: "n-first-unknown",
			},
		},
		{
			pitfall: disagree, name: "and by one more",
			reads: join(every(100, 10, 193, 1), at(2020, finish("length"), usage(5, 200), done())),
			want: want{
				TTFT: "100.000", Decode: "101.823 withheld: count-mismatch, n-first-unknown", N: 200, Verdict: count.Mismatch,
				Withheld: "count-mismatch, n-first-unknown",
			},
		},
		{
			// The bytes of a character went astray: the text can't accuse anyone.
			pitfall: disagree, name: "text with U+FFFD is not counted",
			reads: join(every(100, 10, 39, 1), at(490, text(strings.Repeat("\ufffd", 30))), ending()),
			want:  but(func(w *want) { w.Verdict = count.Unchecked }),
		},
	}
}
