package figure_test

import (
	"fmt"
	"strings"
	"testing"

	"assay/internal/kit/figure"
	"assay/internal/kit/stream"
)

func TestTimesToFirstTokens(t *testing.T) {
	end := at(500, finish("length"), usage(5, 20))
	for _, tc := range []struct {
		name       string
		reads      []read
		ttft, ttfv string
	}{
		{"a role frame is no token", join(at(50, role()), every(100, 10, 20, 1), end), "100.000", "100.000"},
		{"an empty or null delta is none", join(at(50, text("")), at(60, choice(`{"content":null}`)), every(100, 10, 20, 1), end), "100.000", "100.000"},
		{"a usage or progress frame is none", join(at(50, usage(5, 0)), at(60, `{"choices":[],"prompt_progress":{}}`), every(100, 10, 20, 1), end), "100.000", "100.000"},
		{"reasoning is a token, but not a visible one", join(at(50, think(" w")), every(100, 10, 20, 1), end), "50.000", "100.000"},
		{"a tool call too", join(at(50, choice(`{"tool_calls":[{"function":{"name":"f"}}]}`)), every(100, 10, 20, 1), end), "50.000", "100.000"},
		{"nothing visible", func() []read {
			var out []read
			for i := range 20 {
				out = append(out, at(100+float64(10*i), think(" w")))
			}
			return join(out, end)
		}(), "100.000", "null: no frame carries visible text"},
		{"nothing at all is null, not zero", join(at(50, role()), end), "null: no frame carries text", "null: no frame carries visible text"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := figure.Compute(inputs(t, tc.reads, true))
			if value(f.TTFT) != tc.ttft || value(f.TTFV) != tc.ttfv {
				t.Errorf("ttft %s, ttfv %s; want %s, %s", value(f.TTFT), value(f.TTFV), tc.ttft, tc.ttfv)
			}
		})
	}
}

func TestPromptRate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(in *figure.Inputs)
		want   string
		note   string
	}{
		{"nothing cached", func(*figure.Inputs) {}, "10000.000", ""},
		{"the cache is not known", func(in *figure.Inputs) { in.CachedTokens = nil }, "10000.000", "nonce only: the engine does not say what it took from a cache"},
		{"a little cached: on the uncached count, marked", func(in *figure.Inputs) { in.CachedTokens = ptr(5) }, "9950.000", "5 of 1000 prompt tokens came from a cache and are left out"},
		{"half cached", func(in *figure.Inputs) { in.CachedTokens = ptr(500) }, "5000.000 withheld: cached-prompt", "500 of 1000 prompt tokens came from a cache and are left out"},
		{"the prompt's count is not known", func(in *figure.Inputs) { in.PromptTokens = nil }, "null: the number of prompt tokens is not known", ""},
		{"more cached than there is", func(in *figure.Inputs) { in.CachedTokens = ptr(1001) }, "null: 1001 cached tokens of 1000", ""},
		{"all cached", func(in *figure.Inputs) { in.CachedTokens = ptr(1000) }, "null: no prompt token was computed", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := good(t)
			tc.change(&in)
			f := figure.Compute(in)
			if got := value(f.PromptClient); got != tc.want || f.PromptClient.Note != tc.note {
				t.Errorf("%s, note %q; want %s, %q", got, f.PromptClient.Note, tc.want, tc.note)
			}
			// What else depends on the prompt is marked alike.
			if mark := strings.TrimSuffix(tc.note, " and are left out"); mark != "" && (f.TTFT.Note != mark || f.TTFV.Note != mark || f.PromptServer.Note != mark) {
				t.Errorf("notes %q, %q, %q; want %q", f.TTFT.Note, f.TTFV.Note, f.PromptServer.Note, mark)
			}
		})
	}
}

