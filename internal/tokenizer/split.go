package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// The rule of Qwen2 by which text is cut into words, within which bytes are
// merged. The first alternative that matches at a place takes as much as it can:
//
//	'[sS] | '[tT] | '[rR][eE] | '[vV][eE] | '[mM] | '[lL][lL] | '[dD]
//	[^\r\n\p{L}\p{N}]?\p{L}+
//	\p{N}
//	 ?[^\s\p{L}\p{N}]+[\r\n]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+

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

// wordEnd returns where the word that starts at s[at] ends. at < len(s).
func wordEnd(s string, at int) int {
	if s[at] == '\'' {
		if n := contraction(s[at+1:]); n > 0 {
			return at + 1 + n
		}
	}
	first, size := classAt(s, at)
	next := at + size
	switch {
	case first == letter:
		return runEnd(s, next, letter)
	case first == number:
		return next
	case isNewline(s[at]):
		return spaceEnd(s, at)
	}
	// Anything else may stand before letters, a blank before other signs.
	second := space
	if next < len(s) {
		second, size = classAt(s, next)
	}
	switch {
	case second == letter:
		return runEnd(s, next+size, letter)
	case first == other, s[at] == ' ' && second == other:
		return newlinesEnd(s, runEnd(s, next, other))
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
func runEnd(s string, at int, c class) int {
	for at < len(s) {
		k, size := classAt(s, at)
		if k != c {
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
