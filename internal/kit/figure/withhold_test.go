package figure_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/count"
	"assay/internal/kit/figure"
)

// good is a reply that passes every check: 100 tokens 10 ms apart, 1000 prompt
// tokens in 100 ms, the engine's account the same.
func good(t *testing.T) figure.Inputs {
	t.Helper()
	in := inputs(t, join(every(100, 10, 100, 1), at(1090, finish("length"), usage(1000, 100), timings(100, 990, 100), done())), true)
	in.Asked = 100
	in.Engine.PromptN, in.Engine.PromptMS = ptr(1000), ptr(98.0)
	in.Engine.DraftAccepted = ptr(50)
	in.Extra = []figure.Named{
		{Name: "joules", Groups: []figure.Group{figure.Joules}, Figure: &figure.Figure{Value: ptr(5.0), Unit: "J"}},
		{Name: "j_per_token", Groups: []figure.Group{figure.JPerToken}, Figure: &figure.Figure{Value: ptr(0.05), Unit: "J"}},
	}
	return in
}

func TestAGoodRunShowsEverything(t *testing.T) {
	in := good(t)
	f := figure.Compute(in)
	if len(f.Withheld) > 0 || f.Failed || f.Short || f.LeaveOut || f.Rule != "timing-1" {
		t.Errorf("%+v", f.Withheld)
	}
	got := map[string]string{}
	for _, n := range f.All() {
		got[n.Name] = value(*n.Figure)
		if n.Figure.Unit == "" || (n.Figure.Source == "" && n.Groups[0] != figure.Joules && n.Groups[0] != figure.JPerToken) {
			t.Errorf("%s has no unit or source: %+v", n.Name, n.Figure)
		}
	}
	want := map[string]string{
		"ttft_ms": "100.000", "ttfv_ms": "100.000", "decode_tok_s": "100.000", "decode_tok_s_simple": "100.000",
		"prompt_tok_s_client": "10000.000", "decode_tok_s_server": "100.000", "prompt_tok_s_server": "10204.082",
		"gap_ms_median": "10.000", "gap_ms_p90": "10.000", "gap_ms_p99": "null: 99 gaps, at least 662 are needed", "gap_ms_max": "10.000",
		"tokens_per_round": "2.000", "rounds_per_s": "50.000", "joules": "5.000", "j_per_token": "0.050",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Groups of figure names, as the table withholds them.
var (
	ttfts  = []string{"ttft_ms", "ttfv_ms"}
	decode = []string{"decode_tok_s", "decode_tok_s_simple", "rounds_per_s"}
	prompt = []string{"prompt_tok_s_client"}
	gaps   = []string{"gap_ms_median", "gap_ms_p90", "gap_ms_max"}
	engine = []string{"decode_tok_s_server", "prompt_tok_s_server"}
	drafts = []string{"tokens_per_round"}
	joules = []string{"joules"}
	jtoken = []string{"j_per_token"}
	all    = slices.Concat(ttfts, decode, prompt, gaps, engine, drafts, joules, jtoken)
)

func TestEachCheckWithholdsItsFigures(t *testing.T) {
	for _, tc := range []struct {
		name   string
		spoil  func(in *figure.Inputs)
		code   figure.Code // empty: nothing is withheld
		lost   []string
		failed bool
		why    string
	}{
		{
			"counts that do not agree",
			func(in *figure.Inputs) { in.Count.Verdict, in.Count.Why = count.Mismatch, "usage says 100, the log 90" },
			figure.CountMismatch, slices.Concat(decode, drafts, engine, jtoken), false, "usage says 100, the log 90",
		},
		{
			"counts that nothing was held against are shown",
			func(in *figure.Inputs) { in.Count.Verdict = count.Unchecked },
			"", nil, false, "",
		},
		{
			"11 of 1000 prompt tokens from a cache",
			func(in *figure.Inputs) { in.CachedTokens = ptr(11) },
			figure.CachedPrompt, slices.Concat(ttfts, prompt, []string{"prompt_tok_s_server"}), false, "11 of 1000 prompt tokens came from a cache",
		},
		{
			"4 from a cache where 3 precede the nonce",
			func(in *figure.Inputs) { in.CachedTokens, in.BeforeNonce = ptr(4), ptr(3) },
			figure.CachedPrompt, slices.Concat(ttfts, prompt, []string{"prompt_tok_s_server"}), false, "4 tokens came from a cache, but only 3 precede the nonce",
		},
		{
			"900 of 1000 from a cache that is to be warm: the time to the first token is what is measured",
			func(in *figure.Inputs) { in.CachedTokens, in.WarmCache = ptr(900), true },
			figure.CachedPrompt, slices.Concat(prompt, []string{"prompt_tok_s_server"}), false, "900 of 1000 prompt tokens came from a cache",
		},
		{
			"1 % from a cache, all before the nonce",
			func(in *figure.Inputs) { in.CachedTokens, in.BeforeNonce = ptr(10), ptr(10) },
			"", nil, false, "",
		},
		{
			"the engine's window is 1043 ms, ours 990: more than 5 % shorter",
			func(in *figure.Inputs) { in.Engine.DecodeMS, in.Engine.ReportedRate = ptr(1043.0), ptr(99/1.043) },
			figure.Clumped, slices.Concat(ttfts, prompt, decode, gaps), false, "our window is 990.000 ms, the engine's for the same tokens 1043.000 ms",
		},
		{
			"the engine's window is 1041 ms: within 5 %",
			func(in *figure.Inputs) { in.Engine.DecodeMS, in.Engine.ReportedRate = ptr(1041.0), ptr(99/1.041) },
			"", nil, false, "",
		},
		{
			"an engine time with the prompt in it is not compared",
			func(in *figure.Inputs) { in.Engine.DecodeMS, in.Engine.Basis = ptr(2000.0), figure.BasisPrefill },
			"", nil, false, "",
		},
		{
			"the request failed",
			func(in *figure.Inputs) { in.StreamErr = "hung up" },
			figure.StreamError, all, true, "hung up",
		},
		{
			"an error in the stream",
			func(in *figure.Inputs) { in.Completion.Errors = []string{"out of memory"} },
			figure.StreamError, all, true, "out of memory",
		},
		{
			"the server says that it gave up",
			func(in *figure.Inputs) { in.Completion.FinishReason = "abort" },
			figure.StreamError, all, true, `the server gives "abort" as the reason to finish`,
		},
		{
			"something that is not JSON, and no finish_reason",
			func(in *figure.Inputs) {
				in.Completion.FinishReason, in.Completion.BadFrames = "", []string{"frame 9: invalid character"}
			},
			figure.StreamError, all, true, "no finish_reason came, but this: frame 9: invalid character",
		},
		{
			"something that is not JSON within a reply that ended well",
			func(in *figure.Inputs) { in.Completion.BadFrames = []string{"frame 9: invalid character"} },
			"", nil, false, "",
		},
		{
			"no finish_reason, no [DONE]",
			func(in *figure.Inputs) { in.Completion.FinishReason, in.Completion.Done = "", false },
			figure.Truncated, all, true, "neither",
		},
		{
			"[DONE] alone is an end",
			func(in *figure.Inputs) { in.Completion.FinishReason = "" },
			"", nil, false, "",
		},
		{
			"a finish_reason alone is an end",
			func(in *figure.Inputs) { in.Completion.Done = false },
			"", nil, false, "",
		},
		{
			"the engine started anew",
			func(in *figure.Inputs) { in.Checks.EngineRestarted = "pid 7 is now pid 8" },
			figure.EngineRestarted, all, true, "pid 7 is now pid 8",
		},
		{
			"a lag of 2 ms: over 1 % of TTFT, under 1 % of the window",
			func(in *figure.Inputs) { in.Checks.LagP99MS = ptr(2.0) },
			figure.ClientLag, slices.Concat(ttfts, prompt), false, "2.000 ms (p99), more than 1 % of 100.000 ms",
		},
		{
			"a lag of 10 ms: over 1 % of both",
			func(in *figure.Inputs) { in.Checks.LagP99MS = ptr(10.0) },
			figure.ClientLag, slices.Concat(ttfts, prompt, decode), false, "10.000 ms",
		},
		{
			"a lag of 1 ms is 1 % of TTFT, not more",
			func(in *figure.Inputs) { in.Checks.LagP99MS = ptr(1.0) },
			"", nil, false, "",
		},
		{
			"9 s of energy at 1 Hz",
			func(in *figure.Inputs) { in.Checks.Energy = &figure.Energy{Seconds: 9, Hz: 1} },
			figure.EnergyShort, slices.Concat(joules, jtoken), false, "9.0 s at 1 Hz, at least 10 s are needed",
		},
		{
			"1.9 s of energy at 10 Hz",
			func(in *figure.Inputs) { in.Checks.Energy = &figure.Energy{Seconds: 1.9, Hz: 10} },
			figure.EnergyShort, slices.Concat(joules, jtoken), false, "at least 2 s are needed",
		},
		{
			"2 s at 10 Hz are enough, and so is a counter at the edges of any window",
			func(in *figure.Inputs) { in.Checks.Energy = &figure.Energy{Seconds: 2, Hz: 10} },
			"", nil, false, "",
		},
		{
			"a counter at the edges of a short window",
			func(in *figure.Inputs) { in.Checks.Energy = &figure.Energy{Seconds: 0.1, Hz: 1, CounterAtEdges: true} },
			"", nil, false, "",
		},
		{
			"3 s without a sample in 12",
			func(in *figure.Inputs) { in.Checks.Energy = &figure.Energy{Seconds: 12, Hz: 1, LongestGapS: 3} },
			figure.EnergyGap, slices.Concat(joules, jtoken), false, "3.0 s without a sample, in a window of 12.0 s",
		},
		{
			"two sources 6 % apart",
			func(in *figure.Inputs) {
				in.Checks.Energy = &figure.Energy{Seconds: 12, Hz: 1, Joules: ptr(94.0), OtherJoules: ptr(100.0)}
			},
			figure.EnergyDisagree, slices.Concat(joules, jtoken), false, "94.0 J against 100.0 J",
		},
		{
			"two sources 5 % apart",
			func(in *figure.Inputs) {
				in.Checks.Energy = &figure.Energy{Seconds: 12, Hz: 1, Joules: ptr(95.0), OtherJoules: ptr(100.0)}
			},
			"", nil, false, "",
		},
		{
			"two sources 6 % apart over too short a time to tell",
			func(in *figure.Inputs) {
				in.Checks.Energy = &figure.Energy{Seconds: 9, Hz: 10, Joules: ptr(94.0), OtherJoules: ptr(100.0)}
			},
			"", nil, false, "",
		},
		{
			"the wall clock was set",
			func(in *figure.Inputs) { in.Checks.ClockStep = "back by 3 s" },
			figure.ClockStep, slices.Concat(ttfts, decode, prompt, gaps, engine, joules, jtoken), false, "back by 3 s",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := good(t)
			tc.spoil(&in)
			figure.Compute(in)
			f := figure.Compute(in) // twice: the first time must change nothing
			figs := f.All()
			var lost []string
			for _, n := range figs {
				if n.Figure.Value == nil && n.Figure.Withheld != nil {
					lost = append(lost, n.Name)
					if !slices.Equal(n.Figure.Codes, []figure.Code{tc.code}) {
						t.Errorf("%s has the codes %v", n.Name, n.Figure.Codes)
					}
				}
			}
			slices.Sort(lost)
			want := slices.Sorted(slices.Values(tc.lost))
			if d := cmp.Diff(want, lost); d != "" {
				t.Errorf("withheld (-want +got):\n%s", d)
			}
			if f.Failed != tc.failed {
				t.Errorf("failed %v, want %v", f.Failed, tc.failed)
			}
			if tc.code == "" {
				if len(f.Withheld) > 0 {
					t.Errorf("reasons %+v", f.Withheld)
				}
				return
			}
			if len(f.Withheld) != 1 || f.Withheld[0].Code != tc.code || !strings.Contains(f.Withheld[0].Why, tc.why) {
				t.Fatalf("reasons %+v, want %s: ...%s", f.Withheld, tc.code, tc.why)
			}
			if d := cmp.Diff(want, slices.Sorted(slices.Values(f.Withheld[0].Figures))); d != "" {
				t.Errorf("the reason names (-want +got):\n%s", d)
			}
		})
	}
}

func TestClumps(t *testing.T) {
	for _, tc := range []struct {
		name  string
		reads []read
		draft int
		why   string // empty: nothing is withheld
	}{
		{
			"a proxy that passes on 16 KB at a time: 60 frames a read, 8 reads",
			func() []read {
				var out []read
				for i := range 8 {
					var frames []string
					for range 60 {
						frames = append(frames, text(" w"))
					}
					out = append(out, at(100+600*float64(i), frames...))
				}
				return join(out, at(11500, finish("length"), usage(5, 480)))
			}(), 0, "one read holds 60 tokens (the limit is 16)",
		},
		{
			"16 tokens in one read, of 50",
			join(at(100, text(words(16))), every(110, 10, 34, 1), at(440, finish("length"), usage(5, 50))), 0, "",
		},
		{
			"17 tokens in one read, of 50",
			join(at(100, text(words(17))), every(110, 10, 33, 1), at(440, finish("length"), usage(5, 50))), 0, "one read holds 17 tokens",
		},
		{
			"18 tokens in one read, six being drafted a round",
			join(at(100, text(words(18))), every(110, 10, 33, 1), at(440, finish("length"), usage(5, 51))), 6, "",
		},
		{"16 intervals", join(every(100, 10, 17, 1), at(270, finish("length"), usage(5, 17))), 0, ""},
		{"15 intervals", join(every(100, 10, 16, 1), at(260, finish("length"), usage(5, 16))), 0, "15 intervals, at least 16 are needed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := inputs(t, tc.reads, true)
			in.DraftWindow = tc.draft
			f := figure.Compute(in)
			switch {
			case tc.why == "" && len(f.Withheld) > 0:
				t.Errorf("withheld %+v", f.Withheld)
			case tc.why != "" && (len(f.Withheld) != 1 || f.Withheld[0].Code != figure.Clumped || !strings.Contains(f.Withheld[0].Why, tc.why)):
				t.Errorf("withheld %+v, want clumped: %s", f.Withheld, tc.why)
			}
		})
	}
}

