package row

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
)

// UnmarshalJSON reads one row. Fields that are absent stay nil or zero, fields
// that are unknown go to Extra, marks of redacted values go to Redacted. Names
// match exactly; a name given twice, a value of another type and a null or a
// mark where the row can't hold one are errors that name the field's path.
func (r *Row) UnmarshalJSON(data []byte) error {
	*r = Row{}
	d := decoder{extra: map[string]map[string]json.RawMessage{}, redacted: map[string]string{}}
	if err := d.value(data, reflect.ValueOf(r).Elem(), ""); err != nil {
		return err
	}
	if len(d.extra) > 0 {
		r.Extra = d.extra
	}
	if len(d.redacted) > 0 {
		r.Redacted = d.redacted
	}
	return nil
}

type decoder struct {
	extra    map[string]map[string]json.RawMessage
	redacted map[string]string
}

// mark notes the mark of a redacted value and says whether data is one.
func (d *decoder) mark(data []byte, path string) bool {
	const longest = 32 // no mark comes near; texts may be long
	var s string
	if data[0] != '"' || len(data) > longest || json.Unmarshal(data, &s) != nil || !IsRedaction(s) {
		return false
	}
	d.redacted[path] = s
	return true
}

// typeError says that the value at path is of another type than its field.
func typeError(path string, data []byte, want string) error {
	if path == "" {
		path = "the row"
	}
	const show = 40
	got := string(data)
	if len(got) > show {
		got = got[:show] + "..."
	}
	return fmt.Errorf("%s: %s is not %s", path, got, want)
}

func (d *decoder) value(data []byte, v reflect.Value, path string) error {
	data = bytes.TrimSpace(data)
	if string(data) == "null" {
		switch v.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			return nil
		case reflect.Struct:
			if path != "" {
				return nil // all of its fields are null
			}
		}
		return typeError(path, data, wants(v.Kind()))
	}
	switch v.Kind() {
	case reflect.String:
		d.mark(data, path)
	case reflect.Pointer:
		if v.Type().Elem().Kind() != reflect.String && d.mark(data, path) {
			return nil
		}
	case reflect.Struct, reflect.Slice, reflect.Map:
		if path != "" && d.mark(data, path) {
			return nil
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		if err := d.value(data, p.Elem(), path); err != nil {
			return err
		}
		v.Set(p)
		return nil
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[Unread]() && data[0] == '"' {
			return d.value(data, v.Field(0), path) // other tools give the name alone
		}
		return d.object(data, v, path)
	case reflect.Slice:
		return d.list(data, v, path)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		return eachField(data, path, func(name string, raw json.RawMessage) error {
			e := reflect.New(v.Type().Elem()).Elem()
			if err := d.value(raw, e, join(path, name)); err != nil {
				return err
			}
			v.SetMapIndex(reflect.ValueOf(name), e)
			return nil
		})
	default:
		if !scalar(data, v) {
			return typeError(path, data, wants(v.Kind()))
		}
		return nil
	}
}

// scalar sets v from data and reports whether data is of v's kind.
func scalar(data []byte, v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		var s string
		if json.Unmarshal(data, &s) != nil {
			return false
		}
		v.SetString(s)
	case reflect.Bool:
		b, err := strconv.ParseBool(string(data))
		if err != nil || data[0] != 't' && data[0] != 'f' {
			return false
		}
		v.SetBool(b)
	case reflect.Float64:
		if !isNumber(data) {
			return false
		}
		f, err := strconv.ParseFloat(string(data), 64)
		if err != nil {
			return false
		}
		v.SetFloat(f)
	case reflect.Int, reflect.Int64:
		if !isNumber(data) {
			return false
		}
		n, err := strconv.ParseInt(string(data), 10, 64)
		if err != nil { // Python writes whole floats as 3.0
			f, ferr := strconv.ParseFloat(string(data), 64)
			if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
				return false
			}
			n = int64(f)
		}
		v.SetInt(n)
	default:
		return false
	}
	return true
}

func isNumber(data []byte) bool { return data[0] == '-' || '0' <= data[0] && data[0] <= '9' }

func wants(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

func (d *decoder) object(data []byte, v reflect.Value, path string) error {
	known := fieldsOf(v.Type())
	return eachField(data, path, func(name string, raw json.RawMessage) error {
		if i := slices.IndexFunc(known, func(f field) bool { return f.name == name }); i >= 0 {
			return d.value(raw, v.Field(known[i].index), join(path, name))
		}
		if structPaths[path] { // what lists hold has no place for unknown fields
			if d.extra[path] == nil {
				d.extra[path] = map[string]json.RawMessage{}
			}
			d.extra[path][name] = bytes.Clone(raw)
		}
		return nil
	})
}

func (d *decoder) list(data []byte, v reflect.Value, path string) error {
	var raws []json.RawMessage
	if json.Unmarshal(data, &raws) != nil {
		return typeError(path, data, wants(reflect.Slice))
	}
	v.Set(reflect.MakeSlice(v.Type(), len(raws), len(raws)))
	for i, raw := range raws {
		if err := d.value(raw, v.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

// eachField calls do for every field of the object in data, in its order.
func eachField(data []byte, path string, do func(name string, raw json.RawMessage) error) error {
	if len(data) == 0 || data[0] != '{' {
		return typeError(path, data, wants(reflect.Struct))
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if seen[name] {
			return fmt.Errorf("%s: given twice", join(path, name))
		}
		seen[name] = true
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return fmt.Errorf("%s: %w", join(path, name), err)
		}
		if err := do(name, raw); err != nil {
			return err
		}
	}
	return nil
}
