package figure_test

import (
	"testing"

	"assay/internal/kit/figure"
)

// Each row is worked by hand: tokens after the first burst, over the time from
// the end of the first burst to the last token frame.
func TestDecodeRate(t *testing.T) {
	running := func(counts ...int) []read {
		var out []read
		before := 0
		for i, n := range counts {
			out = append(out, at(100+10*float64(i), counted(words(n-before), n)))
			before = n
		}
		return out
	}
	upTo := func(first, last int) (out []int) {
		for n := first; n <= last; n++ {
			out = append(out, n)
		}
		return out
	}
	for _, tc := range []struct {
		name     string
		reads    []read
		withText bool
		draft    int
		want     string // decode_tok_s
		simple   string // decode_tok_s_simple
		source   string // of the tokens' positions
	}{
		{
			// 32 tokens in 320 ms; the simple rule waits for the finish frame: 32/330 ms.
			"one token a frame, 10 ms apart",
			join(every(100, 10, 33, 1), at(430, finish("length")), at(430, usage(5, 33), done())), false, 0,
			"100.000", "96.970", "bounds: at least one token a frame",
		},
		{
			"usage and [DONE] half a second late do not stretch the window",
			join(every(100, 10, 33, 1), at(430, finish("length")), at(930, usage(5, 33)), at(931, done())), false, 0,
			"100.000", "96.970", "bounds: at least one token a frame",
		},
		{
			// Another 64 tokens come in the 640 ms after it. The simple rule counts 127.
			"a first frame of half the tokens, the engine drafting 30 a round",
			join(at(100, text(words(64))), every(110, 10, 64, 1), at(740, finish("length"), usage(5, 128))), true, 30,
			"100.000", "198.438", "text tokenised whole",
		},
		{
			"the same without drafts: one read of 64 tokens is a clump",
			join(at(100, text(words(64))), every(110, 10, 64, 1), at(740, finish("length"), usage(5, 128))), true, 0,
			"100.000 withheld: clumped", "198.438 withheld: clumped", "text tokenised whole",
		},
		{
			// Between 64 (one a frame) and 127 (one in the first): the middle, 95.5.
			"the same when nobody can tell the tokens of the first frame",
			join(at(100, text(words(64))), every(110, 10, 64, 1), at(740, finish("length"), usage(5, 128))), false, 30,
			"149.219 withheld: n-first-unknown", "198.438 withheld: n-first-unknown", "bounds: at least one token a frame",
		},
		{
			// 78 tokens in 39 x 20 ms.
			"frames of two tokens, by the text",
			join(every(100, 20, 40, 2), at(880, finish("length"), usage(5, 80))), true, 0,
			"100.000", "101.282", "text tokenised whole",
		},
		{
			// 95 tokens in 19 x 50 ms.
			"frames of five tokens, by the text",
			join(every(100, 50, 20, 5), at(1050, finish("length"), usage(5, 100))), true, 0,
			"100.000", "104.211", "text tokenised whole",
		},
		{
			"frames of two tokens, by the server's running count",
			join(running(2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36), at(270, finish("length"), usage(5, 36))), false, 0,
			"200.000", "205.882", "running server count",
		},
		{
			"frames of two tokens, by the ids",
			func() []read {
				var out []read
				for i := range 18 {
					out = append(out, at(100+10*float64(i), withIDs(words(2), 2)))
				}
				return join(out, at(270, finish("length"), usage(5, 36)))
			}(), false, 0,
			"200.000", "205.882", "token ids",
		},
		{
			// The id of the hidden token is missing, so ids can't place the others.
			"ids that fall short are not relied on",
			func() []read {
				var out []read
				for i := range 18 {
					out = append(out, at(100+10*float64(i), withIDs(words(1), 1)))
				}
				return join(out, at(270, finish("length"), usage(5, 19)))
			}(), false, 0,
			"102.941 withheld: n-first-unknown", "105.882 withheld: n-first-unknown", "bounds: at least one token a frame",
		},
		{
			// 49 tokens, ten of them hidden, between the first frame (at 100 ms) and the
			// last (at 590 ms). A count of frames would say 39.
			"hidden tokens in the middle, by the running count",
			func() []read {
				out := running(upTo(1, 20)...)
				for i, n := range upTo(31, 50) {
					out = append(out, at(400+10*float64(i), counted(" w", n)))
				}
				return join(out, at(590, finish("length"), usage(5, 50)))
			}(), false, 0,
			"100.000", "100.000", "running server count",
		},
		{
			// They may have come before the first frame or after it: 39 to 49.
			"hidden tokens in the middle, seen only as text that is too short",
			join(every(100, 10, 20, 1), every(400, 10, 20, 1), at(590, finish("length"), usage(5, 50))), true, 0,
			"89.796 withheld: count-mismatch, n-first-unknown", "100.000 withheld: count-mismatch, n-first-unknown", "text tokenised whole, with bounds",
		},
		{
			// Ten hidden tokens before the first frame are in N_first: 29 in 290 ms.
			"hidden tokens before the first frame, by the running count",
			join(running(upTo(11, 40)...), at(390, finish("length"), usage(5, 40))), false, 0,
			"100.000", "134.483", "running server count",
		},
		{
			// The end token comes after the last frame: N_last is 40 of 41. The simple
			// rule counts it: 40 in 390 ms.
			"a hidden end token, by the running count",
			join(running(upTo(1, 40)...), at(490, finish("stop"), usage(5, 41))), false, 0,
			"100.000", "102.564", "running server count",
		},
		{
			"a hidden end token, by the text",
			join(every(100, 10, 40, 1), at(490, finish("stop"), usage(5, 41))), true, 0,
			"100.000", "102.564", "text tokenised whole",
		},
		{
			// 39 or 40 tokens: 2.5 % apart.
			"a hidden end token, or none: too few tokens to leave it open",
			join(every(100, 10, 40, 1), at(490, finish("stop"), usage(5, 41))), false, 0,
			"101.282 withheld: n-first-unknown", "102.564 withheld: n-first-unknown", "bounds: at least one token a frame",
		},
		{
			// 199 or 200 tokens in 1990 ms: within 1 %, so the middle is shown.
			"the same with 200 tokens",
			join(every(100, 10, 200, 1), at(2090, finish("stop"), usage(5, 201))), false, 0,
			"100.251", "100.503", "bounds: at least one token a frame",
		},
		{
			// Three frames within 0.5 ms are the first burst: 20 tokens in 200 ms after it.
			"a first burst in reads of its own",
			join(at(99.5, text(" w")), at(99.7, text(" w")), at(100, text(" w")), every(110, 10, 20, 1), at(300, finish("length"), usage(5, 23))), true, 0,
			"100.000", "109.726", "text tokenised whole",
		},
		{
			"a first burst in one read",
			join(at(100, role(), text(" w"), text(" w"), text(" w")), every(110, 10, 20, 1), at(300, finish("length"), usage(5, 23))), true, 0,
			"100.000", "110.000", "text tokenised whole",
		},
		{
			// The engine's 0.4 ms are no burst, although they are under 1 ms: 39/15.6 ms.
			"single tokens of a fast engine stay apart",
			join(every(100, 0.4, 40, 1), at(115.6, finish("length"), usage(5, 40))), false, 0,
			"2500.000", "2500.000", "bounds: at least one token a frame",
		},
		{
			// 2 ms gaps: the limit is half of them, which is the same 1 ms; 0.9 joins.
			"the limit of a burst is half the median gap where that is under 1 ms",
			join(at(99.1, text(" w")), every(100, 2, 40, 1), at(178, finish("length"), usage(5, 41))), true, 0,
			"500.000", "506.971", "text tokenised whole",
		},
		{
			// Rounds of four tokens each 8 ms, every token a read of its own 0.05 ms after
			// the one before. First burst: 4 tokens, to 100.15 ms. 76 tokens follow, to
			// 252.15 ms. Taken for single tokens they would give 79/152.15 ms = 519.
			"rounds of a drafting engine, written token by token",
			func() []read {
				var out []read
				for i := range 20 {
					for k := range 4 {
						out = append(out, at(100+8*float64(i)+0.05*float64(k), text(" w")))
					}
				}
				return join(out, at(252.15, finish("length"), usage(5, 80)))
			}(), true, 0,
			"500.000", "519.224", "text tokenised whole",
		},
		{
			// Five stops of 5 ms in 100 tokens of a fast engine: 99 tokens in 94 x 0.4 ms
			// and 25 ms, 62.6 ms. No rounds, though the stops look like their gaps.
			"a fast engine that is stopped now and then",
			func() []read {
				when, out := 100.0, []read{}
				for i := range 100 {
					out = append(out, at(when, text(" w")))
					when += 0.4
					if i%20 == 9 {
						when += 4.6
					}
				}
				return join(out, at(162.6, finish("length"), usage(5, 100)))
			}(), false, 0,
			"1581.470", "1581.470", "bounds: at least one token a frame",
		},
		{
			// The text gives 101 tokens where 100 were generated, so N_first, 5 by the
			// text, may be 4: 95 or 96 tokens in 19 x 50 ms, within 1.05 %, so no.
			"a text that tokenises into more than was generated",
			join(every(100, 50, 19, 5), at(1050, text(words(6))), at(1050, finish("length"), usage(5, 100))), true, 0,
			"100.526 withheld: n-first-unknown", "104.211 withheld: n-first-unknown", "text tokenised whole, with bounds",
		},
		{
			"a running count that falls is none",
			join(running(upTo(1, 20)...), at(300, counted(" w", 3)), at(310, finish("length"), usage(5, 21))), false, 0,
			"100.000", "95.238", "bounds: at least one token a frame",
		},
		{
			"a running count above the total is none",
			join(running(append(upTo(1, 20), 99)...), at(300, finish("length"), usage(5, 21))), false, 0,
			"100.000", "100.000", "bounds: at least one token a frame",
		},
		{
			// Reasoning is generated text: 40 tokens, 39 of them in 390 ms.
			"reasoning, then content",
			func() []read {
				out := []read{at(90, role())}
				for i := range 20 {
					out = append(out, at(100+10*float64(i), think(" w")))
				}
				return join(out, every(300, 10, 20, 1), at(490, finish("length"), usage(5, 40)))
			}(), true, 0,
			"100.000", "100.000", "bounds: at least one token a frame",
		},
		{
			"everything in one frame has no rate",
			join(at(100, text(words(40)), finish("length"), usage(5, 40))), true, 0,
			"null: all text arrived at once: there is no window", "null: there is no interval to measure", "text tokenised whole",
		},
		{
			"no text at all",
			join(at(100, role()), at(110, finish("length"), usage(5, 0))), false, 0,
			"null: no frame carries text", "null: no frame carries text", "",
		},
		{
			"no count at all",
			join(every(100, 10, 20, 1), at(300, finish("length"))), false, 0,
			"null: the number of tokens is not known", "null: the number of tokens is not known", "unknown: the number of tokens is not known",
		},
		{
			"no count but the text's",
			join(every(100, 10, 20, 2), at(300, finish("length"))), true, 0,
			"200.000", "195.000", "text tokenised whole",
		},
		{
			"more frames than tokens",
			join(every(100, 10, 20, 1), at(300, finish("length"), usage(5, 10))), false, 0,
			"null: 20 frames carry text, but there are only 10 tokens", "45.000 withheld: n-first-unknown", "unknown: 20 frames carry text, but there are only 10 tokens",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := inputs(t, tc.reads, tc.withText)
			in.DraftWindow = tc.draft
			f := figure.Compute(in)
			if got := value(f.Decode); got != tc.want {
				t.Errorf("decode_tok_s %s, want %s\n%+v", got, tc.want, f.Window)
			}
			if got := value(f.DecodeSimple); got != tc.simple {
				t.Errorf("decode_tok_s_simple %s, want %s", got, tc.simple)
			}
			if f.Window.NSource != tc.source {
				t.Errorf("source %q, want %q", f.Window.NSource, tc.source)
			}
		})
	}
}

