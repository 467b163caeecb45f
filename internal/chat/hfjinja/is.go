package hfjinja

import (
	"fmt"

	"github.com/ardanlabs/jinja"
)

// comparisons are the tests that are operators, with all their names.
var comparisons = map[string]string{
	"eq": "==", "equalto": "==", "==": "==", "ne": "!=", "!=": "!=",
	"lt": "<", "lessthan": "<", "<": "<", "le": "<=", "<=": "<=",
	"gt": ">", "greaterthan": ">", ">": ">", "ge": ">=", ">=": ">=",
	"in": "in",
}

// kinds are the tests of what a value is.
var kinds = map[string]func(r *run, v value) bool{
	"defined":   func(_ *run, v value) bool { return !v.IsUndefined() },
	"undefined": func(_ *run, v value) bool { return v.IsUndefined() },
	"none":      func(_ *run, v value) bool { return v.IsNone() },
	"boolean":   func(_ *run, v value) bool { return v.IsBool() },
	"true":      func(_ *run, v value) bool { return v.IsBool() && v.AsBool() },
	"false":     func(_ *run, v value) bool { return v.IsBool() && !v.AsBool() },
	"integer":   func(_ *run, v value) bool { return v.IsInt() || isBig(v) },
	"float":     func(_ *run, v value) bool { return v.IsFloat() },
	"number":    func(_ *run, v value) bool { return v.IsNumber() || v.IsBool() || isBig(v) },
	"string":    func(_ *run, v value) bool { return v.IsString() },
	"mapping":   func(r *run, v value) bool { return v.IsDict() && !r.namespaces[v.AsDict()] },
	"sequence":  func(r *run, v value) bool { return isSequence(r, v) || v.IsUndefined() },
	"iterable":  func(r *run, v value) bool { return isSequence(r, v) || v.IsUndefined() },
	"callable":  func(_ *run, v value) bool { return v.IsCallable() && !isBig(v) || v.IsUndefined() },
	"escaped":   func(*run, value) bool { return false },
}

func isSequence(r *run, v value) bool {
	return v.IsString() || v.IsList() || v.IsDict() && !r.namespaces[v.AsDict()]
}

// test is `v is name(args)`.
func (r *run) test(name string, v value, a arguments) (bool, error) {
	what := "test " + name
	if is, ok := kinds[name]; ok {
		_, err := a.bind(what)
		return is(r, v), err
	}
	if op, ok := comparisons[name]; ok {
		args, err := a.bind(what, "other")
		if err != nil {
			return false, err
		}
		return r.compare(v, op, args[0])
	}
	switch name {
	case "odd", "even", "divisibleby":
		by := jinja.NewInt(2)
		if name == "divisibleby" {
			args, err := a.bind(what, "num")
			if err != nil {
				return false, err
			}
			by = args[0]
		}
		rest, err := r.arith(v, "%", by)
		if err != nil {
			return false, fmt.Errorf("%s: %w", what, err)
		}
		want := 0.0
		if name == "odd" {
			want = 1
		}
		f, ok := asFloat(rest)
		return ok && f == want, nil
	case "upper", "lower":
		s, err := r.string(v)
		if name == "upper" {
			return isUpper(s), err
		}
		return isLower(s), err
	case "sameas":
		args, err := a.bind(what, "other")
		if err != nil {
			return false, err
		}
		return r.same(v, args[0])
	}
	return false, fmt.Errorf("test %q is unknown or not supported", name)
}

// same is Python's "is", which for scalars here is being equal and of one type.
func (r *run) same(a, b value) (bool, error) {
	switch {
	case r.typeName(a) != r.typeName(b):
		return false, nil
	case a.IsList():
		return a.AsList() == b.AsList(), nil
	case a.IsDict():
		return a.AsDict() == b.AsDict(), nil
	}
	return r.equal(a, b, 0)
}
