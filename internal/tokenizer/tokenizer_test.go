package tokenizer

import (
	"slices"
	"strings"
	"sync"
	"testing"
)

func equalIDs(a, b []int32) bool { return slices.Equal(a, b) }

func TestSpecialTokensInText(t *testing.T) {
	const normal, unknown, control, user, unused = 1, 2, 3, 4, 5
	v := base(nil,
		typed{"<|im_start|>", control}, typed{"<|im_end|>", control},
		typed{"<tool>", user}, typed{"<tool>x", user}, typed{"ol>yyyy", user},
		typed{"<unk>", unknown}, typed{"<spare>", unused}, typed{"<plain>", normal},
		typed{"<|fim_pad|>", user}, typed{"~~", user}, typed{"!!a", user}, typed{"a!!", user},
	)
	tok := v.load(t)
	// spell is the text as byte tokens.
	spell := func(text string) []string { return strings.Split(text, "") }
	tests := []struct {
		name, text string
		parse      bool
		want       []string
	}{
		{"control is plain text", "<|im_end|>", false, spell("<|im_end|>")},
		{"unless parsed", "<|im_end|>", true, []string{"<|im_end|>"}},
		{"in running text", "a<|im_start|>b", true, []string{"a", "<|im_start|>", "b"}},
		{"user-defined is found", "a<tool>b", false, []string{"a", "<tool>", "b"}},
		{"also when parsed", "a<tool>b", true, []string{"a", "<tool>", "b"}},
		{"the longer one counts", "<tool>x", false, []string{"<tool>x"}},
		{"even if it starts later", "<tool>yyyy", false, []string{"<", "t", "o", "ol>yyyy"}},
		{"of the same the first", "~~~", false, []string{"~~", "~"}},
		{"of equally long ones the lower id", "a!!a", false, []string{"a", "!!a"}},
		{"unknown is plain text", "<unk>", false, spell("<unk>")},
		{"unless parsed too", "<unk>", true, []string{"<unk>"}},
		{"unused is never found", "<spare>", true, spell("<spare>")},
		{"nor is a normal one", "<plain>", true, spell("<plain>")},
		{"user-defined that ends generation is control", "<|fim_pad|>", false, spell("<|fim_pad|>")},
		{"which parsing finds", "<|fim_pad|>", true, []string{"<|fim_pad|>"}},
		{"begun and not finished", "<|im_", true, spell("<|im_")},
		{"nothing but specials", "<tool><tool>", false, []string{"<tool>", "<tool>"}},
		{"empty", "", true, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tok.Encode(tt.text, Options{ParseSpecial: tt.parse})
			if want := v.ids(t, tt.want...); !equalIDs(got, want) {
				t.Errorf("Encode(%q) = %v, want %v", tt.text, got, want)
			}
			if back := tok.Decode(got, true); back != tt.text {
				t.Errorf("decodes to %q", back)
			}
		})
	}
}

