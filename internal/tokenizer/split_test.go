package tokenizer

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"unicode/utf8"
)

// The classes of all code points are those of llama.cpp's tables (Unicode 15.1),
// of which the sum was made from that source. When Go's tables move on, this
// fails: slowClass then has to take back what they have more.
func TestClassesAreLlamaCpps(t *testing.T) {
	const want = "d30035ae5f30bff72060d4d5b4d6ef6a6b42c23ac351b235fe979db31866d6e6"
	classes := make([]byte, utf8.MaxRune+1)
	for r := range classes {
		classes[r] = byte(slowClass(rune(r)))
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(classes)); got != want {
		t.Errorf("sha256 of the classes is %s, want %s", got, want)
	}
}

func TestWords(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"Hello, world!", []string{"Hello", ",", " world", "!"}},
		{"I'm can't WE'LL", []string{"I", "'m", " can", "'t", " WE", "'LL"}},
		{"'super 'x '", []string{"'s", "uper", " '", "x", " '"}},
		{"'sx'TX'rex'VEx'mX'llx'dx", []string{"'s", "x", "'T", "X", "'re", "x", "'VE", "x", "'m", "X", "'ll", "x", "'d", "x"}},
		{"'r 're 'l", []string{"'r", " '", "re", " '", "l"}},
		{"3.14 42", []string{"3", ".", "1", "4", " ", "4", "2"}},
		{"x.y (z)", []string{"x", ".y", " (", "z", ")"}},
		{"a  b   ", []string{"a", " ", " b", "   "}},
		{"a \n\n  b", []string{"a", " \n\n", " ", " b"}},
		{"!\r\n\nx", []string{"!\r\n\n", "x"}},
		{"\tx\t\t!", []string{"\tx", "\t", "\t", "!"}},
		{"\u00a0x\u3000\u3000y", []string{"\u00a0x", "\u3000", "\u3000y"}},
		{"你好世界 12", []string{"你好世界", " ", "1", "2"}},
		{"e\u0301te\u0301", []string{"e", "\u0301te", "\u0301"}}, // a mark is no letter
		{"🙂🙂 🙂", []string{"🙂🙂", " 🙂"}},
		{"\U0002EBF0x", []string{"\U0002EBF0x"}}, // a letter since Unicode 15.1
		{"\x00\x1ca", []string{"\x00\x1c", "a"}}, // neither is white space
	} {
		var got []string
		for at := 0; at < len(tt.text); {
			end := ruleQwen2.wordEnd(tt.text, at)
			got, at = append(got, tt.text[at:end]), end
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q has words %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestNormalize(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "",
		"aé你🙂":                 "aé你🙂",
		"a\xffb":               "a\uFFFDb",
		"\xE4\xBD":             "\uFFFD\uFFFD",
		"\xC1\xA1":             "a", // overlong
		"\xE0\x81\xA1":         "a",
		"\xF0\x80\x81\xA1":     "a",
		"\xED\xA0\x80":         "\xED\xA0\x80", // a surrogate
		"\xED\xBF\xBF\xFF":     "\xED\xBF\xBF\uFFFD",
		"\xF4\x90\x80\x80":     "\uFFFD\uFFFD\uFFFD\uFFFD",
		"\xF8\x88\x80\x80\x80": "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD",
	} {
		if got := normalize(text); got != want {
			t.Errorf("normalize(% x) = % x, want % x", text, got, want)
		}
	}
}
