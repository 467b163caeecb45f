package row

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"

	"assay/internal/kit/figure"
)

// Every place of a row is described, in the row's order, and nothing else is.
// Numbers have a unit, and whatever is no object says where it comes from.
func TestFieldsDescribeEveryPlace(t *testing.T) {
	var places, described []string
	shape.walk(func(n *node) {
		places = append(places, n.Path)
		number := n.kind == numberKind || n.kind == wholeKind
		holder := n.kind == objectKind || n.kind == mapKind || n.kind == listKind
		switch {
		case n.About == "":
			t.Errorf("%s: not described", n.Path)
		case number != (n.Unit != ""):
			t.Errorf("%s: a %s with unit %q", n.Path, n.kind, n.Unit)
		case !holder && n.Rule == "":
			t.Errorf("%s: where does it come from?", n.Path)
		}
	})
	for _, f := range Fields {
		described = append(described, f.Path)
	}
	if diff := cmp.Diff(places, described); diff != "" {
		t.Errorf("Fields differ from the row (-row +Fields):\n%s", diff)
	}
	for path := range limits {
		if !slices.Contains(places, path) {
			t.Errorf("limits: %s is no place in a row", path)
		}
	}
}

// What Validate accepts the schema accepts, and what it refuses the schema
// refuses, but for how fields relate to each other, which a schema can't say.
func TestSchemaAgreesWithValidate(t *testing.T) {
	base, err := valid(t).Encode()
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		r := new(Row)
		if err := json.Unmarshal(base, r); err != nil {
			t.Fatal(err)
		}
		spoil(t, r)
		var bad []Violation
		for _, v := range Validate(r) {
			if !v.Relates {
				bad = append(bad, v)
			}
		}
		line, err := r.Encode()
		if err != nil {
			if len(bad) == 0 {
				t.Fatalf("Validate accepts a row that does not encode: %v", err)
			}
			return
		}
		if fault := CheckSchema(Written, line); (fault == nil) != (len(bad) == 0) {
			t.Fatalf("the schema says %v, Validate says %v", fault, bad)
		}
		if len(bad) > 0 {
			refused++
		}
	})
	if refused == 0 {
		t.Error("no row was refused: the test shows nothing")
	}
}

// spoil changes a few places of a row: to anything, or to something that fits.
func spoil(t *rapid.T, r *Row) {
	v := reflect.ValueOf(r).Elem()
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		i := rapid.IntRange(0, v.NumField()-1).Draw(t, "field")
		f := v.Type().Field(i)
		if f.Tag.Get("json") == "-" || f.Name == "Why" {
			continue
		}
		fill(t, v.Field(i), f.Name)
	}
	if rapid.Bool().Draw(t, "fit") {
		r.Status = rapid.SampledFrom([]Status{OK, Failed, Stopped}).Draw(t, "status")
		r.FailKind, r.Error = nil, nil
		if rapid.Bool().Draw(t, "failed") {
			r.FailKind, r.Error = new("x"), new(rapid.SampledFrom([]string{"", "x"}).Draw(t, "error"))
		}
		r.Engine = rapid.SampledFrom([]string{"assay", "strata", "telemetry", ""}).Draw(t, "engine")
		r.Phase = Measure
	}
	if err := r.Because("not read in this test"); err == nil {
		maps.DeleteFunc(r.Why, func(path, _ string) bool { return path == "" })
	}
}

// object reads a line as it is.
func object(t testing.TB, line []byte) map[string]any {
	t.Helper()
	root, err := parse(line)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestRowsFitTheirForms(t *testing.T) {
	line, err := valid(t).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for form, name := range map[Form]string{Written: "written", Published: "published"} {
		if err := CheckSchema(form, line); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i, seed := range seedLines(t) {
		if err := CheckSchema(Published, seed); err != nil {
			t.Errorf("seed row %d: %v", i+1, err)
		}
		if err := CheckSchema(Written, seed); err == nil {
			t.Errorf("seed row %d passes for one of ours", i+1)
		}
	}
	if err := CheckSchema(Published, []byte(`{"arm":"a","status":"ok"}`)); err == nil {
		t.Error("a row without a name passes")
	}
}

// A mark may stand in place of any value but those that say what a row is and
// what it is worth. The schema of published rows and the reader agree on where,
// and the row is written again as it was read.
func TestRedactedValues(t *testing.T) {
	r := valid(t)
	r.Withheld = []Withheld{{Figure: "gaps.p99_ms", Value: new(1.0), Unit: "ms", Codes: []string{"clumped"}, Why: "x"}}
	r.CountCheck.Sources = []CountSource{{Name: "log", Origin: "server-counter", Tokens: 3}}
	r.CountCheck.Unread = []Unread{{Source: "text", Why: "x"}}
	line, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	const mark = "redacted-2026-10-13"
	taken, kept := 0, 0
	root := object(t, line)
	var visit func(n *node, path string, v any, put func(any))
	visit = func(n *node, path string, v any, put func(any)) {
		if n == nil {
			return // another engine's block
		}
		if path != "" {
			put(mark)
			spoilt, err := json.Marshal(root)
			if err != nil {
				t.Fatal(err)
			}
			put(v)
			fault := CheckSchema(Published, spoilt)
			var back Row
			err = back.UnmarshalJSON(spoilt)
			switch {
			case redactable(n):
				taken++
				if fault != nil || err != nil {
					t.Errorf("%s redacted: schema %v, reader %v", path, fault, err)
					break
				}
				if back.Redacted[path] != mark {
					t.Errorf("%s is redacted, but the row's list is %v", path, back.Redacted)
				}
				again, err := back.Encode()
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(object(t, spoilt), object(t, again)); diff != "" {
					t.Errorf("%s: (-read +written):\n%s", path, diff)
				}
			default:
				kept++
				if fault == nil {
					t.Errorf("%s redacted: the schema of published rows takes it", path)
				}
			}
		}
		switch v := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				visit(n.child(name), join(path, name), v[name], func(e any) { v[name] = e })
			}
		case []any:
			for i, e := range v {
				visit(n.each, fmt.Sprintf("%s[%d]", path, i), e, func(e any) { v[i] = e })
			}
		}
	}
	visit(shape, "", root, nil)
	if taken < 150 || kept < 10 {
		t.Errorf("%d places redacted, %d refused: too few to show anything", taken, kept)
	}
}

