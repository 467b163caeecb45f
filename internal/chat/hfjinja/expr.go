package hfjinja

import (
	"slices"
	"strconv"
	"strings"
)

// expr is a translated expression.
type expr struct {
	code  string
	label string // how errors name it: "message.content", or "" for a long one
	call  bool   // a call: what a call block needs
}

const (
	undefinedCode = "f_undefined()"
	maxLabel      = 60
)

func calls(fn string, args ...string) expr {
	return expr{code: fn + "(" + strings.Join(args, ",") + ")"}
}

// parse is one level of the grammar.
type parse func() (expr, error)

// tuple is one expression, or several with commas between them. end is the kind
// of token that ends the tag it stands in; an operator ends it too.
func (t *translator) tuple(item parse, end tokenKind) (expr, error) {
	var items []expr
	isTuple := false
	for {
		tok := t.peek()
		if tok.kind == end || tok.is(")") {
			break
		}
		e, err := item()
		if err != nil {
			return expr{}, err
		}
		items = append(items, e)
		if !t.accept(",") {
			break
		}
		isTuple = true
	}
	if isTuple {
		return list(items), nil
	}
	if len(items) == 0 {
		return expr{}, fail(t.peek().line, "expected an expression, got %s", t.peek())
	}
	return items[0], nil
}

func list(items []expr) expr {
	codes := make([]string, len(items))
	for i, e := range items {
		codes[i] = e.code
	}
	return expr{code: "[" + strings.Join(codes, ",") + "]"}
}

// condition is `a if b else c`, the lowest level.
func (t *translator) condition() (expr, error) {
	if err := t.enter(); err != nil {
		return expr{}, err
	}
	defer t.leave()
	e, err := t.or()
	for err == nil && t.accept("if") {
		var cond expr
		if cond, err = t.or(); err != nil {
			break
		}
		other := expr{code: undefinedCode}
		if t.accept("else") {
			if other, err = t.condition(); err != nil {
				break
			}
		}
		e = expr{code: "(" + e.code + " if " + cond.code + " else " + other.code + ")"}
	}
	return e, err
}

func (t *translator) or() (expr, error)  { return t.logic("or", t.and) }
func (t *translator) and() (expr, error) { return t.logic("and", t.not) }

func (t *translator) logic(word string, operand parse) (expr, error) {
	e, err := operand()
	if err != nil || !t.peek().is(word) {
		return e, err
	}
	codes := []string{e.code}
	for t.accept(word) {
		if e, err = operand(); err != nil {
			return e, err
		}
		codes = append(codes, e.code)
	}
	return expr{code: "(" + strings.Join(codes, " "+word+" ") + ")"}, nil
}

func (t *translator) not() (expr, error) {
	if !t.accept("not") {
		return t.compare()
	}
	if err := t.enter(); err != nil {
		return expr{}, err
	}
	defer t.leave()
	e, err := t.not()
	return expr{code: "(not " + e.code + ")"}, err
}

func (t *translator) compare() (expr, error) {
	return t.operators("f_cmp", t.sum, func() string {
		tok := t.peek()
		switch {
		case tok.kind == tokOp && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, tok.text), tok.is("in"):
			t.next()
			return tok.text
		case tok.is("not") && t.toks[t.pos+1].is("in"):
			t.pos += 2
			return "not in"
		}
		return ""
	})
}

func (t *translator) sum() (expr, error) { return t.operators("f_arith", t.concat, t.op("+", "-")) }

func (t *translator) product() (expr, error) {
	return t.operators("f_arith", t.power, t.op("*", "/", "//", "%"))
}

func (t *translator) power() (expr, error) { return t.operators("f_arith", t.unary, t.op("**")) }

// op consumes one of these operators and returns it, or "".
func (t *translator) op(ops ...string) func() string {
	return func() string {
		if tok := t.peek(); tok.kind == tokOp && slices.Contains(ops, tok.text) {
			t.next()
			return tok.text
		}
		return ""
	}
}

