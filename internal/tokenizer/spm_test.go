package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// pieces is a SentencePiece vocabulary: <unk>, <s>, </s>, the bytes, and the given
// tokens, of which an earlier one has the higher score.
func pieces(texts ...string) vocab {
	v := vocab{set: map[string]any{keyModel: "llama", keyUNK: uint32(0)}, drop: []string{keyMerges, keyPre}}
	var scores []float32
	add := func(text string, typ int32, score float32) {
		v.tokens, v.types, scores = append(v.tokens, text), append(v.types, typ), append(scores, score)
	}
	add("<unk>", 2, 0)
	add("<s>", 3, 0)
	add("</s>", 3, 0)
	for c := range 256 {
		add(fmt.Sprintf("<0x%02X>", c), 6, 0)
	}
	for i, text := range texts {
		add(text, 1, -float32(i))
	}
	v.set[keyScores] = scores
	return v
}

func TestSentencePiece(t *testing.T) {
	v := pieces("▁", "a", "b", "c", "ab", "▁ab", "bc", "abc", "é")
	const first = 3 + 256
	id := func(text string) int32 { return int32(slices.Index(v.tokens, text)) }
	for _, tt := range []struct {
		text   string
		change func(*vocab)
		opt    Options
		want   []int32
	}{
		// ab has the best score, then ▁ab; abc can no longer be made.
		{"abc", nil, Options{}, []int32{id("▁ab"), id("c")}},
		{"abc", func(v *vocab) { v.set[keyPrefix] = false }, Options{}, []int32{id("abc")}},
		{" abc", nil, Options{}, []int32{id("▁"), id("▁ab"), id("c")}},
		{"é", nil, Options{}, []int32{id("▁"), id("é")}},
		{"ñ", nil, Options{}, []int32{id("▁"), 3 + 0xC3, 3 + 0xB1}}, // no token: its bytes
		{"a", nil, Options{AddSpecial: true}, []int32{1, id("▁"), id("a")}},
		{"a", func(v *vocab) { v.set[keyAddBOS] = false }, Options{AddSpecial: true}, []int32{id("▁"), id("a")}},
		{"<s>a", nil, Options{ParseSpecial: true}, []int32{1, id("▁"), id("a")}},
		{"", nil, Options{}, nil},
	} {
		w := v
		w.set = map[string]any{}
		for k, x := range v.set {
			w.set[k] = x
		}
		if tt.change != nil {
			tt.change(&w)
		}
		if got := w.load(t).Encode(tt.text, tt.opt); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %v, want %v", tt.text, got, tt.want)
		}
	}
	tok := v.load(t)
	if got := string(tok.Piece(first + 5)); got != " ab" {
		t.Errorf("piece %q", got)
	}
	if bos, ok := tok.BOS(); !ok || bos != 1 {
		t.Errorf("BOS %d, %v: SentencePiece's own when the file names none", bos, ok)
	}
}

// White space behind Phi-3's special tokens belongs to them.
func TestTokensThatTakeWhiteSpace(t *testing.T) {
	v := pieces("▁", "a", "x")
	v.tokens, v.types = append(v.tokens, "<|user|>"), append(v.types, 3)
	v.set[keyScores] = append(v.set[keyScores].([]float32), 0)
	user := int32(len(v.tokens) - 1)
	blanks := func() int {
		return len(v.load(t).Encode("<|user|> \n a", Options{ParseSpecial: true}))
	}
	if got := blanks(); got != 6 {
		t.Errorf("%d tokens, want <|user|>, ▁, ▁, the line end, ▁, a", got)
	}
	v.set[keyName] = "Phi-3-mini"
	if got := v.load(t).Encode("<|user|> \n a", Options{ParseSpecial: true}); len(got) != 3 || got[0] != user {
		t.Errorf("%v, want <|user|>, ▁, a", got)
	}
}

// The merges are those of a search for the best pair, again and again.
func TestSentencePieceAgreesWithSearch(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pool := []string{"▁", "a", "b", "é"}
		for range rapid.IntRange(0, 30).Draw(rt, "tokens") {
			text := rapid.SampledFrom(pool).Draw(rt, "left") + rapid.SampledFrom(pool).Draw(rt, "right")
			if !slices.Contains(pool, text) && len(text) < 40 {
				pool = append(pool, text)
			}
		}
		pool = rapid.Permutation(pool).Draw(rt, "order")
		v := pieces(pool...)
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abé ñ")), 0, 60, -1).Draw(rt, "text")
		var want []int32
		var parts []string
		if text != "" {
			for _, r := range "▁" + strings.ReplaceAll(text, " ", "▁") {
				parts = append(parts, string(r))
			}
		}
		rank := func(s string) int { return slices.Index(pool, s) } // the lower the better
		for {
			at := -1
			for i := range len(parts) - 1 {
				if k := rank(parts[i] + parts[i+1]); k >= 0 && (at < 0 || k < rank(parts[at]+parts[at+1])) {
					at = i
				}
			}
			if at < 0 {
				break
			}
			parts = slices.Replace(parts, at, at+2, parts[at]+parts[at+1])
		}
		for _, p := range parts {
			if k := rank(p); k >= 0 {
				want = append(want, int32(3+256+k))
				continue
			}
			for _, b := range []byte(p) {
				want = append(want, 3+int32(b))
			}
		}
		tok := v.load(t)
		got := tok.Encode(text, Options{})
		if !slices.Equal(got, want) {
			rt.Fatalf("%q: %v, want %v (tokens %q)", text, got, want, pool)
		}
		if back := strings.TrimPrefix(tok.Decode(got, false), " "); text != "" && back != text {
			rt.Fatalf("%q comes back as %q", text, back)
		}
	})
}
