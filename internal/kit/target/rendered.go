package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"assay/internal/kit/stream"
)

// ChatTokens is how many tokens the server makes of the prompt of a request, with
// the chat template around it, and who says so. The endpoint that tells it is asked
// first, then the server's template and its tokenizer. An error says that it has
// neither, or what they answered.
func (t *Target) ChatTokens(ctx context.Context, request []byte) (n int, how string, err error) {
	var errs []error
	if path := t.Adapter.InputTokens(); path != "" {
		if n, err = t.inputTokens(ctx, path, request); err == nil {
			return n, "the server's " + path, nil
		}
		errs = append(errs, err)
	}
	if !t.Adapter.Template() {
		return 0, "", errors.Join(append(errs, fmt.Errorf("%s has no endpoint that renders its chat template", t.Adapter.Name()))...)
	}
	if n, err = t.renderedTokens(ctx, request); err != nil {
		return 0, "", errors.Join(append(errs, err)...)
	}
	return n, "the server's template and tokenizer", nil
}

func (t *Target) inputTokens(ctx context.Context, path string, request []byte) (int, error) {
	a, err := t.ask(ctx, http.MethodPost, path, request, patience)
	if err != nil {
		return 0, err
	}
	var out struct {
		Tokens *int `json:"input_tokens"`
	}
	switch {
	case a.Status != http.StatusOK:
		return 0, fmt.Errorf("POST %s: status %d: %s", path, a.Status, inWords(a.Body))
	case json.Unmarshal(a.Body, &out) != nil || out.Tokens == nil || *out.Tokens < 1:
		return 0, fmt.Errorf("POST %s: the answer has no input_tokens: %s", path, clip(string(a.Body)))
	}
	return *out.Tokens, nil
}

// renderedTokens lets the server render the prompt, and tokenise what came of it,
// with what it puts before every text.
func (t *Target) renderedTokens(ctx context.Context, request []byte) (int, error) {
	a, err := t.ask(ctx, http.MethodPost, "/apply-template", request, patience)
	if err != nil {
		return 0, err
	}
	if a.Status != http.StatusOK {
		return 0, fmt.Errorf("POST /apply-template: status %d: %s", a.Status, inWords(a.Body))
	}
	var out struct {
		Prompt *string `json:"prompt"`
	}
	if err := json.Unmarshal(a.Body, &out); err != nil || out.Prompt == nil {
		return 0, fmt.Errorf("POST /apply-template: the answer has no prompt: %s", clip(string(a.Body)))
	}
	ids, err := t.tokens(ctx, LlamaForm, *out.Prompt, true)
	return len(ids), err
}

// UsageTokens is how many prompt tokens the server counts of a request for one
// token, which it has to read for that. It is for servers that tell it nowhere
// else, and comes before anything is measured.
func (t *Target) UsageTokens(ctx context.Context, a Ask) (int, error) {
	a.MaxTokens = 1
	body, err := t.Body(a)
	if err != nil {
		return 0, err
	}
	rec, err := t.streamed(ctx, body)
	if err != nil {
		return 0, err
	}
	if rec.Status != http.StatusOK {
		return 0, fmt.Errorf("POST %s: status %d: %s", t.Adapter.Endpoint(), rec.Status, inWords(rec.Body()))
	}
	kind, err := rec.KindOf()
	if err != nil {
		return 0, fmt.Errorf("POST %s: %w", t.Adapter.Endpoint(), err)
	}
	frames, err := stream.Frames(rec, kind)
	if err != nil {
		return 0, fmt.Errorf("POST %s: %w", t.Adapter.Endpoint(), err)
	}
	c := stream.Decode(frames)
	switch {
	case len(c.Errors) > 0:
		return 0, fmt.Errorf("POST %s: %s", t.Adapter.Endpoint(), c.Errors[0])
	case c.Usage == nil || c.Usage.Prompt == nil || *c.Usage.Prompt < 1:
		return 0, fmt.Errorf("POST %s: the stream tells no number of prompt tokens", t.Adapter.Endpoint())
	}
	return *c.Usage.Prompt, nil
}
