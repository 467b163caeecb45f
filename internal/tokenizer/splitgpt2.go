package tokenizer

import "strings"

// splitGPT2 cuts a text by the rule of GPT-2:
//
//	's | 't | 're | 've | 'm | 'll | 'd
//	 ?\p{L}+ |  ?\p{N}+ |  ?[^\s\p{L}\p{N}]+
//	\s+(?!\S) | \s+
func splitGPT2(text string, word func(string)) {
	for at := 0; at < len(text); {
		end := gpt2End(text, at)
		word(text[at:end])
		at = end
	}
}

func gpt2End(s string, at int) int {
	if s[at] == '\'' {
		// Capitals are no contractions here.
		if n := contraction(s[at+1:]); n > 0 && strings.ToLower(s[at+1:at+1+n]) == s[at+1:at+1+n] {
			return at + 1 + n
		}
	}
	c, size := classAt(s, at)
	next := at + size
	if s[at] == ' ' && next < len(s) {
		if second, more := classAt(s, next); second != space {
			c, next = second, next+more
		}
	}
	if c != space {
		return family{}.runEnd(s, next, c)
	}
	// White space: all of it at the end of the text; else all but the last, which
	// goes to the next word, unless it is the only one.
	end, last := at, at
	for end < len(s) {
		c, size := classAt(s, end)
		if c != space {
			break
		}
		last, end = end, end+size
	}
	if end == len(s) || last == at {
		return end
	}
	return last
}
