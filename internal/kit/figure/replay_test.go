package figure_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// Recorded streams of llama-server, whose own account stands in them: our decode
// rate is within 2 % of the engine's, or is withheld for a reason that the
// recording really has.
func TestReplayLlamaServer(t *testing.T) {
	tok := seedling(t)
	for _, tc := range []struct {
		name     string
		asked    int
		verdict  count.Verdict
		codes    string // of decode_tok_s
		why      string // part of the reason
		perRound string
	}{
		// The first frame was stamped late: the client saw 47 tokens in 20.0 ms that
		// took the engine 21.2 ms.
		{"chat-usage", 48, count.AgreeIndependent, "clumped", "our window is 20.041 ms, the engine's for the same tokens 21.202 ms", ""},
		{"chat-timings-per-token-progress", 24, count.AgreeIndependent, "", "", ""},
		{"chat-no-usage-natural-stop", 200, count.AgreeIndependent, "", "", ""},
		{"spec-chat", 64, count.AgreeIndependent, "", "", "1.280"},
		{"spec-completions", 64, count.AgreeIndependent, "", "", ""},
		// 16 tokens are 15 intervals.
		{"completions", 16, count.AgreeIndependent, "clumped", "15 intervals, at least 16 are needed", ""},
		{"native-completion", 16, count.AgreeIndependent, "clumped", "15 intervals, at least 16 are needed", ""},
		{"chat-cached-1", 8, count.AgreeIndependent, "clumped", "7 intervals, at least 16 are needed", ""},
		{"chat-cached-2", 8, count.AgreeIndependent, "clumped", "7 intervals, at least 16 are needed", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			frames, err := stream.Frames(llamacpp(t, tc.name), stream.SSE)
			if err != nil {
				t.Fatal(err)
			}
			c := stream.Decode(frames)
			in := figure.Read(c)
			in.Asked = tc.asked
			encode := func(text string) []int32 { return tok.Encode(text, tokenizer.Options{}) }
			in.Count = count.Judge(append(count.FromStream(c), count.Recount(c, "seedling", encode)))
			if in.TokenEnds, err = count.Ends(c.Joined, encode(c.Joined), tok.Piece); err != nil {
				t.Fatal(err)
			}
			f := figure.Compute(in)
			if in.Count.Verdict != tc.verdict || *in.Count.Completion != tc.asked {
				t.Errorf("count: %s, %s", in.Count.Verdict, in.Count.Why)
			}
			var codes []string
			for _, c := range f.Decode.Codes {
				codes = append(codes, string(c))
			}
			if got := strings.Join(codes, " "); got != tc.codes {
				t.Errorf("decode %s, want codes %q", value(f.Decode), tc.codes)
			}
			why := ""
			for _, r := range f.Withheld {
				if r.Code == figure.Clumped {
					why = r.Why
				}
			}
			if !strings.Contains(why, tc.why) {
				t.Errorf("reason %q, want %q", why, tc.why)
			}
			if f.DecodeBasis != figure.BasisIntervals {
				t.Errorf("basis %s", f.DecodeBasis)
			}
			if tc.codes == "" {
				ours, theirs := *f.Decode.Value, *f.DecodeServer.Value
				if math.Abs(ours-theirs) > 0.02*theirs {
					t.Errorf("decode %.1f, the engine's %.1f", ours, theirs)
				}
			}
			if tc.perRound != "" && value(f.TokensPerRound) != tc.perRound {
				t.Errorf("%s tokens a round, want %s", value(f.TokensPerRound), tc.perRound)
			}
		})
	}
}

// The second of two equal prompts was served from the cache but for one token.
func TestReplayCachedPrompt(t *testing.T) {
	frames, err := stream.Frames(llamacpp(t, "chat-cached-2"), stream.SSE)
	if err != nil {
		t.Fatal(err)
	}
	f := figure.Compute(figure.Read(stream.Decode(frames)))
	if len(f.Withheld) == 0 || f.Withheld[0].Code == figure.Clumped || f.PromptClient.Value != nil || f.PromptServer.Value != nil || f.TTFT.Value != nil {
		t.Errorf("withheld %+v", f.Withheld)
	}
	for _, r := range f.Withheld {
		if r.Code == figure.CachedPrompt && r.Why == "40 of 41 prompt tokens came from a cache" {
			return
		}
	}
	t.Errorf("withheld %+v", f.Withheld)
}

func llamacpp(t *testing.T, name string) *stream.Recording {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "stream", "testdata", "llamacpp", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var x struct {
		Body []struct {
			NS   int64
			Text string
		}
	}
	if err := json.Unmarshal(b, &x); err != nil {
		t.Fatal(err)
	}
	rec := &stream.Recording{Status: 200, Clean: true}
	for _, p := range x.Body {
		rec.Reads = append(rec.Reads, stream.Read{At: p.NS, Kernel: -1, Bytes: []byte(p.Text)})
	}
	return rec
}
