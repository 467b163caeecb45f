package ollama

import (
	"encoding/json"
	"fmt"
	"math"

	"assay/internal/kit/stream"
	"assay/internal/kit/target"
)

// done is the last frame of a stream. Times are in nanoseconds. What is zero is
// left out, so what is absent is unknown.
type done struct {
	Reason         *string  `json:"done_reason"`
	Total          *float64 `json:"total_duration"`
	Load           *float64 `json:"load_duration"`
	PromptCount    *float64 `json:"prompt_eval_count"`
	PromptDuration *float64 `json:"prompt_eval_duration"`
	Count          *float64 `json:"eval_count"`
	Duration       *float64 `json:"eval_duration"`
}

// doneOf reads the last frame; nil: none came.
func doneOf(c *stream.Completion) *done {
	if c == nil || c.Objects["done"] == nil {
		return nil
	}
	d := new(done)
	if json.Unmarshal(c.Objects["done"], d) != nil {
		return nil
	}
	return d
}

// ms turns nanoseconds into milliseconds; nil for what no clock shows.
func ms(ns *float64) *float64 {
	if ns == nil || *ns < 0 || math.IsInf(*ns, 0) || math.IsNaN(*ns) {
		return nil
	}
	return new(*ns / 1e6)
}

func whatCount(v *float64) *int {
	if v == nil || *v != math.Trunc(*v) {
		return nil
	}
	return target.Whole(v)
}

// request is what of our request decides how its answer is read.
type request struct {
	Options struct {
		Context *int `json:"num_ctx"`
		Predict *int `json:"num_predict"`
	} `json:"options"`
}

func requestOf(body []byte) request {
	var q request
	_ = json.Unmarshal(body, &q) // one without options leaves them unknown
	return q
}

// loadStepMS: the server looks at a runner that it starts every 250 ms, so a load
// takes at least that; one that is there is found in some 10 ms.
const loadStepMS = 250

// Spoils: a prompt that does not fit is cut without a word in the stream, by 0.17 to
// the context and by 0.33 to half of it; and a model that was not loaded, or with
// other settings, is loaded within the run.
func (Adapter) Spoils(a *target.Account) target.Spoils {
	var s target.Spoils
	d, q := doneOf(a.Stream), requestOf(a.Request)
	cut, load := firstLine(cutLine, a.Log), firstLine(loadLine, a.Log)
	switch {
	case cut != nil:
		s.PromptCut = "its log says: " + *cut
		if limit, had := number(*cut, "limit"), number(*cut, "prompt"); limit != nil && had != nil {
			s.PromptCut = fmt.Sprintf("the prompt of %d tokens was cut to %d; its log says: %s", *had, *limit, *cut)
		}
	case d != nil && q.Options.Context != nil && d.PromptCount != nil && *d.PromptCount >= float64(*q.Options.Context):
		s.PromptCut = fmt.Sprintf("prompt_eval_count %v fills num_ctx %d: a longer prompt is cut to that without a word", *d.PromptCount, *q.Options.Context)
	}
	switch {
	case load != nil:
		s.ModelLoad = "its log says: " + *load
	case d != nil && d.Load != nil && *d.Load/1e6 >= loadStepMS:
		s.ModelLoad = fmt.Sprintf("load_duration is %.0f ms: the model was loaded, or the request waited for its turn", *d.Load/1e6)
	}
	return s
}
