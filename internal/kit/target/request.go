package target

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"assay/internal/kit/prompt"
)

// Ask is one completion to ask for. Nil sampling values are left to the server.
type Ask struct {
	Before    []prompt.Message // what was said before in a conversation
	Prompt    string           // content of the user's message
	MaxTokens int

	// What OpenAI's API has.
	Temperature      *float64
	Seed             *int64
	TopP             *float64
	PresencePenalty  *float64
	FrequencyPenalty *float64
	// What it lacks, and adapters have names for.
	TopK          *int
	MinP          *float64
	RepeatPenalty *float64

	Reasoning string // on, off, or an effort: low, medium, high; empty: left to the model
	WarmCache bool   // the prompt cache may answer; else it is off where the engine has a switch
	// IgnoreEOS asks for exactly MaxTokens: the engine must go on past end tokens.
	IgnoreEOS bool

	// For engines that are told with each request; 0 and nil: as the target's settings
	// have it.
	Context            int // positions of the prompt and its answer
	Threads, GPULayers *int
}

// ChatPath is where completions are asked for.
const ChatPath = "/v1/chat/completions"

// ChatBody is a request of OpenAI's API for a streamed chat, with what that API
// has and no more.
func ChatBody(a Ask, model string) map[string]any {
	body := map[string]any{
		"model":          model,
		"messages":       append(slices.Clone(a.Before), prompt.Message{Role: "user", Content: a.Prompt}),
		"max_tokens":     a.MaxTokens,
		"stream":         true,
		"stream_options": map[string]bool{"include_usage": true},
	}
	Set(body, "temperature", a.Temperature)
	Set(body, "seed", a.Seed)
	Set(body, "top_p", a.TopP)
	Set(body, "presence_penalty", a.PresencePenalty)
	Set(body, "frequency_penalty", a.FrequencyPenalty)
	switch a.Reasoning {
	case "low", "medium", "high":
		body["reasoning_effort"] = a.Reasoning
	}
	return body
}

// Set puts a value into a body unless it is left to the server.
func Set[T any](body map[string]any, name string, v *T) {
	if v != nil {
		body[name] = *v
	}
}

// SetThinking turns reasoning on or off by the variable that chat templates have
// for it, for servers that pass such on. An effort is OpenAI's own.
func SetThinking(body map[string]any, a Ask) {
	if a.Reasoning == "on" || a.Reasoning == "off" {
		body["chat_template_kwargs"] = map[string]bool{"enable_thinking": a.Reasoning == "on"}
	}
}

// beyond names what of the ask OpenAI's API can't say; empty: nothing.
func (a *Ask) beyond() string {
	switch {
	case a.TopK != nil:
		return "top_k"
	case a.MinP != nil:
		return "min_p"
	case a.RepeatPenalty != nil:
		return "repeat_penalty"
	case a.Reasoning == "on" || a.Reasoning == "off":
		return "reasoning: " + a.Reasoning
	}
	return ""
}

// Body is the JSON of a request. Its keys are in alphabetical order, so that
// equal requests have equal bytes.
func (t *Target) Body(a Ask) ([]byte, error) {
	a.Context = cmp.Or(a.Context, t.settings.Context)
	a.Threads, a.GPULayers = cmp.Or(a.Threads, t.settings.Threads), cmp.Or(a.GPULayers, t.settings.GPULayers)
	body := t.Adapter.Body(a, t.Identity.Model)
	t.without(body)
	if why := t.strict(); why != "" {
		if name := a.beyond(); name != "" {
			return nil, fmt.Errorf("%s can't be asked for: the server refuses what it does not know (%s)", name, why)
		}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("the request does not encode: %w", err)
	}
	return data, nil
}

// strict is what a server said that refuses fields which OpenAI's API lacks;
// empty: this one did not.
func (t *Target) strict() string {
	why, _ := strings.CutPrefix(t.left["ignore_eos"], "refused: ")
	return why
}

// Endpoint is the URL that completions are asked of.
func (t *Target) Endpoint() string { return t.URL + t.Adapter.Endpoint() }

// ExactLength says whether runs can be made to have exactly the tokens asked
// for; if not, why.
func (t *Target) ExactLength() (bool, string) {
	switch {
	case t.strict() != "":
		return false, "the server refused the fields that ask for an exact length: " + t.strict()
	case !t.Adapter.Facts().ExactLength:
		return false, fmt.Sprintf("%s is not known to go on past an end token", t.Adapter.Name())
	}
	return true, ""
}
