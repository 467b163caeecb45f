package hfjinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/ardanlabs/jinja"
)

// Integers of the input that do not fit 64 bits (a schema's "maximum") pass
// through as they are written. The engine has no such kind, so a callable with
// this name stands for one.
const bigPrefix = "integer "

func newBig(digits string) value { return jinja.NewCallable(bigPrefix+digits, nil) }

func bigDigits(v value) (string, bool) {
	if !v.IsCallable() {
		return "", false
	}
	return strings.CutPrefix(v.AsCallable().Name, bigPrefix)
}

func isBig(v value) bool {
	_, ok := bigDigits(v)
	return ok
}

// typeName is Python's name for the type, or nearly.
func (r *run) typeName(v value) string {
	switch {
	case v.IsUndefined():
		return "undefined"
	case v.IsNone():
		return "none"
	case v.IsBool():
		return "bool"
	case v.IsInt(), isBig(v):
		return "int"
	case v.IsFloat():
		return "float"
	case v.IsString():
		return "str"
	case v.IsList():
		return "list"
	case v.IsDict() && r.namespaces[v.AsDict()]:
		return "namespace"
	case v.IsDict():
		return "dict"
	}
	return "function"
}

// asInt is the integer that v is; True is 1, as in Python.
func asInt(v value) (int64, bool) {
	switch {
	case v.IsInt():
		return v.AsInt(), true
	case v.IsBool():
		if v.AsBool() {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// asFloat is the number that v is.
func asFloat(v value) (float64, bool) {
	if v.IsFloat() {
		return v.AsFloat(), true
	}
	n, ok := asInt(v)
	return float64(n), ok
}

// str is Python's str(v), with undefined as nothing.
func (r *run) str(v value) (value, error) {
	switch {
	case v.IsString():
		return v, nil
	case v.IsUndefined():
		return text(""), nil
	}
	w := &writer{r: r}
	err := w.repr(v, 0)
	return text(w.b.String()), err
}

// string is str as a Go string.
func (r *run) string(v value) (string, error) {
	s, err := r.str(v)
	if err != nil {
		return "", err
	}
	return s.AsString(), nil
}

// writer builds text that may grow beyond its input, counting it as it grows.
type writer struct {
	r *run
	b strings.Builder
}

func (w *writer) add(s string) error {
	w.b.WriteString(s)
	return w.r.spend(len(s) + costCall)
}

var errDepth = &LimitError{Reason: fmt.Sprintf("a value holds more than %d others within one another", maxDepth)}

// repr writes Python's repr(v).
func (w *writer) repr(v value, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	switch {
	case v.IsUndefined():
		return w.add("Undefined")
	case v.IsNone():
		return w.add("None")
	case v.IsBool():
		return w.add(map[bool]string{true: "True", false: "False"}[v.AsBool()])
	case v.IsInt():
		return w.add(strconv.FormatInt(v.AsInt(), 10))
	case v.IsFloat():
		return w.add(formatFloat(v.AsFloat()))
	case v.IsString():
		return w.add(reprString(v.AsString()))
	case v.IsList():
		return w.list(v, "[", "]", depth)
	case v.IsDict() && w.r.namespaces[v.AsDict()]:
		if err := w.add("<Namespace "); err != nil {
			return err
		}
		if err := w.dict(v.AsDict(), depth); err != nil {
			return err
		}
		return w.add(">")
	case v.IsDict():
		return w.dict(v.AsDict(), depth)
	}
	if digits, ok := bigDigits(v); ok {
		return w.add(digits)
	}
	return w.add("<function " + strings.TrimPrefix(v.AsCallable().Name, "v_") + ">")
}

func (w *writer) list(v value, begin, end string, depth int) error {
	if err := w.add(begin); err != nil {
		return err
	}
	for i, item := range v.AsList().Items {
		if i > 0 {
			if err := w.add(", "); err != nil {
				return err
			}
		}
		if err := w.repr(item, depth+1); err != nil {
			return err
		}
	}
	return w.add(end)
}

func (w *writer) dict(d *jinja.Dict, depth int) error {
	if err := w.add("{"); err != nil {
		return err
	}
	for i, k := range d.Keys {
		sep := ""
		if i > 0 {
			sep = ", "
		}
		shown := reprString(k)
		if digits, ok := strings.CutPrefix(k, intKey); ok {
			shown = digits
		}
		if err := w.add(sep + shown + ": "); err != nil {
			return err
		}
		if err := w.repr(d.Data[k], depth+1); err != nil {
			return err
		}
	}
	return w.add("}")
}

// reprString is Python's repr of a string: single quotes unless there are only
// those inside, and escapes for what cannot be printed.
func reprString(s string) string {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, c := range s {
		switch {
		case c == quote || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			fmt.Fprintf(&b, `\U%08x`, c)
		}
	}
	b.WriteRune(quote)
	return b.String()
}

// formatFloat is Python's repr of a float: the shortest digits that read back
// the same, in scientific notation below 1e-4 and from 1e16.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