// operators is a chain that is worked out from the left: fn(a,'op',b,'op',c).
func (t *translator) operators(fn string, operand parse, op func() string) (expr, error) {
	e, err := operand()
	if err != nil {
		return e, err
	}
	args := []string{e.code}
	for o := op(); o != ""; o = op() {
		if e, err = operand(); err != nil {
			return e, err
		}
		args = append(args, quote(o), e.code)
	}
	if len(args) == 1 {
		return e, nil
	}
	return calls(fn, args...), nil
}

func (t *translator) concat() (expr, error) {
	e, err := t.product()
	if err != nil || !t.peek().is("~") {
		return e, err
	}
	args := []string{e.code}
	for t.accept("~") {
		if e, err = t.product(); err != nil {
			return e, err
		}
		args = append(args, e.code)
	}
	return calls("f_concat", args...), nil
}

// unary is a sign or an operand, with what follows it: filters and tests bind
// tighter than every operator.
func (t *translator) unary() (expr, error) {
	e, err := t.signed()
	if err != nil {
		return e, err
	}
	return t.filters(e)
}

func (t *translator) signed() (expr, error) {
	sign := t.op("-", "+")()
	if sign == "" {
		e, err := t.primary()
		if err != nil {
			return e, err
		}
		return t.postfix(e)
	}
	if err := t.enter(); err != nil {
		return expr{}, err
	}
	defer t.leave()
	e, err := t.signed()
	if err != nil {
		return e, err
	}
	return t.postfix(calls("f_sign", quote(sign), e.code))
}

func (t *translator) primary() (expr, error) {
	switch tok := t.next(); {
	case tok.kind == tokName:
		return t.name(tok.text), nil
	case tok.kind == tokString:
		s := tok.text
		for t.peek().kind == tokString {
			s += t.next().text
		}
		return expr{code: quote(s)}, nil
	case tok.kind == tokInt:
		n, err := strconv.ParseInt(tok.text, 0, 64)
		if err != nil {
			return expr{}, fail(tok.line, "integer %s does not fit 64 bits", tok.text)
		}
		return expr{code: strconv.FormatInt(n, 10)}, nil
	case tok.kind == tokFloat:
		f, err := strconv.ParseFloat(tok.text, 64)
		if err != nil {
			return expr{}, fail(tok.line, "number %s does not fit 64 bits", tok.text)
		}
		code := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(code, ".") {
			code += ".0"
		}
		return expr{code: code}, nil
	case tok.is("("):
		return t.parenthesis()
	case tok.is("["):
		items, err := t.sequence("]", t.condition)
		return list(items), err
	case tok.is("{"):
		return t.dict()
	default:
		return expr{}, fail(tok.line, "expected an expression, got %s", tok)
	}
}

func (t *translator) name(name string) expr {
	switch name {
	case "true", "True":
		return expr{code: "true"}
	case "false", "False":
		return expr{code: "false"}
	case "none", "None":
		return expr{code: "none"}
	case "loop":
		if t.loops > 0 {
			return expr{code: "loop", label: name}
		}
	case "caller":
		if t.macros > 0 {
			return expr{code: "caller", label: name}
		}
	}
	return expr{code: "v_" + name, label: name}
}

func (t *translator) parenthesis() (expr, error) {
	if t.accept(")") {
		return expr{code: "[]"}, nil
	}
	e, err := t.tuple(t.condition, tokEOF)
	if err != nil {
		return e, err
	}
	return e, t.expect(")")
}

// sequence is items with commas between them and an optional one at the end.
func (t *translator) sequence(end string, item parse) ([]expr, error) {
	var items []expr
	for !t.accept(end) {
		if len(items) > 0 {
			if err := t.expect(","); err != nil {
				return nil, err
			}
			if t.accept(end) {
				break
			}
		}
		e, err := item()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	return items, nil
}

func (t *translator) dict() (expr, error) {
	items, err := t.sequence("}", func() (expr, error) {
		key, err := t.condition()
		if err != nil {
			return key, err
		}
		if err := t.expect(":"); err != nil {
			return key, err
		}
		val, err := t.condition()
		return expr{code: key.code + "," + val.code}, err
	})
	if err != nil {
		return expr{}, err
	}
	codes := make([]string, len(items))
	for i, e := range items {
		codes[i] = e.code
	}
	return calls("f_dict", codes...), nil
}
