package prompt

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"assay/internal/gguf"
	"assay/internal/tokenizer"
	"assay/models/seedling"
)

// seedlingEncoder is the built-in model's own tokenizer.
var seedlingEncoder = sync.OnceValue(func() Encoder {
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		panic(err)
	}
	t, err := tokenizer.New(f)
	if err != nil {
		panic(err)
	}
	return func(text string) ([]int32, error) { return t.Encode(text, tokenizer.Options{}), nil }
})

// groups is a tokenizer of another kind, whose tokens are words of up to four
// bytes with the space or line feed before them, and digits in threes: it joins
// the blank line with what follows, so that not every paragraph can be a start.
func groups(text string) ([]int32, error) {
	var ids []int32
	for len(text) > 0 {
		n := 1
		for n < len(text) && n < 4 && text[n] != ' ' && text[n] != '\n' && isDigit(text[n]) == isDigit(text[n-1]) && (n < 3 || !isDigit(text[0])) {
			n++
		}
		ids = append(ids, int32(n))
		text = text[n:]
	}
	return ids, nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func TestSliceIsExact(t *testing.T) {
	for name, encode := range map[string]Encoder{"seedling": seedlingEncoder(), "groups": groups} {
		m := NewMaker(Books(), encode, "")
		for _, want := range []int{1, 2, 17, 64, 512, 2000, 4096} {
			for index := range 4 {
				s, err := m.Slice(want, index)
				if err != nil {
					t.Errorf("%s: slice %d of %d: %v", name, index, want, err)
					continue
				}
				ids, err := encode(s.Text)
				if err != nil || len(ids) != want || s.Tokens != want {
					t.Errorf("%s: slice %d of %d has %d tokens, says %d", name, index, want, len(ids), s.Tokens)
				}
				if s.Text != strings.TrimSpace(s.Text) || !utf8.ValidString(s.Text) {
					t.Errorf("%s: slice %d of %d is not trimmed text: %q...%q", name, index, want, s.Text[:8], s.Text[max(len(s.Text)-8, 0):])
				}
			}
		}
	}
}

// Whatever is asked for, nonce and slice keep their counts when joined, every
// nonce has the same number of tokens, and no prompt comes twice.
func TestPromptProperties(t *testing.T) {
	m := NewMaker(Books(), seedlingEncoder(), "")
	nonceTokens, seen := 0, map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.IntRange(1, 600).Draw(t, "want")
		index := rapid.IntRange(0, 1000).Draw(t, "index")
		s, err := m.Slice(want, index)
		if err != nil {
			t.Fatal(err)
		}
		again, err := m.Slice(want, index)
		if err != nil || again != s {
			t.Fatalf("the same slice twice: %v, %q and %q", err, s.SHA256, again.SHA256)
		}
		p, err := m.Prompt(s)
		if err != nil {
			t.Fatal(err)
		}
		ids, err := seedlingEncoder()(p.Text)
		if err != nil || len(ids) != p.NonceTokens+want || p.Tokens != len(ids) {
			t.Fatalf("%d tokens in the prompt, %d in the nonce, %d in the slice", len(ids), p.NonceTokens, want)
		}
		if nonceTokens == 0 {
			nonceTokens = p.NonceTokens
		}
		if p.NonceTokens != nonceTokens {
			t.Fatalf("a nonce of %d tokens after one of %d", p.NonceTokens, nonceTokens)
		}
		if !strings.HasPrefix(p.Text, p.Nonce+"\n\n"+s.Text[:1]) || !strings.HasSuffix(p.Text, s.Text) {
			t.Fatalf("prompt %q", p.Text[:40])
		}
		if seen[p.SHA256()] {
			t.Fatal("the same prompt twice")
		}
		seen[p.SHA256()] = true
	})
}

// The slices of a plan lie far apart, so that no two share text.
func TestSlicesDiffer(t *testing.T) {
	m := NewMaker(Books(), seedlingEncoder(), "")
	var all []Slice
	for index := range 12 {
		s, err := m.Slice(2000, index)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			if o.SHA256 == s.SHA256 || strings.Contains(o.Text, s.Text[:200]) || strings.Contains(s.Text, o.Text[:200]) {
				t.Errorf("slices %s and %s overlap", o.Source, s.Source)
			}
		}
		all = append(all, s)
	}
}

