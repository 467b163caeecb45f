package hfjinja

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Lexing, including all whitespace control, follows Jinja2's lexer with
// trim_blocks and lstrip_blocks on and keep_trailing_newline off.

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokText
	tokOutput // {{
	tokOutputEnd
	tokStmt // {%
	tokStmtEnd
	tokName
	tokString // text holds the value, escapes resolved
	tokInt
	tokFloat
	tokOp
)

type token struct {
	kind tokenKind
	text string
	line int
}

// String is how errors show a token.
func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "the end of the template"
	case tokText:
		return "text"
	case tokOutput:
		return `"{{"`
	case tokOutputEnd:
		return `"}}"`
	case tokStmt:
		return `"{%"`
	case tokStmtEnd:
		return `"%}"`
	}
	return fmt.Sprintf("%q", t.text)
}

// is reports whether t is this operator or name (never a string literal).
func (t token) is(text string) bool {
	return (t.kind == tokOp || t.kind == tokName) && t.text == text
}

type syntaxError struct {
	line int
	msg  string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.msg) }

func fail(line int, format string, args ...any) error {
	return &syntaxError{line: line, msg: fmt.Sprintf(format, args...)}
}

type lexer struct {
	src  string
	pos  int
	line int
	toks []token
	// lineStart is whether the last piece matched ended with a newline, so that
	// blanks up to the next tag are indentation.
	lineStart bool
}

var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n")

func lex(source string) ([]token, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("template has %d bytes, more than the %d allowed", len(source), maxSource)
	}
	src := strings.TrimSuffix(newlines.Replace(source), "\n")
	l := &lexer{src: src, line: 1, lineStart: true}
	for l.pos < len(l.src) {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	l.add(tokEOF, "")
	return l.toks, nil
}

func (l *lexer) add(k tokenKind, text string) {
	l.toks = append(l.toks, token{kind: k, text: text, line: l.line})
}

// advance moves to pos and counts the lines passed.
func (l *lexer) advance(pos int) {
	l.line += strings.Count(l.src[l.pos:pos], "\n")
	if pos > l.pos {
		l.lineStart = l.src[pos-1] == '\n'
	}
	l.pos = pos
}

// next reads text and the tag after it.
func (l *lexer) next() error {
	at := nextTag(l.src, l.pos)
	if at < 0 {
		l.add(tokText, l.src[l.pos:])
		l.advance(len(l.src))
		return nil
	}
	tag := l.src[at+1]
	body := at + 2
	sign := signAt(l.src, body)
	body += len(sign)
	l.text(at, sign, tag != '{')
	l.advance(body)

	switch tag {
	case '#':
		return l.comment()
	case '{':
		l.add(tokOutput, "")
		return l.expression("}}", tokOutputEnd)
	}
	if end, ok := rawTag(l.src, body); ok {
		l.advance(end)
		return l.raw()
	}
	l.add(tokStmt, "")
	return l.expression("%}", tokStmtEnd)
}

// text adds the text from the current position up to end, where a tag with the
// whitespace sign begins.
func (l *lexer) text(end int, sign string, lstrip bool) {
	s := l.src[l.pos:end]
	if sign == "-" {
		s = strings.TrimRightFunc(s, isSpace)
	} else if sign != "+" && lstrip {
		nl := strings.LastIndexByte(s, '\n') + 1
		if (nl > 0 || l.lineStart) && strings.TrimLeftFunc(s[nl:], isSpace) == "" {
			s = s[:nl]
		}
	}
	if s != "" {
		l.add(tokText, s)
	}
	l.advance(end)
}

func (l *lexer) comment() error {
	i := strings.Index(l.src[l.pos:], "#}")
	if i < 0 {
		return fail(l.line, `comment is not closed with "#}"`)
	}
	end := l.pos + i + 2
	sign := byte(0)
	if i > 0 {
		sign = l.src[end-3]
	}
	l.advance(l.afterStmt(end, sign))
	return nil
}

// raw adds everything up to the endraw tag as text.
func (l *lexer) raw() error {
	for at := l.pos; ; {
		i := strings.Index(l.src[at:], "{%")
		if i < 0 {
			return fail(l.line, "raw block is not closed with {%% endraw %%}")
		}
		at += i
		sign := signAt(l.src, at+2)
		p := at + 2 + len(sign)
		p = skipSpace(l.src, p)
		if strings.HasPrefix(l.src[p:], "endraw") {
			p = skipSpace(l.src, p+len("endraw"))
			closing := signAt(l.src, p)
			if strings.HasPrefix(l.src[p+len(closing):], "%}") {
				l.text(at, sign, true)
				var c byte
				if closing != "" {
					c = closing[0]
				}
				l.advance(l.afterStmt(p+len(closing)+2, c))
				return nil
			}
		}
		at += 2
	}
}

// afterStmt is where the text begins after a statement or comment that ends at
// end with this sign: after all blanks ("-"), or after one newline.
func (l *lexer) afterStmt(end int, sign byte) int {
	switch {
	case sign == '-':
		return skipSpace(l.src, end)
	case sign != '+' && strings.HasPrefix(l.src[end:], "\n"):
		return end + 1
	}
	return end
}

// nextTag is the offset of the next "{{", "{%" or "{#", or -1.
func nextTag(s string, from int) int {
	for i := from; ; {
		j := strings.IndexByte(s[i:], '{')
		if j < 0 || i+j+1 >= len(s) {
			return -1
		}
		i += j
		if c := s[i+1]; c == '{' || c == '%' || c == '#' {
			return i
		}
		i++
	}
}

func signAt(s string, i int) string {
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		return s[i : i+1]
	}
	return ""
}

// rawTag reports whether the statement whose inside begins at i is "raw", and
// where it ends.
func rawTag(s string, i int) (end int, ok bool) {
	i = skipSpace(s, i)
	if !strings.HasPrefix(s[i:], "raw") {
		return 0, false
	}
	i = skipSpace(s, i+len("raw"))
	if strings.HasPrefix(s[i:], "-%}") {
		return skipSpace(s, i+3), true
	}
	return i + 2, strings.HasPrefix(s[i:], "%}")
}

// isSpace is Python's str.isspace.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || (r >= 0x1c && r <= 0x1f)
}

func skipSpace(s string, i int) int {
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		if !isSpace(r) {
			break
		}
		i += n
	}
	return i
}
