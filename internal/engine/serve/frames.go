package serve

import (
	"crypto/rand"
	"time"

	"assay/internal/engine"
)

// answer is a frame of a stream, or the whole of an answer that is not one.
type answer struct {
	Choices     []choice `json:"choices"`
	Created     int64    `json:"created"`
	ID          string   `json:"id"`
	Model       string   `json:"model"`
	Fingerprint string   `json:"system_fingerprint"`
	Object      string   `json:"object"`
	Usage       *usage   `json:"usage,omitempty"`
	Timings     *timings `json:"timings,omitempty"`

	Progress *promptProgress `json:"prompt_progress,omitempty"`
}

// promptProgress is how far the prompt has been read: llama-server's.
type promptProgress struct {
	Total     int   `json:"total"`
	Cache     int   `json:"cache"`
	Processed int   `json:"processed"`
	TimeMS    int64 `json:"time_ms"`
}

func newProgress(total int, t engine.Timings) *promptProgress {
	return &promptProgress{Total: total, Cache: t.Cached, Processed: t.Cached + t.Prompt, TimeMS: t.PromptTime.Milliseconds()}
}

// choice is one of the shapes below.
type choice any

type chatDelta struct {
	FinishReason *engine.Finish `json:"finish_reason"`
	Index        int            `json:"index"`
	Delta        any            `json:"delta"` // one of those below, or struct{}{}
	Logprobs     *chatLogprobs  `json:"logprobs,omitempty"`
	TokenIDs     []int32        `json:"token_ids,omitempty"`
}

// roleDelta opens a chat stream. Its content is null: it carries no token.
type roleDelta struct {
	Role    string  `json:"role"`
	Content *string `json:"content"`
}

type contentDelta struct {
	Content string `json:"content"`
}

type reasoningDelta struct {
	Reasoning string `json:"reasoning_content"`
}

type callsDelta struct {
	Calls []callDelta `json:"tool_calls"`
}

type callDelta struct {
	Index    int           `json:"index"`
	ID       string        `json:"id,omitempty"`
	Type     string        `json:"type,omitempty"`
	Function functionDelta `json:"function"`
}

type functionDelta struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type chatMessage struct {
	FinishReason engine.Finish `json:"finish_reason"`
	Index        int           `json:"index"`
	Message      struct {
		Role      string     `json:"role"`
		Content   *string    `json:"content"` // null beside calls
		Reasoning string     `json:"reasoning_content,omitempty"`
		Calls     []toolCall `json:"tool_calls,omitempty"`
	} `json:"message"`
	Logprobs *chatLogprobs `json:"logprobs,omitempty"`
	TokenIDs []int32       `json:"token_ids,omitempty"`
}

// toolCall is a call in an answer that is sent whole.
type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// textChoice is a choice of /v1/completions, streamed or not.
type textChoice struct {
	Text         string         `json:"text"`
	Index        int            `json:"index"`
	Logprobs     *textLogprobs  `json:"logprobs"`
	FinishReason *engine.Finish `json:"finish_reason"`
	TokenIDs     []int32        `json:"token_ids,omitempty"`
}

type usage struct {
	CompletionTokens int `json:"completion_tokens"`
	PromptTokens     int `json:"prompt_tokens"`
	TotalTokens      int `json:"total_tokens"`
	Details          struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func newUsage(t engine.Timings) *usage {
	prompt := t.Prompt + t.Cached
	u := &usage{CompletionTokens: t.Predicted, PromptTokens: prompt, TotalTokens: prompt + t.Predicted}
	u.Details.CachedTokens = t.Cached
	return u
}

// timings are llama-server's, in milliseconds. Rates are over n-1 tokens, since
// the first token's time belongs to the prompt; where there is nothing to
// divide they are 0, as there: clients of that server read numbers.
type timings struct {
	CacheN              int     `json:"cache_n"`
	PromptN             int     `json:"prompt_n"`
	PromptMS            float64 `json:"prompt_ms"`
	PromptPerTokenMS    float64 `json:"prompt_per_token_ms"`
	PromptPerSecond     float64 `json:"prompt_per_second"`
	PredictedN          int     `json:"predicted_n"`
	PredictedMS         float64 `json:"predicted_ms"`
	PredictedPerTokenMS float64 `json:"predicted_per_token_ms"`
	PredictedPerSecond  float64 `json:"predicted_per_second"`

	// As there, these are only in answers for which something was drafted. Rounds is
	// ours: the passes after the prompt's, so that
	// predicted_n = 1 + rounds + draft_n_accepted.
	DraftN         *int `json:"draft_n,omitempty"`
	DraftNAccepted *int `json:"draft_n_accepted,omitempty"`
	Rounds         *int `json:"rounds,omitempty"`

	// Ours too, where experts are read when they are wanted: see engine.Timings.HitRate.
	ExpertLookups *int64   `json:"expert_lookups,omitempty"`
	ExpertHits    *int64   `json:"expert_hits,omitempty"`
	HitRate       *float64 `json:"hit_rate,omitempty"`
}

func newTimings(t engine.Timings) *timings {
	steps := max(t.Predicted-1, 0)
	out := &timings{
		CacheN: t.Cached, PromptN: t.Prompt,
		PromptMS:         milliseconds(t.PromptTime),
		PromptPerTokenMS: ratio(milliseconds(t.PromptTime), float64(t.Prompt)),
		PromptPerSecond:  ratio(float64(t.Prompt), t.PromptTime.Seconds()),

		PredictedN:          t.Predicted,
		PredictedMS:         milliseconds(t.DecodeTime),
		PredictedPerTokenMS: ratio(milliseconds(t.DecodeTime), float64(steps)),
		PredictedPerSecond:  ratio(float64(steps), t.DecodeTime.Seconds()),
	}
	if t.Offered > 0 {
		out.DraftN, out.DraftNAccepted, out.Rounds = &t.Offered, &t.Accepted, &t.Rounds
	}
	if rate, ok := t.HitRate(); ok {
		out.ExpertLookups, out.ExpertHits, out.HitRate = &t.ExpertLookups, &t.ExpertHits, &rate
	}
	return out
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func ratio(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
}

// newAnswer is the part that all frames of one request share.
func (s *Server) newAnswer(prefix, object string) answer {
	return answer{
		Created: time.Now().Unix(), ID: prefix + rand.Text(), Model: s.modelID(),
		Fingerprint: s.config.Build, Object: object,
	}
}

// with returns a copy that has its own choices.
func (a answer) with(choices ...choice) answer {
	a.Choices = choices
	if choices == nil {
		a.Choices = []choice{} // [], not null
	}
	return a
}
