package hfjinja

import (
	"errors"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ardanlabs/jinja"
)

// filter is `x | name(args)`.
func (r *run) filter(name string, x value, a arguments) (value, error) {
	what := "filter " + name
	switch name {
	case "map":
		return r.mapped(x, a)
	case "select", "reject", "selectattr", "rejectattr":
		return r.selected(name, x, a)
	}
	f, ok := filters[name]
	if !ok {
		return x, fmt.Errorf("filter %q is unknown or not supported", name)
	}
	return f.call(r, what, x, a)
}

// filters are those that look at nothing but their arguments.
var filters = map[string]builtin{
	"tojson":     {params: []string{"ensure_ascii", "indent", "separators", "sort_keys"}, fn: toJSON},
	"fromjson":   {fn: fromJSON},
	"from_json":  {fn: fromJSON},
	"string":     {fn: func(r *run, x value, _ []value) (value, error) { return r.str(x) }},
	"safe":       {fn: func(r *run, x value, _ []value) (value, error) { return r.str(x) }},
	"trim":       {params: []string{"chars"}, fn: stripper(true, true)},
	"upper":      strFilter(strings.ToUpper),
	"lower":      strFilter(strings.ToLower),
	"capitalize": strFilter(capitalize),
	"title":      strFilter(titleFilter),
	"escape":     strFilter(escape),
	"e":          strFilter(escape),
	"wordcount":  {fn: wordCount},
	"format":     {open: formatFilter},
	"indent":     {params: []string{"width", "first", "blank"}, fn: indent},
	"replace": {params: []string{"old", "new", "count"}, fn: func(r *run, x value, a []value) (value, error) {
		s, err := r.string(x)
		if err != nil {
			return x, err
		}
		return r.replace(s, a)
	}},
	"default": {params: []string{"default_value", "boolean"}, fn: fallback},
	"d":       {params: []string{"default_value", "boolean"}, fn: fallback},
	"length":  {fn: length},
	"count":   {fn: length},
	"items": {fn: func(r *run, x value, _ []value) (value, error) {
		if x.IsUndefined() {
			return jinja.NewList(nil), nil
		}
		if !x.IsDict() || r.namespaces[x.AsDict()] {
			return x, fmt.Errorf("needs a dict, got %s", article(r.typeName(x)))
		}
		return r.pairs(x.AsDict())
	}},
	"list":    {fn: func(r *run, x value, _ []value) (value, error) { return r.listed(x) }},
	"first":   {fn: func(r *run, x value, _ []value) (value, error) { return r.end(x, false) }},
	"last":    {fn: func(r *run, x value, _ []value) (value, error) { return r.end(x, true) }},
	"reverse": {fn: reversed},
	"join":    {params: []string{"d", "attribute"}, fn: joinFilter},
	"int":     {params: []string{"default", "base"}, fn: toInt},
	"float":   {params: []string{"default"}, fn: toFloat},
	"abs":     {fn: absolute},
	"round":   {params: []string{"precision", "method"}, fn: round},
	"batch":   {params: []string{"linecount", "fill_with"}, fn: batch},
	"attr": {params: []string{"name"}, fn: func(r *run, x value, a []value) (value, error) {
		name, err := strArg(a[0], "")
		if err != nil {
			return x, err
		}
		if v, ok := r.method(x, name); ok {
			return v, nil
		}
		if x.IsDict() && r.namespaces[x.AsDict()] {
			return r.attr(x, name, "")
		}
		return jinja.Undefined(), nil
	}},
	"sort":     {params: []string{"reverse", "case_sensitive", "attribute"}, fn: sorted},
	"dictsort": {params: []string{"case_sensitive", "by", "reverse"}, fn: dictSort},
	"unique":   {params: []string{"case_sensitive", "attribute"}, fn: unique},
	"min":      {params: []string{"case_sensitive", "attribute"}, fn: extreme(-1)},
	"max":      {params: []string{"case_sensitive", "attribute"}, fn: extreme(1)},
	"sum":      {params: []string{"attribute", "start"}, fn: sum},
}

func strFilter(fn func(string) string) builtin {
	return builtin{fn: func(r *run, x value, _ []value) (value, error) {
		s, err := r.string(x)
		return text(fn(s)), err
	}}
}

func escape(s string) string { return html.EscapeString(s) }

func fromJSON(_ *run, x value, _ []value) (value, error) {
	s, err := strArg(x, "")
	if err != nil {
		return x, err
	}
	return Decode([]byte(s))
}

