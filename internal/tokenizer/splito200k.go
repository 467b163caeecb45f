package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// splitO200k cuts a text by the rule of o200k, which gpt-oss has. It is that of
// the cl100k family, but that words are cut where a small letter is followed by
// a capital, contractions belong to the word before, and a slash may follow signs
// as a line end does. UPPER is [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], LOWER is
// [\p{Ll}\p{Lm}\p{Lo}\p{M}]:
//
//	[^\r\n\p{L}\p{N}]?UPPER*LOWER+(contraction)?
//	[^\r\n\p{L}\p{N}]?UPPER+LOWER*(contraction)?
//	\p{N}{1,3} |  ?[^\s\p{L}\p{N}]+[\r\n/]* | \s*[\r\n]+ | \s+(?!\S) | \s+
//
// llama.cpp takes only ASCII's letters for small and capital ones, and no marks;
// this is the model's own rule.
func splitO200k(text string, word func(string)) {
	for at := 0; at < len(text); {
		end := o200kEnd(text, at)
		word(text[at:end])
		at = end
	}
}

func o200kEnd(s string, at int) int {
	c, size := classAt(s, at)
	next := at + size
	// Each alternative is tried behind a sign first, then at the letters
	// themselves: a mark may be either.
	for _, letters := range []func(s string, at int) int{smallEnd, capitalEnd} {
		if c != letter && c != number && !isNewline(s[at]) {
			if end := letters(s, next); end > 0 {
				return withContraction(s, end)
			}
		}
		if end := letters(s, at); end > 0 {
			return withContraction(s, end)
		}
	}
	switch {
	case c == number:
		return digitsEnd(s, next, 2)
	case isNewline(s[at]):
		return spaceEnd(s, at)
	}
	if s[at] == ' ' && next < len(s) {
		if second, more := classAt(s, next); second == other {
			c, next = second, next+more
		}
	}
	if c != other {
		return spaceEnd(s, at)
	}
	next = family{}.runEnd(s, next, other)
	for next < len(s) && (isNewline(s[next]) || s[next] == '/') {
		next++
	}
	return next
}

// smallEnd is UPPER*LOWER+: where the letters that start at s[at] end, 0 when it
// does not match.
func smallEnd(s string, at int) int {
	end, both := at, 0 // both: the end of the last letter that LOWER could take back
	for end < len(s) {
		upper, lower, size := caseAt(s, end)
		if !upper {
			break
		}
		end += size
		if lower {
			both = end
		}
	}
	if small := lowerEnd(s, end); small > end {
		return small
	}
	return both
}

// capitalEnd is UPPER+LOWER*.
func capitalEnd(s string, at int) int {
	end := at
	for end < len(s) {
		upper, _, size := caseAt(s, end)
		if !upper {
			break
		}
		end += size
	}
	if end == at {
		return 0
	}
	return lowerEnd(s, end)
}

// lowerEnd is LOWER*.
func lowerEnd(s string, at int) int {
	for at < len(s) {
		_, lower, size := caseAt(s, at)
		if !lower {
			break
		}
		at += size
	}
	return at
}

// withContraction adds a contraction to a word.
func withContraction(s string, end int) int {
	if end < len(s) && s[end] == '\'' {
		if n := contraction(s[end+1:]); n > 0 {
			return end + 1 + n
		}
	}
	return end
}

// caseAt says whether the code point at s[at:] is of UPPER, of LOWER, or both.
func caseAt(s string, at int) (upper, lower bool, size int) {
	if b := s[at]; b < utf8.RuneSelf {
		return b >= 'A' && b <= 'Z', b >= 'a' && b <= 'z', 1
	}
	c, size := classAt(s, at)
	r, _ := utf8.DecodeRuneInString(s[at:])
	switch {
	case c == letter && unicode.Is(unicode.Ll, r):
		return false, true, size
	case c == letter && (unicode.Is(unicode.Lu, r) || unicode.Is(unicode.Lt, r)):
		return true, false, size
	case c == letter, unicode.Is(unicode.M, r):
		return true, true, size
	}
	return false, false, size
}