// Special tokens cut the text before words are found: the space before one is
// at the end of its text, and letters after one don't take a sign before it.
func TestWordsEndAtSpecialTokens(t *testing.T) {
	v := base([]string{"Ġ Ġ", ". a"}, typed{"<tool>", 4})
	tok := v.load(t)
	for text, want := range map[string][]string{
		"a  b":        {"a", "Ġ", "Ġ", "b"},
		"a  <tool>":   {"a", "ĠĠ", "<tool>"},
		".a":          {".a"},
		".<tool>a":    {".", "<tool>", "a"},
		"<tool>  b":   {"<tool>", "Ġ", "Ġ", "b"},
		"  <tool>a  ": {"ĠĠ", "<tool>", "a", "ĠĠ"},
	} {
		if got, want := tok.Encode(text, Options{}), v.ids(t, want...); !equalIDs(got, want) {
			t.Errorf("Encode(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestAddSpecial(t *testing.T) {
	for _, tt := range []struct {
		name     string
		bos, eos any // of add_bos_token and add_eos_token; nil: absent
		want     []string
	}{
		{"absent: neither", nil, nil, []string{"a"}},
		{"both", true, true, []string{"<s>", "a", "<e>"}},
		{"BOS", true, false, []string{"<s>", "a"}},
		{"EOS", nil, true, []string{"a", "<e>"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := base(nil, typed{"<s>", 3}, typed{"<e>", 3})
			v.set[keyBOS], v.set[keyEOS] = uint32(v.id(t, "<s>")), uint32(v.id(t, "<e>"))
			if tt.bos != nil {
				v.set[keyAddBOS] = tt.bos
			}
			if tt.eos != nil {
				v.set[keyAddEOS] = tt.eos
			}
			tok := v.load(t)
			if got, want := tok.Encode("a", Options{AddSpecial: true}), v.ids(t, tt.want...); !equalIDs(got, want) {
				t.Errorf("with AddSpecial %v, want %v", got, want)
			}
			if got, want := tok.Encode("a", Options{}), v.ids(t, "a"); !equalIDs(got, want) {
				t.Errorf("without AddSpecial %v, want %v", got, want)
			}
			bos, ok := tok.BOS()
			if !ok || bos != v.id(t, "<s>") {
				t.Errorf("BOS() = %d, %v", bos, ok)
			}
			eos, ok := tok.EOS()
			if !ok || eos != v.id(t, "<e>") || !tok.IsEOG(eos) || tok.IsEOG(bos) {
				t.Errorf("EOS() = %d, %v; should end generation, as BOS should not", eos, ok)
			}
		})
	}
}

func TestNoBOSOrEOS(t *testing.T) {
	tok := base(nil).load(t)
	if id, ok := tok.BOS(); ok {
		t.Errorf("BOS() = %d, but the file names none", id)
	}
	if id, ok := tok.EOS(); ok {
		t.Errorf("EOS() = %d, but the file names none", id)
	}
	if ids := tok.EOG(); len(ids) != 0 {
		t.Errorf("EOG() = %v, want none", ids)
	}
}

func TestEndOfGeneration(t *testing.T) {
	tests := []struct {
		name   string
		others []typed
		set    map[string]string // key -> token
		want   []string
	}{
		{"by text", []typed{{"<|im_end|>", 3}, {"<|im_start|>", 3}, {"<|endoftext|>", 3}}, nil, []string{"<|im_end|>", "<|endoftext|>"}},
		{"by key", []typed{{"<stop>", 3}, {"<turn>", 3}, {"<msg>", 3}}, map[string]string{
			keyEOS: "<stop>", "tokenizer.ggml.eot_token_id": "<turn>", "tokenizer.ggml.eom_token_id": "<msg>",
		}, []string{"<stop>", "<turn>", "<msg>"}},
		{"whatever the type", []typed{{"<|eot_id|>", 1}, {"<end_of_turn>", 4}}, nil, []string{"<|eot_id|>", "<end_of_turn>"}},
		{"of code models", []typed{{"<|fim_pad|>", 4}, {"<|repo_name|>", 4}, {"<|file_sep|>", 4}, {"<|fim_middle|>", 4}}, nil, []string{"<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"}},
		{"a key goes before the text", []typed{{"<|fim_pad|>", 4}, {"<p>", 3}}, map[string]string{"tokenizer.ggml.fim_pad_token_id": "<p>"}, []string{"<p>"}},
		{"parts of an answer", []typed{{"<|end|>", 3}, {"<|return|>", 3}, {"<|call|>", 3}, {"<|start|>", 3}}, nil, []string{"<|return|>", "<|call|>"}},
		{"also so", []typed{{"<|end|>", 3}, {"<|flush|>", 3}, {"<|calls|>", 3}}, nil, []string{"<|flush|>", "<|calls|>"}},
		{"<|end|> alone", []typed{{"<|end|>", 3}, {"<|call|>", 3}}, nil, []string{"<|end|>", "<|call|>"}},
		{"</s> of text", []typed{{"</s>", 1}, {"<|tool_response>", 3}}, nil, []string{"<|tool_response>"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := base(nil, tt.others...)
			for key, text := range tt.set {
				v.set[key] = uint32(v.id(t, text))
			}
			tok := v.load(t)
			want := v.ids(t, tt.want...)
			slices.Sort(want)
			if got := tok.EOG(); !equalIDs(got, want) {
				t.Errorf("EOG() = %v, want %v", got, want)
			}
			for id := int32(-2); int(id) < tok.Size()+2; id++ {
				if tok.IsEOG(id) != slices.Contains(want, id) {
					t.Errorf("IsEOG(%d) = %v", id, tok.IsEOG(id))
				}
			}
		})
	}
}

func TestBuiltinModel(t *testing.T) {
	tok := builtin(t)
	const endoftext, imStart, imEnd = 4093, 4094, 4095 // MODEL.md
	if tok.Size() != 4096 {
		t.Errorf("Size() = %d", tok.Size())
	}
	if got := tok.EOG(); !equalIDs(got, []int32{endoftext, imEnd}) {
		t.Errorf("EOG() = %v", got)
	}
	if eos, ok := tok.EOS(); !ok || eos != imEnd {
		t.Errorf("EOS() = %d, %v", eos, ok)
	}
	if !tok.IsControl(imStart) || tok.IsControl(imStart-2) {
		t.Error("control tokens start at <|endoftext|>")
	}
	if p := string(tok.Piece(imStart)); p != "<|im_start|>" {
		t.Errorf("Piece(%d) = %q", imStart, p)
	}
}

func TestPiece(t *testing.T) {
	v := base([]string{"Ġ a"}, typed{"Ġ", 3}, typed{"<0x0a>", 6}, typed{"[PAD]", 5}, typed{"你Ġa", 1}, typed{"odd", 99})
	v.tokens[' '] = "no blank" // so that a control token may have its text
	v.merges = nil
	tok := v.load(t)
	for id, want := range map[int32]string{
		0xC3:                "\xC3", // half a character
		'\n':                "\n",
		v.id(t, "Ġa"):       " a",
		v.id(t, "Ġ"):        "Ġ", // a control token's text is itself
		v.id(t, "<0x0a>"):   "\n",
		v.id(t, "你Ġa"):      "你 a",
		v.id(t, "odd"):      "",
		v.id(t, "no blank"): "no blank",
	} {
		if got := tok.Piece(id); string(got) != want || got == nil {
			t.Errorf("Piece(%d) = %q, want %q", id, got, want)
		}
	}
	for _, id := range []int32{-1, -1 << 31, int32(tok.Size()), 1<<31 - 1} {
		if got := tok.Piece(id); got != nil {
			t.Errorf("Piece(%d) = %q, want nil", id, got)
		}
		if tok.IsControl(id) || tok.IsEOG(id) || tok.Decode([]int32{id}, true) != "" {
			t.Errorf("token %d is out of range and should be nothing", id)
		}
	}
}

func TestDecode(t *testing.T) {
	v := base(nil, typed{"<|im_end|>", 3}, typed{"<unk>", 2}, typed{"<tool>", 4})
	tok := v.load(t)
	ids := v.ids(t, "a", "<|im_end|>", "<unk>", "<tool>", "b")
	if got := tok.Decode(ids, false); got != "a<tool>b" {
		t.Errorf("Decode = %q", got)
	}
	if got := tok.Decode(ids, true); got != "a<|im_end|><unk><tool>b" {
		t.Errorf("Decode with special = %q", got)
	}
	if got := tok.Decode(nil, true); got != "" {
		t.Errorf("Decode of nothing = %q", got)
	}
}

// The replacement of invalid bytes, and what a stream shows when.
func TestStreamHoldsBackIncompleteUTF8(t *testing.T) {
	tok := base(nil).load(t) // id = byte
	tests := []struct {
		bytes string
		want  []string // what each byte shows, and Flush
	}{
		{"aé", []string{"a", "", "é", ""}},
		{"€", []string{"", "", "€", ""}},
		{"🙂!", []string{"", "", "", "🙂", "!", ""}},
		{"\xE2\x82", []string{"", "", "\uFFFD"}},
		{"\xE2\x82a", []string{"", "", "\uFFFDa", ""}},
		{"\xE2\x82\xE2\x82\xAC", []string{"", "", "\uFFFD", "", "€", ""}},
		{"\xF0\x9F\x99", []string{"", "", "", "\uFFFD"}},
		{"\x80\xBF", []string{"\uFFFD", "\uFFFD", ""}},
		{"\xFF", []string{"\uFFFD", ""}},
		{"\xC0\x80", []string{"\uFFFD", "\uFFFD", ""}},                             // overlong
		{"\xE0\x80\x80", []string{"", "\uFFFD\uFFFD", "\uFFFD", ""}},               // overlong
		{"\xED\xA0\x80", []string{"", "\uFFFD\uFFFD", "\uFFFD", ""}},               // a surrogate
		{"\xF4\x90\x80\x80", []string{"", "\uFFFD\uFFFD", "\uFFFD", "\uFFFD", ""}}, // past U+10FFFF
		{"\xF4\x8F\xBF\xBF", []string{"", "", "", "\U0010FFFF", ""}},
	}
	for _, tt := range tests {
		s := tok.Stream(false)
		var got []string
		var ids []int32
		for _, b := range []byte(tt.bytes) {
			ids = append(ids, int32(b))
			got = append(got, s.Push(int32(b)))
		}
		got = append(got, s.Flush())
		if !slices.Equal(got, tt.want) {
			t.Errorf("% x shows %q, want %q", tt.bytes, got, tt.want)
		}
		if whole := tok.Decode(ids, false); whole != strings.Join(tt.want, "") {
			t.Errorf("% x decodes to %q, want %q", tt.bytes, whole, strings.Join(tt.want, ""))
		}
		if s.Flush() != "" || s.Push('x') != "x" {
			t.Errorf("after % x the stream is not as new", tt.bytes)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	tok := builtin(t)
	texts := []string{"Alice was beginning to get very tired", strings.Repeat("b", 500), "<|im_start|>user\n你好", "a\xffb"}
	want := make([][]int32, len(texts))
	for i, text := range texts {
		want[i] = tok.Encode(text, Options{ParseSpecial: true})
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 200 {
				k := i % len(texts)
				got := tok.Encode(texts[k], Options{ParseSpecial: true})
				if !slices.Equal(got, want[k]) {
					t.Errorf("Encode(%q) = %v, want %v", texts[k], got, want[k])
				}
				s := tok.Stream(true)
				for _, id := range got {
					s.Push(id)
				}
				s.Flush()
			}
		})
	}
	wg.Wait()
}
