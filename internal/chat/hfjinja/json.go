package hfjinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/ardanlabs/jinja"
)

// maxJSONDepth keeps values well within maxDepth.
const maxJSONDepth = 256

// Decode reads one JSON value as Python's json.loads does: objects keep the
// order of their keys, a repeated key keeps its first place and last value, and
// integers stay apart from floats.
func Decode(data []byte) (jinja.Value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decodeValue(d, 0)
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("JSON ends too early")
		}
		return v, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, fmt.Errorf("more after the JSON value, at byte %d", d.InputOffset())
	}
	return v, nil
}

func decodeValue(d *json.Decoder, depth int) (value, error) {
	if depth > maxJSONDepth {
		return jinja.Undefined(), fmt.Errorf("JSON is nested more than %d levels deep, at byte %d", maxJSONDepth, d.InputOffset())
	}
	tok, err := d.Token()
	if err != nil {
		return jinja.Undefined(), err
	}
	switch t := tok.(type) {
	case bool:
		return jinja.NewBool(t), nil
	case string:
		return text(t), nil
	case json.Number:
		return number(t.String()), nil
	case json.Delim:
		if t == '[' {
			return decodeList(d, depth)
		}
		return decodeDict(d, depth)
	}
	return jinja.None(), nil
}

func decodeList(d *json.Decoder, depth int) (value, error) {
	var items []value
	for d.More() {
		v, err := decodeValue(d, depth+1)
		if err != nil {
			return v, err
		}
		items = append(items, v)
	}
	_, err := d.Token()
	return jinja.NewList(items), err
}

func decodeDict(d *json.Decoder, depth int) (value, error) {
	dict := jinja.NewDict()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return dict, err
		}
		v, err := decodeValue(d, depth+1)
		if err != nil {
			return v, err
		}
		dict.AsDict().Set(key.(string), v) // the decoder allows no other key
	}
	_, err := d.Token()
	return dict, err
}

// number is an int when it is written as one, else a float.
func number(s string) value {
	if strings.ContainsAny(s, ".eE") {
		f, _ := strconv.ParseFloat(s, 64) // out of range gives infinity, as in Python
		return jinja.NewFloat(f)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return newBig(s)
	}
	return jinja.NewInt(n)
}

// toJSON is the tojson filter of transformers: json.dumps with ensure_ascii off.
func toJSON(r *run, x value, a []value) (value, error) {
	e := &encoder{w: writer{r: r}, item: ", ", key: ": ", ascii: a[0].IsTruthy(), sortKeys: a[3].IsTruthy()}
	if given(a[1]) {
		e.indented, e.item = true, ","
		if n, ok := asInt(a[1]); ok {
			n = max(n, 0)
			if err := r.spend(int(min(n, math.MaxInt32))); err != nil {
				return x, err
			}
			e.indent = strings.Repeat(" ", int(n))
		} else if s, err := strArg(a[1], ""); err == nil {
			e.indent = s
		} else {
			return x, err
		}
	}
	if given(a[2]) {
		if !a[2].IsList() || a[2].AsList().Len() != 2 || !a[2].AsList().Get(0).IsString() || !a[2].AsList().Get(1).IsString() {
			return x, errors.New("separators must be two strings")
		}
		e.item, e.key = a[2].AsList().Get(0).AsString(), a[2].AsList().Get(1).AsString()
	}
	err := e.value(x, 0)
	return text(e.w.b.String()), err
}

// encoder writes JSON as Python's json.dumps does.
type encoder struct {
	w         writer
	item, key string // separators
	indented  bool
	indent    string
	ascii     bool
	sortKeys  bool
}

func (e *encoder) value(v value, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	switch {
	case v.IsNone():
		return e.w.add("null")
	case v.IsBool():
		return e.w.add(strconv.FormatBool(v.AsBool()))
	case v.IsInt():
		return e.w.add(strconv.FormatInt(v.AsInt(), 10))
	case v.IsFloat():
		return e.w.add(jsonFloat(v.AsFloat()))
	case v.IsString():
		return e.w.add(jsonString(v.AsString(), e.ascii))
	case v.IsList():
		items := v.AsList().Items
		return e.container("[", "]", len(items), depth, func(i int) error {
			return e.value(items[i], depth+1)
		})
	case v.IsDict() && !e.w.r.namespaces[v.AsDict()]:
		d := v.AsDict()
		keys := d.Keys
		if e.sortKeys {
			keys = slices.Sorted(slices.Values(keys))
		}
		return e.container("{", "}", len(keys), depth, func(i int) error {
			if err := e.w.add(jsonString(strings.TrimPrefix(keys[i], intKey), e.ascii) + e.key); err != nil {
				return err
			}
			return e.value(d.Data[keys[i]], depth+1)
		})
	}
	if digits, ok := bigDigits(v); ok {
		return e.w.add(digits)
	}
	return fmt.Errorf("%s cannot be written as JSON", article(e.w.r.typeName(v)))
}

func (e *encoder) container(begin, end string, n, depth int, item func(int) error) error {
	if n == 0 {
		return e.w.add(begin + end)
	}
	if err := e.w.add(begin); err != nil {
		return err
	}
	for i := range n {
		if i > 0 {
			if err := e.w.add(e.item); err != nil {
				return err
			}
		}
		if err := e.newline(depth + 1); err != nil {
			return err
		}
		if err := item(i); err != nil {
			return err
		}
	}
	if err := e.newline(depth); err != nil {
		return err
	}
	return e.w.add(end)
}

func (e *encoder) newline(depth int) error {
	if !e.indented {
		return nil
	}
	if err := e.w.r.spendTimes(depth, len(e.indent)); err != nil {
		return err
	}
	return e.w.add("\n" + strings.Repeat(e.indent, depth))
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return formatFloat(f)
}

var jsonEscapes = map[rune]string{
	'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\f': `\f`, '\b': `\b`,
}

func jsonString(s string, ascii bool) string {
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte('"')
	for _, c := range s {
		esc, ok := jsonEscapes[c]
		switch {
		case ok:
			b.WriteString(esc)
		case c < 0x20, ascii && c > 0x7f && c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		case ascii && c >= 0x10000:
			hi, lo := utf16.EncodeRune(c)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
