package hfjinja

import (
	"fmt"
	"strings"
)

// forStmt translates a loop. Written out, `for a, b in LIST if COND` is:
//
//	set o_1_x = v_x               each x that the body sets, as it was before
//	set l_1 = f_list()            only with a condition: first pick the items,
//	for t_1 in f_iter(LIST, 2)    so that loop.index and loop.last count
//	  f_tick                      only those
//	  set v_a, v_b = t_1
//	  if COND: f_push(l_1, t_1)
//	for t_1 in f_iter(l_1, 0)
//	  f_tick
//	  set v_x = o_1_x
//	  set v_a, v_b = t_1
//	  BODY
//
// f_tick counts the work of a round: the length of the body's code.
func (t *translator) forStmt() (string, error) {
	to, isTuple, err := t.targets()
	if err != nil {
		return "", err
	}
	if err := t.expect("in"); err != nil {
		return "", err
	}
	iter, err := t.tuple(t.or, tokStmtEnd)
	if err != nil {
		return "", err
	}
	id := t.id()
	unpack := 0
	if isTuple {
		unpack = len(to)
	}

	t.assigned = append(t.assigned, nil)
	bind, err := t.bind(to, isTuple, id)
	if err != nil {
		return "", err
	}
	t.assigned[len(t.assigned)-1] = nil // the targets need no reset
	pick := ""
	if t.accept("if") {
		cond, err := t.condition()
		if err != nil {
			return "", err
		}
		round := bind + stmt("if %s", cond.code) + fmt.Sprintf("{{f_push(l_%d,t_%d)}}", id, id) + stmt("endif")
		pick = stmt("set l_%d=f_list()", id) + rounds(id, iter.code, unpack, round) + stmt("endfor")
		iter.code, unpack = fmt.Sprintf("l_%d", id), 0
	}
	if t.peek().is("recursive") {
		return "", fail(t.peek().line, "recursive loops are not supported")
	}

	t.loops++
	t.canBreak++
	body, word, err := t.body("else", "endfor")
	t.loops--
	t.canBreak--
	if err != nil {
		return "", err
	}
	names := t.assigned[len(t.assigned)-1]
	t.assigned = t.assigned[:len(t.assigned)-1]

	var keep, reset strings.Builder
	for _, name := range names {
		keep.WriteString(stmt("set o_%d_%s=v_%s", id, name, name))
		reset.WriteString(stmt("set v_%s=o_%d_%s", name, id, name))
	}
	body = reset.String() + bind + body
	if word == "else" {
		other, err := t.closed("endfor")
		if err != nil {
			return "", err
		}
		body += stmt("else") + other
	} else if _, err := t.expectKind(tokStmtEnd); err != nil {
		return "", err
	}
	return pick + keep.String() + rounds(id, iter.code, unpack, body) + stmt("endfor"), nil
}

// rounds is a loop over iter, but for its end.
func rounds(id int, iter string, unpack int, body string) string {
	return stmt("for t_%d in f_iter(%s,%d)", id, iter, unpack) + tick(costRound+len(body)) + body
}

// tick counts work, each time that it is run.
func tick(work int) string { return fmt.Sprintf("{{f_tick(%d)}}", work) }

// bind sets a loop's targets from its item.
func (t *translator) bind(to []target, isTuple bool, id int) (string, error) {
	code := ""
	for i, one := range to {
		item := fmt.Sprintf("t_%d", id)
		if isTuple {
			item = fmt.Sprintf("t_%d[%d]", id, i)
		}
		if one.attr != "" {
			return "", fail(t.peek().line, "a loop can't assign to %s.%s", one.name, one.attr)
		}
		code += t.assign(one, item)
	}
	return code, nil
}

// parameters is a macro's or call block's parameter list, whose "(" has been
// read. defaults is code that gives the missing ones their values.
func (t *translator) parameters() (names []string, defaults string, err error) {
	_, err = t.sequence(")", func() (expr, error) {
		tok, err := t.expectKind(tokName)
		if err != nil {
			return expr{}, err
		}
		names = append(names, "v_"+tok.text)
		if t.accept("=") {
			val, err := t.condition()
			if err != nil {
				return expr{}, err
			}
			defaults += stmt("if v_%s is undefined", tok.text) + stmt("set v_%s=%s", tok.text, val.code) + stmt("endif")
		} else if defaults != "" {
			return expr{}, fail(tok.line, "a parameter without a default follows one with a default")
		}
		return expr{}, nil
	})
	return names, defaults, err
}

func (t *translator) macroStmt() (string, error) {
	name, err := t.expectKind(tokName)
	if err != nil {
		return "", err
	}
	t.assigns(name.text)
	if err := t.expect("("); err != nil {
		return "", err
	}
	t.macros++
	defer func() { t.macros-- }()
	params, defaults, err := t.parameters()
	if err != nil {
		return "", err
	}
	body, err := t.inner("endmacro")
	if err != nil {
		return "", err
	}
	body = defaults + body
	return stmt("macro v_%s(%s)", name.text, strings.Join(params, ",")) +
		tick(len(body)) + body + stmt("endmacro"), nil
}

func (t *translator) callStmt() (string, error) {
	var params []string
	defaults := ""
	var err error
	if t.accept("(") {
		if params, defaults, err = t.parameters(); err != nil {
			return "", err
		}
	}
	line := t.peek().line
	e, err := t.condition()
	if err != nil {
		return "", err
	}
	if !e.call {
		return "", fail(line, "expected a call after {%% call")
	}
	body, err := t.inner("endcall")
	if err != nil {
		return "", err
	}
	body = defaults + body
	return stmt("call(%s) %s", strings.Join(params, ","), e.code) +
		tick(len(body)) + body + stmt("endcall"), nil
}

// inner is a macro's or call block's body: what it sets is its own, and no
// break leaves it.
func (t *translator) inner(until string) (string, error) {
	canBreak, assigned := t.canBreak, t.assigned
	t.canBreak, t.assigned = 0, nil
	defer func() { t.canBreak, t.assigned = canBreak, assigned }()
	return t.closed(until)
}
