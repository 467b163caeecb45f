package row

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// sha is a well-formed sha256 of nothing in particular.
var sha = strings.Repeat("ab", 32)

// valid is a row of our engine as a run would write it: the first seed row
// with what is new in our form.
func valid(t testing.TB) *Row {
	t.Helper()
	r := new(Row)
	if err := json.Unmarshal(seedLines(t)[0], r); err != nil {
		t.Fatal(err)
	}
	r.Schema, r.AssayVersion, r.TimingRule = Schema, "0.1.0", "timing-1"
	r.Cell, r.Phase, r.Attempt = "R-S139-IQ3@4K", Measure, 1
	r.StartID = new("s1")
	r.CountCheck.Verdict = new("agree-independent")
	r.TokenFrames = new(*r.ContentFrames)
	r.DecodeTokSSimple = r.DecodeTokS
	r.Requested = Requested{MaxTokens: new(256), Ctx: new(4000), Sampling: Sampling{Temperature: new(0.0)}}
	r.Evidence = Evidence{Dir: new("evidence/1"), Files: map[string]string{"stream": sha}}
	r.Explain()
	if err := r.Because("not read in this test"); err != nil {
		t.Fatal(err)
	}
	return r
}

// anyRow draws a row with anything in any field.
func anyRow(t *rapid.T) *Row {
	r := new(Row)
	fill(t, reflect.ValueOf(r).Elem(), "row")
	r.Extra = nil
	if rapid.Bool().Draw(t, "other engine") {
		r.Extra = map[string]map[string]json.RawMessage{
			"":          {"strata": json.RawMessage(`{"hits":null,"a":[1,{"b":"<&>"}]}`), "later.field": json.RawMessage(`1e400`)},
			"telemetry": {"fans": json.RawMessage(`[1,2]`), "": json.RawMessage(`"no name"`)},
		}
	}
	return r
}

func fill(t *rapid.T, v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Pointer:
		if rapid.Bool().Draw(t, name+" given") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), name)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Tag.Get("json") != "-" {
				fill(t, v.Field(i), f.Name)
			}
		}
	case reflect.String:
		v.SetString(rapid.String().Draw(t, name))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, name))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, name))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, name))
	case reflect.Slice:
		n := rapid.IntRange(-1, 3).Draw(t, name)
		if n < 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(t, v.Index(i), name)
		}
	case reflect.Map:
		n := rapid.IntRange(-1, 3).Draw(t, name)
		if n < 0 {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range n {
			e := reflect.New(v.Type().Elem()).Elem()
			fill(t, e, name)
			v.SetMapIndex(reflect.ValueOf(rapid.String().Draw(t, name+" key")), e)
		}
	default:
		t.Fatalf("rows can't hold a %s", v.Type())
	}
}
