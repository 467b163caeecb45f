package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// The family of rules that began with cl100k, by which text is cut into words,
// within which bytes are merged. The first alternative that matches at a place
// takes as much as it can; {1,n} and what stands in angle brackets differ:
//
//	'[sS] | '[tT] | '[rR][eE] | '[vV][eE] | '[mM] | '[lL][lL] | '[dD]
//	[^\r\n\p{L}\p{N}]?[\p{L}<\p{M}>]+
//	\p{N}{1,n}
//	 ?[^\s\p{L}<\p{M}>\p{N}]+[\r\n]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
type family struct {
	digits int  // n
	marks  bool // accents belong to letters
}

var (
	ruleQwen2  = family{digits: 1}
	ruleQwen35 = family{digits: 1, marks: true}
	ruleLlama3 = family{digits: 3}
)

// split cuts a text into words.
func (f family) split(text string, word func(string)) {
	for at := 0; at < len(text); {
		end := f.wordEnd(text, at)
		word(text[at:end])
		at = end
	}
}

// class is what the rule asks of a code point.
type class uint8

const (
	other  class = iota
	letter       // \p{L}
	number       // \p{N}
	space        // \s, which is White_Space: CR and LF, but not U+001C to U+001F
)

var asciiClass = func() (table [utf8.RuneSelf]class) {
	for r := range table {
		table[r] = slowClass(rune(r))
	}
	return table
}()

func slowClass(r rune) class {
	switch {
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	case r >= 0x2EBF0 && r <= 0x2EE5D:
		// CJK Unified Ideographs Extension I, of Unicode 15.1: llama.cpp's
		// tables have it, Go's (15.0) don't. A test fails when they change.
		return letter
	}
	return other
}

// classAt returns the class of the code point at s[at:] and its length. s is
// normalized; what Go's decoder refuses there is a surrogate.
func classAt(s string, at int) (c class, size int) {
	if b := s[at]; b < utf8.RuneSelf {
		return asciiClass[b], 1
	}
	r, size := utf8.DecodeRuneInString(s[at:])
	if r == utf8.RuneError {
		return other, 3 // U+FFFD itself is three bytes long too
	}
	return slowClass(r), size
}

// classAt is that of the family: what is no letter of it may still be a mark.
func (f family) classAt(s string, at int) (c class, size int) {
	c, size = classAt(s, at)
	if c == other && f.marks && s[at] >= utf8.RuneSelf && isMark(s[at:]) {
		c = letter
	}
	return c, size
}

// isMark says whether a text begins with an accent.
func isMark(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.Is(unicode.M, r)
}

// wordEnd returns where the word that starts at s[at] ends. at < len(s).
func (f family) wordEnd(s string, at int) int {
	if s[at] == '\'' {
		if n := contraction(s[at+1:]); n > 0 {
			return at + 1 + n
		}
	}
	first, size := f.classAt(s, at)
	next := at + size
	switch {
	case first == letter:
		return f.runEnd(s, next, letter)
	case first == number:
		return digitsEnd(s, next, f.digits-1)
	case isNewline(s[at]):
		return spaceEnd(s, at)
	}
	// Anything else may stand before letters, a blank before other signs.
	second := space
	if next < len(s) {
		second, size = f.classAt(s, next)
	}
	switch {
	case second == letter:
		return f.runEnd(s, next+size, letter)
	case first == other, s[at] == ' ' && second == other:
		return newlinesEnd(s, f.runEnd(s, next, other))
	}
	return spaceEnd(s, at)
}

// contraction returns how many bytes after an apostrophe belong to it.
func contraction(s string) int {
	if s == "" {
		return 0
	}
	// |0x20 makes ASCII capitals small and can't make these letters of
	// anything else.
	switch s[0] | 0x20 {
	case 's', 't', 'm', 'd':
		return 1
	case 'r', 'v':
		if len(s) > 1 && s[1]|0x20 == 'e' {
			return 2
		}
	case 'l':
		if len(s) > 1 && s[1]|0x20 == 'l' {
			return 2
		}
	}
	return 0
}

// runEnd returns where the code points of one class end.
func (f family) runEnd(s string, at int, c class) int {
	for at < len(s) {
		k, size := f.classAt(s, at)
		if k != c {
			break
		}
		at += size
	}
	return at
}

// digitsEnd returns where at most some more numbers end.
func digitsEnd(s string, at, most int) int {
	for range most {
		if at == len(s) {
			break
		}
		c, size := classAt(s, at)
		if c != number {
			break
		}
		at += size
	}
	return at
}

func newlinesEnd(s string, at int) int {
	for at < len(s) && isNewline(s[at]) {
		at++
	}
	return at
}

// spaceEnd is the rule's last three alternatives: up to the last newline of the
// white space; with none, all of it at the end of the text; else all but the
// last, which goes to the next word, unless it is the only one.
func spaceEnd(s string, at int) int {
	end, last, newline := at, at, -1
	for end < len(s) {
		c, size := classAt(s, end)
		if c != space {
			break
		}
		last, end = end, end+size
		if isNewline(s[last]) {
			newline = end
		}
	}
	switch {
	case newline >= 0:
		return newline
	case end == len(s) || last == at:
		return end
	}
	return last
}

func isNewline(b byte) bool { return b == '\n' || b == '\r' }
