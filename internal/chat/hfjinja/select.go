package hfjinja

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ardanlabs/jinja"
)

// mapped is `x | map(attribute=...)` or `x | map('filter', args...)`.
func (r *run) mapped(x value, a arguments) (value, error) {
	if !x.IsTruthy() { // whatever it is
		return jinja.NewList(nil), nil
	}
	items, err := r.items(x, "filter map")
	if err != nil {
		return x, err
	}
	if err := r.spendTimes(len(items), costItem); err != nil {
		return x, err
	}
	if attr, ok := a.named.Get("attribute"); ok && len(a.pos) == 0 {
		def, ok := a.named.Get("default")
		if !ok {
			def = jinja.Undefined()
		}
		items, err := r.attributes(items, attr, def)
		return jinja.NewList(items), err
	}
	if len(a.pos) == 0 || !a.pos[0].IsString() {
		return x, fmt.Errorf("filter map needs the name of a filter, or attribute=")
	}
	out := make([]value, len(items))
	for i, v := range items {
		out[i], err = r.filter(a.pos[0].AsString(), v, arguments{pos: a.pos[1:], named: a.named})
		if err != nil {
			return x, err
		}
		if out[i].IsString() {
			if err := r.spend(len(out[i].AsString())); err != nil {
				return x, err
			}
		}
	}
	return jinja.NewList(out), nil
}

// selected is select, reject, selectattr or rejectattr.
func (r *run) selected(name string, x value, a arguments) (value, error) {
	if !x.IsTruthy() { // whatever it is
		return jinja.NewList(nil), nil
	}
	items, err := r.items(x, "filter "+name)
	if err != nil {
		return x, err
	}
	if err := r.spendTimes(len(items), costItem); err != nil {
		return x, err
	}
	judged := items
	if strings.HasSuffix(name, "attr") {
		if len(a.pos) == 0 {
			return x, fmt.Errorf("filter %s needs the name of an attribute", name)
		}
		if judged, err = r.attributes(items, a.pos[0], jinja.Undefined()); err != nil {
			return x, err
		}
		a.pos = a.pos[1:]
	}
	var out []value
	for i, v := range judged {
		ok := v.IsTruthy()
		if len(a.pos) > 0 {
			test, err := strArg(a.pos[0], "")
			if err != nil {
				return x, fmt.Errorf("filter %s: %w", name, err)
			}
			if ok, err = r.test(test, v, arguments{pos: a.pos[1:], named: a.named}); err != nil {
				return x, err
			}
		}
		if ok == strings.HasPrefix(name, "select") {
			out = append(out, items[i])
		}
	}
	return jinja.NewList(out), nil
}

// attributes looks up a dotted path, or an index, in each item. A given def
// stands for what is missing.
func (r *run) attributes(items []value, path, def value) ([]value, error) {
	keys := []value{path}
	if path.IsString() {
		keys = keys[:0]
		for part := range strings.SplitSeq(path.AsString(), ".") {
			if n, err := strconv.ParseUint(part, 10, 31); err == nil {
				keys = append(keys, jinja.NewInt(int64(n)))
			} else {
				keys = append(keys, text(part))
			}
		}
	}
	if err := r.spendTimes(len(items), costItem*len(keys)); err != nil {
		return nil, err
	}
	out := make([]value, len(items))
	for i, v := range items {
		for _, k := range keys {
			var err error
			if v, err = r.item(v, k, "an item"); err != nil {
				return nil, err
			}
			if v.IsUndefined() && !def.IsUndefined() {
				v = def
			}
		}
		out[i] = v
	}
	return out, nil
}

// sortKeys are what items are ordered by: an attribute or themselves, in lower
// case unless case matters.
func (r *run) sortKeys(items []value, attribute, caseSensitive value) ([]value, error) {
	keys := items
	if given(attribute) {
		var err error
		if keys, err = r.attributes(items, attribute, jinja.Undefined()); err != nil {
			return nil, err
		}
	}
	if caseSensitive.IsTruthy() {
		return keys, nil
	}
	lower := make([]value, len(keys))
	for i, k := range keys {
		lower[i] = k
		if k.IsString() {
			if err := r.spend(len(k.AsString())); err != nil {
				return nil, err
			}
			lower[i] = text(strings.ToLower(k.AsString()))
		}
	}
	return lower, nil
}

