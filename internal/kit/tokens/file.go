package tokens

import (
	"path/filepath"
	"strings"

	"assay/internal/gguf"
	"assay/internal/tokenizer"
)

// FromFile reads the tokenizer of a file: of a Hugging Face tokenizer.json where
// its name ends in .json, else of a GGUF file. The former has no chat template,
// so Prompt is nil. name is how rows call it. The file isn't kept open.
func FromFile(path, name string) (*Counter, error) {
	if strings.EqualFold(filepath.Ext(path), ".json") {
		tok, err := tokenizer.Open(path)
		if err != nil {
			return nil, err
		}
		return plain(tok, name), nil
	}
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return FromGGUF(f, name)
}

// plain counts text, without a chat template.
func plain(tok *tokenizer.Tokenizer, name string) *Counter {
	return &Counter{
		Name: name,
		Encode: func(text string) ([]int32, error) {
			return tok.Encode(text, tokenizer.Options{}), nil
		},
		Piece: tok.Piece,
	}
}
