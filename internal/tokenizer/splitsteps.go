package tokenizer

import (
	"regexp"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Rules that cut in several steps: each cuts the pieces that the one before left,
// what it matches and what lies between. White space is Unicode's, which Go's \s
// is not.
const ws = `[\x09-\x0D\x{85}\p{Z}]`

const (
	// Letters and signs as DeepSeek's files list them.
	deepseekLetters = `A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\x{1F7D}ᾀ-ᾴᾶ-ᾼ\x{1FBE}ῂ-ῄῆ-ῌῐ-\x{1FD3}ῖ-\x{1FDB}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\x{2126}ℨ\x{212A}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃`
	deepseekSigns   = `!-/:-~！-／：-～‘-‟　-。`
	eastAsian       = `[一-龥ࠀ-一가-\x{D7FF}]+`
)

var (
	stepsDeepseekLLM = compileSteps(
		`[\r\n]`, ws+`?[`+deepseekLetters+`]+`, ws+`?[`+deepseekSigns+`]+`, ws+`+$`, eastAsian, `\p{N}+`,
	)
	stepsDeepseekCoder = compileSteps(
		`[\r\n]`, ws+`?\p{L}+`, ws+`?\p{P}+`, eastAsian, `\p{N}`,
	)
	stepsDeepseekV3 = compileSteps(`\p{N}{1,3}`, `[一-龥぀-ゟ゠-ヿ]+`)
	stepsDigits     = compileSteps(`\p{N}`)
)

type steps []*regexp.Regexp

// compileSteps compiles them when they are first asked for.
func compileSteps(patterns ...string) func() steps {
	return sync.OnceValue(func() steps {
		out := make(steps, len(patterns))
		for i, p := range patterns {
			out[i] = regexp.MustCompile(p)
		}
		return out
	})
}

// split cuts a text by the steps, and what they leave by a last rule, if any.
func (st steps) split(text string, last splitter, word func(string)) {
	if text == "" {
		return
	}
	if len(st) == 0 {
		if last == nil {
			word(text)
		} else {
			last(text, word)
		}
		return
	}
	at := 0
	for _, m := range st[0].FindAllStringIndex(text, -1) {
		st[1:].split(text[at:m[0]], last, word)
		st[1:].split(text[m[0]:m[1]], last, word)
		at = m[1]
	}
	st[1:].split(text[at:], last, word)
}

// splitV3 is the last step of DeepSeek's rule since V3: words may begin with one
// sign of ASCII, and signs are those of Unicode.
//
//	[!-/:-~][A-Za-z]+
//	[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
//	 ?[\p{P}\p{S}]+[\r\n]*
//	\s*[\r\n]+ | \s+(?!\S) | \s+
//
// What none of them matches stays together as one word.
func splitV3(text string, word func(string)) {
	from := 0 // of what no alternative has matched
	for at := 0; at < len(text); {
		end := v3End(text, at)
		if end == at {
			_, size := classAt(text, at)
			at += size
			continue
		}
		if from < at {
			word(text[from:at])
		}
		word(text[at:end])
		at, from = end, end
	}
	if from < len(text) {
		word(text[from:])
	}
}

func v3End(s string, at int) int {
	isSign := func(at int) (bool, int) {
		c, size := classAt(s, at)
		r, _ := utf8.DecodeRuneInString(s[at:])
		return c == other && (unicode.IsPunct(r) || unicode.IsSymbol(r)), size
	}
	letters := func(at int) int {
		for at < len(s) {
			c, size := classAt(s, at)
			if c != letter && !(c == other && isMark(s[at:])) {
				break
			}
			at += size
		}
		return at
	}
	sign, size := isSign(at)
	next := at + size
	if sign && s[at] < utf8.RuneSelf {
		end := next
		for end < len(s) && (s[end]|0x20) >= 'a' && (s[end]|0x20) <= 'z' {
			end++
		}
		if end > next {
			return end
		}
	}
	c, _ := classAt(s, at)
	if c != letter && !sign && !isNewline(s[at]) {
		if end := letters(next); end > next {
			return end
		}
	}
	if end := letters(at); end > at {
		return end
	}
	start := at
	if s[at] == ' ' && next < len(s) {
		start = next
	}
	end := start
	for end < len(s) {
		yes, size := isSign(end)
		if !yes {
			break
		}
		end += size
	}
	switch {
	case end > start:
		return newlinesEnd(s, end)
	case c == space:
		return spaceEnd(s, at)
	}
	return at
}
