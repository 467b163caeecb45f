package hfjinja

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

type value = jinja.Value

// run is the state of one render.
type run struct {
	work  int64 // bytes of work left
	calls int   // macro calls within one another, now
	now   func() time.Time
	// namespaces tells the dicts that are namespaces, the only thing that a
	// template may change.
	namespaces map[*jinja.Dict]bool
}

// Costs, in bytes of work.
const (
	costCall  = 16  // a call of one of our functions
	costRound = 512 // a round of a loop, on top of its body
	costItem  = 64  // a list's item
)

func (r *run) spend(n int) error {
	if n < 0 || int64(n) > r.work {
		r.work = 0
		return &LimitError{Reason: "it loops, or makes more text, than its input can explain"}
	}
	r.work -= int64(n)
	return nil
}

// spendTimes is spend(n*size) without overflow.
func (r *run) spendTimes(n, size int) error {
	if size > 0 && n > int(r.work)/size {
		return r.spend(-1)
	}
	return r.spend(n * size)
}

type function func(args []value, kwargs map[string]value) (value, error)

// functions are what translated templates call. Strings that go in or come out
// are counted here, lists that come out too; a function whose result can be
// larger than its arguments counts it before making it.
func (r *run) functions() map[string]value {
	table := map[string]function{
		"f_out":    func(a []value, _ map[string]value) (value, error) { return r.str(a[0]) },
		"f_tick":   func(a []value, _ map[string]value) (value, error) { return text(""), r.spend(int(a[0].AsInt())) },
		"f_call":   r.call,
		"f_spread": r.spread,
		"f_method": r.callMethod,
		"f_attr": func(a []value, _ map[string]value) (value, error) {
			return r.attr(a[0], a[1].AsString(), a[2].AsString())
		},
		"f_item":  func(a []value, _ map[string]value) (value, error) { return r.item(a[0], a[1], a[2].AsString()) },
		"f_slice": func(a []value, _ map[string]value) (value, error) { return r.slice(a[0], a[1:]) },
		"f_filter": func(a []value, _ map[string]value) (value, error) {
			return r.filter(a[0].AsString(), a[1], callArgs(a[2], a[3:]))
		},
		"f_test": func(a []value, _ map[string]value) (value, error) {
			ok, err := r.test(a[0].AsString(), a[1], callArgs(a[2], a[3:]))
			return jinja.NewBool(ok), err
		},
		"f_cmp":    r.compareChain,
		"f_arith":  r.arithChain,
		"f_concat": r.concat,
		"f_sign":   func(a []value, _ map[string]value) (value, error) { return sign(a[0].AsString(), a[1]) },
		"f_dict":   makeDict,
		"f_list":   func([]value, map[string]value) (value, error) { return jinja.NewList(nil), nil },
		"f_push": func(a []value, _ map[string]value) (value, error) {
			a[0].AsList().Append(a[1])
			return text(""), r.spend(costItem)
		},
		"f_iter":      r.iterate,
		"f_unpack":    func(a []value, _ map[string]value) (value, error) { return r.unpack(a[0], int(a[1].AsInt())) },
		"f_nsset":     r.setAttr,
		"f_undefined": func([]value, map[string]value) (value, error) { return jinja.Undefined(), nil },
	}
	vars := make(map[string]value, len(table)+16)
	for name, fn := range table {
		vars[name] = jinja.NewCallable(name, r.counted(fn))
	}
	return vars
}

func (r *run) counted(fn function) function {
	return func(args []value, kwargs map[string]value) (value, error) {
		n := costCall
		for _, a := range args {
			if a.IsString() {
				n += len(a.AsString())
			}
		}
		if err := r.spend(n); err != nil {
			return jinja.Undefined(), err
		}
		v, err := fn(args, kwargs)
		if err != nil {
			return jinja.Undefined(), err
		}
		switch {
		case v.IsString():
			err = r.spend(len(v.AsString()))
		case v.IsList():
			err = r.spendTimes(v.AsList().Len(), 8)
		}
		return v, err
	}
}

func text(s string) value { return jinja.NewString(s) }

func makeDict(a []value, _ map[string]value) (value, error) {
	v := jinja.NewDict()
	for i := 0; i+1 < len(a); i += 2 {
		v.AsDict().Set(dictKey(a[i]), a[i+1])
	}
	return v, nil
}

// dictKey is the string that stands for a key: the engine has no others. A
// whole number has a mark in front, so that it is one again when it is read.
func dictKey(v value) string {
	switch {
	case v.IsString():
		return v.AsString()
	case v.IsInt():
		return intKey + strconv.FormatInt(v.AsInt(), 10)
	}
	return v.String()
}

// intKey is in no text that a template or a request is likely to hold.
const intKey = "\x00int:"

// keyValue is the key that dictKey made a string of.
func keyValue(k string) value {
	if digits, ok := strings.CutPrefix(k, intKey); ok {
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
			return jinja.NewInt(n)
		}
	}
	return text(k)
}

// call is f_call(callee, label, named, args...). A call block adds its caller in
// kwargs.
func (r *run) call(a []value, kwargs map[string]value) (value, error) {
	return r.invoke(a[0], a[1].AsString(), callArgs(a[2], a[3:]), kwargs)
}

