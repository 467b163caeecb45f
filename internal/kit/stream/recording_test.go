package stream

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecordingsAreStoredAndReadBack(t *testing.T) {
	rec := record("data: a\n", "\n", "\x00\xff")
	rec.Header = http.Header{"Content-Type": {"text/event-stream"}}
	rec.Reads[1].Kernel = 5
	rec.T0, rec.EndAt, rec.Phase, rec.Err = 1796161490123456789, 9, PhaseBody, "hung up"
	b, err := rec.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(b), `{"format":"assay-recording-1"`) || !strings.HasSuffix(string(b), "\ndata: a\n\n\x00\xff") {
		t.Errorf("stored as %q", b)
	}
	var got Recording
	if err := got.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(rec, &got); d != "" {
		t.Errorf("(-stored +read):\n%s", d)
	}
}

func TestDamagedRecordingsAreRefused(t *testing.T) {
	head := func(reads string) string { return `{"format":"assay-recording-1","reads":` + reads + "}\n" }
	for _, tc := range []struct{ data, err string }{
		{"", "no newline"},
		{"{}", "no newline"},
		{"{\n", "first line"},
		{"{}\n", `format ""`},
		{head("[[1,-1,3]]") + "ab", "read 0: length 3, but 2 bytes are left"},
		{head("[[1,-1,0]]"), "read 0: length 0"},
		{head("[[1,-1,-1]]"), "length -1"},
		{head("[[5,-1,1],[4,-1,1]]") + "ab", "read 1: stamp 4 lies before the one before it, 5"},
		{head("[[1,-2,1]]") + "a", "kernel stamp -2"},
		{head("[[1,-1,1]]") + "ab", "1 bytes after the last read"},
	} {
		var rec Recording
		if err := rec.UnmarshalBinary([]byte(tc.data)); err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%q: %v, want ...%s", tc.data, err, tc.err)
		}
	}
}
