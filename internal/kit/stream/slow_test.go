package stream

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A second reader, slow and obvious. It shares nothing with the first: it knows
// no reads and keeps no state between them, but reads a whole text again and
// again. A frame belongs to the first read after which the text so far holds it.

// slowFrames is what Frames must give.
func slowFrames(rec *Recording, kind Kind) (out []Frame) {
	body := ""
	for i, rd := range rec.Reads {
		body += string(rd.Bytes)
		found := slowRead(body, kind, false)
		if i == len(rec.Reads)-1 {
			found = slowRead(body, kind, true)
		}
		for _, f := range found[len(out):] {
			f.At, f.Kernel, f.Read = rd.At, rd.Kernel, i
			out = append(out, f)
		}
	}
	return out
}

// slowRead reads a text. Where it has ended, what is unfinished counts too.
func slowRead(text string, kind Kind, ended bool) (out []Frame) {
	text = strings.TrimPrefix(text, "\xef\xbb\xbf")
	if kind == SSE {
		text = strings.ReplaceAll(text, "\r\n", "\n")
		text = strings.ReplaceAll(text, "\r", "\n")
	}
	lines := strings.Split(text, "\n")
	rest := lines[len(lines)-1] // after the last line end
	lines = lines[:len(lines)-1]
	whole := len(lines)
	if ended && rest != "" {
		lines = append(lines, rest)
	}
	if kind == NDJSON {
		for i, line := range lines {
			if line = strings.TrimSuffix(line, "\r"); strings.TrimSpace(line) != "" {
				out = append(out, Frame{Data: line, Unterminated: i >= whole})
			}
		}
		return out
	}
	var data []string
	event, id := "", ""
	for i, line := range lines {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if len(data) > 0 {
				out = append(out, Frame{Event: event, ID: id, Data: strings.Join(data, "\n")})
			}
			data, event = nil, ""
		case line[0] == ':':
			out = append(out, Frame{Comment: true, Data: value, Unterminated: i >= whole})
		case field == "data":
			data = append(data, value)
		case field == "event":
			event = value
		case field == "id" && !strings.Contains(value, "\x00"):
			id = value
		}
	}
	if ended && len(data) > 0 {
		out = append(out, Frame{Event: event, ID: id, Data: strings.Join(data, "\n"), Unterminated: true})
	}
	return out
}

// generator makes streams at random.
type generator struct{ *rand.Rand }

func (g generator) pick(of ...string) string { return of[g.IntN(len(of))] }

// body strings together what streams are made of: in one half of the bodies
// anything, in the other replies, with frames of a few bytes to a few KB.
func (g generator) body() string {
	var b strings.Builder
	if g.IntN(8) == 0 {
		b.WriteString("\xef\xbb\xbf")
	}
	style := g.pick("\n", "\r\n", "\r", "") // one line end throughout, or all mixed
	end := func() string {
		if style != "" {
			return style
		}
		return g.pick("\n", "\r\n", "\r")
	}
	if g.IntN(2) == 0 {
		for range g.IntN(30) {
			for range g.IntN(4) {
				b.WriteString(g.pick("data: ", "data:", "data", "event: x", "id: 7", "id: \x00", "retry: 5", ": ping", ":", "nonsense",
					`{"choices":[{"delta":{"content":"ab"}}]}`, "[DONE]", "é", "\xc3", "\xa9", "\xef\xbb\xbf", " ", "x", ""))
			}
			for range g.IntN(3) {
				b.WriteString(end())
			}
		}
		return b.String()
	}
	for range g.IntN(20) {
		switch g.IntN(8) {
		case 0:
			b.WriteString(":" + g.pick("", " ping", "keep-alive") + end())
		case 1:
			b.WriteString("event: " + g.pick("error", "message") + end() + g.pick("", "id: 3"+end()))
		case 2:
			b.WriteString("data: {" + end() + "data:}" + end())
		}
		size := g.IntN(20)
		if g.IntN(6) == 0 {
			size = g.IntN(4000)
		}
		fmt.Fprintf(&b, `data:%s{"choices":[{"delta":{"content":"%s"}}]}%s`, g.pick("", " "), strings.Repeat(g.pick("x", "é", " "), size), end())
		if g.IntN(10) > 0 {
			b.WriteString(end())
		}
	}
	b.WriteString(g.pick("", "data: [DONE]"+end()+end(), "data: [DONE]"+end(), "data: [DONE]", `data: {"cho`))
	return b.String()
}

// recording cuts a body into reads: single bytes, or pieces of up to many
// frames. Some stamps are equal, some reads have no time of the kernel.
func (g generator) recording(body string) *Recording {
	rec := &Recording{Clean: true}
	at := int64(0)
	most := []int{1, 6, 40, 300, 4096, 16384}[g.IntN(6)]
	if len(body) > 3000 {
		most = max(most, 300) // single bytes of long bodies would take the second reader minutes
	}
	for len(body) > 0 {
		n := min(1+g.IntN(most), len(body))
		at += int64(g.IntN(3)) * 1e5
		rec.Reads = append(rec.Reads, Read{At: at, Kernel: at - int64(g.IntN(2)), Bytes: []byte(body[:n])})
		body = body[n:]
	}
	return rec
}

// TestAnyCutGivesTheSameFrames compares both readers on 3,000 streams; with
// ASSAY_WIDE=1 on 100,000, which takes 20 seconds of one core.
func TestAnyCutGivesTheSameFrames(t *testing.T) {
	streams := 3000
	switch {
	case os.Getenv("ASSAY_WIDE") == "1":
		streams = 100_000
	case testing.Short():
		streams = 500
	}
	g := generator{rand.New(rand.NewPCG(1, 2))}
	begin, frames, reads := time.Now(), 0, 0
	for i := range streams {
		kind := SSE
		if i%5 == 0 {
			kind = NDJSON
		}
		body := g.body()
		rec := g.recording(body)
		got, err := Frames(rec, kind)
		if err != nil {
			t.Fatal(err)
		}
		if want := slowFrames(rec, kind); !sameFrames(want, got) {
			t.Fatalf("stream %d, %s, %q in %d reads (-slow +fast):\n%s", i, kind, body, len(rec.Reads), cmp.Diff(want, got))
		}
		for k := 1; k < len(got); k++ {
			if got[k].At < got[k-1].At {
				t.Fatalf("stream %d: stamps fall: %v", i, got)
			}
		}
		frames, reads = frames+len(got), reads+len(rec.Reads)
	}
	t.Logf("%d streams, %d reads, %d frames: the same by both readers, in %.1f s", streams, reads, frames, time.Since(begin).Seconds())
}

func sameFrames(a, b []Frame) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
