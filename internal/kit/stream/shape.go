package stream

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
)

// shape holds the fields of every known form of a data frame: OpenAI chat and
// completions with the extensions of llama.cpp, vLLM, SGLang and others,
// llama-server's own /completion, and Ollama's own /api/chat and /api/generate.
// Fields are lenient: one of an unexpected type reads as absent, so that a
// server's odd corner can't hide the rest of the frame.
type shape struct {
	ID          str             `json:"id"`
	Model       str             `json:"model"`
	Fingerprint str             `json:"system_fingerprint"`
	Choices     list[choice]    `json:"choices"`
	Usage       lenient[usage]  `json:"usage"`
	Timings     lenient[timing] `json:"timings"`
	Error       json.RawMessage `json:"error"`
	Progress    json.RawMessage `json:"prompt_progress"`
	Object      str             `json:"object"`

	Metrics lenient[struct{}] `json:"metrics"` // vLLM
	Stats   lenient[struct{}] `json:"stats"`   // LM Studio

	// llama-server, /completion
	Content         str       `json:"content"`
	Tokens          list[num] `json:"tokens"`
	Stop            *yes      `json:"stop"`
	StopType        str       `json:"stop_type"`
	StoppedLimit    yes       `json:"stopped_limit"`
	TokensPredicted num       `json:"tokens_predicted"`
	TokensEvaluated num       `json:"tokens_evaluated"`

	// Ollama
	Response           str            `json:"response"`
	Thinking           str            `json:"thinking"`
	Message            lenient[delta] `json:"message"`
	OllamaDone         *yes           `json:"done"`
	DoneReason         str            `json:"done_reason"`
	PromptEvalCount    num            `json:"prompt_eval_count"`
	PromptEvalDuration num            `json:"prompt_eval_duration"` // ns
	EvalCount          num            `json:"eval_count"`
	EvalDuration       num            `json:"eval_duration"` // ns
}

type choice struct {
	Index        num            `json:"index"`
	Delta        lenient[delta] `json:"delta"`
	Message      lenient[delta] `json:"message"` // a reply that is not streamed
	Text         str            `json:"text"`
	FinishReason str            `json:"finish_reason"`
	TokenIDs     list[num]      `json:"token_ids"` // vLLM
}

type delta struct {
	Role             str            `json:"role"`
	Content          str            `json:"content"`
	ReasoningContent str            `json:"reasoning_content"`
	Reasoning        str            `json:"reasoning"`
	Thinking         str            `json:"thinking"`
	ToolCalls        list[toolCall] `json:"tool_calls"`
}

type toolCall struct {
	Function lenient[function] `json:"function"`
}

type function struct {
	Name      str             `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // text; an object with Ollama
}

type usage struct {
	Prompt        num                        `json:"prompt_tokens"`
	Completion    num                        `json:"completion_tokens"`
	Cached        num                        `json:"cached_tokens"`
	PromptDetails lenient[promptDetails]     `json:"prompt_tokens_details"`
	Reasoning     num                        `json:"reasoning_tokens"`
	Details       lenient[completionDetails] `json:"completion_tokens_details"`
}

type promptDetails struct {
	Cached num `json:"cached_tokens"`
}

type completionDetails struct {
	Reasoning num `json:"reasoning_tokens"`
}

type timing struct {
	CacheN             num `json:"cache_n"`
	PromptN            num `json:"prompt_n"`
	PromptMS           num `json:"prompt_ms"`
	PromptPerSecond    num `json:"prompt_per_second"`
	PredictedN         num `json:"predicted_n"`
	PredictedMS        num `json:"predicted_ms"`
	PredictedPerSecond num `json:"predicted_per_second"`
	DraftN             num `json:"draft_n"`
	DraftAccepted      num `json:"draft_n_accepted"`
}

// known says whether any field of a known form is there.
func (s *shape) known() bool {
	return s.Choices.ok || s.Usage.ok || s.Timings.ok || len(s.Progress) > 0 ||
		s.Stop != nil || s.TokensPredicted.v != nil || s.OllamaDone != nil || s.Message.ok
}

// str is a string; anything else reads as empty.
type str struct{ v string }

func (s *str) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &s.v)
	}
	return nil
}

// yes is a boolean; anything else reads as false.
type yes bool

func (y *yes) UnmarshalJSON(b []byte) error {
	*y = string(b) == "true"
	return nil
}

// num is a finite number; anything else reads as absent.
type num struct{ v *float64 }

func (n *num) UnmarshalJSON(b []byte) error {
	var v float64
	if len(b) == 0 || b[0] == 'n' || json.Unmarshal(b, &v) != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	n.v = &v
	return nil
}

// maxCount bounds counts of tokens: beyond it a number is nonsense, and
// converting it could overflow.
const maxCount = 1 << 40

// count is the number as a count of things, nil unless it is a whole one.
func (n num) count() *int {
	if n.v == nil || *n.v < 0 || *n.v > maxCount || *n.v != math.Trunc(*n.v) {
		return nil
	}
	c := int(*n.v)
	return &c
}

// list is an array; ok says that there was one. Anything else reads as absent.
type list[T any] struct {
	v  []T
	ok bool
}

func (l *list[T]) UnmarshalJSON(b []byte) error {
	l.ok = len(b) > 0 && b[0] == '[' && json.Unmarshal(b, &l.v) == nil
	if !l.ok {
		l.v = nil
	}
	return nil
}

// lenient is an object; ok says that there was one. Anything else reads as
// absent.
type lenient[T any] struct {
	v   T
	ok  bool
	raw json.RawMessage // as it came
}

func (l *lenient[T]) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '{' {
		return nil
	}
	if l.ok = json.Unmarshal(b, &l.v) == nil; l.ok {
		l.raw = bytes.Clone(b)
	}
	return nil
}

// errorText is the server's words in an error value, which is text, or an
// object with a message.
func errorText(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	switch string(raw) {
	case "", "null", "false", `""`: // there is a field for errors, and none in it
		return ""
	}
	var s str
	if json.Unmarshal(raw, &s) == nil && s.v != "" {
		return s.v
	}
	var o struct {
		Message str `json:"message"`
		Type    str `json:"type"`
	}
	if json.Unmarshal(raw, &o) == nil && o.Message.v != "" {
		if o.Type.v != "" {
			return o.Message.v + " (" + o.Type.v + ")"
		}
		return o.Message.v
	}
	return excerpt(raw)
}

// argumentText is a tool call's arguments as text.
func argumentText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return strings.TrimSpace(string(raw))
}
