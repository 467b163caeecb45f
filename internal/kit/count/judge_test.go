package count

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/stream"
)

func num(n int) *int { return &n }

func server(name string, n int) Source {
	return Source{Name: name, Origin: ServerCounter, Value: num(n)}
}

func text(n int) Source { return Source{Name: "text", Origin: Text, Value: num(n)} }

func ids256() Source { return Source{Name: "ids", Origin: TokenIDs, Value: num(256)} }

func TestJudge(t *testing.T) {
	usage := server("usage", 256)
	for _, tc := range []struct {
		name    string
		sources []Source
		verdict Verdict
		n       int // reference, -1: none
		why     string
	}{
		{"one counter seen three times", []Source{usage, server("timings", 256), server("metrics", 256)}, AgreeSameOrigin, 256, "repeats the same counter"},
		{"one counter must agree exactly", []Source{usage, server("timings", 257)}, Mismatch, 256, "usage says 256; timings says 257 (must be equal"},
		{
			"a documented offset",
			[]Source{usage, {Name: "log", Origin: ServerCounter, Value: num(255), Offset: 1, OffsetWhy: "counts intervals"}},
			AgreeSameOrigin, 256, "",
		},
		{"the offset counts for the text too", []Source{{Name: "usage", Origin: ServerCounter, Value: num(127), Offset: 1}, text(128)}, AgreeIndependent, 128, ""},
		{"text: 3 % of 256 is 7.68, so 7 away agrees", []Source{usage, text(249)}, AgreeIndependent, 256, "usage agrees with text"},
		{"text: 8 away does not", []Source{usage, text(264)}, Mismatch, 256, "text says 264 (more than 7.7 away)"},
		{"few tokens: 2 away agrees", []Source{server("usage", 8), text(6)}, AgreeIndependent, 8, ""},
		{"few tokens: 3 away does not", []Source{server("usage", 8), text(5)}, Mismatch, 8, "more than 2.0 away"},
		{"ids are independent of the counter", []Source{usage, ids256()}, AgreeIndependent, 256, ""},
		{"an agreeing text does not excuse the counter", []Source{usage, server("timings", 255), text(256)}, Mismatch, 256, ""},
		{"an agreeing counter does not excuse the text", []Source{usage, server("timings", 256), text(128)}, Mismatch, 256, ""},
		{"only usage", []Source{usage, {Name: "text", Origin: Text, Why: "U+FFFD"}}, Unchecked, 256, "nothing to hold against usage"},
		{"only text: an estimate", []Source{{Name: "usage", Origin: ServerCounter, Why: "none"}, text(100)}, Unchecked, 100, ""},
		{"text and ids without a counter", []Source{text(255), ids256()}, AgreeIndependent, 256, "ids agrees with text"},
		{"nothing", []Source{{Name: "usage", Origin: ServerCounter, Why: "none"}}, Unchecked, -1, "no source"},
		{"no sources at all", nil, Unchecked, -1, "no source"},
		{"zero tokens are a count", []Source{server("usage", 0), text(0)}, AgreeIndependent, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := append([]Source(nil), tc.sources...)
			r := Judge(tc.sources)
			n := -1
			if r.Completion != nil {
				n = *r.Completion
			}
			if r.Verdict != tc.verdict || n != tc.n || !strings.Contains(r.Why, tc.why) || r.Why == "" {
				t.Errorf("%s, %d, %q; want %s, %d, ...%s", r.Verdict, n, r.Why, tc.verdict, tc.n, tc.why)
			}
			if r.Estimated != (r.From == "text") {
				t.Errorf("estimated %v from %s", r.Estimated, r.From)
			}
			if d := cmp.Diff(before, tc.sources); d != "" {
				t.Errorf("the caller's sources were changed: %s", d)
			}
		})
	}
}

