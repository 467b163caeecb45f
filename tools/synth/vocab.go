package main

import (
	"fmt"
	"os"

	"assay/internal/gguf"
	"assay/models/seedling"
)

// vocabulary is the tokenizer's part of a model file.
type vocabulary struct {
	keys   []string
	values map[string]any
	tokens []string
	types  []int32
}

// Types of tokens in tokenizer.ggml.token_type.
const unusedToken = 5

// chooseVocabulary reads the vocabulary for n tokens: the one of file, or
// without one the built-in model's.
func chooseVocabulary(file string, n int) (*vocabulary, error) {
	var f *gguf.File
	var err error
	if file == "" {
		f, err = gguf.Parse(seedling.Name, seedling.GGUF)
	} else {
		f, err = gguf.Open(file)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	v, err := readVocabulary(f)
	if err == nil && len(v.tokens) > n {
		err = fmt.Errorf("%s has %d tokens, more than the %d of -vocab", f.Name(), len(v.tokens), n)
	}
	return v, err
}

// readVocabulary takes the keys that begin with "tokenizer." from f.
func readVocabulary(f *gguf.File) (*vocabulary, error) {
	v := &vocabulary{values: map[string]any{}}
	var err error
	if v.tokens, err = f.Strings("tokenizer.ggml.tokens"); err != nil {
		return nil, err
	}
	types, err := f.Ints("tokenizer.ggml.token_type")
	if err != nil {
		return nil, err
	}
	for _, t := range types {
		v.types = append(v.types, int32(t))
	}
	for _, key := range []string{"tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.chat_template"} {
		if s, err := f.String(key); err == nil {
			v.put(key, s)
		}
	}
	if merges, err := f.Strings("tokenizer.ggml.merges"); err == nil {
		v.put("tokenizer.ggml.merges", merges)
	}
	for _, key := range []string{"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.padding_token_id"} {
		if id, err := f.Uint(key); err == nil {
			v.put(key, uint32(id))
		}
	}
	if add, err := f.Bool("tokenizer.ggml.add_bos_token"); err == nil {
		v.put("tokenizer.ggml.add_bos_token", add)
	}
	return v, nil
}

func (v *vocabulary) put(key string, value any) {
	v.keys = append(v.keys, key)
	v.values[key] = value
}

// set writes the vocabulary, padded with unused tokens to n.
func (v *vocabulary) set(b *gguf.Builder, n int) {
	for _, key := range v.keys {
		b.Set(key, v.values[key])
	}
	tokens, types := v.tokens[:len(v.tokens):len(v.tokens)], v.types[:len(v.types):len(v.types)]
	for i := len(tokens); i < n; i++ {
		tokens, types = append(tokens, fmt.Sprintf("[PAD%d]", i)), append(types, unusedToken)
	}
	b.Set("tokenizer.ggml.tokens", tokens)
	b.Set("tokenizer.ggml.token_type", types)
}

// qwen2Vocabulary is where a checkout beside shared test data has Qwen2's
// vocabulary of 151,936 tokens.
var qwen2Vocabulary = []string{"../shared/data/vocab/ggml-vocab-qwen2.gguf", "../../shared/data/vocab/ggml-vocab-qwen2.gguf"}

// findVocabulary is the file to use for n tokens when none is named: Qwen2's for
// as many as it has, where it is there.
func findVocabulary(n int) string {
	if n < 151936 {
		return ""
	}
	for _, path := range qwen2Vocabulary {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}
