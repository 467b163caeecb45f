package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// TokenizeForm is one way of asking a server for the tokens of plain text.
type TokenizeForm struct {
	Path string
	// Body holds the text under Field, and Fixed beside it.
	Field string
	Fixed map[string]any
	// Answer names the list of tokens in the reply; empty: "tokens".
	Answer string
}

// Forms that several engines have.
var (
	LlamaForm  = TokenizeForm{Path: "/tokenize", Field: "content", Fixed: map[string]any{"add_special": false, "parse_special": false}}
	VLLMForm   = TokenizeForm{Path: "/tokenize", Field: "prompt", Fixed: map[string]any{"add_special_tokens": false}}
	PythonForm = TokenizeForm{Path: "/extras/tokenize", Field: "input"}
)

// patience is how long the tokens of a long text may take.
const patience = 60 * time.Second

// Encoder returns a function that asks the server for the tokens of a text, or
// an error when the server has no such endpoint. Tokens that the server puts
// before every text (a BOS) are taken off.
func (t *Target) Encoder(ctx context.Context) (func(text string) ([]int32, error), error) {
	var errs []error
	for _, form := range t.Adapter.TokenizeForms() {
		const sample = "The sun was up."
		empty, _ := t.tokens(ctx, form, "", false) // refused by some: then nothing is taken off
		ids, err := t.tokens(ctx, form, sample, false)
		switch {
		case err != nil:
			errs = append(errs, err)
			continue
		case len(ids) <= len(empty):
			errs = append(errs, fmt.Errorf("POST %s: %d tokens for %q", form.Path, len(ids), sample))
			continue
		}
		return func(text string) ([]int32, error) {
			ids, err := t.tokens(ctx, form, text, false)
			if err != nil {
				return nil, err
			}
			if len(ids) < len(empty) {
				return nil, fmt.Errorf("POST %s: fewer tokens than for an empty text", form.Path)
			}
			return ids[len(empty):], nil
		}, nil
	}
	if len(errs) == 0 {
		return nil, fmt.Errorf("%s has no endpoint that gives the tokens of a text", t.Adapter.Name())
	}
	return nil, errors.Join(errs...)
}

func (t *Target) tokens(ctx context.Context, form TokenizeForm, text string, special bool) ([]int32, error) {
	body := map[string]any{form.Field: text}
	for k, v := range form.Fixed {
		body[k] = v
	}
	if _, ok := body["parse_special"]; ok {
		body["parse_special"] = special
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	a, err := t.ask(ctx, http.MethodPost, form.Path, data, patience)
	if err != nil {
		return nil, err
	}
	if a.Status != http.StatusOK {
		return nil, fmt.Errorf("POST %s: status %d: %s", form.Path, a.Status, inWords(a.Body))
	}
	name := form.Answer
	if name == "" {
		name = "tokens"
	}
	var out map[string]json.RawMessage
	if err := json.Unmarshal(a.Body, &out); err != nil {
		return nil, fmt.Errorf("POST %s: %w", form.Path, err)
	}
	var ids []int32
	if err := json.Unmarshal(out[name], &ids); err != nil || ids == nil {
		return nil, fmt.Errorf("POST %s: the answer has no list %q of tokens", form.Path, name)
	}
	return ids, nil
}

// Rendered is a prompt as the server's chat template makes it.
type Rendered struct {
	Text        string
	BeforeNonce int // tokens of what precedes the nonce
}

// Render asks the server for the prompt of a chat, which encodes to the fields of a
// request for it, and counts the tokens before the nonce.
func (t *Target) Render(ctx context.Context, chat any, nonce string) (Rendered, error) {
	if !t.Adapter.Template() {
		return Rendered{}, fmt.Errorf("%s has no endpoint that renders its chat template", t.Adapter.Name())
	}
	data, err := json.Marshal(chat)
	if err != nil {
		return Rendered{}, err
	}
	a, err := t.ask(ctx, http.MethodPost, "/apply-template", data, patience)
	if err != nil {
		return Rendered{}, err
	}
	if a.Status != http.StatusOK {
		return Rendered{}, fmt.Errorf("POST /apply-template: status %d: %s", a.Status, inWords(a.Body))
	}
	var out struct {
		Prompt string `json:"prompt"`
	}
	if err := json.Unmarshal(a.Body, &out); err != nil {
		return Rendered{}, fmt.Errorf("POST /apply-template: %w", err)
	}
	before, _, ok := strings.Cut(out.Prompt, nonce)
	if !ok {
		return Rendered{}, fmt.Errorf("POST /apply-template: the rendered prompt does not hold the nonce")
	}
	ids, err := t.tokens(ctx, LlamaForm, before, true)
	if err != nil {
		return Rendered{}, err
	}
	return Rendered{out.Prompt, len(ids)}, nil
}
