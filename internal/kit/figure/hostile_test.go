package figure_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"assay/internal/kit/count"
	"assay/internal/kit/figure"
	"assay/internal/kit/stream"
)

// The hostile streams: for each way in which measuring clients have been seen to
// go wrong, a stream that leads them there, and the right values, worked out by
// hand in the comment beside it. Bytes and stamps go the whole way: a recording,
// stored and read back, cut into frames, decoded, counted, computed.
//
// Unless a case says otherwise a reply is forty tokens 10 ms apart, the first at
// 100 ms: 39 tokens in 390 ms are 100 tokens a second.

// hostile is one such stream.
type hostile struct {
	pitfall string // the first words of the report
	name    string
	reads   []read
	kind    stream.Kind             // SSE when empty
	rec     func(*stream.Recording) // changes what was received beside the bytes
	tok     *splitter               // of the text; words when nil
	noText  bool                    // there is no tokenizer
	in      func(*figure.Inputs)    // adds what the run knows beside the stream
	want    want
	also    func(t *testing.T, f *figure.Figures) // what want has no place for
}

// want is what must come out. TTFV, Simple and Prompt are compared where they
// are given, the others always.
type want struct {
	TTFT, TTFV     string // as value writes them
	Decode, Simple string
	Prompt         string
	N              int // the reference of the count, unknown when there is none
	Verdict        count.Verdict
	Withheld       string // the codes of the checks that failed
	Why            string // part of the reason of the last of them
	Failed         bool
}

const unknown = -1

// plain is what an undisturbed reply of forty tokens must give.
func plain() want {
	return want{TTFT: "100.000", TTFV: "100.000", Decode: "100.000", Simple: "100.000", N: 40, Verdict: count.AgreeIndependent}
}

// but is plain with a change.
func but(change func(w *want)) want {
	w := plain()
	change(&w)
	return w
}

// forty are the token frames of the plain reply, ending its end.
func forty() []read  { return every(100, 10, 40, 1) }
func ending() []read { return []read{at(490, finish("length"), usage(5, 40), done())} }

// splitter turns text into tokens and tells where each of them ends.
type splitter struct {
	name string
	ends func(text string) []int
}

// quads makes a token of every four bytes, so that text cut elsewhere gives more
// of them in pieces than whole.
var quads = &splitter{"quads", func(text string) (ends []int) {
	for i := 4; i < len(text)+4; i += 4 {
		ends = append(ends, min(i, len(text)))
	}
	return ends
}}

func (h *hostile) run(t *testing.T) (*figure.Inputs, *figure.Figures) {
	t.Helper()
	rec := recording(h.reads)
	if h.rec != nil {
		h.rec(rec)
	}
	stored, err := rec.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var kept stream.Recording
	if err := kept.UnmarshalBinary(stored); err != nil {
		t.Fatal(err)
	}
	kind := h.kind
	if kind == "" {
		kind = stream.SSE
	}
	in := decoded(t, &kept, kind, !h.noText && h.tok == nil)
	if h.tok != nil {
		in.TokenEnds = h.tok.ends(in.Completion.Joined)
		tokenise := func(text string) []int32 { return make([]int32, len(h.tok.ends(text))) }
		in.Count = count.Judge(append(count.FromStream(in.Completion), count.Recount(in.Completion, h.tok.name, tokenise)))
	}
	if h.in != nil {
		h.in(&in)
	}
	return &in, figure.Compute(in)
}

func (h *hostile) check(t *testing.T) {
	in, f := h.run(t)
	w := &h.want
	for _, v := range []struct {
		name, got, want string
		always          bool
	}{
		{"ttft_ms", value(f.TTFT), w.TTFT, true},
		{"ttfv_ms", value(f.TTFV), w.TTFV, false},
		{"decode_tok_s", value(f.Decode), w.Decode, true},
		{"decode_tok_s_simple", value(f.DecodeSimple), w.Simple, false},
		{"prompt_tok_s_client", value(f.PromptClient), w.Prompt, false},
		{"verdict", string(in.Count.Verdict), string(w.Verdict), true},
	} {
		if (v.always || v.want != "") && v.got != v.want {
			t.Errorf("%s: %s, want %s", v.name, v.got, v.want)
		}
	}
	n := unknown
	if in.Count.Completion != nil {
		n = *in.Count.Completion
	}
	if n != w.N {
		t.Errorf("%d tokens, want %d", n, w.N)
	}
	var codes []string
	why := ""
	for _, r := range f.Withheld {
		codes = append(codes, string(r.Code))
		why = r.Why
	}
	if got := strings.Join(codes, ", "); got != w.Withheld || !strings.Contains(why, w.Why) {
		t.Errorf("withheld as %q because %q, want %q, %q", got, why, w.Withheld, w.Why)
	}
	if f.Failed != w.Failed {
		t.Errorf("failed %v, want %v", f.Failed, w.Failed)
	}
	if h.also != nil {
		h.also(t, f)
	}
	if t.Failed() {
		window, _ := json.Marshal(f.Window)
		t.Logf("window %s", window)
	}
}