func fallback(_ *run, x value, a []value) (value, error) {
	if x.IsUndefined() || a[1].IsTruthy() && !x.IsTruthy() {
		if a[0].IsUndefined() {
			return text(""), nil
		}
		return a[0], nil
	}
	return x, nil
}

func length(r *run, x value, _ []value) (value, error) {
	switch {
	case x.IsUndefined():
		return jinja.NewInt(0), nil
	case x.IsString():
		return jinja.NewInt(int64(len([]rune(x.AsString())))), nil
	case x.IsList():
		return jinja.NewInt(int64(x.AsList().Len())), nil
	case x.IsDict() && !r.namespaces[x.AsDict()]:
		return jinja.NewInt(int64(x.AsDict().Len())), nil
	}
	return x, fmt.Errorf("%s has no length", article(r.typeName(x)))
}

// listed is a new list of x's items.
func (r *run) listed(x value) (value, error) {
	items, err := r.items(x, "a list")
	return jinja.NewList(append([]value(nil), items...)), err
}

// end is the first or last item; undefined when there is none.
func (r *run) end(x value, last bool) (value, error) {
	items, err := r.items(x, "the first or last item")
	if err != nil || len(items) == 0 {
		return jinja.Undefined(), err
	}
	if last {
		return items[len(items)-1], nil
	}
	return items[0], nil
}

func reversed(r *run, x value, _ []value) (value, error) {
	if x.IsString() {
		chars := []rune(x.AsString())
		slices.Reverse(chars)
		return text(string(chars)), nil
	}
	v, err := r.listed(x)
	if err == nil {
		slices.Reverse(v.AsList().Items)
	}
	return v, err
}

// join puts the text of items together.
func (r *run) join(items []value, sep string) (value, error) {
	w := &writer{r: r}
	for i, v := range items {
		s, err := r.string(v)
		if err != nil {
			return v, err
		}
		if i > 0 {
			s = sep + s
		}
		if err := w.add(s); err != nil {
			return v, err
		}
	}
	return text(w.b.String()), nil
}

func joinFilter(r *run, x value, a []value) (value, error) {
	items, err := r.items(x, "join")
	if err != nil {
		return x, err
	}
	sep, err := r.string(a[0])
	if err != nil {
		return x, err
	}
	if given(a[1]) {
		if items, err = r.attributes(items, a[1], jinja.Undefined()); err != nil {
			return x, err
		}
	}
	return r.join(items, sep)
}

// replace is Python's str.replace with the arguments old, new and count.
func (r *run) replace(s string, a []value) (value, error) {
	var parts [2]string
	for i := range parts {
		var err error
		if parts[i], err = r.string(a[i]); err != nil {
			return a[i], err
		}
	}
	n, err := intArg(a[2], -1)
	if err != nil {
		return a[2], err
	}
	found := strings.Count(s, parts[0])
	if n >= 0 {
		found = min(found, n)
	}
	if err := r.spendTimes(found, len(parts[1])); err != nil {
		return a[1], err
	}
	return text(strings.Replace(s, parts[0], parts[1], n)), nil
}

func indent(r *run, x value, a []value) (value, error) {
	if !x.IsString() {
		return x, fmt.Errorf("needs text, got %s", article(r.typeName(x)))
	}
	pad := "    "
	if a[0].IsString() {
		pad = a[0].AsString()
	} else if given(a[0]) {
		n, err := intArg(a[0], 0)
		if err != nil {
			return x, err
		}
		n = max(n, 0)
		if err := r.spend(n); err != nil {
			return x, err
		}
		pad = strings.Repeat(" ", n)
	}
	lines := splitLines(x.AsString() + "\n")
	if err := r.spendTimes(len(lines), len(pad)); err != nil {
		return x, err
	}
	for i, line := range lines {
		if i > 0 && (line != "" || a[2].IsTruthy()) || i == 0 && a[1].IsTruthy() {
			lines[i] = pad + line
		}
	}
	return text(strings.Join(lines, "\n")), nil
}

var errUndefined = errors.New("the value is undefined")

