package row

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// Whatever a row holds comes back from its JSON, and the JSON of the same row
// is always the same.
func TestRowSurvivesItsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRow(t)
		line, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsRune(line, '\n') {
			t.Fatal("the row takes more than one line")
		}
		var back Row
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		// Flags and the like are written as [] and {} where they are nil.
		if diff := cmp.Diff(*r, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("row changed (-written +read):\n%s", diff)
		}
		again, err := back.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(line, again) {
			t.Fatalf("the second encoding differs:\n%s\n%s", line, again)
		}
	})
}

func TestFieldsKeepTheirOrder(t *testing.T) {
	line, err := (&Row{Extra: map[string]map[string]json.RawMessage{"": {"zz": []byte("1"), "aa": []byte("2")}}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	last := -1
	for _, name := range []string{"schema", "row_id", "decode_tok_s", "count_check", "gaps", "telemetry", "notes", "seq", "prev_sha256", "aa", "zz"} {
		at := bytes.Index(line, []byte(`"`+name+`":`))
		if at <= last {
			t.Errorf("%s is at %d, after offset %d", name, at, last)
		}
		last = at
	}
}

func TestEncodeRefusesWhatJSONCannotHold(t *testing.T) {
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		r := valid(t)
		r.Telemetry.Board.MeanW = new(f)
		if _, err := r.Encode(); err == nil || !strings.Contains(err.Error(), "telemetry.board.mean_w") {
			t.Errorf("%v: error %v, want one that names the field", f, err)
		}
	}
}

// Errors name file, line and field, and the rows around them are read.
func TestReadErrors(t *testing.T) {
	const good = `{"row_id":"a"}` + "\n"
	tests := map[string]struct{ line, want string }{
		"string for number":  {`{"ttft_ms":"12"}`, `f:2: ttft_ms: "12" is not a number`},
		"number for string":  {`{"arm":3}`, `f:2: arm: 3 is not a string`},
		"fraction for count": {`{"frames":1.5}`, `f:2: frames: 1.5 is not a whole number`},
		"string for flag":    {`{"thinking_seen":"yes"}`, `f:2: thinking_seen: "yes" is not true or false`},
		"list for object":    {`{"telemetry":[]}`, `f:2: telemetry: [] is not an object`},
		"object for list":    {`{"command_line":{}}`, `f:2: command_line: {} is not a list`},
		"nested":             {`{"telemetry":{"board":{"joules":true}}}`, `f:2: telemetry.board.joules: true is not a number`},
		"in a list":          {`{"withheld":[{},{"codes":["a",1]}]}`, `f:2: withheld[1].codes[1]: 1 is not a string`},
		"in a map":           {`{"file_sha256":{"1":1}}`, `f:2: file_sha256.1: 1 is not a string`},
		"null count":         {`{"run":null}`, `f:2: run: null is not a whole number`},
		"null row":           {`null`, `f:2: the row: null is not an object`},
		"a list as row":      {`[1]`, `f:2: the row: [1] is not an object`},
		"given twice":        {`{"arm":"a","arm":"b"}`, `f:2: arm: given twice`},
		"unknown twice":      {`{"x":1,"x":1}`, `f:2: x: given twice`},
		"too large":          {`{"ttft_ms":1e999}`, `f:2: ttft_ms: 1e999 is not a number`},
		"broken":             {`{"arm":"a"`, `f:2: offset 10: broken JSON: unexpected end of JSON input`},
		"two on a line":      {`{} {}`, `f:2: offset 4: broken JSON: invalid character '{' after top-level value`},
		"not UTF-8":          {"{\"arm\":\"\xff\"}", `f:2: offset 8: not UTF-8`},
		"too long":           {`{"arm":"` + strings.Repeat("x", MaxLine) + `"}`, `f:2: the line is longer than 16777216 bytes`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			rows := 0
			for r, err := range Read(strings.NewReader(good+tt.line+"\n\n"+good), "f") {
				if err != nil {
					got = append(got, err.Error())
				} else if r.RowID == "a" {
					rows++
				}
			}
			if diff := cmp.Diff([]string{tt.want}, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if rows != 2 {
				t.Errorf("%d rows around the broken one, want 2", rows)
			}
		})
	}
}

// What other tools write and we don't.
func TestReadIsLenient(t *testing.T) {
	var r Row
	err := json.Unmarshal([]byte(`{"frames": 3.0, "telemetry": null, "count_check": {"unread": ["text"], "new": 1}, "TTFT_MS": "x", "gaps": {}}`), &r)
	if err != nil {
		t.Fatal(err)
	}
	if r.Frames == nil || *r.Frames != 3 {
		t.Errorf("frames = %v, want 3", r.Frames)
	}
	if diff := cmp.Diff([]Unread{{Source: "text"}}, r.CountCheck.Unread); diff != "" {
		t.Error(diff)
	}
	want := map[string]map[string]json.RawMessage{"": {"TTFT_MS": []byte(`"x"`)}, "count_check": {"new": []byte("1")}}
	if diff := cmp.Diff(want, r.Extra); diff != "" {
		t.Error(diff)
	}
	if r.TTFTMS != nil {
		t.Error("a name in other letters was taken for ttft_ms")
	}
}

// A failing disk ends the reading with the disk's error.
func TestReadGivesTheReadersError(t *testing.T) {
	broken := errors.New("disk on fire")
	n := 0
	for r, err := range Read(io.MultiReader(strings.NewReader(`{"row_id":"a"}`+"\n{"), iotest.ErrReader(broken)), "f") {
		n++
		if (n == 1) != (r != nil) || n == 2 && !errors.Is(err, broken) {
			t.Errorf("step %d: row %v, error %v", n, r, err)
		}
	}
	if n != 2 {
		t.Errorf("%d steps, want 2", n)
	}
}

// However the input is broken, Read ends, and a row that it gives can be
// written and read again.
func FuzzRead(f *testing.F) {
	for _, line := range seedLines(f) {
		f.Add(line)
	}
	line, err := valid(f).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(line, '\n'))
	f.Add([]byte("{\"telemetry\":{\"x\":[{}]},\"frames\":2.0}\r\n\n{\"withheld\":[{\"codes\":[null]}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for r, err := range Read(bytes.NewReader(data), "f") {
			if err != nil {
				continue
			}
			Validate(r)
			first, err := r.Encode()
			if err != nil {
				t.Fatal(err)
			}
			var back Row
			if err := json.Unmarshal(first, &back); err != nil {
				t.Fatalf("%v\n%s", err, first)
			}
			second, err := back.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(first, second) {
				t.Fatalf("not stable:\n%s\n%s", first, second)
			}
		}
	})
}