// A read of 60 tokens is under 10 % of 1200, so the rate over 20 of them is
// shown: 1140 tokens in 11.4 s. But the first token had waited for 59 others,
// and the gaps are those of a proxy.
func TestClumpsThatLeaveTheRate(t *testing.T) {
	clump := func(when float64, n int) read {
		var frames []string
		for range n {
			frames = append(frames, text(" w"))
		}
		return at(when, frames...)
	}
	for _, tc := range []struct {
		name  string
		reads []read
		lost  []string
		why   string
	}{
		{
			"every read is a clump",
			func() []read {
				var out []read
				for i := range 20 {
					out = append(out, clump(100+600*float64(i), 60))
				}
				return join(out, at(11500, finish("length"), usage(5, 1200)))
			}(),
			slices.Concat(ttfts, prompt, gaps, []string{"gap_ms_p99"}), "60 tokens had been generated when the first text came (the limit is 16)",
		},
		{
			"only the first is",
			join(clump(100, 60), every(110, 10, 1140, 1), at(11500, finish("length"), usage(5, 1200))),
			slices.Concat(ttfts, prompt), "60 tokens had been generated when the first text came",
		},
		{
			"all but the first",
			func() []read {
				out := []read{at(90, text(" w"))}
				for i := range 20 {
					out = append(out, clump(100+600*float64(i), 60))
				}
				return join(out, at(11500, finish("length"), usage(5, 1201)))
			}(),
			append([]string{"gap_ms_p99"}, gaps...), "1200 of 1201 tokens came in reads that hold more than 16",
		},
		{
			"one in the middle",
			join(every(100, 10, 600, 1), clump(6100, 60), every(6110, 10, 540, 1), at(11500, finish("length"), usage(5, 1200))),
			nil, "",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := figure.Compute(inputs(t, tc.reads, true))
			if f.Decode.Value == nil {
				t.Errorf("decode %s", value(f.Decode))
			}
			if tc.lost == nil && len(f.Withheld) == 0 {
				return
			}
			if len(f.Withheld) != 1 || f.Withheld[0].Code != figure.Clumped || f.Withheld[0].Why != tc.why && !strings.HasPrefix(f.Withheld[0].Why, tc.why) {
				t.Fatalf("withheld %+v, want clumped: %s", f.Withheld, tc.why)
			}
			if d := cmp.Diff(slices.Sorted(slices.Values(tc.lost)), slices.Sorted(slices.Values(f.Withheld[0].Figures))); d != "" {
				t.Errorf("withheld (-want +got):\n%s", d)
			}
		})
	}
}

