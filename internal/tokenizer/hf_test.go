package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/gguf"
	"assay/models/seedling"
)

// object is a JSON object that tests can spoil.
type object = map[string]any

// hfOf is the tokenizer.json of a vocabulary. As in real files, added tokens
// are not in model.vocab. With pairs, merges are ["a", "b"], else "a b".
func hfOf(tokens []string, types []int64, merges []string, pairs bool) object {
	vocab, added := object{}, []any{}
	for i, text := range tokens {
		if types[i] == 1 {
			vocab[text] = i
			continue
		}
		added = append(added, object{
			"id": i, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
			"normalized": false, "special": types[i] == 3,
		})
	}
	list := []any{}
	for _, m := range merges {
		if pairs {
			list = append(list, strings.Split(m, " "))
		} else {
			list = append(list, m)
		}
	}
	return object{
		"version": "1.0", "truncation": nil, "padding": nil,
		"added_tokens": added,
		"normalizer":   object{"type": "NFC"},
		"pre_tokenizer": object{"type": "Sequence", "pretokenizers": []any{
			object{"type": "Split", "pattern": object{"Regex": hfQwen2}, "behavior": "Isolated", "invert": false},
			object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
		}},
		"post_processor": object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
		"decoder":        object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
		"model": object{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": "",
			"end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
			"vocab": vocab, "merges": list,
		},
	}
}

