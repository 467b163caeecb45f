package row

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// OwnEngine is the name of our engine and of its block in a row.
const OwnEngine = "assay"

// rowFields are the names of a row's own fields.
var rowFields = func() map[string]bool {
	out := map[string]bool{}
	for _, f := range fieldsOf(reflect.TypeFor[Row]()) {
		out[f.name] = true
	}
	return out
}()

// Null records why the values at the given paths are null.
func (r *Row) Null(why string, paths ...string) {
	if r.Why == nil {
		r.Why = map[string]string{}
	}
	for _, p := range paths {
		r.Why[p] = why
	}
}

// Explain adds the reasons that follow from the row itself: that a run which
// did not fail has no error, that a figure is null because it is withheld, and
// the like. Reasons that were given stay.
func (r *Row) Explain() {
	n := r.numbers()
	for _, w := range r.Withheld {
		if v, ok := n[w.Figure]; ok && v == nil {
			r.explain(w.Figure, "withheld: "+strings.Join(w.Codes, ", "))
		}
	}
	if r.Status == OK {
		r.explainIf(r.FailKind == nil, "fail_kind", "the run did not fail")
		r.explainIf(r.Error == nil, "error", "the run did not fail")
	}
	r.explainIf(r.DecodeTokSWithheld == nil, "decode_tok_s_withheld", "decode_tok_s is not withheld, or has no value to keep aside")
	r.explainIf(r.DecodeTokSServerWithheld == nil, "decode_tok_s_server_withheld", "decode_tok_s_server is not withheld, or has no value to keep aside")
	r.explainIf(r.CacheFlag == nil, "cache_flag", "nothing stands against the prompt rate")
	r.explainIf(r.Seq <= 1 && r.PrevSHA256 == nil, "prev_sha256", "the first row of its journal")
	r.explainIf(r.Requested.Reasoning == nil, "requested.reasoning", "left to the model")
	r.explainIf(hasNil(reflect.ValueOf(r.Requested.Sampling)), "requested.sampling", "what is null here was left to the server's default")
	rapl := r.Telemetry.RAPLPackage0
	switch {
	case rapl.Joules != nil:
		r.explainIf(rapl.Why == nil, "telemetry.rapl_package0.why", "the joules are given")
	case rapl.Why != nil:
		r.explain("telemetry.rapl_package0.joules", *rapl.Why)
	}
}

func (r *Row) explainIf(is bool, path, why string) {
	if is {
		r.explain(path, why)
	}
}

// explain records a reason unless the path, or an object above it, has one.
func (r *Row) explain(path, why string) {
	for p := path; p != ""; p = p[:max(strings.LastIndexByte(p, '.'), 0)] {
		if r.Why[p] != "" {
			return
		}
	}
	r.Null(why, path)
}

// hasNil says whether a struct has a nil field.
func hasNil(v reflect.Value) bool {
	for i := range v.NumField() {
		if v.Field(i).IsNil() {
			return true
		}
	}
	return false
}

// Because gives one reason to every null that has none yet: for the row of a
// run that ended before there was anything to fill in. Where all of an object
// is null, the object gets the reason.
func (r *Row) Because(why string) error {
	line, err := r.Encode()
	if err != nil {
		return err
	}
	root, err := parse(line)
	if err != nil {
		return err
	}
	for _, path := range bareNulls("", root, r.Why) {
		r.Null(why, path)
	}
	return nil
}

// parse reads an encoded row as it is, numbers as they are written.
func parse(line []byte) (map[string]any, error) {
	var root map[string]any
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	err := dec.Decode(&root)
	return root, err
}

// bareNulls lists the nulls at and below path that no reason covers. An object
// of nothing but such nulls is listed itself, as the only one.
func bareNulls(path string, v any, why map[string]string) []string {
	if why[path] != "" {
		return nil
	}
	var out []string
	switch v := v.(type) {
	case nil:
		return []string{path}
	case []any:
		for i, e := range v {
			out = append(out, bareNulls(fmt.Sprintf("%s[%d]", path, i), e, why)...)
		}
	case map[string]any:
		whole := path != "" && len(v) > 0
		for _, name := range slices.Sorted(maps.Keys(v)) {
			p := join(path, name)
			below := bareNulls(p, v[name], why)
			whole = whole && len(below) == 1 && below[0] == p
			out = append(out, below...)
		}
		if whole {
			return []string{path}
		}
	}
	return out
}

// numbers maps the path of every number that a row can hold, lists aside, to
// its value, nil where it is null.
func (r *Row) numbers() map[string]*float64 {
	out := map[string]*float64{}
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		t := v.Type()
		null := false
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
			if null = v.IsNil(); null {
				v = reflect.Zero(t)
			} else {
				v = v.Elem()
			}
		}
		switch t.Kind() {
		case reflect.Struct:
			for _, f := range fieldsOf(t) {
				walk(v.Field(f.index), join(path, f.name))
			}
		case reflect.Int, reflect.Int64:
			if null {
				out[path] = nil
			} else {
				out[path] = new(float64(v.Int()))
			}
		case reflect.Float64:
			if null {
				out[path] = nil
			} else {
				out[path] = new(v.Float())
			}
		}
	}
	walk(reflect.ValueOf(r).Elem(), "")
	return out
}