// A figure that is no better known than two others goes with either.
func TestAFigureOfTwoGroups(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(in *figure.Inputs)
		want  []figure.Code
	}{
		"the tokens of the window":  {func(in *figure.Inputs) { in.TokenEnds, in.Count.Completion = nil, ptr(110) }, []figure.Code{figure.NFirstUnknown}},
		"the count":                 {func(in *figure.Inputs) { in.Count.Verdict = count.Mismatch }, []figure.Code{figure.CountMismatch}},
		"its own group":             {func(in *figure.Inputs) { in.Checks.Energy = &figure.Energy{Seconds: 1, Hz: 1} }, []figure.Code{figure.EnergyShort}},
		"what concerns neither one": {func(in *figure.Inputs) { in.CachedTokens = ptr(500) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			in := good(t)
			in.Extra = []figure.Named{{Name: "j_per_output_token", Groups: []figure.Group{figure.JPerToken, figure.Decodes}, Figure: &figure.Figure{Value: ptr(0.05), Unit: "J"}}}
			tc.spoil(&in)
			if got := figure.Compute(in).Extra[0].Figure.Codes; !slices.Equal(got, tc.want) {
				t.Errorf("codes %v, want %v", got, tc.want)
			}
		})
	}
}

// A reason without a figure would only confuse: there is nothing to be late for.
func TestLagWithoutFigures(t *testing.T) {
	in := inputs(t, join(at(100, role()), at(110, finish("length"), usage(5, 0))), true)
	in.Checks.LagP99MS = ptr(2.0)
	for _, r := range figure.Compute(in).Withheld {
		if r.Code == figure.ClientLag {
			t.Errorf("%+v", r)
		}
	}
}