func TestGaps(t *testing.T) {
	r := Judge([]Source{server("usage", 10), {Name: "log", Origin: ServerCounter, Value: num(9), Offset: 1}, text(8), {Name: "ids", Origin: TokenIDs}})
	var got []any
	for _, s := range r.Sources {
		if s.Gap == nil {
			got = append(got, nil)
		} else {
			got = append(got, *s.Gap)
		}
	}
	if d := cmp.Diff([]any{0, 0, -2, nil}, got); d != "" {
		t.Error(d)
	}
}

// words tokenises at spaces, each space with the word after it.
func words(s string) []int32 {
	var ids []int32
	for i := range s {
		if i == 0 || s[i] == ' ' {
			ids = append(ids, int32(i))
		}
	}
	return ids
}

func TestSourcesOfAStream(t *testing.T) {
	decode := func(lines ...string) *stream.Completion {
		var frames []stream.Frame
		for _, l := range lines {
			frames = append(frames, stream.Frame{Data: l})
		}
		return stream.Decode(frames)
	}
	for _, tc := range []struct {
		name  string
		lines []string
		want  []string
	}{
		{
			"usage, timings and ids",
			[]string{`{"choices":[{"text":"a b","token_ids":[1,2]}],"usage":{"completion_tokens":3},"timings":{"predicted_n":3}}`},
			[]string{"usage.completion_tokens server-counter 3", "timings.predicted_n server-counter 3", "token ids token-ids 2", "text by us text 2"},
		},
		{
			"nothing is told",
			[]string{`{"choices":[{"text":"a\ufffd","token_ids":[]}],"timings":{}}`},
			[]string{
				"usage.completion_tokens server-counter unread: no usage in the stream", "timings.predicted_n server-counter unread: timings have no predicted_n",
				"token ids token-ids unread: the stream's lists of token ids are empty", "text by us text unread: the text holds U+FFFD: some bytes did not arrive",
			},
		},
		{
			"usage without the count",
			[]string{`{"choices":[{"text":"a"}],"usage":{}}`},
			[]string{"usage.completion_tokens server-counter unread: the server left it out", "text by us text 1"},
		},
		{
			"Ollama's timings are its usage: one source, not two",
			[]string{`{"response":"a b","done":true,"eval_count":3,"eval_duration":5}`},
			[]string{"eval_count server-counter 3", "text by us text 2"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := decode(tc.lines...)
			var got []string
			for _, s := range append(FromStream(c), Recount(c, "us", words)) {
				v := "unread: " + s.Why
				if s.Value != nil {
					v = string(rune('0' + *s.Value))
				}
				got = append(got, s.Name+" "+string(s.Origin)+" "+v)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
	if s := Recount(decode(`{"choices":[{"text":"a"}]}`), "us", nil); s.Value != nil || s.Why != "no tokenizer of this model" {
		t.Errorf("%+v", s)
	}
}

func TestEnds(t *testing.T) {
	pieces := map[int32][]byte{1: []byte("ab"), 2: []byte(" c"), 3: []byte("\xc3"), 4: []byte("\xa9")}
	piece := func(id int32) []byte { return pieces[id] }
	for _, tc := range []struct {
		text string
		ids  []int32
		want []int
		err  string
	}{
		{"ab c", []int32{1, 2}, []int{2, 4}, ""},
		{"abé", []int32{1, 3, 4}, []int{2, 3, 4}, ""},
		{"", nil, []int{}, ""},
		{"ab", []int32{2}, nil, `token 0 of 1 (id 2, " c")`},
		{"ab", []int32{1, 2}, nil, "token 1 of 2"},
		{"abc", []int32{1}, nil, "1 tokens hold 2 bytes, the text 3"},
	} {
		got, err := Ends(tc.text, tc.ids, piece)
		if (err == nil) != (tc.err == "") || (err != nil && !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%q %v: %v, want %q", tc.text, tc.ids, err, tc.err)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%q %v: %s", tc.text, tc.ids, d)
		}
	}
}
