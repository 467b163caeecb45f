package hfjinja

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

// Text as Python handles it.

func capitalize(s string) string {
	chars := []rune(strings.ToLower(s))
	if len(chars) > 0 {
		chars[0] = unicode.ToTitle(chars[0])
	}
	return string(chars)
}

// title is str.title: a word is a run of letters.
func title(s string) string {
	inWord := false
	return strings.Map(func(c rune) rune {
		was := inWord
		inWord = unicode.IsLetter(c)
		if was {
			return unicode.ToLower(c)
		}
		return unicode.ToTitle(c)
	}, s)
}

// titleFilter is Jinja2's title: words end at blanks, hyphens and opening
// brackets.
func titleFilter(s string) string {
	first := true
	return strings.Map(func(c rune) rune {
		was := first
		first = isSpace(c) || strings.ContainsRune("-({[<", c)
		if was {
			return unicode.ToUpper(c)
		}
		return unicode.ToLower(c)
	}, s)
}

func isUpper(s string) bool { return strings.ToUpper(s) == s && strings.ToLower(s) != s }
func isLower(s string) bool { return strings.ToLower(s) == s && strings.ToUpper(s) != s }

// splitLines is str.splitlines: no empty line after the last newline.
func splitLines(s string) []string {
	var lines []string
	for s != "" {
		i := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if i < 0 {
			return append(lines, s)
		}
		lines = append(lines, s[:i])
		size := 1
		if strings.HasPrefix(s[i:], "\r\n") {
			size = 2
		} else if s[i] >= 0x80 {
			_, size = utf8.DecodeRuneInString(s[i:])
		}
		s = s[i+size:]
	}
	return lines
}

var word = regexp.MustCompile(`[\pL\pN_]+`)

func wordCount(r *run, x value, _ []value) (value, error) {
	s, err := r.string(x)
	return jinja.NewInt(int64(len(word.FindAllStringIndex(s, -1)))), err
}
