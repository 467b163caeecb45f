package target

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Ask is one completion to ask for. Nil sampling values are left to the server.
type Ask struct {
	Prompt      string // content of the one user message
	MaxTokens   int
	Temperature *float64
	Seed        *int64
	// IgnoreEOS asks for exactly MaxTokens: the engine must go on past end tokens.
	IgnoreEOS bool
}

// ChatPath is where completions are asked for.
const ChatPath = "/v1/chat/completions"

// ChatBody is a request of OpenAI's API for a streamed chat, with what that API
// has and no more.
func ChatBody(a Ask, model string) map[string]any {
	body := map[string]any{
		"model":          model,
		"messages":       []map[string]string{{"role": "user", "content": a.Prompt}},
		"max_tokens":     a.MaxTokens,
		"stream":         true,
		"stream_options": map[string]bool{"include_usage": true},
	}
	if a.Temperature != nil {
		body["temperature"] = *a.Temperature
	}
	if a.Seed != nil {
		body["seed"] = *a.Seed
	}
	return body
}

// Body is the JSON of a request. Its keys are in alphabetical order, so that
// equal requests have equal bytes.
func (t *Target) Body(a Ask) ([]byte, error) {
	body := ChatBody(a, t.Identity.Model)
	if t.bare == "" {
		body = t.Adapter.Body(a, t.Identity.Model)
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("the request does not encode: %w", err)
	}
	return data, nil
}

// Endpoint is the URL that completions are asked of.
func (t *Target) Endpoint() string { return t.URL + t.Adapter.Endpoint() }

// negotiate asks for one token with the adapter's fields, and without them when
// the server refuses. The requests come before anything is measured.
func (t *Target) negotiate(ctx context.Context) error {
	probe := Ask{Prompt: "Hello", MaxTokens: 1, IgnoreEOS: true}
	refused := ""
	for _, bare := range []string{"", "refused"} {
		t.bare = bare
		body, err := t.Body(probe)
		if err != nil {
			return err
		}
		a, err := t.ask(ctx, http.MethodPost, ChatPath, body, firstAnswer)
		if err != nil {
			return err
		}
		switch {
		case a.Status == http.StatusOK && bare == "":
			return nil
		case a.Status == http.StatusOK:
			t.bare = fmt.Sprintf("the server refused the fields that ask for an exact length: %s", refused)
			return nil
		case a.Status != http.StatusBadRequest && a.Status != http.StatusUnprocessableEntity, bare != "":
			return fmt.Errorf("POST %s: status %d: %s", ChatPath, a.Status, inWords(a.Body))
		}
		refused = inWords(a.Body)
	}
	return nil
}

// firstAnswer is how long the first token may take; a server may load its model
// for it.
const firstAnswer = 10 * time.Minute

// ExactLength says whether runs can be made to have exactly the tokens asked
// for; if not, why.
func (t *Target) ExactLength() (bool, string) {
	switch {
	case t.bare != "":
		return false, t.bare
	case !t.Adapter.Facts().ExactLength:
		return false, fmt.Sprintf("%s is not known to go on past an end token", t.Adapter.Name())
	}
	return true, ""
}
