package figure_test

import (
	"testing"

	"assay/internal/kit/count"
	"assay/internal/kit/figure"
	"assay/internal/kit/stream"
)

// running gives a frame of one word for each of the server's counts, 10 ms
// apart from first on.
func running(first float64, counts ...int) (out []read) {
	for i, n := range counts {
		out = append(out, at(first+10*float64(i), counted(" w", n)))
	}
	return out
}

// span lists the numbers from low to high.
func span(low, high int) (out []int) {
	for n := low; n <= high; n++ {
		out = append(out, n)
	}
	return out
}

func hostileRates() []hostile {
	return append(hostileFirstFrames(), hostileWindows()...)
}

func hostileFirstFrames() []hostile {
	const first = "(N-1)/(t_end - t_first) although the first frame carried many tokens"
	half := join(at(100, text(words(64))), every(110, 10, 64, 1), at(740, finish("length"), usage(5, 128), done()))
	return []hostile{
		{
			// The other 64 tokens come in the 640 ms after it: 100 a second. The simple
			// rule gives 127/640 ms = 198.4. Nobody makes 64 tokens at once unless by
			// drafts, so the first token was held back: nothing is shown.
			pitfall: first, name: "a first frame of half the tokens", reads: half,
			want: want{
				TTFT: "100.000 withheld: clumped", Decode: "100.000 withheld: clumped", Simple: "198.438 withheld: clumped",
				N: 128, Verdict: count.AgreeIndependent, Withheld: "clumped", Why: "one read holds 64 tokens (the limit is 16)",
			},
		},
		{
			// With drafts of 30 a round up to 90 tokens at once are believed.
			pitfall: first, name: "the same from an engine that drafts 30 a round", reads: half,
			in:   func(in *figure.Inputs) { in.DraftWindow = 30 },
			want: want{TTFT: "100.000", Decode: "100.000", Simple: "198.438", N: 128, Verdict: count.AgreeIndependent},
		},
		{
			// 64 to 127 tokens, nobody knows: the middle of the bounds is 95.5 in 640 ms.
			pitfall: first, name: "the same without a tokenizer", reads: half, noText: true,
			want: want{
				TTFT: "100.000", Decode: "149.219 withheld: n-first-unknown", N: 128, Verdict: count.Unchecked,
				Withheld: "n-first-unknown", Why: "between 64 and 127",
			},
		},
		{
			// 90 tokens in 900 ms. The simple rule counts 99.
			pitfall: first, name: "a first frame of ten tokens",
			reads: join(at(100, text(words(10))), every(110, 10, 90, 1), at(1000, finish("length"), usage(5, 100), done())),
			want:  want{TTFT: "100.000", Decode: "100.000", Simple: "110.000", N: 100, Verdict: count.AgreeIndependent},
		},
		{
			// Ten frames of one read: the burst ends where it begins, at 100 ms.
			pitfall: first, name: "ten frames in the first read",
			reads: join(at(100, text(" w"), text(" w"), text(" w"), text(" w"), text(" w"), text(" w"), text(" w"), text(" w"), text(" w"), text(" w")),
				every(110, 10, 90, 1), at(1000, finish("length"), usage(5, 100), done())),
			want: want{TTFT: "100.000", Decode: "100.000", Simple: "110.000", N: 100, Verdict: count.AgreeIndependent},
		},
		{
			// Ten frames in ten reads 0.1 ms apart: the first token is seen at 99.1 ms,
			// the window begins where the burst ends, at 100: 90 tokens in 900 ms.
			pitfall: first, name: "ten frames in quick reads",
			reads: func() []read {
				var out []read
				for i := range 10 {
					out = append(out, at(99.1+0.1*float64(i), text(" w")))
				}
				return join(out, every(110, 10, 90, 1), at(1000, finish("length"), usage(5, 100), done()))
			}(),
			want: want{TTFT: "99.100", Decode: "100.000", N: 100, Verdict: count.AgreeIndependent},
		},
		{
			// Two frames 1.5 ms apart are two bursts where the others lie 10 ms apart: from
			// 98.5 to 490 ms come 40 tokens.
			pitfall: first, name: "a quick second frame that is no burst",
			reads: join(at(98.5, text(" w")), forty(), at(490, finish("length"), usage(5, 41), done())),
			want:  want{TTFT: "98.500", Decode: "102.171", N: 41, Verdict: count.AgreeIndependent},
		},
		{
			// 0.9 ms apart they are one, which ends at 100 ms: 39 tokens in 390 ms.
			pitfall: first, name: "a quick second frame that is one",
			reads: join(at(99.1, text(" w")), forty(), at(490, finish("length"), usage(5, 41), done())),
			want:  want{TTFT: "99.100", Decode: "100.000", N: 41, Verdict: count.AgreeIndependent},
		},
		{
			// Ten frames of the first read are counted 1 to 10, the others to 100: 90 in
			// 900 ms.
			pitfall: first, name: "ten frames in the first read, by the running count", noText: true,
			reads: func() []read {
				first := read{ms: 100}
				for _, r := range running(0, span(1, 10)...) {
					first.bytes += r.bytes
				}
				return join(first, running(110, span(11, 100)...), at(1000, finish("length"), usage(5, 100), done()))
			}(),
			want: want{TTFT: "100.000", Decode: "100.000", N: 100, Verdict: count.Unchecked},
		},
		{
			// Ten frames in the first read and 90 after it, for 110 tokens: the 90 hold one
			// each at least, the ten of the first read too, so 90 to 100 came after it.
			pitfall: first, name: "ten frames in the first read, by bounds", noText: true,
			reads: join(at(100, text(" w"), text(" w"), text(" w"), text(" w"), text(" w"), text(" w"), text(" w"), text(" w"), text(" w"), text(" w")),
				every(110, 10, 90, 1), at(1000, finish("length"), usage(5, 110), done())),
			want: want{
				TTFT: "100.000", Decode: "105.556 withheld: n-first-unknown", N: 110, Verdict: count.Unchecked,
				Withheld: "n-first-unknown", Why: "between 90 and 100 tokens",
			},
		},
		{
			// An engine that drafts writes the four tokens of a round one by one, 0.05 ms
			// apart, each 8 ms. The median gap is 0.05 ms, for three gaps of four lie
			// within rounds, yet these are no single tokens. After the first round, whose
			// end is at 100.15 ms, 76 tokens come in 19 x 8 ms: 500 a second. Without the
			// rule for rounds: 79 in 152.15 ms, 519.
			pitfall: first, name: "rounds of drafts, token by token",
			reads: func() []read {
				var out []read
				for i := range 20 {
					for k := range 4 {
						out = append(out, at(100+8*float64(i)+0.05*float64(k), text(" w")))
					}
				}
				return join(out, at(252.15, finish("length"), usage(5, 80), done()))
			}(),
			want: want{TTFT: "100.000", Decode: "500.000", N: 80, Verdict: count.AgreeIndependent},
			also: func(t *testing.T, f *figure.Figures) {
				if f.Window.Bursts != 20 || !near(f.Window.NFirst, 4) {
					t.Errorf("%d bursts, N_first %v", f.Window.Bursts, *f.Window.NFirst)
				}
			},
		},
		{
			// The same, all counts given when the round is verified: 4, 4, 4, 4, 8, ...
			pitfall: first, name: "rounds of drafts whose count runs ahead", noText: true,
			reads: func() []read {
				var out []read
				for i := range 20 {
					for k := range 4 {
						out = append(out, at(100+8*float64(i)+0.05*float64(k), counted(" w", 4*(i+1))))
					}
				}
				return join(out, at(252.15, finish("length"), usage(5, 80), done()))
			}(),
			want: want{TTFT: "100.000", Decode: "500.000", N: 80, Verdict: count.Unchecked},
		},
		{
			// A fast engine under a quota of CPU time: 25 tokens of 0.4 ms each 100 ms. It
			// looks like drafts, and does no harm: from the end of the first 25 to the last
			// token, 475 tokens come in 19 x 100 ms.
			pitfall: first, name: "a fast engine that is halted",
			reads: func() []read {
				var out []read
				for i := range 20 {
					for k := range 25 {
						out = append(out, at(100+100*float64(i)+0.4*float64(k), text(" w")))
					}
				}
				return join(out, at(2009.6, finish("length"), usage(5, 500), done()))
			}(),
			want: want{TTFT: "100.000", Decode: "250.000", N: 500, Verdict: count.AgreeIndependent},
		},
		{
			// Reads of one stamp are one arrival: a coarse clock, or a recording that was
			// cut finer than it was stamped. Pairs 20 ms apart: 78 in 780 ms.
			pitfall: first, name: "two reads of one stamp",
			reads: func() []read {
				var out []read
				for i := range 40 {
					out = append(out, at(100+20*float64(i), text(" w")), at(100+20*float64(i), text(" w")))
				}
				return join(out, at(880, finish("length"), usage(5, 80), done()))
			}(),
			want: want{TTFT: "100.000", Decode: "100.000", N: 80, Verdict: count.AgreeIndependent},
			also: func(t *testing.T, f *figure.Figures) {
				if f.Window.Bursts != 40 || !near(f.Window.MedianMS, 20) {
					t.Errorf("%d bursts, median gap %v", f.Window.Bursts, *f.Window.MedianMS)
				}
			},
		},

		// Tokens that are never shown.
		{
			// 20 tokens, ten that are not shown, 20 tokens: the last at 590 ms is the
			// 50th. 49 in 490 ms. A count of frames would say 39.
			pitfall: first, name: "hidden tokens in the middle, by the running count",
			reads: join(running(100, span(1, 20)...), running(400, span(31, 50)...), at(590, finish("length"), usage(5, 50), done())), noText: true,
			want: want{TTFT: "100.000", Decode: "100.000", Simple: "100.000", N: 50, Verdict: count.Unchecked},
		},
		{
			// The same without a running count. They may lie anywhere: 39 to 49 in 490 ms.
			// And ten of 50 are more than any tokenizer is off by.
			pitfall: first, name: "hidden tokens in the middle, by the text",
			reads: join(every(100, 10, 20, 1), every(400, 10, 20, 1), at(590, finish("length"), usage(5, 50), done())),
			want: want{
				TTFT: "100.000", Decode: "89.796 withheld: count-mismatch, n-first-unknown", N: 50, Verdict: count.Mismatch,
				Withheld: "count-mismatch, n-first-unknown", Why: "between 39 and 49",
			},
		},
		{
			// One token of 400 is hidden somewhere: 398 or 399 in 3990 ms are within 1 %,
			// so the middle is shown: 398.5/3.99 s.
			pitfall: first, name: "one hidden token among many",
			reads: join(every(100, 10, 200, 1), every(2110, 10, 199, 1), at(4090, finish("length"), usage(5, 400), done())),
			want:  want{TTFT: "100.000", Decode: "99.875", N: 400, Verdict: count.AgreeIndependent},
		},
		{
			// The end token comes after the last text: N_last is 40 of 41, 39 in 390 ms.
			// The simple rule has it in: 40 in 390 ms.
			pitfall: first, name: "a hidden end token, by the running count", noText: true,
			reads: join(running(100, span(1, 40)...), at(490, finish("stop"), usage(5, 41), done())),
			want:  want{TTFT: "100.000", Decode: "100.000", Simple: "102.564", N: 41, Verdict: count.Unchecked},
		},
		{
			pitfall: first, name: "a hidden end token, by the text",
			reads: join(forty(), at(490, finish("stop"), usage(5, 41), done())),
			want:  want{TTFT: "100.000", Decode: "100.000", Simple: "102.564", N: 41, Verdict: count.AgreeIndependent},
		},
		{
			// Five tokens of a call's end are never shown: the running count's last is 40.
			pitfall: first, name: "several hidden tokens at the end, by the running count", noText: true,
			reads: join(running(100, span(1, 40)...), at(540, finish("stop"), usage(5, 45), done())),
			want:  want{TTFT: "100.000", Decode: "100.000", Simple: "100.000", N: 45, Verdict: count.Unchecked},
		},
		{
			// Ten hidden tokens before the first frame belong to N_first: the counts run
			// from 11 to 50, 39 in 390 ms.
			pitfall: first, name: "hidden tokens before the first frame", noText: true,
			reads: join(running(100, span(11, 50)...), at(490, finish("length"), usage(5, 50), done())),
			want:  want{TTFT: "100.000", Decode: "100.000", Simple: "125.641", N: 50, Verdict: count.Unchecked},
		},
		{
			// 500 of them: no read held them, so the rate stays, 39 in 390 ms. But the
			// time to the first text says nothing of the prompt any more.
			pitfall: first, name: "a hidden chain of thought", noText: true,
			reads: join(running(5100, span(501, 540)...), at(5490, finish("length"), usage(5, 540), done())),
			want: want{
				TTFT: "5100.000 withheld: clumped", Decode: "100.000", Prompt: "0.980 withheld: clumped", N: 540, Verdict: count.Unchecked,
				Withheld: "clumped", Why: "501 tokens had been generated when the first text came",
			},
		},

		// Running counts that are none.
		{
			// One for each frame is the frame's own count, not the reply's: by it nothing
			// would ever come after the first burst.
			pitfall: first, name: "a count that never rises",
			reads: func() []read {
				var out []read
				for i := range 40 {
					out = append(out, at(100+10*float64(i), counted(" w", 1)))
				}
				return join(out, ending())
			}(),
			want: plain(),
			also: noRunningCount,
		},
		{
			// Brought up to date every ten tokens: at the first frame it says 1, at the
			// last 31. Believed, it would give 30 in 390 ms.
			pitfall: first, name: "a count that moves now and then",
			reads: func() []read {
				var out []read
				for i := range 40 {
					out = append(out, at(100+10*float64(i), counted(" w", 1+10*(i/10))))
				}
				return join(out, ending())
			}(),
			want: plain(),
			also: noRunningCount,
		},
		{
			// From 80 down to 41.
			pitfall: first, name: "a count that falls",
			reads: func() []read {
				var out []read
				for i := range 40 {
					out = append(out, at(100+10*float64(i), counted(" w", 80-i)))
				}
				return join(out, at(490, finish("length"), usage(5, 80), done()))
			}(),
			noText: true,
			// 39 to 79 tokens in 390 ms.
			want: want{
				TTFT: "100.000", Decode: "151.282 withheld: n-first-unknown", N: 80, Verdict: count.Unchecked,
				Withheld: "n-first-unknown",
			},
			also: noRunningCount,
		},
		{
			// The usage of the last text frame is no running count either.
			pitfall: first, name: "usage in the last text frame",
			reads: join(every(100, 10, 39, 1), at(490, `{"choices":[{"delta":{"content":" w"},"finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":40}}`), at(491, done())),
			want:  plain(),
			also:  noRunningCount,
		},
	}
}