func suite() []hostile {
	return slices.Concat(hostileFirst(), hostileCounts(), hostileRates(), hostileErrors(), hostileWire(), hostileCaches())
}

func TestHostileStreams(t *testing.T) {
	for _, h := range suite() {
		t.Run(h.pitfall+"/"+h.name, func(t *testing.T) { h.check(t) })
	}
}

// The pitfalls, each by its first words, and the tests that show it where it is
// no matter of streams, counts and figures: folder of internal/kit, test.
var pitfalls = []struct {
	words     string
	elsewhere []string
}{
	{"Role frame, content:\"\", content:null, empty chunk", nil},
	{"reasoning, reasoning_content, thinking, tool_calls ignored", nil},
	{"No token at all reported as TTFT 0.00", nil},

	{"Frames counted as tokens", nil},
	{"Each chunk tokenised by itself, or with BOS added", []string{"target TestEncoderTakesTheStartTokenOff"}},
	{"Usage missing and max_tokens taken in its place", nil},
	{"Text that does not tokenise back", nil},
	{"Client and server disagree", []string{"runner TestCountMismatch"}},

	{"(N-1)/(t_end - t_first) although the first frame carried many tokens", nil},
	{"The trailing usage frame or [DONE] stretches the window", nil},
	{"Gap between frames published as time per token", nil},
	{"p99 of three values", []string{"figure TestGapStatistics", "stats TestQuantile", "stats TestSamplesFor"}},
	{"Wall clock instead of monotonic", []string{"figure TestEachCheckWithholdsItsFigures"}},
	{"Spread computed over tiny time bins", []string{"stats TestSummarize", "report TestSeedRowMedians"}},

	{"data: {\"error\":...} after HTTP 200 counted as success", []string{"stream TestErrorsInTheStreamAreNotErrorsBeforeIt", "runner TestRunsThatFail"}},
	{"A clean close after a tenth of the tokens", []string{"stream TestBodiesInEveryFraming"}},
	{"Hidden retries, stale keep-alive connections", []string{"stream TestNothingIsSentTwice", "stream TestAConnectionCanBeUsedAgain", "runner TestRunsThatFail"}},
	{"TLS failure shown as \"server did not become ready\"", []string{"stream TestTLS", "target TestAttachTellsWhatIsWrong"}},

	{"data: without a space", []string{"stream TestSSEFollowsTheStandard"}},
	{"bare : pings every second", nil},
	{"CRLF, lone CR, CR|LF split across reads", []string{"stream TestAnyCutGivesTheSameFrames"}},
	{"BOM", nil},
	{"event:/id: lines", nil},
	{"several data lines in one event", nil},
	{"[DONE] without a blank line or none", nil},
	{"a 64 KB line limit", []string{"stream TestLongLines"}},
	{"a UTF-8 character split over chunks", nil},

	{"Fixed seed or prompt + prefix cache", []string{"prompt TestPromptProperties"}},
	{"prompt_n excludes cached tokens, prompt_eval_count is 0 or missing", nil},
	{"First run pays for compiling, loading, page-in", []string{"runner TestRun", "report TestReportProperties"}},
	{"Client CPU-bound, own lag", []string{"figure TestLagFromStamps", "stream TestDoStampsFramesAsTheyArrive"}},
	// "Latency from the send instead of the scheduled time under open load": the
	// kit sends one request at a time and has no open load.
	{"a proxy or gzip that clumps the stream", []string{"stream TestNoProxyForLoopback", "stream TestBodiesInEveryFraming", "stream TestDoSendsTheRequestAsGiven", "figure TestClumps"}},
	{"Results written only at the end and lost", []string{"row TestJournalAfterACrash"}},
}

// Every pitfall has a stream here or a test elsewhere, and those tests exist.
func TestEveryPitfallHasACase(t *testing.T) {
	shown := map[string]bool{}
	for _, h := range suite() {
		shown[h.pitfall] = true
	}
	for _, p := range pitfalls {
		if !shown[p.words] && len(p.elsewhere) == 0 {
			t.Errorf("no case for: %s", p.words)
		}
		delete(shown, p.words)
		for _, e := range p.elsewhere {
			folder, test, _ := strings.Cut(e, " ")
			if !slices.Contains(testsIn(t, folder), test) {
				t.Errorf("%s: package %s has no %s", p.words, folder, test)
			}
		}
	}
	for words := range shown {
		t.Errorf("a case for a pitfall that is not listed: %s", words)
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

func testsIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllSubmatch(b, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names
}
