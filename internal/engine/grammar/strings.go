package grammar

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A JSON string's characters: as they are, or escaped. Halves of surrogate
// pairs are left out: what lies beyond the basic plane is written as it is.
var (
	hex       = Alt(span('0', '9'), span('a', 'f'), span('A', 'F'))
	shortEsc  = Seq(Lit(`\`), chars(`"\/bfnrt`))
	hexEsc    = Seq(Lit(`\u`), Alt(Seq(Alt(span('0', '9'), span('a', 'c'), span('A', 'C'), span('e', 'f'), span('E', 'F')), hex, hex, hex), Seq(chars("dD"), span('0', '7'), hex, hex)))
	plainChar = unescaped([]rune{0, utf8.MaxRune})
	char      = Alt(plainChar, shortEsc, hexEsc)
)

// unescaped are the characters of ranges (pairs, both included) that a JSON
// string holds as they are.
func unescaped(ranges []rune) *Expr {
	var options []*Expr
	ascii := &Expr{kind: kindSet}
	for i := 0; i < len(ranges); i += 2 {
		lo, hi := ranges[i], ranges[i+1]
		for r := max(lo, ' '); r <= min(hi, 0x7F); r++ {
			if r != '"' && r != '\\' {
				ascii.set.add(byte(r))
			}
		}
		if hi > 0x7F {
			options = append(options, sequences(max(lo, 0x80), hi)...)
		}
	}
	if ascii.set != (byteSet{}) {
		options = append([]*Expr{ascii}, options...)
	}
	return Alt(options...)
}

// sequences are the UTF-8 forms of the characters from lo to hi, none of ASCII.
func sequences(lo, hi rune) (out []*Expr) {
	for _, part := range [][2]rune{{0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, utf8.MaxRune}} {
		from, to := max(lo, part[0]), min(hi, part[1])
		if from <= to {
			out = append(out, sameLength([]byte(string(from)), []byte(string(to))))
		}
	}
	return out
}

// sameLength are the sequences between two of one length.
func sameLength(lo, hi []byte) *Expr {
	if len(lo) == 1 {
		return span(lo[0], hi[0])
	}
	rest := len(lo) - 1
	first, last := slices.Repeat([]byte{0x80}, rest), slices.Repeat([]byte{0xBF}, rest)
	if lo[0] == hi[0] {
		return Seq(span(lo[0], lo[0]), sameLength(lo[1:], hi[1:]))
	}
	options := []*Expr{
		Seq(span(lo[0], lo[0]), sameLength(lo[1:], last)),
		Seq(span(hi[0], hi[0]), sameLength(first, hi[1:])),
	}
	if lo[0]+1 <= hi[0]-1 {
		options = append(options, Seq(span(lo[0]+1, hi[0]-1), sameLength(first, last)))
	}
	return Alt(options...)
}

// character is one of ranges, as it may stand in a JSON string: characters that
// must be escaped are, in their short form where there is one.
func character(ranges []rune) *Expr {
	options := []*Expr{unescaped(ranges)}
	for i := 0; i < len(ranges); i += 2 {
		for r := ranges[i]; r <= min(ranges[i+1], '\\'); r++ {
			if r < ' ' || r == '"' || r == '\\' {
				options = append(options, Lit(escaped(r)))
			}
		}
	}
	return Alt(options...)
}

func escaped(r rune) string {
	if at := strings.IndexRune("\"\\\b\f\n\r\t", r); at >= 0 {
		return `\` + `"\bfnrt`[at:at+1]
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// text is a whole JSON string of so many characters; max below 0 is any number.
func text(min, max int) *Expr {
	return Seq(Lit(`"`), Repeat(char, min, max), Lit(`"`))
}

// patterned is a JSON string that a regular expression matches, in the part of
// ECMA 262's language that Go reads too. The lengths are in characters.
func patterned(pattern string, minLen, maxLen int) (*Expr, error) {
	re, err := syntax.Parse(pattern, syntax.Perl) // $ is the end of the text, as there
	if err != nil {
		return nil, fmt.Errorf("is no pattern that is known here: %w", err)
	}
	e, least, most, err := anchored(re, minLen, maxLen)
	if err != nil {
		return nil, err
	}
	if least < minLen || maxLen >= 0 && (most < 0 || most > maxLen) {
		return nil, fmt.Errorf("can't be combined with minLength or maxLength here, but for one repeated class such as ^[a-z]+$; say the length in the pattern")
	}
	return Seq(Lit(`"`), e, Lit(`"`)), nil
}

// anchored is a pattern's expression, and how many characters it has. A side
// that is not anchored may be preceded or followed by anything.
func anchored(re *syntax.Regexp, minLen, maxLen int) (e *Expr, least, most int, err error) {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	if re.Op == syntax.OpAlternate {
		var options []*Expr
		least, most = -1, 0
		for _, sub := range re.Sub {
			o, lo, hi, err := anchored(sub, minLen, maxLen)
			if err != nil {
				return nil, 0, 0, err
			}
			options = append(options, o)
			if least < 0 || lo < least {
				least = lo
			}
			if most >= 0 {
				most = max(most, hi)
			}
			if hi < 0 {
				most = -1
			}
		}
		return Alt(options...), least, most, nil
	}
	parts := []*syntax.Regexp{re}
	if re.Op == syntax.OpConcat {
		parts = re.Sub
	}
	fromStart, toEnd := false, false
	if len(parts) > 0 && parts[0].Op == syntax.OpBeginText {
		fromStart, parts = true, parts[1:]
	}
	if len(parts) > 0 && parts[len(parts)-1].Op == syntax.OpEndText {
		toEnd, parts = true, parts[:len(parts)-1]
	}
	if fromStart && toEnd && len(parts) == 1 && repeats(parts[0].Op) {
		if one, lo, hi, err := expression(parts[0].Sub[0]); err == nil && lo == 1 && hi == 1 {
			least, most = 0, -1
			switch parts[0].Op {
			case syntax.OpPlus:
				least = 1
			case syntax.OpQuest:
				most = 1
			case syntax.OpRepeat:
				least, most = parts[0].Min, parts[0].Max
			}
			least = max(least, minLen)
			if maxLen >= 0 && (most < 0 || most > maxLen) {
				most = maxLen
			}
			return Repeat(one, least, most), least, most, nil
		}
	}
	e, least, most, err = expression(&syntax.Regexp{Op: syntax.OpConcat, Sub: parts})
	if err != nil {
		return nil, 0, 0, err
	}
	// What stands around it may be of any length, so it can make up for what
	// is missing, but not for what is too much.
	if !fromStart || !toEnd {
		around := 0
		if least < minLen {
			around = minLen - least
		}
		limit := -1
		if maxLen >= 0 && most >= 0 {
			limit = max(maxLen-most, around)
		} else if maxLen >= 0 {
			return e, least, -1, nil
		}
		switch {
		case fromStart:
			e = Seq(e, Repeat(char, around, limit))
		case toEnd:
			e = Seq(Repeat(char, around, limit), e)
		case limit >= 0:
			e = Seq(e, Repeat(char, around, limit))
		default:
			e = Seq(Repeat(char, 0, -1), e, Repeat(char, around, -1))
		}
		least += around
		if limit < 0 {
			most = -1
		} else {
			most += limit
		}
	}
	return e, least, most, nil
}

func repeats(op syntax.Op) bool {
	return op == syntax.OpStar || op == syntax.OpPlus || op == syntax.OpQuest || op == syntax.OpRepeat
}

// expression is that of a pattern without anchors; least and most count
// characters, most below 0 is without end.
func expression(re *syntax.Regexp) (e *Expr, least, most int, err error) {
	fold := re.Flags&syntax.FoldCase != 0
	switch re.Op {
	case syntax.OpEmptyMatch:
		return Seq(), 0, 0, nil
	case syntax.OpLiteral:
		e = Seq()
		for _, r := range re.Rune {
			ranges := []rune{r, r}
			if fold {
				for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
					ranges = append(ranges, o, o)
				}
			}
			e = Seq(e, character(ranges))
		}
		return e, len(re.Rune), len(re.Rune), nil
	case syntax.OpCharClass:
		return character(re.Rune), 1, 1, nil
	case syntax.OpAnyChar:
		return character([]rune{0, utf8.MaxRune}), 1, 1, nil
	case syntax.OpAnyCharNotNL:
		return character([]rune{0, 9, 11, utf8.MaxRune}), 1, 1, nil
	case syntax.OpCapture:
		return expression(re.Sub[0])
	case syntax.OpConcat:
		e = Seq()
		for _, sub := range re.Sub {
			part, lo, hi, err := expression(sub)
			if err != nil {
				return nil, 0, 0, err
			}
			e = Seq(e, part)
			least += lo
			if hi < 0 || most < 0 {
				most = -1
			} else {
				most += hi
			}
		}
		return e, least, most, nil
	case syntax.OpAlternate:
		var options []*Expr
		least = -1
		for _, sub := range re.Sub {
			o, lo, hi, err := expression(sub)
			if err != nil {
				return nil, 0, 0, err
			}
			options = append(options, o)
			if least < 0 || lo < least {
				least = lo
			}
			if hi < 0 || most < 0 {
				most = -1
			} else {
				most = max(most, hi)
			}
		}
		return Alt(options...), least, most, nil
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		part, lo, hi, err := expression(re.Sub[0])
		if err != nil {
			return nil, 0, 0, err
		}
		from, to := re.Min, re.Max
		switch re.Op {
		case syntax.OpStar:
			from, to = 0, -1
		case syntax.OpPlus:
			from, to = 1, -1
		case syntax.OpQuest:
			from, to = 0, 1
		}
		most = -1
		if hi == 0 || to == 0 {
			most = 0
		} else if hi > 0 && to > 0 {
			most = hi * to
		}
		return Repeat(part, from, to), lo * from, most, nil
	}
	return nil, 0, 0, fmt.Errorf("has %s in a place where it is not supported here", re.String())
}
