package stream

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// slowFrames is a second reader, written to be obviously right: it takes the
// whole body, finds where each line ends, and looks up which read brought the
// byte that ended a frame.
func slowFrames(rec *Recording, kind Kind) []Frame {
	body := string(rec.Body())
	type line struct {
		text  string
		end   int // offset of the byte that ended it
		ended bool
	}
	var lines []line
	start := 0
	if strings.HasPrefix(body, "\xef\xbb\xbf") {
		start = 3
	}
	for start < len(body) {
		seps := "\n"
		if kind == SSE {
			seps = "\r\n"
		}
		i := strings.IndexAny(body[start:], seps)
		if i < 0 {
			lines = append(lines, line{body[start:], len(body) - 1, false})
			break
		}
		end := start + i
		lines = append(lines, line{body[start:end], end, true})
		start = end + 1
		if body[end] == '\r' && strings.HasPrefix(body[start:], "\n") {
			start++
		}
	}
	readOf := func(offset int) int {
		for i, rd := range rec.Reads {
			if offset -= len(rd.Bytes); offset < 0 {
				return i
			}
		}
		panic("offset beyond the body")
	}
	var out []Frame
	add := func(f Frame, end int) {
		f.Read = readOf(end)
		f.At, f.Kernel = rec.Reads[f.Read].At, rec.Reads[f.Read].Kernel
		out = append(out, f)
	}
	if kind == NDJSON {
		for _, l := range lines {
			text := strings.TrimSuffix(l.text, "\r")
			if strings.TrimSpace(text) != "" {
				add(Frame{Data: text, Unterminated: !l.ended}, l.end)
			}
		}
		return out
	}
	var data []string
	event, id := "", ""
	for _, l := range lines {
		if l.text == "" {
			if data != nil {
				add(Frame{Event: event, ID: id, Data: strings.Join(data, "\n")}, l.end)
			}
			data, event = nil, ""
			continue
		}
		parts := strings.SplitN(l.text, ":", 2)
		value := ""
		if len(parts) == 2 {
			value = strings.TrimPrefix(parts[1], " ")
		}
		switch {
		case strings.HasPrefix(l.text, ":"):
			add(Frame{Comment: true, Data: value, Unterminated: !l.ended}, l.end)
		case parts[0] == "data":
			data = append(data, value)
		case parts[0] == "event":
			event = value
		case parts[0] == "id" && !strings.Contains(value, "\x00"):
			id = value
		}
	}
	if data != nil {
		add(Frame{Event: event, ID: id, Data: strings.Join(data, "\n"), Unterminated: true}, len(body)-1)
	}
	return out
}

// randomBody strings together what streams are made of, valid and not.
func randomBody(r *rand.Rand) string {
	words := []string{
		"data: ", "data:", "data", "event: x", "id: 7", "id: \x00", "retry: 5", ": ping", ":", "nonsense",
		`{"choices":[{"delta":{"content":"ab"}}]}`, "[DONE]", "é", "\xc3", "\xa9", "\xef\xbb\xbf", " ", "x", "",
	}
	ends := []string{"\n", "\r\n", "\r"}
	var b strings.Builder
	if r.IntN(8) == 0 {
		b.WriteString("\xef\xbb\xbf")
	}
	style := r.IntN(4) // one kind of line end throughout, or all mixed
	for range r.IntN(30) {
		for range r.IntN(4) {
			b.WriteString(words[r.IntN(len(words))])
		}
		for range r.IntN(3) {
			e := style
			if style == 3 {
				e = r.IntN(3)
			}
			b.WriteString(ends[e])
		}
	}
	return b.String()
}

// randomPieces cuts a body into reads, often in bursts of single bytes.
func randomPieces(r *rand.Rand, body string) *Recording {
	rec := &Recording{Clean: true}
	at := int64(0)
	most := 1 + r.IntN(40)
	for len(body) > 0 {
		n := min(1+r.IntN(most), len(body))
		at += int64(r.IntN(3)) * 1e5
		rec.Reads = append(rec.Reads, Read{At: at, Kernel: at - 1, Bytes: []byte(body[:n])})
		body = body[n:]
	}
	return rec
}

func TestAnyCutGivesTheSameFrames(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 10000 {
		kind := SSE
		if i%5 == 0 {
			kind = NDJSON
		}
		body := randomBody(r)
		rec := randomPieces(r, body)
		got, err := Frames(rec, kind)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(slowFrames(rec, kind), got); d != "" {
			t.Fatalf("stream %d, %s, %q in %d reads (-slow +fast):\n%s", i, kind, body, len(rec.Reads), d)
		}
		for k := 1; k < len(got); k++ {
			if got[k].At < got[k-1].At {
				t.Fatalf("stream %d: stamps fall: %v", i, got)
			}
		}
	}
}
