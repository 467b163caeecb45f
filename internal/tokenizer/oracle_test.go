package tokenizer

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// An encoder as the rule is written down: words by regular expression, merges
// by looking for the lowest pair of texts again and again.
type oracle struct {
	ids   map[string]int32
	ranks map[string]int // "left right" -> rank
}

func newOracle(v vocab) *oracle {
	o := &oracle{ids: map[string]int32{}, ranks: map[string]int{}}
	for i, text := range v.tokens {
		o.ids[text] = int32(i)
	}
	for i, m := range v.merges {
		if _, ok := o.ranks[m]; !ok {
			o.ranks[m] = i
		}
	}
	return o
}

const white = `\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}`

var (
	// Go's expressions have no look-ahead, so the last two alternatives of the
	// rule are done by hand.
	wordRule = regexp.MustCompile(`^(?:(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])` +
		`|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^` + white + `\p{L}\p{N}]+[\r\n]*|[` + white + `]*[\r\n]+)`)
	whiteRule = regexp.MustCompile(`^[` + white + `]+`)
)

func (o *oracle) words(text string) (words []string) {
	for text != "" {
		word := wordRule.FindString(text)
		if word == "" {
			word = whiteRule.FindString(text)
			if _, last := utf8.DecodeLastRuneInString(word); word != text && len(word) > last {
				word = word[:len(word)-last]
			}
		}
		words, text = append(words, word), text[len(word):]
	}
	return words
}

func (o *oracle) encode(text string) (ids []int32) {
	for _, word := range o.words(text) {
		var symbols []string
		for _, c := range []byte(word) {
			symbols = append(symbols, string(byteRune[c]))
		}
		for {
			at, lowest := -1, len(o.ranks)+1<<20
			for i := range len(symbols) - 1 {
				if rank, ok := o.ranks[symbols[i]+" "+symbols[i+1]]; ok && rank < lowest {
					at, lowest = i, rank
				}
			}
			if at < 0 {
				break
			}
			symbols = slices.Replace(symbols, at, at+2, symbols[at]+symbols[at+1])
		}
		for _, s := range symbols {
			ids = append(ids, o.ids[s])
		}
	}
	return ids
}

// texts draws from what the rule distinguishes, with long words among it.
func texts() *rapid.Generator[string] {
	part := rapid.OneOf(
		rapid.SampledFrom([]string{
			"'s", "'T", "'m", "'D", "'RE", "'ve", "'lL", "'", "''x", " ", "  ", "\n", "\r\n", " \n ", "\t", "\u00a0", "\u3000", "\x00", "\x1c",
			"a", "the", " the", "Alice", "É", "你好", "1", "½", "٣", "!", "...", " (", "🙂", "e\u0301", "—", "\u200b",
		}),
		rapid.String(),
		rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 100, -1),
		rapid.StringOfN(rapid.RuneFrom([]rune(" \n\t!")), 0, 50, -1),
	)
	return rapid.Map(rapid.SliceOfN(part, 0, 12), func(parts []string) string { return strings.Join(parts, "") })
}

// vocabs draws merges at random: also such that make a pair of lower rank than
// their own, which a trained vocabulary never has.
func vocabs() *rapid.Generator[vocab] {
	return rapid.Custom(func(t *rapid.T) vocab {
		v := base(nil)
		pool := []string{"a", "b", "c", "Ġ", "!", "Ċ"}
		for range rapid.IntRange(0, 60).Draw(t, "merges") {
			left := rapid.SampledFrom(pool).Draw(t, "left")
			right := rapid.SampledFrom(pool).Draw(t, "right")
			v.merges = append(v.merges, left+" "+right)
			if !slices.Contains(pool, left+right) && len(left+right) < 40 {
				pool = append(pool, left+right)
			}
		}
		// A result that is no token, from the limit on the length above, would
		// be an error.
		v.merges = slices.DeleteFunc(v.merges, func(m string) bool {
			return !slices.Contains(pool, strings.Replace(m, " ", "", 1))
		})
		v.tokens = append(v.tokens, pool[6:]...)
		for range pool[6:] {
			v.types = append(v.types, 1)
		}
		// Ranks in another order than the tokens were made in.
		v.merges = rapid.Permutation(v.merges).Draw(t, "order")
		return v
	})
}

func TestEncodeAgreesWithOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := vocabs().Draw(rt, "vocabulary")
		tok, o := v.load(t), newOracle(v)
		text := texts().Draw(rt, "text")
		if got, want := tok.Encode(text, Options{}), o.encode(text); !slices.Equal(got, want) {
			rt.Fatalf("Encode(%q) = %v, want %v\nmerges %q", text, got, want, v.merges)
		}
	})
}

func TestWordsAgreeWithOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := texts().Draw(rt, "text")
		var got []string
		for at := 0; at < len(text); {
			end := ruleQwen2.wordEnd(text, at)
			got, at = append(got, text[at:end]), end
		}
		if want := (&oracle{}).words(text); !slices.Equal(got, want) {
			rt.Fatalf("%q has words %q, want %q", text, got, want)
		}
	})
}

// The built-in vocabulary: what is encoded comes back, in one go and streamed,
// for any bytes.
func TestRoundTrip(t *testing.T) {
	tok := builtin(t)
	rapid.Check(t, func(rt *rapid.T) {
		text := texts().Draw(rt, "text")
		if got := tok.Decode(tok.Encode(text, Options{}), false); got != text {
			rt.Fatalf("%q comes back as %q", text, got)
		}
	})
}

func TestStreamIsDecode(t *testing.T) {
	tok := builtin(t)
	id := rapid.OneOf(
		rapid.Int32Range(0, 255), // single bytes, mostly no UTF-8
		rapid.Int32Range(-2, int32(tok.Size())+2),
		rapid.Int32Range(4090, 4095),
	)
	rapid.Check(t, func(rt *rapid.T) {
		ids := rapid.SliceOf(id).Draw(rt, "ids")
		special := rapid.Bool().Draw(rt, "special")
		s := tok.Stream(special)
		var streamed strings.Builder
		for _, id := range ids {
			part := s.Push(id)
			if !utf8.ValidString(part) {
				rt.Fatalf("Push(%d) = %q is not UTF-8", id, part)
			}
			streamed.WriteString(part)
		}
		streamed.WriteString(s.Flush())
		if whole := tok.Decode(ids, special); streamed.String() != whole {
			rt.Fatalf("streamed %q, decoded whole %q", streamed.String(), whole)
		}
		// The same replacement as without streaming, byte by byte.
		if !utf8.ValidString(streamed.String()) {
			rt.Fatalf("%q is not UTF-8", streamed.String())
		}
	})
}
