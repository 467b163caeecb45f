package hfjinja

import (
	"fmt"

	"github.com/ardanlabs/jinja"
)

// attr is obj.name. As in Python, a dict's method comes before its key of the
// same name; a missing attribute is undefined. label names obj in errors.
func (r *run) attr(obj value, name, label string) (value, error) {
	if obj.IsUndefined() {
		return obj, fmt.Errorf("%s is undefined, it has no attribute %q", named(label), name)
	}
	if m, ok := r.method(obj, name); ok {
		return m, nil
	}
	if obj.IsDict() {
		if v, ok := obj.AsDict().Get(name); ok {
			return v, nil
		}
	}
	return jinja.Undefined(), nil
}

// method is obj's bound method of that name.
func (r *run) method(obj value, name string) (value, bool) {
	var table map[string]builtin
	switch {
	case obj.IsString():
		table = stringMethods
	case obj.IsList():
		table = listMethods
	case obj.IsDict() && !r.namespaces[obj.AsDict()] && !isLoop(obj.AsDict()):
		table = dictMethods
	}
	m, ok := table[name]
	if !ok {
		return jinja.Undefined(), false
	}
	return jinja.NewCallable(name+"()", func(pos []value, kwargs map[string]value) (value, error) {
		all := jinja.NewDict().AsDict()
		for k, v := range kwargs { // bind sorts them out, whatever the order
			all.Set(k, v)
		}
		return m.call(r, "."+name+"()", obj, arguments{pos: pos, named: all})
	}), true
}

// isLoop tells the engine's loop variable, which is a dict without an order.
func isLoop(d *jinja.Dict) bool {
	_, ok := d.Data["revindex0"]
	return ok && len(d.Keys) < len(d.Data)
}

// item is obj[key]. As in Jinja2, a string that is no key may be an attribute.
func (r *run) item(obj, key value, label string) (value, error) {
	switch {
	case obj.IsUndefined():
		return obj, fmt.Errorf("%s is undefined, it has no item %s", named(label), key.String())
	case obj.IsDict() && !r.namespaces[obj.AsDict()]:
		if v, ok := obj.AsDict().Get(dictKey(key)); ok {
			return v, nil
		}
	case obj.IsList():
		if i, ok := asInt(key); ok {
			items := obj.AsList().Items
			if i < 0 {
				i += int64(len(items))
			}
			if i >= 0 && i < int64(len(items)) {
				return items[i], nil
			}
		}
	case obj.IsString():
		if i, ok := asInt(key); ok {
			return charAt(obj.AsString(), i), nil
		}
	}
	if key.IsString() {
		return r.attr(obj, key.AsString(), label)
	}
	return jinja.Undefined(), nil
}

func charAt(s string, i int64) value {
	chars := []rune(s)
	if i < 0 {
		i += int64(len(chars))
	}
	if i < 0 || i >= int64(len(chars)) {
		return jinja.Undefined()
	}
	return text(string(chars[i]))
}

// slice is obj[start:stop:step], the three in bounds.
func (r *run) slice(obj value, bounds []value) (value, error) {
	switch {
	case obj.IsList():
		items := obj.AsList().Items
		index, err := sliced(len(items), bounds)
		if err != nil {
			return obj, err
		}
		out := make([]value, len(index))
		for i, at := range index {
			out[i] = items[at]
		}
		return jinja.NewList(out), nil
	case obj.IsString():
		chars := []rune(obj.AsString())
		index, err := sliced(len(chars), bounds)
		if err != nil {
			return obj, err
		}
		out := make([]rune, len(index))
		for i, at := range index {
			out[i] = chars[at]
		}
		return text(string(out)), nil
	}
	return obj, fmt.Errorf("only text and lists can be sliced, not %s", article(r.typeName(obj)))
}

// sliced is which of n items Python's slice takes.
func sliced(n int, bounds []value) ([]int, error) {
	step, err := intArg(bounds[2], 1)
	if err != nil {
		return nil, err
	}
	if step == 0 {
		return nil, fmt.Errorf("a slice's step cannot be zero")
	}
	first, last := 0, n // the range that start and stop are held in
	if step < 0 {
		first, last = -1, n-1
	}
	bound := func(v value, def int) (int, error) {
		i, err := intArg(v, def)
		if err != nil || !given(v) {
			return def, err
		}
		if i < 0 {
			i += n
		}
		return min(max(i, first), last), nil
	}
	start, stop := first, last
	if step < 0 {
		start, stop = last, first
	}
	if start, err = bound(bounds[0], start); err != nil {
		return nil, err
	}
	if stop, err = bound(bounds[1], stop); err != nil {
		return nil, err
	}
	var index []int
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		index = append(index, i)
		if step > n || step < -n {
			break // the next would overflow, and is outside
		}
	}
	return index, nil
}
