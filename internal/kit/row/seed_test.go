package row

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testdata/seed-rows.jsonl are nine published rows of another engine: the
// reference for this format.
const seedRows = "testdata/seed-rows.jsonl"

// exceptions is the whole list of fields whose meaning in our rows differs
// from the seed rows'. It must not grow.
var exceptions = []struct{ field, theirs, ours string }{
	{"decode_tok_s", "(completion_tokens - 1) / (t_finish - t_first), our decode_tok_s_simple", "rule timing-1; readers choose by decode_rule"},
	{"token_frames", "frames that carry text, and one more", "frames that carry text"},
	{"count_check.verdict", "a sentence", "agree-independent, agree-same-origin, count-mismatch or unchecked"},
	{"command_line[7]", "withheld-DATE, which we call redacted", "redacted"},
	{"completion_head", "withheld-DATE, which we call redacted", "redacted"},
}

func seedLines(t testing.TB) [][]byte {
	t.Helper()
	data, err := os.ReadFile(seedRows)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte{'\n'})
	if len(lines) != 9 {
		t.Fatalf("%d seed rows, want 9", len(lines))
	}
	return lines
}

// leaves maps the path of every value in a JSON object to the value.
func leaves(t testing.TB, line []byte) map[string]any {
	t.Helper()
	var root any
	if err := json.Unmarshal(line, &root); err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, e := range v {
				walk(join(path, name), e)
			}
			if len(v) == 0 {
				out[path] = v
			}
		case []any:
			for i, e := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), e)
			}
			if len(v) == 0 {
				out[path] = v
			}
		default:
			out[path] = v
		}
	}
	walk("", root)
	return out
}

// Every field of the seed rows is a field of Row, of the same name and type:
// what we read from them and write again is the same, value by value. Their
// engine's block stands for ours.
func TestSeedRowsHaveTheirFieldsHere(t *testing.T) {
	for i, line := range seedLines(t) {
		asOurs := bytes.Replace(line, []byte(`"strata": {`), []byte(`"assay": {`), 1)
		if bytes.Equal(asOurs, line) {
			asOurs = bytes.Replace(line, []byte(`"strata":{`), []byte(`"assay":{`), 1)
		}
		var r Row
		if err := json.Unmarshal(asOurs, &r); err != nil {
			t.Fatalf("row %d: %v", i+1, err)
		}
		if len(r.Extra) > 0 {
			t.Errorf("row %d: fields that Row lacks: %v", i+1, r.Extra)
		}
		if r.Assay == nil {
			t.Fatalf("row %d: no engine block was read", i+1)
		}
		written, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		theirs, ours := leaves(t, asOurs), leaves(t, written)
		for _, path := range slices.Sorted(maps.Keys(theirs)) {
			got, ok := ours[path]
			if !ok {
				t.Errorf("row %d: %s is missing", i+1, path)
			} else if !reflect.DeepEqual(got, theirs[path]) {
				t.Errorf("row %d: %s = %v, want %v", i+1, path, got, theirs[path])
			}
		}
	}
}

// The list of exceptions names fields that both sides have, and the values
// show the difference that the list claims.
func TestSeedRowExceptions(t *testing.T) {
	for i, line := range seedLines(t) {
		theirs := leaves(t, line)
		for _, e := range exceptions {
			if _, ok := theirs[e.field]; !ok {
				t.Errorf("row %d: exception %s is no field of the seed rows", i+1, e.field)
			}
		}
		var r Row
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		// The window is rounded to milliseconds, of 1.2 seconds or more.
		seconds := *r.Telemetry.Window.Seconds - *r.TTFTMS/1000
		simple := float64(*r.CompletionTokens-1) / seconds
		if d := *r.DecodeTokS/simple - 1; d < -2e-3 || d > 2e-3 {
			t.Errorf("row %d: decode_tok_s %v is not the simple rule's %v", i+1, *r.DecodeTokS, simple)
		}
		if *r.TokenFrames != *r.ContentFrames+1 || *r.ThinkingSeen {
			t.Errorf("row %d: token_frames %d does not count one frame more than carry text, %d", i+1, *r.TokenFrames, *r.ContentFrames)
		}
		for path, v := range theirs {
			s, ok := v.(string)
			listed := slices.ContainsFunc(exceptions, func(e struct{ field, theirs, ours string }) bool { return e.field == path })
			if ok && strings.HasPrefix(s, "withheld-") != (listed && path != "count_check.verdict") {
				t.Errorf("row %d: %s = %q: redacted, or listed as redacted, but not both", i+1, path, s)
			}
		}
	}
}

// A block of another engine is kept as it came, under the engine's name.
func TestOtherEnginesBlockIsKept(t *testing.T) {
	line := seedLines(t)[0]
	var r Row
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatal(err)
	}
	if r.Assay != nil {
		t.Error("a row of another engine has our block")
	}
	written, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var before, after map[string]json.RawMessage
	if err := json.Unmarshal(line, &before); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(written, &after); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(leaves(t, before["strata"]), leaves(t, after["strata"])); diff != "" {
		t.Errorf("the strata block changed (-before +after):\n%s", diff)
	}
	if _, ok := after["assay"]; ok {
		t.Error("a row of another engine was written with our block")
	}
}