func TestRedactedMarks(t *testing.T) {
	for s, want := range map[string]bool{
		"withheld-2026-10-13": true, "redacted-2026-10-13": true,
		"withheld-2026-10-1": false, "withheld": false, "a withheld-2026-10-13": false, "withheld-2026-10-13\n": false, "": false,
	} {
		if got := IsRedaction(s); got != want {
			t.Errorf("IsRedaction(%q) = %v", s, got)
		}
	}
	for line, want := range map[string]string{
		`{"run":"withheld-2026-10-13"}`:                             `run: "withheld-2026-10-13" is not a whole number`,
		`{"count_check":{"against":{"log":"withheld-2026-10-13"}}}`: `count_check.against.log: "withheld-2026-10-13" is not a whole number`,
		`"withheld-2026-10-13"`:                                     `the row: "withheld-2026-10-13" is not an object`,
		`{"ttft_ms":"withheld-2026"}`:                               `ttft_ms: "withheld-2026" is not a number`,
	} {
		if err := new(Row).UnmarshalJSON([]byte(line)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// The table of checks stands in the schema in the words of a row.
func TestWithholding(t *testing.T) {
	table := Withholding()
	if len(table) != len(figure.Table) {
		t.Fatalf("%d checks of %d", len(table), len(figure.Table))
	}
	seen := map[string]bool{}
	for _, rule := range table {
		for _, path := range rule.Figures {
			seen[path] = true
			if !slices.Contains(numberPaths, path) {
				t.Errorf("%s: %s is no number of a row", rule.Code, path)
			}
		}
	}
	for _, path := range []string{"ttft_ms", "decode_tok_s", "prompt_tok_s_client", "decode_tok_s_server", "gaps.p90_ms", "tokens_per_round"} {
		if !seen[path] {
			t.Errorf("no check withholds %s", path)
		}
	}
	if diff := cmp.Diff([]string{"decode_tok_s", "decode_tok_s_simple", "rounds_per_s"}, table[1].Figures); diff != "" {
		t.Errorf("%s: %s", table[1].Code, diff)
	}
}

// The schema is JSON that a stranger's validator can read: it comes back the
// same, with descriptions, units, rules and the table.
func TestSchemaIsJSON(t *testing.T) {
	for _, form := range []Form{Written, Published} {
		first, err := json.Marshal(JSONSchema(form))
		if err != nil {
			t.Fatal(err)
		}
		var back jsonschema.Schema
		if err := json.Unmarshal(first, &back); err != nil {
			t.Fatal(err)
		}
		if _, err := back.Resolve(nil); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`"x-unit":"tok/s"`, `"x-rule":"first token frame less t0;`, `"description":"time to the first token frame of any kind"`,
			`"enum":["agree-independent","agree-same-origin","count-mismatch","unchecked",null]`, `"x-withholding":[{"code":"count-mismatch"`,
			`"$schema":"https://json-schema.org/draft/2020-12/schema"`,
		} {
			if !strings.Contains(string(first), want) {
				t.Errorf("form %d: no %s", form, want)
			}
		}
		if marks := strings.Contains(string(first), `"x-redactable":true`); marks != (form == Published) {
			t.Errorf("form %d: redactable places: %v", form, marks)
		}
	}
}

func BenchmarkCheckSchema(b *testing.B) {
	line, err := valid(b).Encode()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := CheckSchema(Written, line); err != nil {
			b.Fatal(err)
		}
	}
}
