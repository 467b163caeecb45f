package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// maxJSON bounds a tokenizer.json. The largest that models come with take about
// 35 MB.
const maxJSON = 256 << 20

// hfFile is what is read of a tokenizer.json, the format of Hugging Face's
// tokenizers library. Its truncation and padding are for training batches: they
// change no id of a text, so they are not read.
type hfFile struct {
	Added []hfAdded `json:"added_tokens"`
	// Normalizer may be NFC, which is not applied, as in llama.cpp: text is
	// encoded as it is. What models write is nearly always in NFC already.
	Normalizer    *hfStep `json:"normalizer"`
	PreTokenizer  *hfStep `json:"pre_tokenizer"`
	PostProcessor *hfStep `json:"post_processor"`
	Decoder       *hfStep `json:"decoder"`
	Model         hfModel `json:"model"`
}

// hfAdded is a token that is matched in the text as a whole.
type hfAdded struct {
	ID         *int64 `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Special    bool   `json:"special"`
}

// hfStep is a step before or after the model; which fields it has depends on
// its type.
type hfStep struct {
	Type           string   `json:"type"`
	PreTokenizers  []hfStep `json:"pretokenizers"` // Sequence
	Pattern        hfRegex  `json:"pattern"`       // Split
	Behavior       string   `json:"behavior"`      // Split
	Invert         bool     `json:"invert"`        // Split
	AddPrefixSpace *bool    `json:"add_prefix_space"`
	UseRegex       *bool    `json:"use_regex"` // absent is true
}

type hfRegex struct {
	Regex string
}

type hfModel struct {
	Type         string            `json:"type"`
	Vocab        json.RawMessage   `json:"vocab"`
	Merges       []json.RawMessage `json:"merges"`
	Dropout      *float64          `json:"dropout"`
	Unknown      *string           `json:"unk_token"`
	Prefix       *string           `json:"continuing_subword_prefix"`
	Suffix       *string           `json:"end_of_word_suffix"`
	ByteFallback bool              `json:"byte_fallback"`
	IgnoreMerges bool              `json:"ignore_merges"`
}

// Open reads the tokenizer.json at path; see FromJSON.
func Open(path string) (*Tokenizer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	// Whatever is no plain file might never end, or block when it is opened.
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is no plain file; want a tokenizer.json", path)
	}
	if info.Size() > maxJSON {
		return nil, tooLarge(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// It may have grown since.
	data, err := io.ReadAll(io.LimitReader(f, maxJSON+1))
	if err != nil {
		return nil, err
	}
	return FromJSON(path, data)
}

func tooLarge(name string) error {
	return fmt.Errorf("%s: takes more than %d bytes; want a tokenizer.json, none of which is as large", name, maxJSON)
}

// FromJSON reads a Hugging Face tokenizer.json; name is what errors call it.
// It gives the tokenizer that New gives for the GGUF file of the same model,
// except that such a file names no BOS and EOS: the tokens that end generation
// are known by their text only. Special added tokens are control tokens, other
// added ones are user-defined.
func FromJSON(name string, data []byte) (*Tokenizer, error) {
	if len(data) > maxJSON {
		return nil, tooLarge(name)
	}
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("%s: is not UTF-8; want a tokenizer.json", name)
	}
	h := &hfLoader{loader: loader{
		name: name, part: "field", tokensAt: "model.vocab", mergesAt: "model.merges",
		t: &Tokenizer{bos: none, eos: none},
	}}
	if err := h.parse(data, &h.file, ""); err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		h.checkModel, h.checkSteps, h.readVocab, h.readAdded, h.readMerges, h.readSpecial, h.makePieces,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	h.makeMatchers()
	return h.t, nil
}

// hfLoader reads a tokenizer.json.
type hfLoader struct {
	loader
	file hfFile
}

// parse decodes a part of the file; field is where it lies.
func (h *hfLoader) parse(data []byte, v any, field string) error {
	err := json.Unmarshal(data, v)
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%s: offset %d: %w; want the JSON of a tokenizer.json", h.name, syntax.Offset, err)
	case errors.As(err, &typ):
		if field == "" {
			field = typ.Field
		}
		return h.errorf(field, "is %s; want %s", quote(typ.Value), wanted(typ.Type))
	case err != nil:
		return h.errorf(field, "%v", err)
	}
	return nil
}

// wanted says in words what a field holds.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array"
	case reflect.Struct:
		return "an object"
	}
	return "a number"
}

// checkModel refuses what would make other ids of the same vocabulary.
func (h *hfLoader) checkModel() error {
	m := h.file.Model
	if m.Type != "BPE" {
		return h.errorf("model.type", "%s is not supported; supported is \"BPE\" (byte-level)", quote(m.Type))
	}
	if m.Dropout != nil && *m.Dropout != 0 {
		return h.errorf("model.dropout", "is %v; want null, as with it a text has no certain ids", *m.Dropout)
	}
	for _, f := range []struct {
		name  string
		value *string
	}{
		{"model.continuing_subword_prefix", m.Prefix},
		{"model.end_of_word_suffix", m.Suffix},
	} {
		if f.value != nil && *f.value != "" {
			return h.errorf(f.name, "%s is not supported; want null or \"\"", quote(*f.value))
		}
	}
	if m.ByteFallback {
		return h.errorf("model.byte_fallback", "true is not supported; want false")
	}
	h.t.rule.wholeWords = m.IgnoreMerges
	return nil
}

// readVocab reads an object of ids by token. It goes through it piece by piece,
// as a map would hide a token that is there twice.
func (h *hfLoader) readVocab() error {
	d := json.NewDecoder(bytes.NewReader(h.file.Model.Vocab))
	d.UseNumber()
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return h.errorf(h.tokensAt, "want an object of ids by token")
	}
	type entry struct {
		text string
		id   int64
	}
	var entries []entry
	for d.More() {
		// The file's syntax has been checked, so these don't fail.
		key, err := d.Token()
		if err != nil {
			return h.errorf(h.tokensAt, "%v", err)
		}
		value, err := d.Token()
		if err != nil {
			return h.errorf(h.tokensAt, "%v", err)
		}
		text, _ := key.(string)
		number, _ := value.(json.Number)
		id, err := strconv.ParseInt(number.String(), 10, 64)
		if err != nil {
			return h.errorf(h.tokensAt, "the id of token %s is %s; want a whole number", quote(text), quote(fmt.Sprint(value)))
		}
		if text == "" {
			return h.errorf(h.tokensAt, "the token of id %d is empty; want a text", id)
		}
		entries = append(entries, entry{text, id})
	}
	if len(entries) == 0 {
		return h.errorf(h.tokensAt, "0 tokens; want at least 1")
	}
	size := int64(0)
	for _, e := range entries {
		if err := h.checkID(h.tokensAt, e.text, e.id, len(entries)); err != nil {
			return err
		}
		size = max(size, e.id+1)
	}
	for i, a := range h.file.Added {
		field := fmt.Sprintf("added_tokens[%d]", i)
		if a.ID == nil || a.Content == "" {
			return h.errorf(field, "has no id or no content; want both")
		}
		if err := h.checkID(field, a.Content, *a.ID, len(entries)); err != nil {
			return err
		}
		size = max(size, *a.ID+1)
	}
	tokens := make([]string, size) // an id without a token is an empty one
	for _, e := range entries {
		if first := tokens[e.id]; first != "" && first != e.text {
			return h.errorf(h.tokensAt, "tokens %s and %s both have id %d; want one each", quote(first), quote(e.text), e.id)
		} else if first != "" {
			return h.errorf(h.tokensAt, "token %s is there twice; each may occur once", quote(e.text))
		}
		tokens[e.id] = e.text
	}
	if err := h.setTokens(tokens); err != nil {
		return err
	}
	h.t.attrs = make([]attr, size)
	for i, text := range tokens {
		if h.t.attrs[i] = normal; text == "" {
			h.t.attrs[i] = unused
		}
	}
	return nil
}

// checkID bounds an id, and so what is allocated, by what the file holds. Some
// files leave gaps between ids.
func (h *hfLoader) checkID(field, text string, id int64, entries int) error {
	most := 2*int64(entries+len(h.file.Added)) + 1024
	if id < 0 || id >= most {
		return h.errorf(field, "the id of token %s is %d; want 0 to %d in a file of %d tokens",
			quote(text), id, most-1, entries+len(h.file.Added))
	}
	return nil
}

// readAdded reads the added tokens, some of which the vocabulary may have too.
func (h *hfLoader) readAdded() error {
	for i, a := range h.file.Added {
		field := fmt.Sprintf("added_tokens[%d]", i)
		id := int32(*a.ID)
		for _, f := range []struct {
			name string
			on   bool
		}{{"single_word", a.SingleWord}, {"lstrip", a.LStrip}, {"rstrip", a.RStrip}} {
			if f.on {
				return h.errorf(field+"."+f.name, "true of token %s is not supported; want false", quote(a.Content))
			}
		}
		if had := h.tokens[id]; had != "" && had != a.Content {
			return h.errorf(field, "tokens %s and %s both have id %d; want one each", quote(had), quote(a.Content), id)
		}
		if first, ok := h.ids[a.Content]; ok && first != id {
			return h.errorf(field, "token %s has the ids %d and %d; want one", quote(a.Content), first, id)
		}
		if h.t.attrs[id]&(control|userDefined) != 0 {
			return h.errorf(field, "token %s is there twice; each may occur once", quote(a.Content))
		}
		h.tokens[id], h.ids[a.Content] = a.Content, id
		if h.t.attrs[id] = userDefined; a.Special {
			h.t.attrs[id] = control
		}
	}
	return nil
}

// readMerges reads pairs of tokens: two strings, or in older files one with a
// blank between the two.
func (h *hfLoader) readMerges() error {
	if h.file.Model.Merges == nil {
		return h.errorf(h.mergesAt, "is missing; want an array of merges")
	}
	err := h.setMerges(len(h.file.Model.Merges), func(i int) (left, right string, err error) {
		raw := h.file.Model.Merges[i]
		var line string
		if json.Unmarshal(raw, &line) == nil && line != "" {
			return h.splitMerge(i, line)
		}
		var pair []string
		if json.Unmarshal(raw, &pair) != nil || len(pair) != 2 || pair[0] == "" || pair[1] == "" {
			return "", "", h.errorf(h.mergesAt, "merge %d is %s; want \"a b\" or [\"a\", \"b\"]", i, quote(string(raw)))
		}
		return pair[0], pair[1], nil
	})
	if err != nil || h.file.Model.Unknown == nil {
		return err
	}
	for c, id := range h.t.bpe.byteID {
		if id == none {
			return h.errorf("model.unk_token", "%s is not supported in a vocabulary that lacks a byte, here 0x%02X",
				quote(*h.file.Model.Unknown), c)
		}
	}
	return nil
}
