package hfjinja

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

// The methods of Python's str, list and dict that templates may call. Those
// that change a list or dict are not among them: transformers' sandbox forbids
// them.

var dictMethods = map[string]builtin{
	"get": {params: []string{"key", "default"}, fn: func(_ *run, x value, a []value) (value, error) {
		if v, ok := x.AsDict().Get(dictKey(a[0])); ok {
			return v, nil
		}
		if a[1].IsUndefined() {
			return jinja.None(), nil
		}
		return a[1], nil
	}},
	"items":  {fn: func(r *run, x value, _ []value) (value, error) { return r.pairs(x.AsDict()) }},
	"keys":   {fn: func(r *run, x value, _ []value) (value, error) { return r.listed(x) }},
	"values": {fn: func(_ *run, x value, _ []value) (value, error) { return dictValues(x.AsDict()), nil }},
	"copy": {fn: func(_ *run, x value, _ []value) (value, error) {
		return newDict("copy()", arguments{pos: []value{x}, named: &jinja.Dict{}})
	}},
}

func (r *run) pairs(d *jinja.Dict) (value, error) {
	if err := r.spendTimes(len(d.Keys), 2*costItem); err != nil {
		return jinja.Undefined(), err
	}
	items := make([]value, len(d.Keys))
	for i, k := range d.Keys {
		items[i] = jinja.NewList([]value{keyValue(k), d.Data[k]})
	}
	return jinja.NewList(items), nil
}

func dictValues(d *jinja.Dict) value {
	items := make([]value, len(d.Keys))
	for i, k := range d.Keys {
		items[i] = d.Data[k]
	}
	return jinja.NewList(items)
}

var listMethods = map[string]builtin{
	"index": {params: []string{"value"}, fn: func(r *run, x value, a []value) (value, error) {
		for i, v := range x.AsList().Items {
			if eq, err := r.equal(v, a[0], 0); eq || err != nil {
				return jinja.NewInt(int64(i)), err
			}
		}
		return x, fmt.Errorf("the list has no such item")
	}},
	"count": {params: []string{"value"}, fn: func(r *run, x value, a []value) (value, error) {
		n := int64(0)
		for _, v := range x.AsList().Items {
			eq, err := r.equal(v, a[0], 0)
			if err != nil {
				return x, err
			}
			if eq {
				n++
			}
		}
		return jinja.NewInt(n), nil
	}},
	"copy": {fn: func(_ *run, x value, _ []value) (value, error) {
		return jinja.NewList(append([]value(nil), x.AsList().Items...)), nil
	}},
}

// strMethod is a method that needs only the string and string arguments.
func strMethod(fn func(s string, a []string) value, params ...string) builtin {
	return builtin{params: params, fn: func(_ *run, x value, a []value) (value, error) {
		args := make([]string, len(a))
		for i, v := range a {
			s, err := strArg(v, "")
			if err != nil {
				return x, err
			}
			args[i] = s
		}
		return fn(x.AsString(), args), nil
	}}
}

// strTest is Python's s.isdigit() and the like: all characters, and at least one.
func strTest(is func(rune) bool) builtin {
	return strMethod(func(s string, _ []string) value {
		return jinja.NewBool(s != "" && strings.IndexFunc(s, func(c rune) bool { return !is(c) }) < 0)
	})
}

