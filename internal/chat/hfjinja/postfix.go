package hfjinja

import (
	"slices"
	"strings"
)

// postfix is what may follow an operand: .name .0 [key] [a:b:c] (args).
func (t *translator) postfix(e expr) (expr, error) {
	return t.links(e, []link{{".", t.attribute}, {"[", t.subscript}, {"(", t.call}})
}

// link is what a token after an operand begins.
type link struct {
	token string
	read  func(expr) (expr, error)
}

// links reads any number of links of these kinds.
func (t *translator) links(e expr, kinds []link) (expr, error) {
	for n := 0; ; n++ {
		if err := t.chain(n); err != nil {
			return e, err
		}
		i := slices.IndexFunc(kinds, func(k link) bool { return t.accept(k.token) })
		if i < 0 {
			return e, nil
		}
		var err error
		if e, err = kinds[i].read(e); err != nil {
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
	args, stars, err := t.anyArguments()
	if err != nil {
		return fn, err
	}
	head := []string{fn.code, quote(fn.label)}
	e := calls("f_call", append(head, args...)...)
	if strings.Contains(stars, "*") {
		e = calls("f_spread", append(append(head, quote(stars)), args...)...)
	}
	e.call = true
	return e, nil
}

// arguments are those of a call whose "(" has been read: first the named ones
// as a dict (none when there are none), then the others.
func (t *translator) arguments() ([]string, error) {
	line := t.peek().line
	args, stars, err := t.anyArguments()
	if err == nil && strings.Contains(stars, "*") {
		err = fail(line, "*args is supported in calls of functions only")
	}
	return args, err
}

// anyArguments also takes *args. stars has a * for each argument that is a list of
// them, and a point for each other.
func (t *translator) anyArguments() (args []string, stars string, err error) {
	args = []string{"none"}
	var named []string
	_, err = t.sequence(")", func() (expr, error) {
		tok := t.peek()
		star := "."
		switch {
		case tok.is("**"):
			return expr{}, fail(tok.line, "**args in calls is not supported")
		case tok.is("*"):
			t.pos++
			star = "*"
		case tok.kind == tokName && t.toks[t.pos+1].is("="):
			t.pos += 2
			e, err := t.condition()
			named = append(named, quote(tok.text), e.code)
			return e, err
		case len(named) > 0:
			return expr{}, fail(tok.line, "a positional argument follows a named one")
		}
		e, err := t.condition()
		args, stars = append(args, e.code), stars+star
		return e, err
	})
	if len(named) > 0 {
		args[0] = calls("f_dict", named...).code
	}
	return args, stars, err
}

// filters is any number of `| filter` and `is test`.
func (t *translator) filters(e expr) (expr, error) {
	return t.links(e, []link{{"|", t.filter}, {"is", t.test}, {"(", t.call}})
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
