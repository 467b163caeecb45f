package row

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// field is one JSON field of a struct of this package.
type field struct {
	name     string
	index    int
	present  bool // a nil slice or map is written as [] or {}, never as null
	optional bool // left out when nil, instead of null
}

// fieldCache holds what fieldsOf has found, by type: a row has two dozen
// structs, and files have many rows.
var fieldCache sync.Map

// fieldsOf lists the JSON fields of a struct type in their order.
func fieldsOf(t reflect.Type) []field {
	if fields, ok := fieldCache.Load(t); ok {
		return fields.([]field)
	}
	out := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		mark := f.Tag.Get("row")
		out = append(out, field{name, i, mark == "present", mark == "optional"})
	}
	fieldCache.Store(t, out)
	return out
}

// join extends the path of an object by a field's name.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Encode is the row as one line of JSON, without the line feed. Fields come in
// a fixed order, maps in the order of their keys, unknown fields last: the same
// row always gives the same bytes.
func (r *Row) Encode() ([]byte, error) {
	e := encoder{extra: r.Extra, redacted: r.Redacted}
	if err := e.value(reflect.ValueOf(r).Elem(), "", false); err != nil {
		return nil, fmt.Errorf("row %s: %w", r.RowID, err)
	}
	return e.Bytes(), nil
}

// MarshalJSON is Encode for package encoding/json.
func (r Row) MarshalJSON() ([]byte, error) { return r.Encode() }

// structPaths are the paths of all objects in a row whose fields are known.
var structPaths = func() map[string]bool {
	out := map[string]bool{}
	var walk func(t reflect.Type, path string)
	walk = func(t reflect.Type, path string) {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return
		}
		out[path] = true
		for _, f := range fieldsOf(t) {
			walk(t.Field(f.index).Type, join(path, f.name))
		}
	}
	walk(reflect.TypeFor[Row](), "")
	return out
}()

type encoder struct {
	bytes.Buffer
	extra    map[string]map[string]json.RawMessage
	redacted map[string]string
}

func (e *encoder) value(v reflect.Value, path string, present bool) error {
	if mark, ok := e.redacted[path]; ok && v.Kind() != reflect.String && v.IsZero() {
		e.text(mark)
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			e.WriteString("null")
			return nil
		}
		return e.value(v.Elem(), path, false)
	case reflect.Struct:
		return e.object(v, path)
	case reflect.String:
		e.text(v.String())
	case reflect.Bool:
		e.WriteString(strconv.FormatBool(v.Bool()))
	case reflect.Int, reflect.Int64:
		e.WriteString(strconv.FormatInt(v.Int(), 10))
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("%s: %v is not a finite number", path, f)
		}
		b, err := json.Marshal(v.Float())
		e.Write(b)
		return err
	case reflect.Slice:
		if v.IsNil() && !present {
			e.WriteString("null")
			return nil
		}
		e.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				e.WriteByte(',')
			}
			if err := e.value(v.Index(i), fmt.Sprintf("%s[%d]", path, i), false); err != nil {
				return err
			}
		}
		e.WriteByte(']')
	case reflect.Map:
		return e.dictionary(v, path, present)
	default:
		return fmt.Errorf("%s: rows can't hold a %s", path, v.Type())
	}
	return nil
}

func (e *encoder) object(v reflect.Value, path string) error {
	e.WriteByte('{')
	comma := false
	next := func(name string) {
		if comma {
			e.WriteByte(',')
		}
		comma = true
		e.text(name)
		e.WriteByte(':')
	}
	for _, f := range fieldsOf(v.Type()) {
		fv := v.Field(f.index)
		below := join(path, f.name)
		if _, redacted := e.redacted[below]; f.optional && fv.IsNil() && !redacted {
			continue
		}
		next(f.name)
		if err := e.value(fv, below, f.present); err != nil {
			return err
		}
	}
	unknown := e.extra[path]
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		next(name)
		if err := json.Compact(&e.Buffer, unknown[name]); err != nil {
			return fmt.Errorf("%s: %w", join(path, name), err)
		}
	}
	e.WriteByte('}')
	return nil
}

func (e *encoder) dictionary(v reflect.Value, path string, present bool) error {
	if v.IsNil() && !present {
		e.WriteString("null")
		return nil
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	e.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			e.WriteByte(',')
		}
		e.text(k.String())
		e.WriteByte(':')
		if err := e.value(v.MapIndex(k), join(path, k.String()), false); err != nil {
			return err
		}
	}
	e.WriteByte('}')
	return nil
}

// text writes a JSON string with <, > and & as they are: rows are read by
// people, and no browser sees them unescaped.
func (e *encoder) text(s string) {
	enc := json.NewEncoder(&e.Buffer)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	e.Truncate(e.Len() - 1)
}
