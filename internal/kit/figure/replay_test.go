package figure_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/gguf"
	"assay/internal/kit/count"
	"assay/internal/kit/figure"
	"assay/internal/kit/stream"
	"assay/internal/tokenizer"
)

// seedling is the tokenizer of the model that the recordings were made with.
func seedling(t *testing.T) *tokenizer.Tokenizer {
	t.Helper()
	f, err := gguf.Open("../../../models/seedling/seedling-15m-iq3_s.gguf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// recorded loads a real exchange of stream/testdata.
func recorded(t *testing.T, engine, name string) *stream.Recording {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "stream", "testdata", engine, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var x struct {
		Headers []string
		Body    []struct {
			NS   int64
			Text string
		}
	}
	if err := json.Unmarshal(b, &x); err != nil {
		t.Fatal(err)
	}
	rec := &stream.Recording{Status: 200, Clean: true, Header: map[string][]string{}}
	for _, h := range x.Headers {
		k, v, _ := strings.Cut(h, ": ")
		rec.Header.Set(k, v)
	}
	for _, p := range x.Body {
		rec.Reads = append(rec.Reads, stream.Read{At: p.NS, Kernel: -1, Bytes: []byte(p.Text)})
	}
	return rec
}

// replayed computes a recording's figures as a run does, its text counted by
// the tokenizer of the model.
func replayed(t *testing.T, tok *tokenizer.Tokenizer, rec *stream.Recording, more ...count.Source) (figure.Inputs, *figure.Figures) {
	t.Helper()
	kind, err := rec.KindOf()
	if err != nil {
		t.Fatal(err)
	}
	frames, err := stream.Frames(rec, kind)
	if err != nil {
		t.Fatal(err)
	}
	c := stream.Decode(frames)
	in := figure.Read(c)
	encode := func(text string) []int32 { return tok.Encode(text, tokenizer.Options{}) }
	sources := append(count.FromStream(c), more...)
	in.Count = count.Judge(append(sources, count.Recount(c, "seedling", encode)))
	if in.TokenEnds, err = count.Ends(c.Joined, encode(c.Joined), tok.Piece); err != nil {
		t.Fatal(err)
	}
	return in, figure.Compute(in)
}

// logged reads what the log of llama-server says of its requests, in order.
func logged(t *testing.T, name string) (tokens []int) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "stream", "testdata", "llamacpp", name))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\|\s+eval time =\s+[\d.]+ ms /\s+(\d+) tokens`).FindAllSubmatch(b, -1) {
		n, err := strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, n)
	}
	return tokens
}

func codesOf(f figure.Figure) string {
	var out []string
	for _, c := range f.Codes {
		out = append(out, string(c))
	}
	return strings.Join(out, " ")
}

// Recorded streams of llama-server, whose own account stands in them. What the
// stream, its timings and the log say is one counter and equal; the text has
// exactly as many tokens. Our decode rate is within 2 % of the engine's, which
// divides n-1 by its time, or is withheld for a reason that the recording has.
func TestReplayLlamaServer(t *testing.T) {
	tok := seedling(t)
	first, spec := logged(t, "server.log"), logged(t, "server-spec.log")
	for _, tc := range []struct {
		name   string
		log    int // tokens by the log line of this request
		source string
		decode string // ours
		engine string // the engine's
		codes  string // why ours is not shown
		why    string
	}{
		// One frame a token throughout. The first frame was stamped late, by the 1.2 ms
		// that our window is shorter than the engine's: 47 tokens in 20.0 ms, which took
		// it 21.2 ms.
		{
			"chat-usage", first[0], "text tokenised whole", "2345.143 withheld: clumped", "2216.772",
			"clumped", "our window is 20.041 ms, the engine's for the same tokens 21.202 ms",
		},
		// 23 tokens in 8.892 ms; the engine: in 8.922 ms.
		{"chat-timings-per-token-progress", first[1], "running server count", "2586.489", "2577.897", "", ""},
		// 199 tokens in 80.528 ms; the engine: in 80.615 ms.
		{"chat-no-usage-natural-stop", first[2], "text tokenised whole", "2471.204", "2468.523", "", ""},
		// 16 tokens are 15 intervals.
		{"completions", first[3], "text tokenised whole", "2777.248 withheld: clumped", "2740.727", "clumped", "15 intervals, at least 16 are needed"},
		{"native-completion", first[4], "running server count", "2927.553 withheld: clumped", "2856.055", "clumped", "15 intervals, at least 16 are needed"},
		// Not streamed: all text in one read, so there is no rate at all.
		{
			"chat-nonstream", first[5], "running server count", "null: all text arrived at once: there is no window", "3372.302",
			"", "0 intervals, at least 16 are needed",
		},
		// Eight tokens each, after prompts of which 40 of 41 tokens were cached.
		{"chat-cached-1", first[6], "text tokenised whole", "1446.409 withheld: clumped", "1429.447", "clumped", "7 intervals, at least 16 are needed"},
		{"chat-cached-2", first[7], "text tokenised whole", "1683.194 withheld: clumped", "1668.255", "clumped", "7 intervals, at least 16 are needed"},
		// No drafts were made. 63 tokens in 39.545 ms; the engine: in 39.975 ms.
		{"spec-completions", spec[0], "text tokenised whole", "1593.117", "1575.985", "", ""},
		// 14 of 64 tokens were drafts, written in bursts: 50 of them. 63 tokens in
		// 64.650 ms; the engine: in 64.884 ms.
		{"spec-chat", spec[1], "running server count", "974.471", "970.964", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in, f := replayed(t, tok, recorded(t, "llamacpp", tc.name), count.Read("log", count.ServerCounter, &tc.log, ""))
			if in.Count.Verdict != count.AgreeIndependent {
				t.Errorf("count: %s, %s", in.Count.Verdict, in.Count.Why)
			}
			for _, s := range in.Count.Sources {
				if s.Gap != nil && *s.Gap != 0 {
					t.Errorf("%s is %d apart", s.Name, *s.Gap)
				}
			}
			got := []string{f.Window.NSource, value(f.Decode), value(f.DecodeServer), codesOf(f.Decode), string(f.DecodeBasis)}
			if d := cmp.Diff([]string{tc.source, tc.decode, tc.engine, tc.codes, "n-1"}, got); d != "" {
				t.Errorf("source, decode, the engine's, codes, basis (-want +got):\n%s", d)
			}
			why := ""
			for _, r := range f.Withheld {
				if r.Code == figure.Clumped {
					why = r.Why
				}
			}
			if why != tc.why {
				t.Errorf("clumped because %q, want %q", why, tc.why)
			}
			if f.Decode.Value == nil {
				return
			}
			if ours, theirs := *f.Decode.Value, *f.DecodeServer.Value; math.Abs(ours-theirs) > 0.02*theirs {
				t.Errorf("decode %.1f, the engine's %.1f", ours, theirs)
			}
		})
	}
	// 64 tokens of which 14 were accepted drafts took 50 passes.
	if _, f := replayed(t, tok, recorded(t, "llamacpp", "spec-chat")); value(f.TokensPerRound) != "1.280" || f.Window.Bursts != 50 {
		t.Errorf("%s tokens a round, %d bursts", value(f.TokensPerRound), f.Window.Bursts)
	}
}

// Nothing that failed has a figure, and the server's words are the reason.
func TestReplayErrors(t *testing.T) {
	tok := seedling(t)
	for _, tc := range []struct{ engine, name, why string }{
		{"llamacpp", "error-too-long", "request (9013 tokens) exceeds the available context size (8192 tokens), try increasing it (exceed_context_size_error)"},
		{"llamacpp", "error-bad-request", "Expected 'messages' to be an array (invalid_request_error)"},
		{"llamacpp", "health-loading-0", "Loading model (unavailable_error)"},
		{"ollama", "error-no-model", "model 'nope' not found (api_error)"},
	} {
		_, f := replayed(t, tok, recorded(t, tc.engine, tc.name))
		if !f.Failed || f.Withheld[0].Code != figure.StreamError || f.Withheld[0].Why != tc.why {
			t.Errorf("%s: failed %v, %+v; want %q", tc.name, f.Failed, f.Withheld, tc.why)
		}
		for _, n := range f.All() {
			if n.Figure.Value != nil {
				t.Errorf("%s: %s is shown", tc.name, n.Name)
			}
		}
	}
}

// The second of two equal prompts was served from the cache but for one token.
func TestReplayCachedPrompt(t *testing.T) {
	_, f := replayed(t, seedling(t), recorded(t, "llamacpp", "chat-cached-2"))
	for name, fig := range map[string]figure.Figure{"ttft": f.TTFT, "prompt": f.PromptClient, "the engine's prompt": f.PromptServer} {
		if !strings.HasPrefix(codesOf(fig), "cached-prompt") {
			t.Errorf("%s: %s", name, value(fig))
		}
	}
	if r := f.Withheld[0]; r.Code != figure.CachedPrompt || r.Why != "40 of 41 prompt tokens came from a cache" {
		t.Errorf("withheld %+v", f.Withheld)
	}
}

// Recorded streams of Ollama 0.17.4: its own form, a JSON value a line, and the
// OpenAI form. It tells one count, which the text confirms, its time in the own
// form only, and never what came from its cache.
func TestReplayOllama(t *testing.T) {
	tok := seedling(t)
	for _, tc := range []struct {
		name   string
		n      int
		decode string
		engine string // n over a time that leaves sampling out: above ours
		ttft   string
		why    string // clumped
	}{
		// 47 tokens in 401.344 ms. The engine's 48 over 396.621 ms would be 118.504 as
		// 47 intervals: 1.2 % above ours.
		{"chat-stream", 48, "117.107", "121.022", "51.318", ""},
		{"chat-stream-again-cached", 48, "207.742", "215.020", "48.315", ""},
		// 23 tokens in 98.803 ms; the engine: 234.845 as 23 intervals, 0.9 % above.
		{"generate-raw-stream", 24, "232.786", "245.055", "11.775", ""},
		{"v1-chat-usage", 24, "190.509", "null: the engine gives no count and time of its own", "12.513", ""},
		// Two of the twelve tokens came at once, so that ten intervals are left.
		{
			"v1-completions-usage", 12, "437.398 withheld: clumped", "null: the engine gives no count and time of its own",
			"20.254 withheld: clumped", "10 intervals, at least 16 are needed",
		},
		{"chat-truncated-prompt", 4, "8.072 withheld: clumped", "10.526", "18871.374 withheld: clumped", "3 intervals, at least 16 are needed"},
		// Not streamed, and 71 tokens with the end token, which has no text.
		{
			"chat-natural-stop", 71, "null: all text arrived at once: there is no window", "168.212",
			"458.818 withheld: clumped", "one read holds 70 tokens (the limit is 16)",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in, f := replayed(t, tok, recorded(t, "ollama", tc.name))
			if in.Count.Verdict != count.AgreeIndependent || *in.Count.Completion != tc.n || f.Failed {
				t.Errorf("count: %s, %s; failed %v", in.Count.Verdict, in.Count.Why, f.Failed)
			}
			if d := cmp.Diff([]string{tc.decode, tc.engine, tc.ttft}, []string{value(f.Decode), value(f.DecodeServer), value(f.TTFT)}); d != "" {
				t.Errorf("decode, the engine's, ttft (-want +got):\n%s", d)
			}
			why := ""
			for _, r := range f.Withheld {
				if r.Code == figure.Clumped {
					why = r.Why
				}
			}
			if why != tc.why {
				t.Errorf("clumped because %q, want %q", why, tc.why)
			}
			if in.CachedTokens != nil || !strings.HasPrefix(f.TTFT.Note, "nonce only") || !strings.HasPrefix(f.PromptClient.Note, "nonce only") {
				t.Errorf("%v cached tokens, notes %q, %q", in.CachedTokens, f.TTFT.Note, f.PromptClient.Note)
			}
		})
	}
	// 9,013 tokens were sent. The server says that it read 4,096: whoever knows the
	// prompt's length can see it.
	if in, _ := replayed(t, tok, recorded(t, "ollama", "chat-truncated-prompt")); *in.PromptTokens != 4096 {
		t.Errorf("%d prompt tokens", *in.PromptTokens)
	}
}

// A run of Strata as others recorded it: the first frames and the last, of which
// only the first token and the end have a time. That carries the time to the
// first token, the simple rate and the engine's own; the window's rate is not to
// be had.
func TestReplayStrata(t *testing.T) {
	b, err := os.ReadFile("../stream/testdata/strata/recorded-run.json")
	if err != nil {
		t.Fatal(err)
	}
	var x struct {
		TTFT   float64           `json:"client_ttft_s"`
		Total  float64           `json:"client_total_latency_s"`
		Frames []json.RawMessage `json:"frames_first_and_last"`
		Log    []string          `json:"engine_log_lines"`
	}
	if err := json.Unmarshal(b, &x); err != nil {
		t.Fatal(err)
	}
	for i, frame := range x.Frames {
		line := &bytes.Buffer{} // on the wire a frame is one line
		if err := json.Compact(line, frame); err != nil {
			t.Fatal(err)
		}
		x.Frames[i] = line.Bytes()
	}
	last := len(x.Frames) - 1
	in := inputs(t, []read{at(x.TTFT*1e3, string(x.Frames[0]), string(x.Frames[1])), at(x.Total*1e3, string(x.Frames[last]), done())}, false)
	m := regexp.MustCompile(`(\d+) generated in`).FindStringSubmatch(x.Log[0])
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	in.Count = count.Judge(append(count.FromStream(in.Completion), count.Read("log", count.ServerCounter, &n, "")))
	if in.Count.Verdict != count.AgreeSameOrigin || n != 256 {
		t.Errorf("count: %s, %s", in.Count.Verdict, in.Count.Why)
	}
	in.Asked = 256
	f := figure.Compute(in)
	got := map[string]string{}
	for _, fig := range f.All() {
		if v := value(*fig.Figure); !strings.HasPrefix(v, "null") {
			got[fig.Name] = v
		}
	}
	want := map[string]string{
		"ttft_ms": "3017.843 withheld: clumped", "ttfv_ms": "3017.843 withheld: clumped", // one arrival of text says nothing of clumps
		"prompt_tok_s_client": "31.148 withheld: clumped",                  // 94 in 3017.843 ms
		"decode_tok_s_simple": "44.979 withheld: n-first-unknown, clumped", // 255 in 5669.315 ms
		"decode_tok_s_server": "44.919",                                    // 256 in 5699.2 ms, as the engine divides
		"prompt_tok_s_server": "31.786",                                    // 94 in 2957.3 ms
		"tokens_per_round":    "2.695",                                     // 256 in 256 - 161 passes
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if f.DecodeBasis != figure.BasisTokens || f.Short || f.Failed {
		t.Errorf("basis %s, short %v, failed %v", f.DecodeBasis, f.Short, f.Failed)
	}
	// All seven frames are of known shape: one of a role, five of text, the end.
	var all []stream.Frame
	for _, frame := range x.Frames {
		all = append(all, stream.Frame{Data: string(frame)})
	}
	if c := stream.Decode(all); c.Unknown != 0 || c.RoleFrames != 1 || len(c.Tokens) != 5 || c.Text != "```python\n\"\"\"\nrobust" || c.FinishReason != "length" || *c.Timings.DraftAccepted != 161 {
		t.Errorf("%+v", c)
	}
}
