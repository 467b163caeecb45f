package tokenizer

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"assay/internal/gguf"
)

// FuzzEncode: any bytes encode to ids in range that decode to the text as far
// as it is UTF-8, and special tokens cut a text where it may be cut.
func FuzzEncode(f *testing.F) {
	for _, text := range []string{
		"", "Hello, world!", "  \n\n 'll 3.14", "你好🙂", "a\xffb\xf4\x90\x80\x80", "\xed\xa0\x80",
		"<|im_start|>user\nhi<|im_end|>", strings.Repeat("ab", 100),
	} {
		f.Add([]byte(text))
	}
	tok := builtin(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, o := range []Options{{}, {ParseSpecial: true}, {AddSpecial: true}} {
			ids := tok.Encode(string(text), o)
			for _, id := range ids {
				if !tok.valid(id) {
					t.Fatalf("id %d is out of range", id)
				}
			}
			var pieces []byte
			for _, id := range ids {
				pieces = append(pieces, tok.Piece(id)...)
			}
			// Whether a special token's text lies in an overlong form or not,
			// what comes out is what llama.cpp's reading of the text is.
			if want := normalize(string(text)); string(pieces) != want && utf8.Valid(text) {
				t.Fatalf("%+v: %q became %q", o, want, pieces)
			}
			if !utf8.ValidString(tok.Decode(ids, true)) {
				t.Fatalf("%+v: the decoded text is not UTF-8", o)
			}
		}
	})
}

// FuzzLoad: arrays of tokens, types and merges that don't fit together give an
// error or a tokenizer that works. Lines are separated by a line feed.
func FuzzLoad(f *testing.F) {
	f.Add("a\nb\nab\n<|im_end|>", []byte{1, 1, 1, 3}, "a b", uint32(3), uint32(3), "abc<|im_end|>")
	f.Add("a\na", []byte{1}, "a", uint32(9), uint32(0), "a")
	f.Add("<0x41>\n<a\n<a>\n><", []byte{6, 4, 4, 4}, "", uint32(0), uint32(1), "<a><a>")
	f.Add("a\naa\naaa", []byte{1, 1, 1}, "a aa\naa a\na a", uint32(0), uint32(1), "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	f.Fuzz(func(t *testing.T, tokens string, types []byte, merges string, bos, eos uint32, text string) {
		typ := make([]int32, len(types))
		for i, x := range types {
			typ[i] = int32(int8(x))
		}
		b := gguf.NewBuilder()
		b.Set(keyModel, "gpt2")
		b.Set(keyPre, "qwen2")
		b.Set(keyTokens, strings.Split(tokens, "\n"))
		b.Set(keyTypes, typ)
		b.Set(keyMerges, slices.DeleteFunc(strings.Split(merges, "\n"), func(s string) bool { return s == "" }))
		b.Set(keyBOS, bos)
		b.Set(keyEOS, eos)
		b.Set(keyAddBOS, bos%2 == 0)
		b.Set(keyAddEOS, eos%2 == 0)
		var file bytes.Buffer
		if _, err := b.WriteTo(&file); err != nil {
			t.Fatal(err)
		}
		loadAndUse(t, file.Bytes(), text)
	})
}

// FuzzLoadFile is the same for a file's bytes.
func FuzzLoadFile(f *testing.F) {
	v := base([]string{"a b", "ab c"}, typed{"<|im_end|>", 3}, typed{"<0x0A>", 6}, typed{"<tool>", 4})
	v.set[keyEOS] = uint32(258)
	b := gguf.NewBuilder()
	for k, x := range map[string]any{keyModel: "gpt2", keyPre: "qwen2", keyTokens: v.tokens, keyTypes: v.types, keyMerges: v.merges, keyEOS: uint32(258)} {
		b.Set(k, x)
	}
	var file bytes.Buffer
	if _, err := b.WriteTo(&file); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes(), "abc <tool><|im_end|>")
	f.Fuzz(loadAndUse)
}

func loadAndUse(t *testing.T, file []byte, text string) {
	g, err := gguf.Parse("fuzz.gguf", file)
	if err != nil {
		return
	}
	tok, err := New(g)
	if err != nil {
		if !strings.HasPrefix(err.Error(), "fuzz.gguf: ") {
			t.Fatalf("error doesn't name the file: %v", err)
		}
		return
	}
	use(t, tok, text)
}

// use encodes and decodes a text, whole and in a stream.
func use(t *testing.T, tok *Tokenizer, text string) {
	t.Helper()
	for _, o := range []Options{{}, {AddSpecial: true, ParseSpecial: true}} {
		ids := tok.Encode(text, o)
		s := tok.Stream(true)
		var streamed strings.Builder
		for _, id := range ids {
			if !tok.valid(id) || tok.Piece(id) == nil {
				t.Fatalf("id %d is out of range", id)
			}
			streamed.WriteString(s.Push(id))
		}
		streamed.WriteString(s.Flush())
		if whole := tok.Decode(ids, true); whole != streamed.String() || !utf8.ValidString(whole) {
			t.Fatalf("streamed %q, decoded whole %q", streamed.String(), whole)
		}
	}
	for _, id := range tok.EOG() {
		if !tok.IsEOG(id) || !tok.valid(id) {
			t.Fatalf("EOG() has %d", id)
		}
	}
}