// ordered is items sorted by keys, stably; backwards when reverse.
func (r *run) ordered(items, keys []value, reverse bool) ([]value, error) {
	if err := r.spendTimes(len(items), costItem); err != nil {
		return nil, err
	}
	index := make([]int, len(items))
	for i := range index {
		index[i] = i
	}
	var failed error
	slices.SortStableFunc(index, func(i, j int) int {
		if failed != nil {
			return 0
		}
		c, err := r.order(keys[i], keys[j], 0)
		if failed = err; reverse {
			c = -c
		}
		return c
	})
	out := make([]value, len(items))
	for i, at := range index {
		out[i] = items[at]
	}
	return out, failed
}

func sorted(r *run, x value, a []value) (value, error) {
	items, err := r.items(x, "sort")
	if err != nil {
		return x, err
	}
	keys, err := r.sortKeys(items, a[2], a[1])
	if err != nil {
		return x, err
	}
	out, err := r.ordered(items, keys, a[0].IsTruthy())
	return jinja.NewList(out), err
}

func dictSort(r *run, x value, a []value) (value, error) {
	if !x.IsDict() || r.namespaces[x.AsDict()] {
		return x, fmt.Errorf("needs a dict, got %s", article(r.typeName(x)))
	}
	by, err := strArg(a[1], "key")
	if err != nil {
		return x, err
	}
	at := map[string]int64{"key": 0, "value": 1}
	place, ok := at[by]
	if !ok {
		return x, fmt.Errorf(`by=%q is neither "key" nor "value"`, by)
	}
	pairs, err := r.pairs(x.AsDict())
	if err != nil {
		return x, err
	}
	items := pairs.AsList().Items
	keys, err := r.sortKeys(items, jinja.NewInt(place), a[0])
	if err != nil {
		return x, err
	}
	out, err := r.ordered(items, keys, a[2].IsTruthy())
	return jinja.NewList(out), err
}

func unique(r *run, x value, a []value) (value, error) {
	items, err := r.items(x, "unique")
	if err != nil {
		return x, err
	}
	keys, err := r.sortKeys(items, a[1], a[0])
	if err != nil {
		return x, err
	}
	var out, seen []value
	for i, k := range keys {
		known, err := r.contains(jinja.NewList(seen), k)
		if err != nil {
			return x, err
		}
		if !known {
			seen = append(seen, k)
			out = append(out, items[i])
		}
	}
	return jinja.NewList(out), nil
}

// extreme is min (-1) or max (1): the first of the items that are furthest out.
func extreme(side int) func(*run, value, []value) (value, error) {
	return func(r *run, x value, a []value) (value, error) {
		items, err := r.items(x, "min or max")
		if err != nil || len(items) == 0 {
			return jinja.Undefined(), err
		}
		keys, err := r.sortKeys(items, a[1], a[0])
		if err != nil {
			return x, err
		}
		best := 0
		for i := range keys {
			c, err := r.order(keys[i], keys[best], 0)
			if err != nil {
				return x, err
			}
			if c*side > 0 {
				best = i
			}
		}
		return items[best], nil
	}
}

func sum(r *run, x value, a []value) (value, error) {
	items, err := r.items(x, "sum")
	if err != nil {
		return x, err
	}
	if given(a[0]) {
		if items, err = r.attributes(items, a[0], jinja.Undefined()); err != nil {
			return x, err
		}
	}
	total := jinja.NewInt(0)
	if given(a[1]) {
		total = a[1]
	}
	for _, v := range items {
		if total, err = r.arith(total, "+", v); err != nil {
			return x, err
		}
	}
	return total, nil
}