// Two places that tell of the cache: what one of them saw was there.
func TestTheLargerCacheCountsMost(t *testing.T) {
	for _, tc := range []struct{ usage, timings, want int }{{0, 7, 7}, {7, 0, 7}, {3, 3, 3}} {
		c := stream.Decode([]stream.Frame{{Data: fmt.Sprintf(
			`{"choices":[],"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":%d}},"timings":{"cache_n":%d}}`, tc.usage, tc.timings)}})
		if in := figure.Read(c); *in.CachedTokens != tc.want {
			t.Errorf("usage says %d, timings %d: %d cached, want %d", tc.usage, tc.timings, *in.CachedTokens, tc.want)
		}
	}
}

// What an engine divides is found from the rate that it reports: 100 tokens in
// 990 ms are 100/s as 99 intervals, 101.010/s as 100 tokens.
func TestEngineBasis(t *testing.T) {
	for _, tc := range []struct {
		name   string
		rate   *float64
		basis  figure.Basis
		want   string
		divide figure.Basis
		note   string
	}{
		{"it divides n-1", ptr(100.0), "", "100.000", figure.BasisIntervals, ""},
		{"it divides n", ptr(101.01), "", "101.010", figure.BasisTokens, ""},
		{"it divides neither", ptr(90.0), "", "101.010", figure.BasisUnknown, "neither"},
		{"it reports no rate", nil, "", "101.010", figure.BasisTokens, ""},
		{"its adapter knows", ptr(101.01), figure.BasisIntervals, "100.000", figure.BasisIntervals, ""},
		{"its time holds the prompt", nil, figure.BasisPrefill, "101.010", figure.BasisPrefill, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := good(t)
			in.Engine.ReportedRate, in.Engine.Basis = tc.rate, tc.basis
			f := figure.Compute(in)
			if value(f.DecodeServer) != tc.want || f.DecodeBasis != tc.divide || !strings.Contains(f.DecodeServer.Note, tc.note) || (tc.note == "") != (f.DecodeServer.Note == "") {
				t.Errorf("%s, basis %s, note %q; want %s, %s", value(f.DecodeServer), f.DecodeBasis, f.DecodeServer.Note, tc.want, tc.divide)
			}
			if !strings.Contains(f.DecodeServer.Source, "basis "+string(tc.divide)) {
				t.Errorf("source %q", f.DecodeServer.Source)
			}
		})
	}
}

// One token is no interval, whatever time an engine gives for it.
func TestAnEngineThatMadeOneToken(t *testing.T) {
	for n, want := range map[int]string{0: "0 tokens", 1: "1 tokens"} {
		in := good(t)
		in.Engine.Generated, in.Engine.DecodeMS, in.Engine.ReportedRate = ptr(n), ptr(0.001), ptr(0.0)
		if got := value(figure.Compute(in).DecodeServer); got != "null: the engine counts "+want+": there is no interval to measure" {
			t.Errorf("%d tokens: %s", n, got)
		}
	}
}

// 1, 2, ..., n ms: the percentiles are the values of that rank.
func TestGapStatistics(t *testing.T) {
	for _, tc := range []struct {
		n                     int
		median, p90, p99, max string
	}{
		{63, "32.000", "null: 63 gaps, at least 64 are needed", "null: 63 gaps, at least 662 are needed", "63.000"},
		{64, "32.500", "58.000", "null: 64 gaps, at least 662 are needed", "64.000"},
		{661, "331.000", "595.000", "null: 661 gaps, at least 662 are needed", "661.000"},
		{662, "331.500", "596.000", "656.000", "662.000"},
	} {
		t.Run(fmt.Sprint(tc.n), func(t *testing.T) {
			var reads []read
			when := 100.0
			for i := range tc.n + 1 {
				when += float64(i)
				reads = append(reads, at(when, text(" w")))
			}
			f := figure.Compute(inputs(t, join(reads, at(when, finish("length"), usage(5, tc.n+1))), true))
			got := []string{value(f.GapMedian), value(f.GapP90), value(f.GapP99), value(f.GapMax)}
			for i, want := range []string{tc.median, tc.p90, tc.p99, tc.max} {
				if got[i] != want {
					t.Errorf("%s: %s, want %s", []string{"median", "p90", "p99", "max"}[i], got[i], want)
				}
			}
			if f.GapMedian.Samples != tc.n {
				t.Errorf("%d samples", f.GapMedian.Samples)
			}
		})
	}
}

