package stream

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// record makes a recording of pieces that arrived 1 ms, 2 ms, ... after t0.
func record(pieces ...string) *Recording {
	rec := &Recording{Status: 200, Clean: true}
	for i, p := range pieces {
		rec.Reads = append(rec.Reads, Read{At: int64(i+1) * 1e6, Kernel: -1, Bytes: []byte(p)})
	}
	return rec
}

// show writes frames as a table: read, what it is, event, id, data.
func show(frames []Frame) []string {
	var out []string
	for _, f := range frames {
		s := fmt.Sprintf("%d ", f.Read)
		if f.At != int64(f.Read+1)*1e6 || f.Kernel != -1 {
			s += fmt.Sprintf("STAMP %d %d ", f.At, f.Kernel)
		}
		if f.Unterminated {
			s += "unterminated "
		}
		if f.Comment {
			s += "comment "
		}
		if f.Event != "" {
			s += "event=" + f.Event + " "
		}
		if f.ID != "" {
			s += "id=" + f.ID + " "
		}
		out = append(out, s+fmt.Sprintf("%q", f.Data))
	}
	return out
}

func TestSSEFollowsTheStandard(t *testing.T) {
	for _, tc := range []struct {
		name   string
		pieces []string
		want   []string
	}{
		{"one event", []string{"data: a\n\n"}, []string{`0 "a"`}},
		{"no space after the colon", []string{"data:a\n\ndata:  b\n\n"}, []string{`0 "a"`, `0 " b"`}},
		{"CRLF", []string{"data: a\r\n\r\ndata: b\r\n\r\n"}, []string{`0 "a"`, `0 "b"`}},
		{"CR alone", []string{"data: a\r\rdata: b\r\r"}, []string{`0 "a"`, `0 "b"`}},
		{"all line ends mixed", []string{"data: a\r\n\ndata: b\n\r\ndata: c\r\r\n"}, []string{`0 "a"`, `0 "b"`, `0 "c"`}},
		{
			"CR and LF of one line end in two reads: the event is whole at the CR",
			[]string{"data: a\r\n\r", "\ndata: b\r", "\n\r", "\n"},
			[]string{`0 "a"`, `2 "b"`},
		},
		{"LF after a read that ended in CR is no blank line", []string{"data: a\r", "\ndata: b\n\n"}, []string{`1 "a\nb"`}},
		{"blank line in a later read", []string{"data: a\n", "\n"}, []string{`1 "a"`}},
		{"byte by byte", strings.Split("data: a\n\n", ""), []string{`8 "a"`}},
		{"several data lines", []string{"data: a\ndata\ndata: b\n\n"}, []string{`0 "a\n\nb"`}},
		{"empty data is an event", []string{"data\n\ndata:\n\n"}, []string{`0 ""`, `0 ""`}},
		{"no data, no event", []string{"event: x\nid: 1\n\ndata: a\n\n"}, []string{`0 id=1 "a"`}},
		{"event and id", []string{"event: x\nid: 7\ndata: a\n\ndata: b\n\n"}, []string{`0 event=x id=7 "a"`, `0 id=7 "b"`}},
		{"an id with NUL is ignored", []string{"id: 1\nid: 2\x003\ndata: a\n\n"}, []string{`0 id=1 "a"`}},
		{"retry and unknown fields are ignored", []string{"retry: 10\nfoo: bar\nDATA: x\ndata: a\n\n"}, []string{`0 "a"`}},
		{"pings", []string{":\n\n", ": keep-alive\n\n", "data: a\n\n"}, []string{`0 comment ""`, `1 comment "keep-alive"`, `2 "a"`}},
		{"a comment within an event", []string{"data: a\n: ping\ndata: b\n\n"}, []string{`0 comment "ping"`, `0 "a\nb"`}},
		{"byte order mark", []string{"\xef\xbb\xbfdata: a\n\n"}, []string{`0 "a"`}},
		{"byte order mark in three reads", []string{"\xef", "\xbb", "\xbfdata: a\n\n"}, []string{`2 "a"`}},
		{"only the first mark is one", []string{"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n"}, []string{`0 "b"`}},
		{"a mark later is text", []string{"data: \xef\xbb\xbfa\n\n"}, []string{`0 "\ufeffa"`}},
		{"a character in two reads", []string{"data: \xc3", "\xa9\n\n"}, []string{`1 "é"`}},
		{"[DONE] without a blank line", []string{"data: a\n\ndata: [DONE]\n"}, []string{`0 "a"`, `0 unterminated "[DONE]"`}},
		{"[DONE] without a line end", []string{"data: a\n\n", "data: [DONE]"}, []string{`0 "a"`, `1 unterminated "[DONE]"`}},
		{"cut within an event", []string{"data: a\n\nda", `ta: {"x`}, []string{`0 "a"`, `1 unterminated "{\"x"`}},
		{"cut within a comment", []string{": pi"}, []string{`0 unterminated comment "pi"`}},
		{"cut within a field name", []string{"data: a\n\ndat"}, []string{`0 "a"`}},
		{"nothing", nil, nil},
		{"only line ends", []string{"\n\r\r\n\n"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Frames(record(tc.pieces...), SSE)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, show(got)); d != "" {
				t.Errorf("frames (-want +got):\n%s", d)
			}
		})
	}
}