// Where it is not known how many tokens our window holds, it can't be said to be
// too short for them.
func TestAWindowOfUnknownTokensIsNotCalledShort(t *testing.T) {
	in := inputs(t, join(every(100, 20, 40, 2), at(880, finish("length"), usage(5, 80), timings(80, 900, 79/0.9))), false)
	if f := figure.Compute(in); len(f.Withheld) != 1 || f.Withheld[0].Code != figure.NFirstUnknown {
		t.Errorf("withheld %+v", f.Withheld)
	}
}

func TestShortCompletions(t *testing.T) {
	for _, tc := range []struct {
		name            string
		tokens          int // got, of 100 asked
		natural         bool
		short, leaveOut bool
		decode          string
	}{
		{"90 of 100", 90, false, false, false, "100.000"},
		{"89 of 100", 89, false, true, true, "100.000"},
		{"a natural stop was allowed", 89, true, true, false, "100.000"},
		{"33 tokens are 32 intervals: the rate stays", 33, false, true, true, "100.000"},
		{"32 tokens are 31", 32, false, true, true, "100.000 withheld: short"},
		{"and a natural stop does not make them more", 32, true, true, false, "100.000 withheld: short"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := inputs(t, join(every(100, 10, tc.tokens, 1), at(2000, finish("length"), usage(5, tc.tokens))), true)
			in.Asked, in.NaturalStop = 100, tc.natural
			f := figure.Compute(in)
			if f.Short != tc.short || f.LeaveOut != tc.leaveOut || value(f.Decode) != tc.decode {
				t.Errorf("short %v, left out %v, decode %s; want %v, %v, %s", f.Short, f.LeaveOut, value(f.Decode), tc.short, tc.leaveOut, tc.decode)
			}
		})
	}
}

