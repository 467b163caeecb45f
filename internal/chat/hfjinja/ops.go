package hfjinja

import (
	"fmt"
	"math"
	"strings"

	"github.com/ardanlabs/jinja"
)

// concat is a ~ b ~ c.
func (r *run) concat(a []value, _ map[string]value) (value, error) {
	var b strings.Builder
	for _, v := range a {
		s, err := r.string(v)
		if err != nil {
			return v, err
		}
		b.WriteString(s)
	}
	return text(b.String()), nil
}

// arithChain is f_arith(a, op, b, op, c...), from the left.
func (r *run) arithChain(a []value, _ map[string]value) (value, error) {
	left := a[0]
	for i := 1; i+1 < len(a); i += 2 {
		var err error
		if left, err = r.arith(left, a[i].AsString(), a[i+1]); err != nil {
			return left, err
		}
	}
	return left, nil
}

func (r *run) arith(a value, op string, b value) (value, error) {
	x, aNum := asFloat(a)
	y, bNum := asFloat(b)
	switch {
	case aNum && bNum:
		i, aInt := asInt(a)
		j, bInt := asInt(b)
		if aInt && bInt && op != "/" {
			return intArith(i, op, j)
		}
		return floatArith(x, op, y)
	case op == "+" && a.IsString() && b.IsString():
		if err := r.spend(len(a.AsString()) + len(b.AsString())); err != nil {
			return a, err
		}
		return text(a.AsString() + b.AsString()), nil
	case op == "+" && a.IsList() && b.IsList():
		x, y := a.AsList().Items, b.AsList().Items
		if err := r.spendTimes(len(x)+len(y), costItem); err != nil {
			return a, err
		}
		return jinja.NewList(append(append(make([]value, 0, len(x)+len(y)), x...), y...)), nil
	case op == "*" && (a.IsString() || a.IsList()):
		if n, ok := asInt(b); ok {
			return r.repeat(a, n)
		}
	case op == "*" && (b.IsString() || b.IsList()):
		if n, ok := asInt(a); ok {
			return r.repeat(b, n)
		}
	case op == "%" && a.IsString():
		return a, fmt.Errorf("formatting text with %% is not supported")
	}
	return a, fmt.Errorf("cannot work out %s %s %s", r.typeName(a), op, r.typeName(b))
}

func (r *run) repeat(v value, n int64) (value, error) {
	n = max(n, 0)
	if v.IsString() {
		s := v.AsString()
		if err := r.spendTimes(int(min(n, math.MaxInt32)), len(s)); err != nil {
			return v, err
		}
		if s == "" {
			return v, nil
		}
		return text(strings.Repeat(s, int(n))), nil
	}
	items := v.AsList().Items
	if err := r.spendTimes(int(min(n, math.MaxInt32)), costItem*len(items)); err != nil {
		return v, err
	}
	var out []value
	for i := int64(0); len(items) > 0 && i < n; i++ {
		out = append(out, items...)
	}
	return jinja.NewList(out), nil
}

func intArith(a int64, op string, b int64) (value, error) {
	var n int64
	overflow := false
	switch op {
	case "+":
		n = a + b
		overflow = (n > a) != (b > 0) && b != 0
	case "-":
		n = a - b
		overflow = (n < a) != (b > 0) && b != 0
	case "*":
		n = a * b
		overflow = a != 0 && (n/a != b || a == -1 && b == math.MinInt64)
	case "//", "%":
		if b == 0 {
			return jinja.Undefined(), fmt.Errorf("%d %s 0: division by zero", a, op)
		}
		q, m := a/b, a%b
		if m != 0 && (m < 0) != (b < 0) { // Python rounds down
			q, m = q-1, m+b
		}
		if n = q; op == "%" {
			n = m
		}
		overflow = a == math.MinInt64 && b == -1 && op == "//"
	case "**":
		if b < 0 {
			return floatArith(float64(a), op, float64(b))
		}
		return intPower(a, b)
	}
	if overflow {
		return jinja.Undefined(), fmt.Errorf("%d %s %d does not fit 64 bits", a, op, b)
	}
	return jinja.NewInt(n), nil
}

func intPower(a, b int64) (value, error) {
	n := int64(1)
	if a == 0 || a == 1 || a == -1 {
		b = min(b, 2+b%2) // the same for every even b, and for every odd one
	}
	for i := int64(0); i < b; i++ {
		v, err := intArith(n, "*", a)
		if err != nil {
			return v, fmt.Errorf("%d ** %d does not fit 64 bits", a, b)
		}
		n = v.AsInt()
	}
	return jinja.NewInt(n), nil
}

func floatArith(a float64, op string, b float64) (value, error) {
	if b == 0 && (op == "/" || op == "//" || op == "%") {
		return jinja.Undefined(), fmt.Errorf("%s %s 0: division by zero", formatFloat(a), op)
	}
	var f float64
	switch op {
	case "+":
		f = a + b
	case "-":
		f = a - b
	case "*":
		f = a * b
	case "/":
		f = a / b
	case "//":
		f = math.Floor(a / b)
	case "%":
		if f = math.Mod(a, b); f != 0 && (f < 0) != (b < 0) {
			f += b
		}
	case "**":
		f = math.Pow(a, b)
	}
	return jinja.NewFloat(f), nil
}