func TestNDJSON(t *testing.T) {
	for _, tc := range []struct {
		name   string
		pieces []string
		want   []string
	}{
		{"lines", []string{"{\"a\":1}\n{\"a\":2}\n"}, []string{`0 "{\"a\":1}"`, `0 "{\"a\":2}"`}},
		{"a line in two reads is stamped by the second", []string{"{\"a\"", ":1}\n"}, []string{`1 "{\"a\":1}"`}},
		{"CRLF and blank lines", []string{"1\r\n\r\n \n2\r", "\n"}, []string{`0 "1"`, `1 "2"`}},
		{"a CR within a line is text", []string{"1\r2\n"}, []string{`0 "1\r2"`}},
		{"byte order mark", []string{"\xef\xbb", "\xbf1\n"}, []string{`1 "1"`}},
		{"the last line has no end", []string{"1\n", "2"}, []string{`0 "1"`, `1 unterminated "2"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Frames(record(tc.pieces...), NDJSON)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, show(got)); d != "" {
				t.Errorf("frames (-want +got):\n%s", d)
			}
		})
	}
}

func TestLongLines(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, kind := range []Kind{SSE, NDJSON} {
		prefix := map[Kind]string{SSE: "data:", NDJSON: ""}[kind]
		got, err := Frames(record(prefix+long[:1000], long[1000:]+"\n\n"), kind)
		if err != nil || len(got) != 1 || got[0].Data != long {
			t.Errorf("%s: a line of 1 MiB: %d frames, %v", kind, len(got), err)
		}
		most := strings.Repeat("y", MaxLine-len(prefix))
		got, err = Frames(record(prefix+most+"\n\n"), kind)
		if err != nil || len(got) != 1 {
			t.Errorf("%s: a line of the most bytes: %d frames, %v", kind, len(got), err)
		}
		got, err = Frames(record(prefix+"1\n\n"+prefix+most+"y\n\n"), kind)
		if err == nil || len(got) != 1 {
			t.Errorf("%s: a line of one byte more: %d frames, %v; want the first frame and an error", kind, len(got), err)
		}
	}
}

func TestWholeBodyIsOneFrame(t *testing.T) {
	rec := record(`{"choices"`, `:[]}`)
	got, err := Frames(rec, JSON)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{`1 "{\"choices\":[]}"`}, show(got)); d != "" {
		t.Error(d)
	}
	rec.Clean = false
	if got, _ = Frames(rec, JSON); !got[0].Unterminated {
		t.Error("a body that broke off is not marked")
	}
	if got, _ := Frames(record(), JSON); got != nil {
		t.Errorf("an empty body gives frames: %v", got)
	}
}

func TestKindOf(t *testing.T) {
	for ct, want := range map[string]Kind{
		"text/event-stream":                SSE,
		"text/event-stream; charset=utf-8": SSE,
		"Text/Event-Stream;charset":        SSE,
		"application/x-ndjson":             NDJSON,
		"application/json; charset=utf-8":  JSON,
		"text/html":                        "",
		"":                                 "",
	} {
		rec := &Recording{Header: http.Header{"Content-Type": {ct}}}
		got, err := rec.KindOf()
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", ct, got, err, want)
		}
	}
	if _, err := Frames(record("x"), "xml"); err == nil {
		t.Error("an unknown kind gives no error")
	}
}
