package hfjinja

import (
	"fmt"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// globals are the functions that templates may call by name.
var globals = map[string]func(r *run, a arguments) (value, error){
	"range":     pyRange,
	"namespace": namespace,
	"dict": func(_ *run, a arguments) (value, error) {
		return newDict("dict()", a)
	},
	"raise_exception": func(r *run, a arguments) (value, error) {
		args, err := a.bind("raise_exception()", "message")
		if err != nil {
			return jinja.Undefined(), err
		}
		msg, err := r.string(args[0])
		if err != nil {
			return jinja.Undefined(), err
		}
		return jinja.Undefined(), &RaisedError{Message: msg}
	},
	"strftime_now": func(r *run, a arguments) (value, error) {
		args, err := a.bind("strftime_now()", "format")
		if err != nil {
			return jinja.Undefined(), err
		}
		layout, err := strArg(args[0], "")
		return text(strftime(layout, r.now())), err
	},
}

// maxRange is the sandbox's.
const maxRange = 100_000

func pyRange(_ *run, a arguments) (value, error) {
	if len(a.named.Keys) > 0 || len(a.pos) == 0 || len(a.pos) > 3 {
		return jinja.Undefined(), fmt.Errorf("range() takes one to three numbers")
	}
	bounds := []int64{0, 0, 1}
	for i, v := range a.pos {
		n, ok := asInt(v)
		if !ok {
			return v, fmt.Errorf("range() takes integers, got %s", v.String())
		}
		bounds[i] = n
	}
	if len(a.pos) == 1 {
		bounds[0], bounds[1] = 0, bounds[0]
	}
	start, stop, step := bounds[0], bounds[1], bounds[2]
	if step == 0 {
		return jinja.Undefined(), fmt.Errorf("range(): the step cannot be zero")
	}
	var items []value
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(items) == maxRange {
			return jinja.Undefined(), &LimitError{Reason: fmt.Sprintf("range() gives at most %d numbers", maxRange)}
		}
		items = append(items, jinja.NewInt(i))
		if next := i + step; (next > i) != (step > 0) {
			break // overflow
		}
	}
	return jinja.NewList(items), nil
}

// newDict is Python's dict(): from a dict or pairs, then from named arguments.
func newDict(what string, a arguments) (value, error) {
	if len(a.pos) > 1 {
		return jinja.Undefined(), fmt.Errorf("%s takes one dict and named arguments, got %d arguments", what, len(a.pos))
	}
	v := jinja.NewDict()
	if len(a.pos) == 1 {
		switch from := a.pos[0]; {
		case from.IsDict():
			for _, k := range from.AsDict().Keys {
				v.AsDict().Set(k, from.AsDict().Data[k])
			}
		case from.IsList():
			for _, pair := range from.AsList().Items {
				if !pair.IsList() || pair.AsList().Len() != 2 {
					return v, fmt.Errorf("%s needs pairs, got %s", what, pair.String())
				}
				v.AsDict().Set(dictKey(pair.AsList().Get(0)), pair.AsList().Get(1))
			}
		case !from.IsUndefined():
			return v, fmt.Errorf("%s needs a dict or pairs, got %s", what, from.String())
		}
	}
	for _, k := range a.named.Keys {
		v.AsDict().Set(k, a.named.Data[k])
	}
	return v, nil
}

func namespace(r *run, a arguments) (value, error) {
	v, err := newDict("namespace()", a)
	if err == nil {
		r.namespaces[v.AsDict()] = true
	}
	return v, err
}

// strftime is C's, as far as Go can say it; an unknown directive stays as it is.
// "-" before the letter drops the leading zero.
func strftime(format string, t time.Time) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		n := 1
		if format[i+1] == '-' && i+2 < len(format) {
			n = 2
		}
		s, ok := directive(format[i+n], t)
		if !ok {
			b.WriteByte('%')
			continue
		}
		if n == 2 {
			s = strings.TrimLeft(s[:len(s)-1], "0") + s[len(s)-1:]
		}
		b.WriteString(s)
		i += n
	}
	return b.String()
}

func directive(c byte, t time.Time) (string, bool) {
	layouts := map[byte]string{
		'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'd': "02", 'm': "01", 'y': "06", 'Y': "2006",
		'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'j': "002", 'z': "-0700", 'Z': "MST",
		'e': "_2", 'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06",
		'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05",
	}
	if layout, ok := layouts[c]; ok {
		return t.Format(layout), true
	}
	_, week := t.ISOWeek()
	switch c {
	case '%':
		return "%", true
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 's':
		return fmt.Sprint(t.Unix()), true
	case 'w':
		return fmt.Sprint(int(t.Weekday())), true
	case 'u':
		return fmt.Sprint((int(t.Weekday())+6)%7 + 1), true
	case 'V':
		return fmt.Sprintf("%02d", week), true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	}
	return "", false
}
