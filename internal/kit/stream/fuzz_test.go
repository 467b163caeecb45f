package stream

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fuzzFrames cuts a body at the places that cuts tells and compares both
// readers.
func fuzzFrames(f *testing.F, kind Kind) {
	for _, s := range []string{
		"data: a\n\n", "\xef\xbb\xbfdata:a\r\n\r\n: ping\r\rdata: b", "{\"a\":1}\r\n\n2", "id: 1\x00\ndata\ndata: \xc3\xa9\n\n",
		"event: error\ndata: {\"error\":\"x\"}\n\ndata: [DONE]\n",
	} {
		f.Add([]byte(s), []byte{1, 2, 3})
	}
	f.Fuzz(func(t *testing.T, body, cuts []byte) {
		rec := &Recording{Clean: true}
		at := int64(0)
		for i := 0; len(body) > 0; i++ {
			n := len(body)
			if i < len(cuts) {
				n = min(int(cuts[i])+1, n)
			}
			at += int64(i)
			rec.Reads = append(rec.Reads, Read{At: at, Kernel: -1, Bytes: body[:n:n]})
			body = body[n:]
		}
		got, err := Frames(rec, kind)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(slowFrames(rec, kind), got); d != "" {
			t.Fatalf("(-slow +fast):\n%s", d)
		}
	})
}

func FuzzSSE(f *testing.F)    { fuzzFrames(f, SSE) }
func FuzzNDJSON(f *testing.F) { fuzzFrames(f, NDJSON) }

// FuzzDecode decodes any lines: no panic, and what the completion says of its
// text must fit together.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"chat-usage", "chat-timings-per-token-progress", "completions", "native-completion", "error-too-long"} {
		// The first and last frames of each: the middle repeats, and long seeds make
		// fuzzing slow.
		lines := strings.Split(strings.TrimSpace(string(llamacpp(f, name).Body())), "\n\n")
		if len(lines) > 4 {
			lines = append(lines[:2], lines[len(lines)-2:]...)
		}
		f.Add(strings.Join(lines, "\n"))
	}
	f.Add(`data: {"message":{"content":"a","tool_calls":[{"function":{"arguments":{}}}]},"done":true,"eval_count":1e9}` + "\n")
	f.Add(`data: {"choices":[{"index":0,"delta":{"reasoning":"a","content":"b"},"token_ids":[1,-2,3.5]}],"usage":{"completion_tokens":1e300}}` + "\n")
	f.Fuzz(func(t *testing.T, lines string) {
		var frames []Frame
		for i, l := range strings.Split(lines, "\n") {
			frames = append(frames, Frame{At: int64(i), Read: i, Data: strings.TrimPrefix(l, "data: ")})
		}
		c := Decode(frames)
		if len(c.Joined) != len(c.Text)+len(c.Reasoning)+len(c.Tools) {
			t.Fatalf("joined %q of %q, %q and %q", c.Joined, c.Text, c.Reasoning, c.Tools)
		}
		end, ids, content := 0, 0, 0
		for _, tok := range c.Tokens {
			if tok.End < end || tok.IDs < ids || (tok.Running != nil && *tok.Running <= 0) {
				t.Fatalf("token frame %+v after %d bytes, %d ids", tok, end, ids)
			}
			end, ids = tok.End, tok.IDs
			if tok.Content {
				content++
			}
		}
		if end != len(c.Joined) || content != c.ContentFrames || ids > len(c.TokenIDs) {
			t.Fatalf("%d of %d bytes, %d of %d content frames, %d of %d ids", end, len(c.Joined), content, c.ContentFrames, ids, len(c.TokenIDs))
		}
	})
}

// FuzzRecording reads any bytes as a stored recording: an error, or one that is
// stored again as the same.
func FuzzRecording(f *testing.F) {
	b, err := record("data: a\n", "\n").MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, data []byte) {
		var rec Recording
		if rec.UnmarshalBinary(data) != nil {
			return
		}
		again, err := rec.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var rec2 Recording
		if err := rec2.UnmarshalBinary(again); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(rec, rec2); d != "" {
			t.Fatal(d)
		}
	})
}

// FuzzBody takes chunked framing off any bytes: however they are cut, the same
// body and the same end.
func FuzzBody(f *testing.F) {
	f.Add([]byte("1\r\na\r\n2;x\r\nbc\r\n0\r\nT: v\r\n\r\n"), uint8(3))
	f.Add([]byte("5\nhello\n0\n\nmore"), uint8(1))
	f.Fuzz(func(t *testing.T, raw []byte, cut uint8) {
		run := func(piece int) (string, bool, string) {
			b := &body{framing: chunked, state: inSize}
			out := ""
			for p := raw; len(p) > 0; {
				n := min(piece, len(p))
				got, done, err := b.feed([]byte(string(p[:n])))
				out += string(got)
				if err != nil {
					return out, done, err.Error()
				}
				if done {
					return out, true, ""
				}
				p = p[n:]
			}
			return out, false, ""
		}
		o1, d1, e1 := run(len(raw) + 1)
		o2, d2, e2 := run(int(cut) + 1)
		if o1 != o2 || d1 != d2 || e1 != e2 {
			t.Fatalf("whole: %q %v %s; in pieces of %d: %q %v %s", o1, d1, e1, cut+1, o2, d2, e2)
		}
	})
}
