package runner

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

// Tokens is what can turn text into the model's tokens: its tokenizer, read from
// a GGUF file, or the server that is measured.
type Tokens struct {
	Name   string         // whose tokenizer it is, for rows
	Encode prompt.Encoder // nil: unknown, because of Why
	Why    string
	// Piece gives a token's bytes; nil when the server does the encoding.
	Piece func(id int32) []byte
	// Prompt counts the tokens of the chat prompt of one user message, and of what
	// precedes the nonce in it. It is nil when the template is not known.
	Prompt func(content, nonce string) (PromptSize, error)
}

// PromptSize is a rendered chat prompt in tokens.
type PromptSize struct {
	Total       *int // nil: not known
	BeforeNonce int
}

// FromGGUF reads tokenizer and chat template of a model file. name is how rows
// call it.
func FromGGUF(f *gguf.File, name string) (*Tokens, error) {
	tok, err := tokenizer.New(f)
	if err != nil {
		return nil, err
	}
	t := &Tokens{
		Name: name,
		Encode: func(text string) ([]int32, error) {
			return tok.Encode(text, tokenizer.Options{}), nil
		},
		Piece: tok.Piece,
	}
	template, err := chat.FromGGUF(f)
	if errors.Is(err, gguf.ErrMissing) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	t.Prompt = func(content, nonce string) (PromptSize, error) {
		return promptSize(tok, template, content, nonce)
	}
	return t, nil
}

// promptSize renders the chat prompt of one user message as a server does.
func promptSize(tok *tokenizer.Tokenizer, template *chat.Template, content, nonce string) (PromptSize, error) {
	messages, err := json.Marshal([]map[string]string{{"role": "user", "content": content}})
	if err != nil {
		return PromptSize{}, err
	}
	text, err := template.Render(chat.Input{Messages: messages, AddGenerationPrompt: true})
	if err != nil {
		return PromptSize{}, err
	}
	before, _, ok := strings.Cut(text, nonce)
	if !ok {
		return PromptSize{}, fmt.Errorf("the chat template leaves the nonce out")
	}
	options := tokenizer.Options{AddSpecial: true, ParseSpecial: true}
	if bos, ok := tok.BOS(); ok && strings.HasPrefix(text, string(tok.Piece(bos))) {
		options.AddSpecial = false // the template has put it there itself
	}
	total := len(tok.Encode(text, options))
	return PromptSize{Total: &total, BeforeNonce: len(tok.Encode(before, options))}, nil
}
