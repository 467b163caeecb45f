// Package openai is the adapter for any server with OpenAI's API of which nothing
// more is known. What it does not say stays unknown.
package openai

import "assay/internal/kit/target"

// Adapter takes any server that answers.
type Adapter struct{ target.Base }

// Name is "openai".
func (Adapter) Name() string { return "openai" }

// Facts: nothing is documented that holds for all.
func (Adapter) Facts() target.Facts {
	return target.Facts{
		About:     "any server with OpenAI's chat API",
		Exactly:   "ignore_eos is sent; a server may refuse it, which the first request finds out, or ignore it, which a short row shows",
		CacheOff:  "not known of any server: the nonce at the start of the prompt keeps prefixes apart, and cached tokens are read where the server tells them",
		Counts:    []string{"usage", "running usage, token ids and timings where it sends them"},
		MayRefuse: true,
	}
}

// Recognise takes what no other adapter took.
func (Adapter) Recognise(*target.Probe) bool { return true }

// Identify reads the model's name, and a version where there is one.
func (Adapter) Identify(p *target.Probe) target.Identity {
	id := target.Identity{Engine: "openai", Model: p.FirstModel(), Why: map[string]string{}}
	for _, name := range []string{"version", "commit", "format", "context", "slots"} {
		id.Why[name] = "OpenAI's API does not say it"
	}
	var v struct {
		Version string `json:"version"`
	}
	if p.Object("/version", &v) == nil && v.Version != "" {
		id.Version = &v.Version
		delete(id.Why, "version")
	}
	return id
}

// Body asks for an exact length, and for sampling that OpenAI has no names for, by
// the names that vLLM, SGLang and TabbyAPI have.
func (Adapter) Body(a target.Ask, model string) map[string]any {
	body := target.ChatBody(a, model)
	if a.IgnoreEOS {
		body["ignore_eos"] = true
	}
	// Only what comes of these is kept: see what was found of the server.
	body["stream_options"] = map[string]any{"include_usage": true, "continuous_usage_stats": true}
	body["return_token_ids"] = true
	target.Set(body, "top_k", a.TopK)
	target.Set(body, "min_p", a.MinP)
	target.Set(body, "repetition_penalty", a.RepeatPenalty)
	target.SetThinking(body, a)
	return body
}

// TokenizeForms are those of llama-server and vLLM, which others have taken over.
func (Adapter) TokenizeForms() []target.TokenizeForm {
	return []target.TokenizeForm{target.LlamaForm, target.VLLMForm}
}