// toInt is the int filter: what cannot be read is the default, 0.
func toInt(_ *run, x value, a []value) (value, error) {
	def := jinja.NewInt(0)
	if !a[0].IsUndefined() {
		def = a[0]
	}
	if n, ok := asInt(x); ok {
		return jinja.NewInt(n), nil
	}
	if x.IsUndefined() {
		return x, errUndefined
	}
	if isBig(x) {
		return x, nil
	}
	f := math.NaN()
	if x.IsFloat() {
		f = x.AsFloat()
	} else if x.IsString() {
		base, err := intArg(a[1], 10)
		if err != nil {
			return x, err
		}
		if base != 0 && (base < 2 || base > 36) {
			return x, fmt.Errorf("base %d is not from 2 to 36", base)
		}
		s := strings.ToLower(strings.TrimFunc(x.AsString(), isSpace))
		if base == 16 || base == 8 || base == 2 {
			s = strings.TrimPrefix(s, map[int]string{16: "0x", 8: "0o", 2: "0b"}[base])
		}
		n, err := strconv.ParseInt(s, base, 64)
		if err == nil {
			return jinja.NewInt(n), nil
		}
		f = parseFloat(s)
	}
	if !(math.Abs(f) < 1<<63) { // NaN too
		return def, nil
	}
	return jinja.NewInt(int64(f)), nil
}

func toFloat(_ *run, x value, a []value) (value, error) {
	if f, ok := asFloat(x); ok {
		return jinja.NewFloat(f), nil
	}
	if x.IsUndefined() {
		return x, errUndefined
	}
	if x.IsString() {
		s := strings.ToLower(strings.TrimFunc(x.AsString(), isSpace))
		if f := parseFloat(s); !math.IsNaN(f) || s == "nan" {
			return jinja.NewFloat(f), nil
		}
	}
	if a[0].IsUndefined() {
		return jinja.NewFloat(0), nil
	}
	return a[0], nil
}

// parseFloat reads what Python's float reads; NaN where it cannot.
func parseFloat(s string) float64 {
	if strings.ContainsAny(s, "xp") { // Go's hexadecimal floats
		return math.NaN()
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return math.NaN()
	}
	return f
}

func absolute(r *run, x value, _ []value) (value, error) {
	if n, ok := asInt(x); ok {
		if n < 0 {
			n = -n
		}
		return jinja.NewInt(n), nil
	}
	if !x.IsFloat() {
		return x, fmt.Errorf("needs a number, got %s", article(r.typeName(x)))
	}
	return jinja.NewFloat(math.Abs(x.AsFloat())), nil
}

// maxPrecision is beyond every digit that a float has.
const maxPrecision = 350

func round(r *run, x value, a []value) (value, error) {
	f, ok := asFloat(x)
	if !ok {
		return x, fmt.Errorf("needs a number, got %s", article(r.typeName(x)))
	}
	prec, err := intArg(a[0], 0)
	if err != nil {
		return x, err
	}
	prec = min(max(prec, -maxPrecision), maxPrecision)
	method, err := strArg(a[1], "common")
	if err != nil {
		return x, err
	}
	scale := math.Pow(10, float64(prec))
	switch method {
	case "ceil":
		return jinja.NewFloat(math.Ceil(f*scale) / scale), nil
	case "floor":
		return jinja.NewFloat(math.Floor(f*scale) / scale), nil
	case "common":
		if n, isInt := asInt(x); isInt && prec >= 0 {
			return jinja.NewInt(n), nil
		}
	default:
		return x, fmt.Errorf("method %q is not common, ceil or floor", method)
	}
	if prec < 0 {
		f = math.RoundToEven(f*scale) / scale
		if x.IsFloat() {
			return jinja.NewFloat(f), nil
		}
		return jinja.NewInt(int64(f)), nil
	}
	// The decimal digits of the float decide, as in Python; halves go to even.
	f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'f', prec, 64), 64)
	return jinja.NewFloat(f), nil
}

func batch(r *run, x value, a []value) (value, error) {
	items, err := r.items(x, "batch")
	if err != nil {
		return x, err
	}
	n, err := intArg(a[0], 0)
	if err != nil {
		return x, err
	}
	if n < 1 {
		return x, fmt.Errorf("linecount must be at least 1, got %d", n)
	}
	var out []value
	for chunk := range slices.Chunk(items, n) {
		row := append([]value(nil), chunk...)
		if given(a[1]) {
			if err := r.spendTimes(n-len(row), costItem); err != nil {
				return x, err
			}
			for len(row) < n {
				row = append(row, a[1])
			}
		}
		out = append(out, jinja.NewList(row))
	}
	return jinja.NewList(out), r.spendTimes(len(items), costItem)
}
