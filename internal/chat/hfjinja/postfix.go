package hfjinja

import (
	"strings"
)

// postfix is what may follow an operand: .name .0 [key] [a:b:c] (args).
func (t *translator) postfix(e expr) (expr, error) {
	for links := 0; ; links++ {
		err := t.chain(links)
		switch {
		case err != nil:
		case t.accept("."):
			e, err = t.attribute(e)
		case t.accept("["):
			e, err = t.subscript(e)
		case t.accept("("):
			e, err = t.call(e)
		default:
			return e, nil
		}
		if err != nil {
			return e, err
		}
	}
}

// chain limits how many links follow an operand: each is a call around the ones
// before it.
func (t *translator) chain(links int) error {
	if links > maxNesting {
		return fail(t.peek().line, "more than %d attributes, calls or filters in a row", maxNesting)
	}
	return nil
}

func (t *translator) attribute(obj expr) (expr, error) {
	tok := t.next()
	label := obj.label + "." + tok.text
	if obj.label == "" || len(label) > maxLabel {
		label = ""
	}
	switch tok.kind {
	case tokInt:
		e := calls("f_item", obj.code, tok.text, quote(obj.label))
		e.label = label
		return e, nil
	case tokName:
	default:
		return obj, fail(tok.line, `expected a name or number after ".", got %s`, tok)
	}
	if t.accept("(") {
		args, err := t.arguments()
		if err != nil {
			return obj, err
		}
		e := calls("f_method", append([]string{obj.code, quote(obj.label), quote(tok.text)}, args...)...)
		e.call = true
		return e, nil
	}
	e := calls("f_attr", obj.code, quote(tok.text), quote(obj.label))
	e.label = label
	return e, nil
}

func (t *translator) subscript(obj expr) (expr, error) {
	line := t.peek().line
	var parts []string
	colons := 0
	for !t.accept("]") {
		if t.accept(":") {
			if colons++; colons > 2 {
				return obj, fail(line, "a slice has at most two colons")
			}
			for len(parts) < colons {
				parts = append(parts, "none")
			}
			continue
		}
		if len(parts) > colons {
			return obj, fail(line, "expected \"]\", got %s", t.peek())
		}
		key, err := t.condition()
		if err != nil {
			return obj, err
		}
		parts = append(parts, key.code)
	}
	if colons == 0 {
		if len(parts) == 0 {
			return obj, fail(line, "expected an index between [ and ]")
		}
		e := calls("f_item", obj.code, parts[0], quote(obj.label))
		if obj.label != "" {
			e.label = obj.label + "[...]"
		}
		return e, nil
	}
	for len(parts) < 3 {
		parts = append(parts, "none")
	}
	return calls("f_slice", append([]string{obj.code}, parts...)...), nil
}

func (t *translator) call(fn expr) (expr, error) {
	args, err := t.arguments()
	if err != nil {
		return fn, err
	}
	e := calls("f_call", append([]string{fn.code, quote(fn.label)}, args...)...)
	e.call = true
	return e, nil
}

// arguments are those of a call whose "(" has been read: first the named ones
// as a dict (none when there are none), then the others.
func (t *translator) arguments() ([]string, error) {
	args := []string{"none"}
	var named []string
	_, err := t.sequence(")", func() (expr, error) {
		tok := t.peek()
		switch {
		case tok.is("*"), tok.is("**"):
			return expr{}, fail(tok.line, "%sargs in calls is not supported", tok.text)
		case tok.kind == tokName && t.toks[t.pos+1].is("="):
			t.pos += 2
			e, err := t.condition()
			named = append(named, quote(tok.text), e.code)
			return e, err
		case len(named) > 0:
			return expr{}, fail(tok.line, "a positional argument follows a named one")
		}
		e, err := t.condition()
		args = append(args, e.code)
		return e, err
	})
	if len(named) > 0 {
		args[0] = calls("f_dict", named...).code
	}
	return args, err
}

// filters is any number of `| filter` and `is test`.
func (t *translator) filters(e expr) (expr, error) {
	for links := 0; ; links++ {
		err := t.chain(links)
		switch {
		case err != nil:
		case t.accept("|"):
			e, err = t.filter(e)
		case t.accept("is"):
			e, err = t.test(e)
		case t.accept("("):
			e, err = t.call(e)
		default:
			return e, nil
		}
		if err != nil {
			return e, err
		}
	}
}

func (t *translator) filter(e expr) (expr, error) {
	name, err := t.dotted()
	if err != nil {
		return e, err
	}
	args := []string{"none"}
	if t.accept("(") {
		if args, err = t.arguments(); err != nil {
			return e, err
		}
	}
	return calls("f_filter", append([]string{quote(name), e.code}, args...)...), nil
}

func (t *translator) test(e expr) (expr, error) {
	negated := t.accept("not")
	name, err := t.dotted()
	if err != nil {
		return e, err
	}
	args := []string{"none"}
	switch tok := t.peek(); {
	case t.accept("("):
		args, err = t.arguments()
	case tok.is("else"), tok.is("or"), tok.is("and"):
	case tok.is("is"):
		return e, fail(tok.line, "tests cannot be chained with is")
	case tok.kind == tokName, tok.kind == tokString, tok.kind == tokInt, tok.kind == tokFloat,
		tok.is("("), tok.is("["), tok.is("{"):
		var arg expr
		if arg, err = t.primary(); err == nil {
			arg, err = t.postfix(arg)
		}
		args = append(args, arg.code)
	}
	if err != nil {
		return e, err
	}
	res := calls("f_test", append([]string{quote(name), e.code}, args...)...)
	if negated {
		res.code = "(not " + res.code + ")"
	}
	return res, nil
}

func (t *translator) dotted() (string, error) {
	var parts []string
	for {
		tok, err := t.expectKind(tokName)
		if err != nil {
			return "", err
		}
		parts = append(parts, tok.text)
		if !t.accept(".") {
			return strings.Join(parts, "."), nil
		}
	}
}
