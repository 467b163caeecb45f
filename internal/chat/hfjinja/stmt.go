package hfjinja

import (
	"fmt"
	"slices"
	"strings"
)

// statement translates the tag whose "{%" has been read, with its block.
func (t *translator) statement() (string, error) {
	tok := t.next()
	switch tok.text {
	case "if":
		return t.ifStmt()
	case "for":
		return t.forStmt()
	case "set":
		return t.setStmt()
	case "macro":
		return t.macroStmt()
	case "call":
		return t.callStmt()
	case "filter":
		return t.filterStmt()
	case "generation": // marks what to train on; prints as it is
		return t.closed("endgeneration")
	case "break", "continue":
		if t.canBreak == 0 {
			return "", fail(tok.line, "%s outside a loop", tok.text)
		}
		_, err := t.expectKind(tokStmtEnd)
		return stmt("%s", tok.text), err
	case "print", "include", "import", "from", "extends", "block", "with", "autoescape", "do":
		return "", fail(tok.line, "statement %q is not supported", tok.text)
	}
	return "", fail(tok.line, "unknown statement %q", tok.text)
}

func (t *translator) ifStmt() (string, error) {
	var b strings.Builder
	for word := "if"; word != "endif"; {
		var cond expr
		var err error
		if word != "else" {
			cond, err = t.tuple(t.or, tokStmtEnd)
		}
		if err != nil {
			return "", err
		}
		until := []string{"elif", "else", "endif"}
		if word == "else" {
			until = until[2:]
		}
		code, next, err := t.body(until...)
		if err != nil {
			return "", err
		}
		b.WriteString(stmt("%s", strings.TrimSpace(word+" "+cond.code)) + code)
		word = next
	}
	b.WriteString(stmt("endif"))
	_, err := t.expectKind(tokStmtEnd)
	return b.String(), err
}

// target is what a statement assigns to: a name, or an attribute of a namespace.
type target struct {
	name, attr string
}

// targets is one or more of them. A tuple of one ("a,") is a tuple too.
func (t *translator) targets() (list []target, isTuple bool, err error) {
	for {
		paren := t.accept("(")
		if paren && len(list) > 0 {
			return nil, false, fail(t.peek().line, "assigning to a tuple within a tuple is not supported")
		}
		tok, err := t.expectKind(tokName)
		if err != nil {
			return nil, false, err
		}
		to := target{name: tok.text}
		if slices.Contains([]string{"true", "True", "false", "False", "none", "None"}, tok.text) {
			return nil, false, fail(tok.line, "can't assign to %s", tok.text)
		}
		if t.accept(".") {
			attr, err := t.expectKind(tokName)
			if err != nil {
				return nil, false, err
			}
			to.attr = attr.text
		}
		list = append(list, to)
		if paren && t.peek().is(",") {
			t.next()
			rest, _, err := t.targets()
			if err != nil {
				return nil, false, err
			}
			return append(list, rest...), true, t.expect(")")
		}
		if paren {
			if err := t.expect(")"); err != nil {
				return nil, false, err
			}
		}
		if !t.accept(",") {
			return list, isTuple, nil
		}
		isTuple = true
		if t.peek().kind != tokName && !t.peek().is("(") {
			return list, isTuple, nil
		}
	}
}

// assign sets one target to code.
func (t *translator) assign(to target, code string) string {
	if to.attr != "" {
		return fmt.Sprintf("{{f_nsset(v_%s,%s,%s)}}", to.name, quote(to.attr), code)
	}
	t.assigns(to.name)
	return stmt("set v_%s=%s", to.name, code)
}

// assigns notes that the innermost loop's body sets name.
func (t *translator) assigns(name string) {
	if n := len(t.assigned) - 1; n >= 0 && !slices.Contains(t.assigned[n], name) {
		t.assigned[n] = append(t.assigned[n], name)
	}
}

func (t *translator) setStmt() (string, error) {
	to, isTuple, err := t.targets()
	if err != nil {
		return "", err
	}
	if t.accept("=") {
		e, err := t.tuple(t.condition, tokStmtEnd)
		if err != nil {
			return "", err
		}
		if _, err := t.expectKind(tokStmtEnd); err != nil {
			return "", err
		}
		if !isTuple {
			return t.assign(to[0], e.code), nil
		}
		tmp := fmt.Sprintf("t_%d", t.id())
		code := stmt("set %s=f_unpack(%s,%d)", tmp, e.code, len(to))
		for i, one := range to {
			code += t.assign(one, fmt.Sprintf("%s[%d]", tmp, i))
		}
		return code, nil
	}
	if isTuple {
		return "", fail(t.peek().line, `expected "=", got %s`, t.peek())
	}
	tmp := fmt.Sprintf("t_%d", t.id())
	value := expr{code: tmp}
	for t.accept("|") {
		if value, err = t.filter(value); err != nil {
			return "", err
		}
	}
	body, err := t.closed("endset")
	if err != nil {
		return "", err
	}
	return stmt("set %s", tmp) + body + stmt("endset") + t.assign(to[0], value.code), nil
}

func (t *translator) filterStmt() (string, error) {
	tmp := fmt.Sprintf("t_%d", t.id())
	value, err := t.filter(expr{code: tmp})
	for err == nil && t.accept("|") {
		value, err = t.filter(value)
	}
	if err != nil {
		return "", err
	}
	body, err := t.closed("endfilter")
	if err != nil {
		return "", err
	}
	return stmt("set %s", tmp) + body + stmt("endset") + "{{f_out(" + value.code + ")}}", nil
}