func noRunningCount(t *testing.T, f *figure.Figures) {
	if f.Window.NSource == "running server count" {
		t.Error("taken for a running count")
	}
}

func hostileWindows() []hostile {
	const (
		trailing = "The trailing usage frame or [DONE] stretches the window"
		gap      = "Gap between frames published as time per token"
		p99      = "p99 of three values"
		wall     = "Wall clock instead of monotonic"
	)
	return []hostile{
		{
			// Stretched to the usage the window would be 890 ms: 43.8 a second.
			pitfall: trailing, name: "a usage frame half a second late",
			reads: join(forty(), at(490, finish("length")), at(990, usage(5, 40)), at(991, done())),
			want:  plain(),
		},
		{
			// The end comes late too: only the simple rule, which waits for it, is moved:
			// 39 in 890 ms.
			pitfall: trailing, name: "the finish frame half a second late",
			reads: join(forty(), at(990, finish("length"), usage(5, 40), done())),
			want:  but(func(w *want) { w.Simple = "43.820" }),
		},
		{
			// The usage frame says once more why the reply ended. It ended at 490 ms.
			pitfall: trailing, name: "finish_reason again in the late usage frame",
			reads: join(forty(), at(490, finish("length")), at(990, `{"choices":[{"delta":{},"finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":40}}`, done())),
			want:  plain(),
		},
		{
			// By the counts of the text frames; the last usage, alone and late, changes
			// nothing.
			pitfall: trailing, name: "usage on every frame, the last one late", noText: true,
			reads: join(running(100, span(1, 40)...), at(490, finish("length")), at(990, usage(5, 40), done())),
			want:  but(func(w *want) { w.Verdict = count.Unchecked }),
		},
		{
			// Empty deltas trickle on after the text.
			pitfall: trailing, name: "empty frames after the last token",
			reads: join(forty(), at(600, text("")), at(700, choice(`{"content":null}`)), wire(800, ": ping\n\n"), at(900, finish("length"), usage(5, 40), done())),
			want:  but(func(w *want) { w.Simple = "48.750" }), // 39 in 800 ms
		},

		{
			// 50 ms lie between frames of five tokens. That is what the gap says; the time
			// per token, 10 ms, is not claimed anywhere.
			pitfall: gap, name: "frames of five tokens",
			reads: join(every(100, 50, 20, 5), at(1050, finish("length"), usage(5, 100), done())),
			want:  want{TTFT: "100.000", Decode: "100.000", N: 100, Verdict: count.AgreeIndependent},
			also: func(t *testing.T, f *figure.Figures) {
				if value(f.GapMedian) != "50.000" || f.GapMedian.Source != "time between token frames" {
					t.Errorf("gap %s, %s", value(f.GapMedian), f.GapMedian.Source)
				}
			},
		},
		{
			// Two frames a read: every second gap is 0. The median of 20 zeros and 19
			// gaps of 20 ms is 0, and nobody's time per token.
			pitfall: gap, name: "two frames a read",
			reads: func() []read {
				var out []read
				for i := range 20 {
					out = append(out, at(100+20*float64(i), text(" w"), text(" w")))
				}
				return join(out, at(480, finish("length"), usage(5, 40), done()))
			}(),
			want: want{TTFT: "100.000", Decode: "100.000", N: 40, Verdict: count.AgreeIndependent}, // 38 in 380 ms
			also: func(t *testing.T, f *figure.Figures) {
				if value(f.GapMedian) != "0.000" || value(f.GapMax) != "20.000" {
					t.Errorf("median gap %s, longest %s", value(f.GapMedian), value(f.GapMax))
				}
			},
		},

		{
			// Four frames, three gaps of 10, 20 and 30 ms. No percentile can be had of
			// them, and three intervals carry no rate: 3 in 60 ms is kept aside.
			pitfall: p99, name: "three gaps",
			reads: join(at(100, text(" w")), at(110, text(" w")), at(130, text(" w")), at(160, text(" w"), finish("length"), usage(5, 4), done())),
			want: want{
				TTFT: "100.000 withheld: clumped", Decode: "50.000 withheld: clumped", N: 4, Verdict: count.AgreeIndependent,
				Withheld: "clumped", Why: "3 intervals, at least 16 are needed",
			},
			also: func(t *testing.T, f *figure.Figures) {
				if got, want := value(f.GapP99), "null: 3 gaps, at least 662 are needed"; got != want {
					t.Errorf("p99 %s, want %s", got, want)
				}
				if got, want := value(f.GapP90), "null: 3 gaps, at least 64 are needed"; got != want {
					t.Errorf("p90 %s, want %s", got, want)
				}
			},
		},

		{
			// The wall clock stood at 1970 at t0. All figures come from the stamps, which
			// count from t0 on a clock that nobody sets.
			pitfall: wall, name: "a wall clock that is wrong",
			reads: join(forty(), ending()),
			rec:   func(rec *stream.Recording) { rec.T0 = 0 },
			want:  plain(),
		},
		{
			pitfall: wall, name: "a wall clock that was set back during the run",
			reads: join(forty(), ending()),
			in:    func(in *figure.Inputs) { in.Checks.ClockStep = "back by 3 s" },
			want: but(func(w *want) {
				w.TTFT, w.TTFV, w.Decode, w.Simple = "100.000 withheld: clock-step", "100.000 withheld: clock-step", "100.000 withheld: clock-step", "100.000 withheld: clock-step"
				w.Withheld = "clock-step"
			}),
		},
	}
}