// 100 tokens of which 50 were accepted drafts took 50 passes.
func TestRounds(t *testing.T) {
	for _, tc := range []struct {
		name                string
		accepted            *int
		perRound, perSecond string
	}{
		{"half of the tokens were drafts", ptr(50), "2.000", "50.000"},
		{"drafts, none accepted", ptr(0), "1.000", "100.000"},
		{"no drafts known", nil, "null: no drafts are reported", "null: no drafts are reported"},
		{"more drafts than tokens", ptr(100), "null: 100 accepted drafts of 100 tokens", "null: 100 accepted drafts of 100 tokens"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := good(t)
			in.Engine.DraftAccepted = tc.accepted
			f := figure.Compute(in)
			if value(f.TokensPerRound) != tc.perRound || value(f.RoundsPerS) != tc.perSecond {
				t.Errorf("%s, %s", value(f.TokensPerRound), value(f.RoundsPerS))
			}
		})
	}
}

// One read in 100 that was late (20 ms) leaves the p99 alone. In the middle it
// moves no figure; the first moves TTFT (100 ms, 1 % is 1 ms) and the start of
// the decode window (1 s), the last only its end.
func TestLagAtAnEdge(t *testing.T) {
	for _, c := range []struct {
		name string
		late func(n int) int
		want string
	}{
		{"middle", func(n int) int { return n / 2 }, ""},
		{"first", func(int) int { return 0 }, "ttft_ms ttfv_ms decode_tok_s decode_tok_s_simple prompt_tok_s_client rounds_per_s"},
		{"last", func(n int) int { return n - 1 }, "decode_tok_s decode_tok_s_simple rounds_per_s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := good(t)
			tokens := in.Completion.Tokens
			for i := range tokens {
				tokens[i].Kernel = tokens[i].At - 1e5
			}
			tokens[c.late(len(tokens))].Kernel = tokens[c.late(len(tokens))].At - 20e6
			var got []string
			for _, w := range figure.Compute(in).Withheld {
				got = append(got, w.Figures...)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("withheld %q, want %q", got, c.want)
			}
		})
	}
}

// The lag is taken from the stamps when the kernel's are there: here each frame
// waited 0.1 ms and one of 100 waited 20 ms.
func TestLagFromStamps(t *testing.T) {
	in := good(t)
	for i := range in.Completion.Tokens {
		tok := &in.Completion.Tokens[i]
		tok.Kernel = tok.At - 1e5
	}
	if got := figure.LagP99(in.Completion); !near(got, 0.1) {
		t.Errorf("p99 %v, want 0.1", got)
	}
	if f := figure.Compute(in); len(f.Withheld) > 0 {
		t.Errorf("withheld %+v", f.Withheld)
	}
	for _, i := range []int{3, 4} { // two frames of one late read
		in.Completion.Tokens[i].Kernel = in.Completion.Tokens[i].At - 20e6
		in.Completion.Tokens[i].Read = 3
	}
	if f := figure.Compute(in); len(f.Withheld) != 1 || f.Withheld[0].Code != figure.ClientLag {
		t.Errorf("withheld %+v", f.Withheld)
	}
	in.Checks.LagP99MS = ptr(0.0)
	if f := figure.Compute(in); len(f.Withheld) != 1 {
		t.Errorf("a ticker that was on time excuses no frame that was late: %+v", f.Withheld)
	}
	for i := range in.Completion.Tokens {
		in.Completion.Tokens[i].Kernel = -1
	}
	if f := figure.Compute(in); len(f.Withheld) > 0 {
		t.Errorf("without the kernel's times the ticker's lateness is all there is: %+v", f.Withheld)
	}
}