// hfSmall is a small one: the bytes, "ab", a special and a plain added token.
func hfSmall() object {
	v := base([]string{"a b"}, typed{"<|im_end|>", 3}, typed{"<tool>", 4})
	types := make([]int64, len(v.types))
	for i, typ := range v.types {
		types[i] = int64(typ)
	}
	return hfOf(v.tokens, types, v.merges, false)
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// hfBuiltin is the tokenizer.json of the built-in model.
func hfBuiltin(t testing.TB, pairs bool) []byte {
	t.Helper()
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err1 := f.Strings(keyTokens)
	types, err2 := f.Ints(keyTypes)
	merges, err3 := f.Strings(keyMerges)
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	return marshal(t, hfOf(tokens, types, merges, pairs))
}

// A tokenizer.json of the built-in model's vocabulary gives llama.cpp's ids, as
// the GGUF file does, and the same bytes for each of them.
func TestJSONGivesTheIDsOfGGUF(t *testing.T) {
	var golden []struct {
		Text  string
		IDs   []int32
		Parse []int32 `json:"ids_parse_special"` // where it differs
	}
	readJSON(t, "tokenizer.json", &golden)
	want := builtin(t)
	for name, pairs := range map[string]bool{"merges as text": false, "merges as pairs": true} {
		t.Run(name, func(t *testing.T) {
			tok, err := FromJSON("tokenizer.json", hfBuiltin(t, pairs))
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range golden {
				if got := tok.Encode(g.Text, Options{}); !slices.Equal(got, g.IDs) {
					t.Errorf("Encode(%q) = %v, want %v", g.Text, got, g.IDs)
				}
				special := g.IDs
				if g.Parse != nil {
					special = g.Parse
				}
				if got := tok.Encode(g.Text, Options{ParseSpecial: true}); !slices.Equal(got, special) {
					t.Errorf("Encode(%q, ParseSpecial) = %v, want %v", g.Text, got, special)
				}
			}
			if tok.Size() != want.Size() {
				t.Fatalf("%d tokens, want %d", tok.Size(), want.Size())
			}
			for id := range int32(want.Size()) {
				if got, want := string(tok.Piece(id)), string(want.Piece(id)); got != want {
					t.Errorf("Piece(%d) = %q, want %q", id, got, want)
				}
				if tok.IsControl(id) != want.IsControl(id) {
					t.Errorf("IsControl(%d) = %t", id, tok.IsControl(id))
				}
			}
			if !slices.Equal(tok.EOG(), want.EOG()) {
				t.Errorf("EOG = %v, want %v", tok.EOG(), want.EOG())
			}
			if _, ok := tok.BOS(); ok {
				t.Error("a tokenizer.json names no BOS")
			}
		})
	}
}

// What real files have beside the plainest form.
func TestJSONMayVary(t *testing.T) {
	tests := []struct {
		name string
		vary func(file, model object)
	}{
		{"no normalizer", func(f, m object) { f["normalizer"] = nil }},
		{"no post-processor", func(f, m object) { delete(f, "post_processor") }},
		{"no dropout and affixes at all", func(f, m object) {
			delete(m, "dropout")
			delete(m, "continuing_subword_prefix")
			m["end_of_word_suffix"] = nil
		}},
		{"an unknown token that no byte needs", func(f, m object) { m["unk_token"] = "<tool>" }},
		{"an added token in the vocabulary too", func(f, m object) { m["vocab"].(object)["<tool>"] = 258 }},
		{"a gap between ids", func(f, m object) {
			f["added_tokens"].([]any)[1].(object)["id"] = 300
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := hfSmall()
			tt.vary(file, file["model"].(object))
			tok, err := FromJSON("tokenizer.json", marshal(t, file))
			if err != nil {
				t.Fatal(err)
			}
			tool := int32(258)
			if tok.Size() == 301 {
				tool = 300
			}
			// A plain added token is found in any text, a special one is not.
			got := tok.Encode("ab<tool>", Options{})
			if want := []int32{256, tool}; !slices.Equal(got, want) {
				t.Errorf("Encode = %v, want %v", got, want)
			}
			if !slices.Equal(tok.EOG(), []int32{257}) || tok.IsControl(tool) {
				t.Errorf("EOG = %v, <tool> is control: %t", tok.EOG(), tok.IsControl(tool))
			}
			if got := tok.Encode("<|im_end|>", Options{}); len(got) == 1 {
				t.Errorf("Encode without ParseSpecial = %v", got)
			}
		})
	}
}

func TestJSONErrorsNameFileAndField(t *testing.T) {
	steps := func(f object) []any { return f["pre_tokenizer"].(object)["pretokenizers"].([]any) }
	split := func(f object) object { return steps(f)[0].(object) }
	added := func(f object, i int) object { return f["added_tokens"].([]any)[i].(object) }
	tests := []struct {
		name  string
		spoil func(file, model object)
		want  []string // parts of the error
	}{
		{"other model", func(f, m object) { m["type"] = "Unigram" }, []string{"model.type", `"Unigram"`, `"BPE"`}},
		{"no model", func(f, m object) { delete(f, "model") }, []string{"model.type"}},
		{"model no object", func(f, m object) { f["model"] = 3 }, []string{`"model"`, "number", "an object"}},
		{"dropout", func(f, m object) { m["dropout"] = 0.1 }, []string{"model.dropout", "0.1"}},
		{"prefix", func(f, m object) { m["continuing_subword_prefix"] = "##" }, []string{"model.continuing_subword_prefix", `"##"`}},
		{"suffix", func(f, m object) { m["end_of_word_suffix"] = "</w>" }, []string{"model.end_of_word_suffix", `"</w>"`}},
		{"byte fallback", func(f, m object) { m["byte_fallback"] = true }, []string{"model.byte_fallback"}},
		{"unknown token for a byte", func(f, m object) {
			m["unk_token"] = "<unk>"
			delete(m["vocab"].(object), "x")
		}, []string{"model.unk_token", `"<unk>"`, "0x78"}},
		{"no vocabulary", func(f, m object) { delete(m, "vocab") }, []string{"model.vocab", "an object"}},
		{"vocabulary a list", func(f, m object) { m["vocab"] = []string{"a"} }, []string{"model.vocab", "an object"}},
		{"empty vocabulary", func(f, m object) { m["vocab"] = object{} }, []string{"model.vocab", "0 tokens"}},
		{"id no number", func(f, m object) { m["vocab"].(object)["a"] = "97" }, []string{"model.vocab", `"a"`, "whole number"}},
		{"id a list", func(f, m object) { m["vocab"].(object)["a"] = []int{97} }, []string{"model.vocab", `"a"`, "whole number"}},
		{"id not whole", func(f, m object) { m["vocab"].(object)["a"] = 9.5 }, []string{"model.vocab", `"a"`, "9.5"}},
		{"id negative", func(f, m object) { m["vocab"].(object)["a"] = -1 }, []string{"model.vocab", `"a"`, "-1"}},
		{"id huge", func(f, m object) { m["vocab"].(object)["a"] = 1 << 40 }, []string{"model.vocab", `"a"`, "1099511627776", "0 to"}},
		{"id past 64 bits", func(f, m object) { m["vocab"].(object)["a"] = json.Number("99999999999999999999") }, []string{"model.vocab", `"a"`}},
		{"an id twice", func(f, m object) { m["vocab"].(object)["a"] = 98 }, []string{"model.vocab", `"a"`, `"b"`, "98"}},
		{"empty token", func(f, m object) { m["vocab"].(object)[""] = 299 }, []string{"model.vocab", "299", "empty"}},
		{"no merges", func(f, m object) { delete(m, "merges") }, []string{"model.merges", "missing"}},
		{"merges no list", func(f, m object) { m["merges"] = "a b" }, []string{"model.merges", "string", "an array"}},
		{"merge without blank", func(f, m object) { m["merges"] = []any{"ab"} }, []string{"model.merges", "merge 0", `"ab"`}},
		{"merge of three", func(f, m object) { m["merges"] = []any{[]string{"a", "b", "c"}} }, []string{"model.merges", "merge 0"}},
		{"merge of nothing", func(f, m object) { m["merges"] = []any{[]string{"a", ""}} }, []string{"model.merges", "merge 0"}},
		{"merge null", func(f, m object) { m["merges"] = []any{nil} }, []string{"model.merges", "merge 0", "null"}},
		{"merge of no token", func(f, m object) { m["merges"] = []any{"a b", "a bc"} }, []string{"model.merges", "merge 1", `"bc" is not in model.vocab`}},
		{"merge to no token", func(f, m object) { m["merges"] = []any{[]string{"b", "c"}} }, []string{"model.merges", "merge 0", `"bc" is not in`}},
		{"long merge is cut", func(f, m object) { m["merges"] = []any{strings.Repeat("x", 1000)} }, []string{"model.merges", "... (1000 bytes)"}},
		{"other normalizer", func(f, m object) { f["normalizer"] = object{"type": "NFKC"} }, []string{"normalizer.type", `"NFKC"`, "NFC"}},
		{"no pre-tokenizer", func(f, m object) { f["pre_tokenizer"] = nil }, []string{"pre_tokenizer.type", "null", "Sequence"}},
		{"other pre-tokenizer", func(f, m object) { f["pre_tokenizer"] = object{"type": "ByteLevel"} }, []string{"pre_tokenizer.type", `"ByteLevel"`}},
		{"a step more", func(f, m object) {
			f["pre_tokenizer"].(object)["pretokenizers"] = append(steps(f), object{"type": "Digits"})
		}, []string{"pre_tokenizer.pretokenizers", "3 steps"}},
		{"another step", func(f, m object) { split(f)["type"] = "Digits" }, []string{"pre_tokenizer.pretokenizers[0].type", `"Digits"`}},
		{"other rule", func(f, m object) { split(f)["pattern"] = object{"Regex": `\p{N}{1,3}`} }, []string{"pattern.Regex", `\\p{N}{1,3}`, "qwen2", `\\p{N}|`}},
		{"text for a rule", func(f, m object) { split(f)["pattern"] = object{"String": " "} }, []string{"pattern.Regex", `""`, "qwen2"}},
		{"blanks removed", func(f, m object) { split(f)["behavior"] = "Removed" }, []string{"pretokenizers[0]", `"Removed"`}},
		{"rule inverted", func(f, m object) { split(f)["invert"] = true }, []string{"pretokenizers[0]", "invert true"}},
		{"blank in front", func(f, m object) { steps(f)[1].(object)["add_prefix_space"] = true }, []string{"pretokenizers[1].add_prefix_space"}},
		{"GPT-2's rule too", func(f, m object) { delete(steps(f)[1].(object), "use_regex") }, []string{"pretokenizers[1].use_regex"}},
		{"tokens around the text", func(f, m object) { f["post_processor"] = object{"type": "TemplateProcessing"} }, []string{"post_processor.type", "TemplateProcessing"}},
		{"other decoder", func(f, m object) { f["decoder"] = nil }, []string{"decoder.type", "ByteLevel"}},
		{"added without id", func(f, m object) { delete(added(f, 1), "id") }, []string{"added_tokens[1]", "id"}},
		{"added without text", func(f, m object) { added(f, 0)["content"] = "" }, []string{"added_tokens[0]", "content"}},
		{"added id huge", func(f, m object) { added(f, 0)["id"] = 1 << 31 }, []string{"added_tokens[0]", "2147483648"}},
		{"added id negative", func(f, m object) { added(f, 0)["id"] = -1 }, []string{"added_tokens[0]", "-1"}},
		{"added id no number", func(f, m object) { added(f, 0)["id"] = "x" }, []string{"added_tokens", "id", "a number"}},
		{"added id taken", func(f, m object) { added(f, 0)["id"] = 97 }, []string{"added_tokens[0]", `"a"`, "97"}},
		{"added with two ids", func(f, m object) { added(f, 0)["content"] = "a" }, []string{"added_tokens[0]", `"a"`, "97", "257"}},
		{"added twice", func(f, m object) { added(f, 1)["id"], added(f, 1)["content"] = 257, "<|im_end|>" }, []string{"added_tokens[1]", "twice"}},
		{"added as single word", func(f, m object) { added(f, 1)["single_word"] = true }, []string{"added_tokens[1].single_word", "<tool>"}},
		{"added takes blanks", func(f, m object) { added(f, 1)["lstrip"] = true }, []string{"added_tokens[1].lstrip"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := hfSmall()
			tt.spoil(file, file["model"].(object))
			_, err := FromJSON("dir/tokenizer.json", marshal(t, file))
			wantError(t, err, append(tt.want, "dir/tokenizer.json: ")...)
		})
	}
}

// What no Go map can say.
func TestJSONErrorsOfTheBytes(t *testing.T) {
	small := string(marshal(t, hfSmall()))
	tests := []struct{ name, data, want string }{
		{"nothing", "", "offset 0"},
		{"cut off", small[:len(small)/2], "offset"},
		{"more behind", small + "x", "offset"},
		{"a list", "[]", "an object"},
		{"null", "null", "model.type"},
		{"not UTF-8", strings.Replace(small, "version", "\xff", 1), "UTF-8"},
		{"a GGUF file", string(seedling.GGUF[:4096]), "want a tokenizer.json"},
		{"deep", strings.Repeat("[", 1<<20), "offset"},
		{"a token twice", strings.Replace(small, `"a":97`, `"a":97,"a":97`, 1), `token "a" is there twice`},
		{"a token with two ids", strings.Replace(small, `"a":97`, `"a":97,"a":299`, 1), `are both "a"`},
		{"long number", strings.Replace(small, `"dropout":null`, `"dropout":1e`+strings.Repeat("9", 1000), 1), "model.dropout"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := FromJSON("tokenizer.json", []byte(tt.data))
			wantError(t, err, "tokenizer.json: ", tt.want)
		})
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in: %v", part, err)
		}
	}
	if len(err.Error()) > 600 {
		t.Errorf("error of %d bytes: %v", len(err.Error()), err)
	}
}

