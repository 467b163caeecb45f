package tokenizer

import (
	"os"
	"strings"
	"testing"
	"time"
)

const book = "../kit/prompt/corpus/austen-pride-and-prejudice.txt"

// One long word is where merging could take quadratic time: minutes for a
// megabyte. It takes a quarter of a second; the limit is for machines that are
// busy with other things.
func TestLongRunsAreFast(t *testing.T) {
	size, most := 1<<20, 20*time.Second
	if testing.Short() {
		size = 1 << 16
	}
	check := func(t *testing.T, tok *Tokenizer, units ...string) {
		for _, unit := range units {
			text := strings.Repeat(unit, size/len(unit))
			start := time.Now()
			ids := tok.Encode(text, Options{ParseSpecial: true})
			took := time.Since(start)
			t.Logf("%d bytes of %q: %v", size, unit, took)
			if took > most {
				t.Errorf("%d bytes of %q took %v, want under %v", size, unit, took, most)
			}
			if got := tok.Decode(ids, true); got != text {
				t.Errorf("%d bytes of %q come back as %d bytes", size, unit, len(got))
			}
		}
	}
	t.Run("builtin", func(t *testing.T) { check(t, builtin(t), "a", " ", "\n", "ab", "\uFFFD", "<", "<|im_start|>", "' ") })
	t.Run("qwen2", func(t *testing.T) { check(t, qwen2(t), "a", " ", "\n") })
}

func benchmarkEncode(b *testing.B, tok *Tokenizer) {
	text, err := os.ReadFile(book)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		tok.Encode(string(text), Options{ParseSpecial: true})
	}
}

func BenchmarkEncode(b *testing.B) {
	b.Run("builtin", func(b *testing.B) { benchmarkEncode(b, builtin(b)) })
	b.Run("qwen2", func(b *testing.B) { benchmarkEncode(b, qwen2(b)) })
}

func BenchmarkEncodeOneLetter(b *testing.B) {
	tok, text := builtin(b), strings.Repeat("a", 1<<20)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		tok.Encode(text, Options{})
	}
}