// Several checks may fail at once: the value is kept once, with all codes.
func TestAllReasonsAreKept(t *testing.T) {
	in := good(t)
	in.Count.Verdict = count.Mismatch
	in.CachedTokens = ptr(900)
	in.Checks.LagP99MS = ptr(50.0)
	f := figure.Compute(in)
	if got, want := value(f.Decode), "100.000 withheld: count-mismatch, client-lag"; got != want {
		t.Errorf("decode %s, want %s", got, want)
	}
	if got, want := value(f.TTFT), "100.000 withheld: cached-prompt, client-lag"; got != want {
		t.Errorf("ttft %s, want %s", got, want)
	}
}

// A run that never had a stream has no figures, and says why.
func TestNoStream(t *testing.T) {
	f := figure.Compute(figure.Inputs{StreamErr: "dial: connection refused"})
	if !f.Failed {
		t.Error("not failed")
	}
	for _, n := range f.All() {
		if n.Figure.Value != nil || n.Figure.Withheld != nil || n.Figure.Why == "" {
			t.Errorf("%s: %+v", n.Name, n.Figure)
		}
	}
}

// Every code has one line, and figures can be stored whatever numbers an engine
// sends.
func TestTableAndJSON(t *testing.T) {
	seen := map[figure.Code]bool{}
	for _, c := range figure.Table {
		if seen[c.Code] || c.Means == "" || len(c.Withholds) == 0 {
			t.Errorf("%+v", c)
		}
		seen[c.Code] = true
	}
	in := good(t)
	in.Engine.DecodeMS, in.Engine.PromptMS, in.PromptTokens = ptr(5e-324), ptr(1e308), ptr(1<<40)
	f := figure.Compute(in)
	if _, err := json.Marshal(f); err != nil {
		t.Error(err)
	}
	if f.DecodeServer.Value != nil || f.DecodeServer.Withheld != nil || f.DecodeServer.Why == "" {
		t.Errorf("%+v", f.DecodeServer)
	}
	var back figure.Inputs
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	back.Completion, back.TokenEnds, back.Extra = in.Completion, in.TokenEnds, in.Extra
	if d := cmp.Diff(in, back); d != "" {
		t.Errorf("inputs stored and read back (-before +after):\n%s", d)
	}
}