func TestOpenJSON(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tokenizer.json")
	_, err := Open(path)
	wantError(t, err, path)
	_, err = Open(dir)
	wantError(t, err, dir, "no plain file")
	if err := os.WriteFile(path, marshal(t, hfSmall()), 0o644); err != nil {
		t.Fatal(err)
	}
	tok, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.Encode("ab", Options{}); !slices.Equal(got, []int32{256}) {
		t.Errorf("Encode(ab) = %v, want [256]", got)
	}
	// A file that is too large is given up before it is parsed. It has no blocks
	// on disk.
	huge := filepath.Join(dir, "huge.json")
	if err := os.WriteFile(huge, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, maxJSON+1); err != nil {
		t.Fatal(err)
	}
	_, err = Open(huge)
	wantError(t, err, huge, "more than 268435456 bytes")
}

// FuzzJSON: any bytes give an error that names the file, or a tokenizer that
// works.
func FuzzJSON(f *testing.F) {
	f.Add(marshal(f, hfSmall()), "abc <tool><|im_end|>")
	pairs := hfOf([]string{"a", "b", "ab", "<|im_end|>"}, []int64{1, 1, 1, 3}, []string{"a b"}, true)
	f.Add(marshal(f, pairs), "ab")
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0,"a":1}}}`), "")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		tok, err := FromJSON("fuzz.json", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "fuzz.json: ") {
				t.Fatalf("error doesn't name the file: %v", err)
			}
			return
		}
		use(t, tok, text)
	})
}
