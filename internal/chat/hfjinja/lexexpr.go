package hfjinja

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	floatLit = regexp.MustCompile(`^(?i:(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?e[+\-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+))`)
	intLit   = regexp.MustCompile(`^(?i:0b(?:_?[0-1])+|0o(?:_?[0-7])+|0x(?:_?[\da-f])+|[1-9](?:_?\d)*|0(?:_?0)*)`)
	operator = regexp.MustCompile(`^(?://|\*\*|==|!=|>=|<=|[+\-/*%~\[\](){}<>=.:|,;])`)
)

var closers = map[byte]byte{'(': ')', '[': ']', '{': '}'}

// expression reads the tokens of a tag up to its end. An end inside brackets
// is not one: `{{ {"a": {}} }}`.
func (l *lexer) expression(end string, kind tokenKind) error {
	start := l.line
	var open []byte
	for n := 0; ; n++ {
		l.advance(skipSpace(l.src, l.pos))
		if l.pos >= len(l.src) {
			return fail(start, "tag is not closed with %q", end)
		}
		if n > maxTagTokens {
			return fail(start, "tag has more than %d tokens", maxTagTokens)
		}
		rest := l.src[l.pos:]
		if len(open) == 0 && l.tagEnd(rest, end, kind) {
			return nil
		}
		switch c := rest[0]; {
		case c >= '0' && c <= '9':
			l.number(rest)
		case c == '\'' || c == '"':
			if err := l.str(rest); err != nil {
				return err
			}
		case c == '_' || c >= utf8.RuneSelf || unicode.IsLetter(rune(c)):
			if err := l.name(rest); err != nil {
				return err
			}
		default:
			op := operator.FindString(rest)
			if op == "" {
				return fail(l.line, "unexpected character %q", rest[:1])
			}
			if cl, ok := closers[op[0]]; ok {
				open = append(open, cl)
			}
			if op == ")" || op == "]" || op == "}" {
				if len(open) == 0 {
					return fail(l.line, "unexpected %q", op)
				}
				if want := open[len(open)-1]; want != op[0] {
					return fail(l.line, "unexpected %q, expected %q", op, string(want))
				}
				open = open[:len(open)-1]
			}
			l.add(tokOp, op)
			l.advance(l.pos + len(op))
		}
	}
}

// tagEnd consumes the end of the tag, if it is here.
func (l *lexer) tagEnd(rest, end string, kind tokenKind) bool {
	sign := signAt(rest, 0)
	if sign == "+" && kind == tokOutputEnd {
		return false // "+}}" is no end
	}
	if !strings.HasPrefix(rest[len(sign):], end) {
		return false
	}
	l.add(kind, "")
	pos := l.pos + len(sign) + len(end)
	switch {
	case kind == tokStmtEnd && sign != "":
		pos = l.afterStmt(pos, sign[0])
	case kind == tokStmtEnd:
		pos = l.afterStmt(pos, 0)
	case sign == "-":
		pos = skipSpace(l.src, pos)
	}
	l.advance(pos)
	return true
}

func (l *lexer) number(rest string) {
	kind, lit := tokInt, ""
	if l.src[l.pos-1] != '.' { // in x.0.1 these are two subscripts
		kind, lit = tokFloat, floatLit.FindString(rest)
	}
	if lit == "" {
		kind, lit = tokInt, intLit.FindString(rest)
	}
	l.add(kind, strings.ReplaceAll(lit, "_", ""))
	l.advance(l.pos + len(lit))
}

func (l *lexer) name(rest string) error {
	n := strings.IndexFunc(rest, func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	if n < 0 {
		n = len(rest)
	}
	for i := range n {
		if rest[i] >= utf8.RuneSelf {
			return fail(l.line, "name %q: only ASCII letters, digits and _ are supported", rest[:n])
		}
	}
	if n == 0 {
		r, _ := utf8.DecodeRuneInString(rest)
		return fail(l.line, "unexpected character %q", r)
	}
	l.add(tokName, rest[:n])
	l.advance(l.pos + n)
	return nil
}

func (l *lexer) str(rest string) error {
	quote := rest[0]
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case quote:
			v, err := unescape(rest[1:i])
			if err != "" {
				return fail(l.line, "string: %s", err)
			}
			l.add(tokString, v)
			l.advance(l.pos + i + 1)
			return nil
		}
	}
	return fail(l.line, "string is not closed with %c", quote)
}

var simpleEscapes = map[byte]string{
	'\n': "", '\\': `\`, '\'': "'", '"': `"`, 'a': "\a", 'b': "\b",
	'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v",
}

// unescape resolves Python's string escapes; an unknown one stays as it is.
func unescape(s string) (v, problem string) {
	if !strings.Contains(s, `\`) {
		return s, ""
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++ // the lexer ends no string on a backslash
		c := s[i]
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
		simple, ok := simpleEscapes[c]
		switch {
		case ok:
			b.WriteString(simple)
		case c >= '0' && c <= '7':
			n := 1
			for n < 3 && i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '7' {
				n++
			}
			code, _ := strconv.ParseUint(s[i:i+n], 8, 32)
			b.WriteRune(rune(code))
			i += n - 1
		case digits > 0:
			if i+1+digits > len(s) {
				return "", `\` + string(c) + " needs " + strconv.Itoa(digits) + " hex digits"
			}
			code, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
			if err != nil || code > unicode.MaxRune {
				return "", `\` + s[i:i+1+digits] + " is not a character"
			}
			b.WriteRune(rune(code))
			i += digits
		case c == 'N':
			return "", `characters by name (\N) are not supported`
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}
