// Package tokens turns text into a model's tokens, with the tokenizer and the
// chat template that a GGUF file holds, the tokenizer of a tokenizer.json, or by
// asking whoever has them.
package tokens

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"assay/internal/chat"
	"assay/internal/gguf"
	"assay/internal/kit/prompt"
	"assay/internal/tokenizer"
)

// Counter can turn text into the model's tokens: its tokenizer, read from a GGUF
// file or a tokenizer.json, or the server that is measured.
type Counter struct {
	Name   string         // whose tokenizer it is, for rows
	Encode prompt.Encoder // nil: unknown, because of Why
	Why    string
	// Piece gives a token's bytes; nil when the server does the encoding.
	Piece func(id int32) []byte
	// Prompt counts the tokens of a chat's prompt, and of what precedes the nonce in
	// it. It is nil when the template is not known.
	Prompt func(c Chat, nonce string) (Size, error)
}

// Chat is the part of a request that a chat template renders.
type Chat struct {
	Messages json.RawMessage            `json:"messages"`
	Kwargs   map[string]json.RawMessage `json:"chat_template_kwargs,omitempty"`
}

// Size is a rendered chat prompt in tokens.
type Size struct {
	Total       *int // nil: not known
	BeforeNonce int
}

// FromGGUF reads tokenizer and chat template of a model file. name is how rows
// call it.
func FromGGUF(f *gguf.File, name string) (*Counter, error) {
	tok, err := tokenizer.New(f)
	if err != nil {
		return nil, err
	}
	c := plain(tok, name)
	template, err := chat.FromGGUF(f)
	if errors.Is(err, gguf.ErrMissing) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	c.Prompt = func(c Chat, nonce string) (Size, error) {
		return sizeOf(tok, template, c, nonce)
	}
	return c, nil
}

// sizeOf renders a chat as a server does.
func sizeOf(tok *tokenizer.Tokenizer, template *chat.Template, c Chat, nonce string) (Size, error) {
	text, err := template.Render(chat.Input{Messages: c.Messages, Kwargs: c.Kwargs, AddGenerationPrompt: true})
	if err != nil {
		return Size{}, err
	}
	before, _, ok := strings.Cut(text, nonce)
	if !ok {
		return Size{}, fmt.Errorf("the chat template leaves the nonce out")
	}
	options := tokenizer.Options{AddSpecial: true, ParseSpecial: true}
	if bos, ok := tok.BOS(); ok && strings.HasPrefix(text, string(tok.Piece(bos))) {
		options.AddSpecial = false // the template has put it there itself
	}
	total := len(tok.Encode(text, options))
	return Size{Total: &total, BeforeNonce: len(tok.Encode(before, options))}, nil
}