// A slice begins with a paragraph. It ends with a word, but where the word's end
// would be a token too many.
func TestSliceEnds(t *testing.T) {
	m := NewMaker(Books(), seedlingEncoder(), "")
	words := 0
	for index := range 20 {
		s, err := m.Slice(100, index)
		if err != nil {
			t.Fatal(err)
		}
		body := Books().body
		at := strings.Index(body, s.Text)
		if at > 0 && body[at-2:at] != "\n\n" {
			t.Errorf("slice %d begins after %q", index, body[at-2:at])
		}
		end := at + len(s.Text)
		if isSpace(body[end]) {
			words++
			continue
		}
		for !isSpace(body[end]) {
			end++
		}
		if ids, _ := seedlingEncoder()(body[at:end]); len(ids) == 100 {
			t.Errorf("slice %d ends within %q, which would have fitted", index, body[end-12:end])
		}
	}
	if words == 0 {
		t.Error("no slice ends with a word")
	}
}

func TestWithoutTokenizer(t *testing.T) {
	m := NewMaker(Books(), nil, "the server has no /tokenize")
	s, err := m.Slice(512, 3)
	if err != nil {
		t.Fatal(err)
	}
	if s.Tokens != 0 || s.WhyInexact != "the server has no /tokenize" || len(s.Text) < 2000 || len(s.Text) > 2400 {
		t.Errorf("%d tokens, %d bytes, why %q", s.Tokens, len(s.Text), s.WhyInexact)
	}
	p, err := m.Prompt(s)
	if err != nil || p.Tokens != 0 || !strings.HasPrefix(p.Text, "Ticket ") {
		t.Errorf("%+v, %v", p.Tokens, err)
	}
}

// A text shorter than what is asked for is read again from its beginning.
func TestShortText(t *testing.T) {
	text, err := NewText("mine.txt", "One day.\r\n\r\nAnother day, longer — é.\n\nA third.")
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewMaker(text, seedlingEncoder(), "").Slice(500, 1)
	if err != nil {
		t.Fatal(err)
	}
	if ids, _ := seedlingEncoder()(s.Text); len(ids) != 500 || !strings.HasPrefix(s.Source, "mine.txt@") {
		t.Errorf("%d tokens from %s", len(ids), s.Source)
	}
	if _, err := NewText("empty.txt", " \n"); err == nil || !strings.Contains(err.Error(), "empty.txt: no text") {
		t.Errorf("an empty text: %v", err)
	}
}

func TestSliceErrors(t *testing.T) {
	broken := errors.New("the server hung up")
	for _, c := range []struct {
		name        string
		encode      Encoder
		want, index int
		err         string
	}{
		{"no tokens", groups, 0, 0, "want 1 to"},
		{"negative index", groups, 1, -1, "index -1 is negative"},
		{"tokenizer fails", func(string) ([]int32, error) { return nil, broken }, 10, 0, "hung up"},
		{"tokenizer of no language", func(string) ([]int32, error) { return nil, nil }, 10, 0, "can't be the right one"},
		{"one token for all", func(string) ([]int32, error) { return []int32{1}, nil }, 10, 0, "can't be the right one"},
		{"only even counts", func(s string) ([]int32, error) {
			ids, _ := groups(s)
			return append(ids, ids...), nil
		}, 11, 0, "exactly that many tokens of 11"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := NewMaker(Books(), c.encode, "").Slice(c.want, c.index)
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

func TestCounts(t *testing.T) {
	for s, want := range map[string]int{
		"512": 512, "2K": 2000, "4Ki": 4096, "1.5K": 1500, "128K": 128000, "1M": 1000000, "1Mi": 1 << 20, " 64 ": 64,
	} {
		if n, err := ParseCount(s); err != nil || n != want {
			t.Errorf("ParseCount(%q) = %d, %v; want %d", s, n, err, want)
		}
	}
	for s, want := range map[string]string{
		"": "no number", "K": "no number", "4k": "only suffixes", "-4": "negative", "0": "less than one", "0.5": "less than one",
		"1.0005K": "not whole", "1..5": "does not parse", "9999M": "more than", "4 K": "only suffixes", "1e3": "only suffixes",
	} {
		if _, err := ParseCount(s); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "want 512, 4K") {
			t.Errorf("ParseCount(%q): %v; want %q", s, err, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, MaxCount).Draw(t, "n")
		if back, err := ParseCount(FormatCount(n)); err != nil || back != n {
			t.Fatalf("%d is written %q and read %d, %v", n, FormatCount(n), back, err)
		}
	})
}
