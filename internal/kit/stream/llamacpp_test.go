package stream

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// llamacpp loads a recorded exchange with llama-server (testdata/llamacpp).
func llamacpp(t testing.TB, name string) *Recording {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "llamacpp", name+".json"))
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
	rec := &Recording{Status: 200, Clean: true, Header: map[string][]string{}}
	for _, h := range x.Headers {
		k, v, _ := strings.Cut(h, ": ")
		rec.Header.Set(k, v)
	}
	for _, p := range x.Body {
		rec.Reads = append(rec.Reads, Read{At: p.NS, Kernel: -1, Bytes: []byte(p.Text)})
	}
	return rec
}

// What each recording holds, without its token frames, which are many.
func TestDecodeLlamaServer(t *testing.T) {
	const alice = "she was a very good deal. She was a very good deal, and"
	for _, tc := range []struct {
		name, text string // beginning of the text
		tokens     int
		want       []string
	}{
		{
			"chat-usage", alice, 48,
			[]string{"frames 51 data, 0 comments, 1 roles", "finish length in frame 49 at 43 ms", "done seen", "usage prompt 41, completion 48, cached 0, reasoning ?", "timings cache_n 0, prompt_n 41, predicted_n 48, predicted_ms 21.202"},
		},
		{
			"chat-timings-per-token-progress", alice, 24,
			[]string{"frames 29 data, 0 comments, 3 roles", "finish length in frame 27 at 17 ms", "done seen", "usage prompt 41, completion 24, cached 0, reasoning ?", "timings cache_n 0, prompt_n 41, predicted_n 24, predicted_ms 8.922"},
		},
		{
			"chat-no-usage-natural-stop", alice, 200,
			[]string{"frames 202 data, 0 comments, 1 roles", "finish length in frame 201 at 88 ms", "done seen", "timings cache_n 0, prompt_n 41, predicted_n 200, predicted_ms 80.615"},
		},
		{
			"completions", ", and then the next day", 16,
			[]string{"frames 17 data, 0 comments, 0 roles", "finish length in frame 16 at 8 ms", "done seen", "usage prompt 5, completion 16, cached 0, reasoning ?", "timings cache_n 0, prompt_n 5, predicted_n 16, predicted_ms 5.473"},
		},
		{
			"native-completion", ", and then the next day", 16,
			[]string{"frames 17 data, 0 comments, 0 roles", "finish length in frame 16 at 7 ms", "done seen", "usage prompt 5, completion 16, cached ?, reasoning ?", "timings cache_n 0, prompt_n 5, predicted_n 16, predicted_ms 5.252", "ids [11 275 571 261 1265 644 280 261 644 11 275 261 644 309 258 641]"},
		},
		{
			"spec-chat", "these", 64,
			[]string{"frames 67 data, 0 comments, 1 roles", "finish length in frame 65 at 78 ms", "done seen", "usage prompt 44, completion 64, cached 0, reasoning ?", "timings cache_n 0, prompt_n 44, predicted_n 64, predicted_ms 64.884, drafts 14 of 84"},
		},
		{
			"chat-cached-2", "she was a very good deal.", 8,
			[]string{"frames 11 data, 0 comments, 1 roles", "finish length in frame 9 at 7 ms", "done seen", "usage prompt 41, completion 8, cached 40, reasoning ?", "timings cache_n 40, prompt_n 1, predicted_n 8, predicted_ms 4.196"},
		},
		{
			"chat-nonstream", alice, 1,
			[]string{"frames 1 data, 0 comments, 0 roles", "finish length in frame 0 at 12 ms", "usage prompt 41, completion 16, cached 0, reasoning ?", "timings cache_n 0, prompt_n 41, predicted_n 16, predicted_ms 4.448"},
		},
		{
			"error-too-long", "", 0,
			[]string{"frames 1 data, 0 comments, 0 roles", "error request (9013 tokens) exceeds the available context size (8192 tokens), try increasing it (exceed_context_size_error)"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec := llamacpp(t, tc.name)
			kind, err := rec.KindOf()
			if err != nil {
				t.Fatal(err)
			}
			frames, err := Frames(rec, kind)
			if err != nil {
				t.Fatal(err)
			}
			c := Decode(frames)
			if len(c.Tokens) != tc.tokens || !strings.HasPrefix(c.Text, tc.text) || c.Joined != c.Text {
				t.Errorf("%d token frames, %q; want %d, %q...", len(c.Tokens), c.Text, tc.tokens, tc.text)
			}
			c.Tokens, c.Joined, c.Text = nil, "", ""
			if d := cmp.Diff(tc.want, summary(c)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
