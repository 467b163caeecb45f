// Package lmstudio is the adapter for LM Studio's server. What is known of it is
// from its documentation and its users' reports.
package lmstudio

import (
	"encoding/json"
	"fmt"

	"assay/internal/kit/stream"
	"assay/internal/kit/target"
)

// Adapter is for LM Studio. Its server is started and its models are loaded by
// its own program, so it is attached to.
type Adapter struct{ target.Base }

// Name is "lmstudio".
func (Adapter) Name() string { return "lmstudio" }

// Facts: two examples of its documentation contradict each other on what its rate
// divides, so no basis is stated.
func (Adapter) Facts() target.Facts {
	return target.Facts{
		About:    "LM Studio's server",
		Exactly:  "no switch is documented: a run may end before the tokens that were asked for",
		CacheOff: "no switch is documented, and cached tokens are not told: the nonce at the start of the prompt keeps prefixes apart",
		Counts:   []string{"usage (one less than the limit when that ends the run, in some versions)"},
	}
}

type listed struct {
	Data []struct {
		ID            string `json:"id"`
		State         string `json:"state"`
		Quantization  string `json:"quantization"`
		Compatibility string `json:"compatibility_type"`
		Loaded        int    `json:"loaded_context_length"`
	} `json:"data"`
}

// Recognise knows it by its own list of models.
func (Adapter) Recognise(p *target.Probe) bool {
	var m listed
	return p.Object("/api/v0/models", &m) == nil && len(m.Data) > 0 && m.Data[0].State != ""
}

// Identify reads its own list of models: the first that is loaded.
func (Adapter) Identify(p *target.Probe) target.Identity {
	id := target.Identity{Engine: "lmstudio", Model: p.FirstModel(), Why: map[string]string{
		"version": "no endpoint says it", "commit": "no endpoint says it", "slots": "no endpoint says it",
	}}
	var m listed
	err := p.Object("/api/v0/models", &m)
	if err == nil {
		err = fmt.Errorf("/api/v0/models lists no loaded model: load one, so that no run pays for it")
	}
	for _, d := range m.Data {
		if d.State == "loaded" {
			id.Model, id.Format, id.Context = d.ID, target.NonEmpty(d.Quantization), target.Positive(d.Loaded)
			err = fmt.Errorf("/api/v0/models does not say it")
			break
		}
	}
	for name, missing := range map[string]bool{"format": id.Format == nil, "context": id.Context == nil} {
		if missing {
			id.Why[name] = err.Error()
		}
	}
	return id
}

// Readiness: it has no /health.
func (Adapter) Readiness() target.Readiness { return target.Readiness{Path: "/v1/models"} }

// Body has the server's own names for what OpenAI's API lacks.
func (Adapter) Body(a target.Ask, model string) map[string]any {
	body := target.ChatBody(a, model)
	target.Set(body, "top_k", a.TopK)
	target.Set(body, "min_p", a.MinP)
	target.Set(body, "repeat_penalty", a.RepeatPenalty)
	return body
}

// Fields are LM Studio's own part of a row.
type Fields struct {
	TokensPerSecond *float64 `json:"tokens_per_second"` // as sent; what it divides is not documented
	TTFTMS          *float64 `json:"engine_ttft_ms"`
	GenerationMS    *float64 `json:"generation_ms"`
	Runtime         *string  `json:"runtime"` // name and version of the library that computes
}

// Block is from the stats object of the last frame, where the server sends it.
func (Adapter) Block(a *target.Account) *target.Block {
	f := &Fields{}
	b := &target.Block{Name: "lmstudio", Fields: f, Why: map[string]string{}}
	for _, name := range []string{"tokens_per_second", "engine_ttft_ms", "generation_ms"} {
		b.Why[name] = "the stream has no stats with it"
	}
	b.Why["runtime"] = "OpenAI's API of this server does not name it"
	var s struct {
		Rate       *float64 `json:"tokens_per_second"`
		TTFT       *float64 `json:"time_to_first_token"`
		Generation *float64 `json:"generation_time"`
	}
	if raw, ok := a.Stream.Objects["stats"]; ok && json.Unmarshal(raw, &s) == nil {
		f.TokensPerSecond, f.TTFTMS, f.GenerationMS = s.Rate, target.Milliseconds(s.TTFT), target.Milliseconds(s.Generation)
	}
	b.Failed = quirk(a.Stream, a.Asked)
	return b
}

// quirk tells of the count that is one less than the limit which ended the run.
func quirk(c *stream.Completion, asked *int) []string {
	if asked == nil || c.FinishReason != "length" || c.Usage == nil || c.Usage.Completion == nil || *c.Usage.Completion != *asked-1 {
		return nil
	}
	return []string{fmt.Sprintf("usage counts %d tokens though the limit of %d ended the run: some versions leave out the last one", *c.Usage.Completion, *asked)}
}