var stringMethods = map[string]builtin{
	"format":     {open: formatMethod},
	"upper":      strMethod(func(s string, _ []string) value { return text(strings.ToUpper(s)) }),
	"lower":      strMethod(func(s string, _ []string) value { return text(strings.ToLower(s)) }),
	"capitalize": strMethod(func(s string, _ []string) value { return text(capitalize(s)) }),
	"title":      strMethod(func(s string, _ []string) value { return text(title(s)) }),
	"strip":      {params: []string{"chars"}, fn: stripper(true, true)},
	"lstrip":     {params: []string{"chars"}, fn: stripper(true, false)},
	"rstrip":     {params: []string{"chars"}, fn: stripper(false, true)},
	"startswith": {params: []string{"prefix"}, fn: affix(strings.HasPrefix)},
	"endswith":   {params: []string{"suffix"}, fn: affix(strings.HasSuffix)},
	"removeprefix": strMethod(func(s string, a []string) value {
		return text(strings.TrimPrefix(s, a[0]))
	}, "prefix"),
	"removesuffix": strMethod(func(s string, a []string) value {
		return text(strings.TrimSuffix(s, a[0]))
	}, "suffix"),
	"count": strMethod(func(s string, a []string) value { return jinja.NewInt(int64(strings.Count(s, a[0]))) }, "sub"),
	"find":  strMethod(func(s string, a []string) value { return charIndex(s, strings.Index(s, a[0])) }, "sub"),
	"rfind": strMethod(func(s string, a []string) value { return charIndex(s, strings.LastIndex(s, a[0])) }, "sub"),
	"partition": strMethod(func(s string, a []string) value {
		before, after, ok := strings.Cut(s, a[0])
		if !ok {
			return texts(s, "", "")
		}
		return texts(before, a[0], after)
	}, "sep"),
	"rpartition": strMethod(func(s string, a []string) value {
		i := strings.LastIndex(s, a[0])
		if i < 0 {
			return texts("", "", s)
		}
		return texts(s[:i], a[0], s[i+len(a[0]):])
	}, "sep"),
	"splitlines": strMethod(func(s string, _ []string) value { return texts(splitLines(s)...) }),
	"isdigit":    strTest(unicode.IsDigit),
	"isalpha":    strTest(unicode.IsLetter),
	"isalnum":    strTest(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
	"isspace":    strTest(isSpace),
	"isupper":    strMethod(func(s string, _ []string) value { return jinja.NewBool(isUpper(s)) }),
	"islower":    strMethod(func(s string, _ []string) value { return jinja.NewBool(isLower(s)) }),
	"split":      {params: []string{"sep", "maxsplit"}, fn: splitter(split)},
	"rsplit":     {params: []string{"sep", "maxsplit"}, fn: splitter(rsplit)},
	"replace": {params: []string{"old", "new", "count"}, fn: func(r *run, x value, a []value) (value, error) {
		return r.replace(x.AsString(), a)
	}},
	"join": {params: []string{"iterable"}, fn: func(r *run, x value, a []value) (value, error) {
		items, err := r.items(a[0], "join")
		if err != nil {
			return x, err
		}
		for _, v := range items {
			if !v.IsString() {
				return x, fmt.Errorf("only text can be joined, got %s", article(r.typeName(v)))
			}
		}
		return r.join(items, x.AsString())
	}},
}

func texts(parts ...string) value {
	items := make([]value, len(parts))
	for i, s := range parts {
		items[i] = text(s)
	}
	return jinja.NewList(items)
}

func charIndex(s string, at int) value {
	if at < 0 {
		return jinja.NewInt(-1)
	}
	return jinja.NewInt(int64(len([]rune(s[:at]))))
}

func stripper(left, right bool) func(*run, value, []value) (value, error) {
	return func(r *run, x value, a []value) (value, error) {
		s, err := r.string(x)
		if err != nil {
			return x, err
		}
		in := isSpace
		if given(a[0]) {
			chars, err := strArg(a[0], "")
			if err != nil {
				return x, err
			}
			if err := r.spendTimes(len(s), len(chars)); err != nil {
				return x, err
			}
			in = func(c rune) bool { return strings.ContainsRune(chars, c) }
		}
		if left {
			s = strings.TrimLeftFunc(s, in)
		}
		if right {
			s = strings.TrimRightFunc(s, in)
		}
		return text(s), nil
	}
}

// affix is startswith or endswith: the argument may be a list of choices.
func affix(has func(s, affix string) bool) func(*run, value, []value) (value, error) {
	return func(r *run, x value, a []value) (value, error) {
		choices := []value{a[0]}
		if a[0].IsList() {
			choices = a[0].AsList().Items
		}
		for _, c := range choices {
			if !c.IsString() {
				return x, fmt.Errorf("expected text, got %s", article(r.typeName(c)))
			}
			if err := r.spend(len(c.AsString())); err != nil {
				return x, err
			}
			if has(x.AsString(), c.AsString()) {
				return jinja.NewBool(true), nil
			}
		}
		return jinja.NewBool(false), nil
	}
}

// splitter is split or rsplit: at most n times, at sep or (when it is "") blanks.
func splitter(by func(s, sep string, n int) []string) func(*run, value, []value) (value, error) {
	return func(r *run, x value, a []value) (value, error) {
		sep, err := strArg(a[0], "")
		if err != nil {
			return x, err
		}
		if sep == "" && given(a[0]) {
			return x, fmt.Errorf("empty separator")
		}
		n, err := intArg(a[1], -1)
		if err != nil {
			return x, err
		}
		if err := r.spendTimes(strings.Count(x.AsString(), sep), costItem); err != nil {
			return x, err
		}
		return texts(by(x.AsString(), sep, n)...), nil
	}
}

func split(s, sep string, n int) []string {
	if sep != "" {
		if n >= 0 {
			n++
		}
		return strings.SplitN(s, sep, n)
	}
	var parts []string
	for s = strings.TrimLeftFunc(s, isSpace); s != ""; {
		end := strings.IndexFunc(s, isSpace)
		if end < 0 || len(parts) == n {
			return append(parts, s)
		}
		parts = append(parts, s[:end])
		s = strings.TrimLeftFunc(s[end:], isSpace)
	}
	return parts
}

func rsplit(s, sep string, n int) []string {
	var parts []string // from the last to the first
	for s = trimIf(sep == "", s); n != 0; n-- {
		i := strings.LastIndex(s, sep)
		size := len(sep)
		if sep == "" {
			if i = strings.LastIndexFunc(s, isSpace); i >= 0 {
				_, size = utf8.DecodeRuneInString(s[i:])
			}
		}
		if i < 0 {
			break
		}
		parts = append(parts, s[i+size:])
		s = trimIf(sep == "", s[:i])
	}
	if s != "" || sep != "" {
		parts = append(parts, s)
	}
	slices.Reverse(parts)
	return parts
}

func trimIf(cond bool, s string) string {
	if cond {
		return strings.TrimRightFunc(s, isSpace)
	}
	return s
}