// The note says that a shown rate is not exact, or not the server's.
func TestDecodeNotes(t *testing.T) {
	f := figure.Compute(inputs(t, join(every(100, 10, 200, 1), at(2090, finish("stop"), usage(5, 201))), false))
	if want := "the middle of bounds: 199 to 200 tokens in the window"; f.Decode.Note != want {
		t.Errorf("note %q, want %q", f.Decode.Note, want)
	}
	w := f.Window
	if !near(w.NLow, 199) || !near(w.NHigh, 200) || !near(w.NLast, 200.5) || !near(w.NFirst, 1) || w.Intervals != 199 || *w.TFirstNS != 100e6 || *w.TLastNS != 2090e6 {
		t.Errorf("window %+v", w)
	}
	f = figure.Compute(inputs(t, join(every(100, 10, 20, 2), at(300, finish("length"))), true))
	if want := "tokens counted by us, in the text: the server gives no count"; f.Decode.Note != want {
		t.Errorf("note %q, want %q", f.Decode.Note, want)
	}
}

// An adapter that knows about the end token settles what the count leaves open.
func TestEndTokenByAdapter(t *testing.T) {
	in := inputs(t, join(every(100, 10, 40, 1), at(490, finish("stop"), usage(5, 41))), false)
	in.EndTokenCounted = ptr(true)
	if got := value(figure.Compute(in).Decode); got != "100.000" {
		t.Errorf("the end token is counted: %s", got)
	}
	in = inputs(t, join(every(100, 10, 40, 1), at(490, finish("stop"), usage(5, 40))), false)
	in.EndTokenCounted = ptr(false)
	if got := value(figure.Compute(in).Decode); got != "100.000" {
		t.Errorf("the end token is not counted: %s", got)
	}
	// 40 ids of 41 tokens: the one without an id is the end token, or it is not.
	var reads []read
	for i := range 40 {
		reads = append(reads, at(100+10*float64(i), withIDs(" w", 1)))
	}
	for counted, source := range map[bool]string{true: "token ids", false: "bounds: at least one token a frame"} {
		in = inputs(t, join(reads, at(490, finish("stop"), usage(5, 41))), false)
		in.EndTokenCounted = ptr(counted)
		if got := figure.Compute(in).Window.NSource; got != source {
			t.Errorf("end token counted %v: tokens by %s, want %s", counted, got, source)
		}
	}
}

func ptr[T any](v T) *T { return &v }