// spread is f_spread(callee, label, stars, named, args...): a call some of whose
// arguments are lists of them.
func (r *run) spread(a []value, kwargs map[string]value) (value, error) {
	var pos []value
	for i, v := range a[4:] {
		if a[2].AsString()[i] != '*' {
			pos = append(pos, v)
			continue
		}
		list, err := r.listed(v)
		if err != nil {
			return v, fmt.Errorf("%s: the argument after *: %w", named(a[1].AsString()), err)
		}
		if err := r.spendTimes(list.AsList().Len(), costItem); err != nil {
			return v, err
		}
		pos = append(pos, list.AsList().Items...)
	}
	return r.invoke(a[0], a[1].AsString(), callArgs(a[3], pos), kwargs)
}

// callMethod is f_method(obj, label, name, named, args...).
func (r *run) callMethod(a []value, kwargs map[string]value) (value, error) {
	label, name := a[1].AsString(), a[2].AsString()
	fn, err := r.attr(a[0], name, label)
	if err != nil {
		return fn, err
	}
	if fn.IsUndefined() {
		if a[0].IsCallable() && a[0].AsCallable().Name == "dict" {
			// Jinja2 takes what is no attribute for an item, and dict[...] is dict again.
			return r.invoke(a[0], label, callArgs(a[3], a[4:]), kwargs)
		}
		if mutators[name] && (a[0].IsList() || a[0].IsDict()) {
			return fn, fmt.Errorf("%s: .%s() would change a %s, which chat templates may not do; make a new one, or use namespace()",
				named(label), name, r.typeName(a[0]))
		}
		return fn, fmt.Errorf("%s: a %s has no method %q", named(label), r.typeName(a[0]), name)
	}
	return r.invoke(fn, label+"."+name, callArgs(a[3], a[4:]), kwargs)
}

// mutators are the methods that the immutable sandbox keeps from templates.
var mutators = map[string]bool{
	"append": true, "extend": true, "insert": true, "pop": true, "remove": true, "reverse": true, "sort": true,
	"clear": true, "update": true, "setdefault": true, "popitem": true,
}

func (r *run) invoke(fn value, label string, args arguments, kwargs map[string]value) (value, error) {
	if !fn.IsCallable() || isBig(fn) {
		return fn, fmt.Errorf("%s is %s and cannot be called", named(label), article(r.typeName(fn)))
	}
	c := fn.AsCallable()
	if g, ok := globals[c.Name]; ok {
		return g(r, args)
	}
	r.calls++
	defer func() { r.calls-- }()
	if r.calls > maxCalls {
		return fn, &LimitError{Reason: fmt.Sprintf("more than %d calls of macros within one another", maxCalls)}
	}
	prefix := ""
	if strings.HasPrefix(c.Name, "v_") { // a macro, whose parameters are renamed as all names are
		prefix = "v_"
	}
	all := map[string]value{}
	for _, k := range args.named.Keys {
		all[prefix+k] = args.named.Data[k]
	}
	if caller, ok := kwargs["caller"]; ok {
		all["caller"] = caller
	}
	return c.Fn(args.pos, all)
}

// named is how errors name an expression.
func named(label string) string {
	if label == "" {
		return "an expression"
	}
	return label
}

func article(name string) string {
	if name == "undefined" {
		return name
	}
	if strings.ContainsRune("aeiou", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}

// iterate is f_iter(iterable, n): the list of items that a loop goes over. With
// n > 0 each is unpacked into n.
func (r *run) iterate(a []value, _ map[string]value) (value, error) {
	items, err := r.items(a[0], "a for loop")
	if err != nil {
		return jinja.Undefined(), err
	}
	n := int(a[1].AsInt())
	if n == 0 {
		return jinja.NewList(items), nil
	}
	out := make([]value, len(items))
	for i, item := range items {
		if out[i], err = r.unpack(item, n); err != nil {
			return jinja.Undefined(), err
		}
	}
	return jinja.NewList(out), nil
}

func (r *run) unpack(v value, n int) (value, error) {
	if v.IsUndefined() {
		return v, fmt.Errorf("cannot unpack an undefined value into %d names", n)
	}
	items, err := r.items(v, fmt.Sprintf("unpacking into %d names", n))
	if err != nil {
		return v, err
	}
	if len(items) != n {
		return v, fmt.Errorf("cannot unpack %d values into %d names", len(items), n)
	}
	return jinja.NewList(items), nil
}

// items is what Python's iter gives: a list's items, a dict's keys, a string's
// characters, nothing for undefined. The slice may be the list's own.
func (r *run) items(v value, what string) ([]value, error) {
	switch {
	case v.IsUndefined():
		return nil, nil
	case v.IsList():
		return v.AsList().Items, nil
	case v.IsString():
		chars := []rune(v.AsString())
		if err := r.spendTimes(len(chars), costItem); err != nil {
			return nil, err
		}
		items := make([]value, len(chars))
		for i, c := range chars {
			items[i] = text(string(c))
		}
		return items, nil
	case v.IsDict() && !r.namespaces[v.AsDict()]:
		d := v.AsDict()
		if err := r.spendTimes(len(d.Keys), costItem); err != nil {
			return nil, err
		}
		items := make([]value, len(d.Keys))
		for i, k := range d.Keys {
			items[i] = keyValue(k)
		}
		return items, nil
	}
	return nil, fmt.Errorf("%s needs a list, dict or string, got %s", what, article(r.typeName(v)))
}

// setAttr is f_nsset(namespace, name, value).
func (r *run) setAttr(a []value, _ map[string]value) (value, error) {
	if !a[0].IsDict() || !r.namespaces[a[0].AsDict()] {
		return a[0], fmt.Errorf("cannot set attribute %q: only a namespace() has attributes that can be set, this is %s",
			a[1].AsString(), article(r.typeName(a[0])))
	}
	a[0].AsDict().Set(a[1].AsString(), a[2])
	return text(""), nil
}
