package figure_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"assay/internal/kit/count"
	"assay/internal/kit/figure"
	"assay/internal/kit/stream"
)

// A reply is built from the reads that bring it: at(100, text("a"), text(" b"))
// is one read, 100 ms after t0, with two frames. Tokens are words: a space and
// the letters after it.

type read struct {
	ms    float64
	bytes string
}

// at is a read of whole frames.
func at(ms float64, frames ...string) read {
	r := read{ms: ms}
	for _, f := range frames {
		r.bytes += "data: " + f + "\n\n"
	}
	return r
}

// wire is a read of bytes as they are.
func wire(ms float64, bytes string) read { return read{ms, bytes} }

func choice(delta string) string {
	return `{"choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}`
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func text(s string) string  { return choice(`{"content":` + quote(s) + `}`) }
func think(s string) string { return choice(`{"reasoning_content":` + quote(s) + `}`) }
func role() string          { return choice(`{"role":"assistant","content":""}`) }
func done() string          { return "[DONE]" }

// counted is a text frame with the server's running count.
func counted(s string, n int) string {
	return fmt.Sprintf(`{"choices":[{"delta":{"content":%s}}],"usage":{"completion_tokens":%d}}`, quote(s), n)
}

// withIDs is a text frame with the ids of its tokens.
func withIDs(s string, n int) string {
	ids, _ := json.Marshal(make([]int, n))
	return fmt.Sprintf(`{"choices":[{"delta":{"content":%s},"token_ids":%s}]}`, quote(s), ids)
}

func finish(reason string) string {
	return `{"choices":[{"delta":{},"finish_reason":"` + reason + `"}]}`
}

func usage(prompt, completion int) string {
	return fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":0}}}`, prompt, completion)
}

func timings(n int, ms, rate float64) string {
	return fmt.Sprintf(`{"choices":[],"timings":{"predicted_n":%d,"predicted_ms":%g,"predicted_per_second":%g}}`, n, ms, rate)
}

// words writes n tokens.
func words(n int) string { return strings.Repeat(" w", n) }

// tokens is the tokenizer of words.
func tokens(s string) []int32 { return make([]int32, strings.Count(s, " ")) }

// every gives n frames of k tokens each, step ms apart, the first at first ms.
func every(first, step float64, n, k int) []read {
	var out []read
	for i := range n {
		out = append(out, at(first+float64(i)*step, text(words(k))))
	}
	return out
}

func join(parts ...any) []read {
	var out []read
	for _, p := range parts {
		switch p := p.(type) {
		case read:
			out = append(out, p)
		case []read:
			out = append(out, p...)
		}
	}
	return out
}

func recording(reads []read) *stream.Recording {
	rec := &stream.Recording{Status: 200, Clean: true}
	for _, r := range reads {
		rec.Reads = append(rec.Reads, stream.Read{At: int64(math.Round(r.ms * 1e6)), Kernel: -1, Bytes: []byte(r.bytes)})
	}
	return rec
}

// inputs decodes the reads and counts as the run does: by the stream's own
// sources, and by the text where withText says so.
func inputs(t *testing.T, reads []read, withText bool) figure.Inputs {
	t.Helper()
	return decoded(t, recording(reads), stream.SSE, withText)
}

func decoded(t *testing.T, rec *stream.Recording, kind stream.Kind, withText bool) figure.Inputs {
	t.Helper()
	frames, err := stream.Frames(rec, kind)
	if err != nil {
		t.Fatal(err)
	}
	c := stream.Decode(frames)
	in := figure.Read(c)
	sources := count.FromStream(c)
	if withText {
		sources = append(sources, count.Recount(c, "words", tokens))
		if ok, _ := c.WholeText(); ok {
			for i := range c.Joined {
				if i > 0 && c.Joined[i] == ' ' {
					in.TokenEnds = append(in.TokenEnds, i)
				}
			}
			in.TokenEnds = append(in.TokenEnds, len(c.Joined))
		}
	}
	in.Count = count.Judge(sources)
	return in
}

// near compares to a millionth.
func near(got *float64, want float64) bool {
	return got != nil && math.Abs(*got-want) <= 1e-6*math.Max(1, math.Abs(want))
}

// value is what a figure shows or keeps aside, for comparing: "100.000",
// "100.000 withheld: clumped", or "null: why".
func value(f figure.Figure) string {
	switch {
	case f.Value != nil:
		return fmt.Sprintf("%.3f", *f.Value)
	case f.Withheld != nil:
		return fmt.Sprintf("%.3f %s", *f.Withheld, f.Why)
	}
	return "null: " + f.Why
}