func sign(op string, v value) (value, error) {
	if n, ok := asInt(v); ok {
		if op == "-" {
			n = -n
		}
		return jinja.NewInt(n), nil
	}
	if !v.IsFloat() {
		return v, fmt.Errorf("%s needs a number, got %s", op, v.String())
	}
	if op == "-" {
		return jinja.NewFloat(-v.AsFloat()), nil
	}
	return v, nil
}

// compareChain is f_cmp(a, op, b, op, c...): all pairs must hold.
func (r *run) compareChain(a []value, _ map[string]value) (value, error) {
	for i := 0; i+2 < len(a); i += 2 {
		ok, err := r.compare(a[i], a[i+1].AsString(), a[i+2])
		if err != nil || !ok {
			return jinja.NewBool(false), err
		}
	}
	return jinja.NewBool(true), nil
}

func (r *run) compare(a value, op string, b value) (bool, error) {
	switch op {
	case "==", "!=":
		eq, err := r.equal(a, b, 0)
		return eq == (op == "=="), err
	case "in":
		return r.contains(b, a)
	case "not in":
		in, err := r.contains(b, a)
		return !in, err
	}
	c, err := r.order(a, b, 0)
	if err != nil {
		return false, err
	}
	switch op {
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	}
	return c >= 0, nil
}

func (r *run) equal(a, b value, depth int) (bool, error) {
	if err := r.spendCompare(a, b, depth); err != nil {
		return false, err
	}
	x, aNum := asFloat(a)
	y, bNum := asFloat(b)
	switch {
	case aNum && bNum:
		i, aInt := asInt(a)
		j, bInt := asInt(b)
		if aInt && bInt {
			return i == j, nil
		}
		return x == y, nil
	case a.IsList() && b.IsList():
		return r.equalLists(a.AsList().Items, b.AsList().Items, depth)
	case a.IsDict() && b.IsDict():
		return r.equalDicts(a.AsDict(), b.AsDict(), depth)
	case a.IsCallable() && b.IsCallable():
		d, big := bigDigits(a)
		return big && b.AsCallable().Name == bigPrefix+d, nil
	}
	return a.Equals(b), nil // strings, none and undefined; or two kinds
}

func (r *run) spendCompare(a, b value, depth int) error {
	if depth > maxDepth {
		return errDepth
	}
	n := costCall
	if a.IsString() && b.IsString() {
		n += min(len(a.AsString()), len(b.AsString()))
	}
	return r.spend(n)
}

func (r *run) equalLists(a, b []value, depth int) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		if eq, err := r.equal(a[i], b[i], depth+1); !eq {
			return false, err
		}
	}
	return true, nil
}

func (r *run) equalDicts(a, b *jinja.Dict, depth int) (bool, error) {
	if a == b || r.namespaces[a] || r.namespaces[b] {
		return a == b, nil
	}
	if len(a.Keys) != len(b.Keys) {
		return false, nil
	}
	for _, k := range a.Keys {
		v, ok := b.Get(k)
		if !ok {
			return false, nil
		}
		if eq, err := r.equal(a.Data[k], v, depth+1); !eq {
			return false, err
		}
	}
	return true, nil
}

// order is negative, zero or positive as a comes before, with or after b.
func (r *run) order(a, b value, depth int) (int, error) {
	if err := r.spendCompare(a, b, depth); err != nil {
		return 0, err
	}
	x, aNum := asFloat(a)
	y, bNum := asFloat(b)
	switch {
	case aNum && bNum:
		i, aInt := asInt(a)
		j, bInt := asInt(b)
		if aInt && bInt {
			return compareOrdered(i, j), nil
		}
		return compareOrdered(x, y), nil
	case a.IsString() && b.IsString():
		return strings.Compare(a.AsString(), b.AsString()), nil
	case a.IsList() && b.IsList():
		x, y := a.AsList().Items, b.AsList().Items
		for i := range min(len(x), len(y)) { // the first that differ decide
			if eq, err := r.equal(x[i], y[i], depth+1); err != nil {
				return 0, err
			} else if !eq {
				return r.order(x[i], y[i], depth+1)
			}
		}
		return len(x) - len(y), nil
	}
	return 0, fmt.Errorf("cannot order %s and %s", article(r.typeName(a)), article(r.typeName(b)))
}

func compareOrdered[T int64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// contains is `item in v`.
func (r *run) contains(v, item value) (bool, error) {
	switch {
	case v.IsUndefined():
		return false, nil
	case v.IsString():
		if !item.IsString() {
			return false, fmt.Errorf("only text can be in text, got %s", article(r.typeName(item)))
		}
		return strings.Contains(v.AsString(), item.AsString()), nil
	case v.IsDict() && !r.namespaces[v.AsDict()]:
		return (item.IsString() || item.IsInt()) && v.AsDict().Has(dictKey(item)), nil
	case v.IsList():
		for _, x := range v.AsList().Items {
			if eq, err := r.equal(x, item, 0); eq || err != nil {
				return eq, err
			}
		}
		return false, nil
	}
	return false, fmt.Errorf("nothing can be in %s", article(r.typeName(v)))
}
