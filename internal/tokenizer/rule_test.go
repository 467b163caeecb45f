package tokenizer

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// written are the rules as they are written down, but for the alternatives with a
// look-ahead, which are done by hand.
var written = map[string]struct {
	label string
	rule  *regexp.Regexp
	loose bool // what nothing matches goes to the word before
}{
	"qwen35": {"qwen35", regexp.MustCompile(`^(?:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^` + white + `\p{L}\p{M}\p{N}]+[\r\n]*|[` + white + `]*[\r\n]+)`), false},
	"llama3": {"llama-bpe", regexp.MustCompile(`^(?:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^` + white + `\p{L}\p{N}]+[\r\n]*|[` + white + `]*[\r\n]+)`), false},
	"gpt2":   {"gpt-2", regexp.MustCompile(`^(?:'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^` + white + `\p{L}\p{N}]+)`), false},
	"o200k": {"gpt-4o", regexp.MustCompile(`^(?:[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|\p{N}{1,3}| ?[^` + white + `\p{L}\p{N}]+[\r\n/]*|[` + white + `]*[\r\n]+)`), false},
	"deepseek v3, after its first steps": {"", regexp.MustCompile("^(?:[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|[" + white + "]*[\\r\\n]+)"), true},
}

func (o *oracle) wordsBy(rule *regexp.Regexp, loose bool, text string) (words []string) {
	rest := "" // what nothing has matched, up to here
	for text != "" {
		word := rule.FindString(text)
		if word == "" {
			word = whiteRule.FindString(text)
			if _, last := utf8.DecodeLastRuneInString(word); word != text && len(word) > last {
				word = word[:len(word)-last]
			}
		}
		if word == "" && loose {
			_, size := utf8.DecodeRuneInString(text)
			rest, text = rest+text[:size], text[size:]
			continue
		}
		if rest != "" {
			words, rest = append(words, rest), ""
		}
		words, text = append(words, word), text[len(word):]
	}
	if rest != "" {
		words = append(words, rest)
	}
	return words
}

func splitBy(split splitter, text string) (words []string) {
	split(text, func(word string) { words = append(words, word) })
	return words
}

// ruleTexts are texts with what the rules beyond Qwen2's distinguish.
func ruleTexts() *rapid.Generator[string] {
	part := rapid.OneOf(texts(), rapid.SampledFrom([]string{
		"e\u0301", "\u0301", " \u0301", "ÉCOLE", "d'Été", "McDonald's", "HTMLParser", "ǅ", "ʰ", "ª", "中文abc", "ABC中文", "12345", "a/b//\n", "x'LLy", "'ll", "$USD", ".com", "€5", "©", "१२३४",
	}))
	return rapid.Map(rapid.SliceOfN(part, 0, 8), func(parts []string) string { return strings.Join(parts, "") })
}

func TestRulesAgreeWithWhatIsWritten(t *testing.T) {
	for name, w := range written {
		t.Run(name, func(t *testing.T) {
			split := splitV3
			if w.label != "" {
				split = rules[w.label].split
			}
			rapid.Check(t, func(rt *rapid.T) {
				// Extension I of CJK is a letter to llama.cpp's tables only.
				text := strings.Map(func(r rune) rune {
					if r >= 0x2EBF0 && r <= 0x2EE5D {
						return -1
					}
					return r
				}, normalize(ruleTexts().Draw(rt, "text")))
				if !utf8.ValidString(text) {
					rt.Skip("surrogates are nothing to Go's expressions")
				}
				if got, want := splitBy(split, text), (&oracle{}).wordsBy(w.rule, w.loose, text); !slices.Equal(got, want) {
					rt.Fatalf("%q has words\n%q, want\n%q", text, got, want)
				}
			})
		})
	}
}

func TestRules(t *testing.T) {
	for _, tt := range []struct {
		label, text string
		want        []string
	}{
		{"llama-bpe", "in 12345", []string{"in", " ", "123", "45"}},
		{"gpt-2", "don't DON'T 12345  x\n\n y", []string{"don", "'t", " DON", "'", "T", " 12345", " ", " x", "\n\n", " y"}},
		{"qwen35", "e\u0301te\u0301 12", []string{"e\u0301te\u0301", " ", "1", "2"}},
		{"gpt-4o", "HTMLParser's ÉCOLE a/b /\n", []string{"HTMLParser's", " ÉCOLE", " a", "/b", " /\n"}},
		{"gpt-4o", "camelCaseIs", []string{"camel", "Case", "Is"}},
		{"deepseek-coder", "x = 42;\n中文!", []string{"x", " = ", "4", "2", ";", "\n", "中文", "!"}},
		{"deepseek-v3", "a12345 .com 中文x", []string{"a", "123", "45", " .", "com", " ", "中文", "x"}},
		{"starcoder", "v12 a", []string{"v", "1", "2", " a"}},
	} {
		if got := splitBy(rules[tt.label].split, tt.text); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q has words\n%q, want\n%q", tt.label, tt.text, got, tt.want)
		}
	}
}

// No rule loses or adds a byte, and none makes an empty word.
func TestRulesKeepTheText(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := normalize(ruleTexts().Draw(rt, "text"))
		for label, r := range rules {
			words := splitBy(r.split, text)
			if strings.Join(words, "") != text || slices.Contains(words, "") {
				rt.Fatalf("%s: %q has words %q", label, text, words)
			}
		}
	})
}

// A word that is a token is that token under Llama 3's rule, though the merges
// lead elsewhere.
func TestWholeWords(t *testing.T) {
	for pre, want := range map[string]int{"llama-bpe": 1, "qwen2": 2} {
		v := base([]string{"a b"}, typed{"abc", 1})
		v.set[keyPre] = pre
		if got := v.load(t).Encode("abc", Options{}); len(got) != want {
			t.Errorf("%s: %v, want %d tokens", pre, got, want)
		}
	}
}
