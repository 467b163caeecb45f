package hfjinja

import (
	"fmt"
	"slices"
	"strings"
)

// translate turns a template into the engine's language:
//
//   - text and outputs become {{f_out(...)}}, so no text is left for the engine
//     to trim;
//   - every name x of the template becomes v_x, so none can meet the engine's
//     names or ours (f_...; o_, t_ and l_ with a number are ours too);
//   - each statement tag is followed by a newline, which the engine drops; its
//     trimming pass would otherwise take quadratic time.
//
// The translation is made while parsing; there is no syntax tree.
func translate(source string) (string, error) {
	toks, err := lex(source)
	if err != nil {
		return "", err
	}
	t := &translator{toks: toks}
	code, err := t.block()
	if err != nil {
		return "", err
	}
	if t.peek().kind != tokEOF {
		return "", fail(t.peek().line, "unexpected %s", t.peek())
	}
	return code, nil
}

type translator struct {
	toks    []token
	pos     int
	nesting int
	ids     int

	loops    int // loops around here, in this macro or an outer one: "loop" exists
	canBreak int // loops around here, in this macro
	macros   int // macros around here: "caller" exists

	// assigned holds, for each loop around, the names set in its body. Jinja2
	// gives each round of a loop fresh ones.
	assigned [][]string
}

func (t *translator) peek() token { return t.toks[t.pos] }

func (t *translator) next() token {
	tok := t.toks[t.pos]
	if tok.kind != tokEOF {
		t.pos++
	}
	return tok
}

func (t *translator) accept(text string) bool {
	if t.peek().is(text) {
		t.pos++
		return true
	}
	return false
}

func (t *translator) expect(text string) error {
	if tok := t.next(); !tok.is(text) {
		return fail(tok.line, "expected %q, got %s", text, tok)
	}
	return nil
}

func (t *translator) expectKind(k tokenKind) (token, error) {
	tok := t.next()
	if tok.kind != k {
		return tok, fail(tok.line, "expected %s, got %s", describe(k), tok)
	}
	return tok, nil
}

func describe(k tokenKind) string {
	if k == tokName {
		return "a name"
	}
	return token{kind: k}.String()
}

// enter guards the recursion of parser, engine and evaluator.
func (t *translator) enter() error {
	t.nesting++
	if t.nesting > maxNesting {
		return fail(t.peek().line, "more than %d brackets, operators or blocks within one another", maxNesting)
	}
	return nil
}

func (t *translator) leave() { t.nesting-- }

func (t *translator) id() int {
	t.ids++
	return t.ids
}

// block translates up to the end, or up to a statement that begins with one of
// the words; that statement's "{%" is consumed, its word is not.
func (t *translator) block(until ...string) (string, error) {
	if err := t.enter(); err != nil {
		return "", err
	}
	defer t.leave()
	start := t.peek().line
	var b strings.Builder
	for {
		switch tok := t.next(); tok.kind {
		case tokText:
			b.WriteString("{{f_out(" + quote(tok.text) + ")}}")
		case tokOutput:
			e, err := t.tuple(t.condition, tokOutputEnd)
			if err != nil {
				return "", err
			}
			if _, err := t.expectKind(tokOutputEnd); err != nil {
				return "", err
			}
			b.WriteString("{{f_out(" + e.code + ")}}")
		case tokStmt:
			word := t.peek()
			if word.kind != tokName {
				return "", fail(word.line, "expected a statement, got %s", word)
			}
			if slices.Contains(until, word.text) {
				return b.String(), nil
			}
			code, err := t.statement()
			if err != nil {
				return "", err
			}
			b.WriteString(code)
		case tokEOF:
			if len(until) > 0 {
				return "", fail(start, "block is not closed: expected {%% %s %%}", strings.Join(until, " or "))
			}
			return b.String(), nil
		default:
			return "", fail(tok.line, "unexpected %s", tok)
		}
	}
}

// body is the end of the current tag, a block, and the word that ends it.
func (t *translator) body(until ...string) (code, word string, err error) {
	t.accept(":") // Jinja2 allows it, as in Python
	if _, err := t.expectKind(tokStmtEnd); err != nil {
		return "", "", err
	}
	code, err = t.block(until...)
	if err != nil {
		return "", "", err
	}
	return code, t.next().text, nil
}

// closed is body for a block that has a single way to end, whose tag it
// consumes.
func (t *translator) closed(until string) (string, error) {
	code, _, err := t.body(until)
	if err != nil {
		return "", err
	}
	_, err = t.expectKind(tokStmtEnd)
	return code, err
}

var quoter = strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`)

// quote writes a string literal of the engine.
func quote(s string) string { return "'" + quoter.Replace(s) + "'" }

// stmt writes a statement tag of the engine.
func stmt(format string, args ...any) string {
	return "{%" + fmt.Sprintf(format, args...) + "%}\n"
}
