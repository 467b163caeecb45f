package ollama

import (
	"fmt"

	"assay/internal/kit/target"
)

// block is Ollama's part of a row: its last frame in our units, and what its log
// has beside it.
type block struct {
	NumCtx          *int     `json:"num_ctx"`           // as asked for; the model is loaded anew when it changes
	DoneReason      *string  `json:"done_reason"`       // stop or length
	PromptEvalCount *int     `json:"prompt_eval_count"` // the whole prompt, what came from the cache included, in 0.17 and from 0.31 on; only what was computed in some between
	PromptEvalMS    *float64 `json:"prompt_eval_ms"`    // of what was computed
	EvalCount       *int     `json:"eval_count"`        // tokens, the end token included
	EvalMS          *float64 `json:"eval_ms"`           // from the first token to the last, in 0.17 less the time for sampling
	LoadMS          *float64 `json:"load_ms"`           // until the runner was at hand, before the prompt
	TotalMS         *float64 `json:"total_ms"`          // of the request
	ServedMS        *float64 `json:"served_ms_log"`     // of the request, by the log
	ModelLoaded     *bool    `json:"model_loaded"`      // within the run
	PromptCutLine   *string  `json:"prompt_cut_line"`   // what the log says when it cuts a prompt, or "absent"
	DraftsOffered   *int     `json:"drafts_offered"`    // by the llama-server that newer versions run
	DraftsAccepted  *int     `json:"drafts_accepted"`
	Version         *string  `json:"version"`
	Digest          *string  `json:"digest"` // of the model, as Ollama knows it
}

// Block has the numbers of the last frame and of the log.
func (Adapter) Block(a *target.Account) *target.Block {
	q, d := requestOf(a.Request), doneOf(a.Stream)
	b := &block{NumCtx: q.Options.Context}
	out := &target.Block{Name: "ollama", Fields: b, Why: map[string]string{}, Failed: []string{}}
	null := func(why string, names ...string) {
		for _, name := range names {
			out.Why[name] = why
		}
	}
	if b.NumCtx == nil {
		null("left to the server", "num_ctx")
	}
	if d == nil {
		null("no last frame came", "done_reason", "prompt_eval_count", "prompt_eval_ms", "eval_count", "eval_ms", "load_ms", "total_ms")
	} else {
		b.DoneReason = d.Reason
		b.PromptEvalCount, b.PromptEvalMS = whatCount(d.PromptCount), ms(d.PromptDuration)
		b.EvalCount, b.EvalMS = whatCount(d.Count), ms(d.Duration)
		b.LoadMS, b.TotalMS = ms(d.Load), ms(d.Total)
		for name, missing := range map[string]bool{
			"done_reason": b.DoneReason == nil, "prompt_eval_count": b.PromptEvalCount == nil, "prompt_eval_ms": b.PromptEvalMS == nil,
			"eval_count": b.EvalCount == nil, "eval_ms": b.EvalMS == nil, "load_ms": b.LoadMS == nil, "total_ms": b.TotalMS == nil,
		} {
			if missing {
				null("the last frame does not have it: Ollama leaves a zero out", name)
			}
		}
	}
	fromLog(a, b, null)
	for name, to := range map[string]**string{"version": &b.Version, "digest": &b.Digest} {
		if v, ok := a.Found[name]; ok {
			*to = &v
		} else {
			null("not asked for, or not said", name)
		}
	}
	if d != nil {
		out.Failed = failed(a, q, d)
	}
	return out
}

// fromLog sets what the log tells.
func fromLog(a *target.Account, b *block, null func(string, ...string)) {
	if a.LogErr != nil {
		null("the log: "+a.LogErr.Error(), "served_ms_log", "prompt_cut_line", "drafts_offered", "drafts_accepted")
	} else {
		b.ServedMS, _ = servedMS(a.Log)
		if b.ServedMS == nil {
			null("the log's line has no time that can be read", "served_ms_log")
		}
		if b.PromptCutLine = firstLine(cutLine, a.Log); b.PromptCutLine == nil {
			b.PromptCutLine = new("absent")
		}
		b.DraftsOffered, b.DraftsAccepted = a.Record.DraftN, a.Record.DraftAccepted
		if b.DraftsOffered == nil || b.DraftsAccepted == nil {
			b.DraftsOffered, b.DraftsAccepted = nil, nil
			null("the log tells of no drafts", "drafts_offered", "drafts_accepted")
		}
	}
	switch {
	case a.LogErr == nil:
		b.ModelLoaded = new(firstLine(loadLine, a.Log) != nil)
	case b.LoadMS != nil && *b.LoadMS < loadStepMS:
		b.ModelLoaded = new(false)
	case b.LoadMS != nil:
		null("the request took long to get a runner, and there is no log that tells why", "model_loaded")
	default:
		null("neither the log nor load_duration was there to tell", "model_loaded")
	}
}

// slackMS is what lies between a time of the server's and the client's own: both
// end in a call of the system.
const slackMS = 1

// failed are the identities that do not hold. The server's stretches lie within
// each other and within the client's; counts keep to what was asked for.
func failed(a *target.Account, q request, d *done) []string {
	out := []string{}
	fail := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	within := func(name string, parts []*float64, limitName string, limit *float64, slack float64) {
		if limit == nil {
			return
		}
		sum := 0.0
		for _, p := range parts {
			if p == nil {
				return
			}
			sum += *p
		}
		if sum > *limit+slack {
			fail("%s take %.3f ms, but %s is %.3f ms", name, sum, limitName, *limit)
		}
	}
	load, promptMS, eval, total := ms(d.Load), ms(d.PromptDuration), ms(d.Duration), ms(d.Total)
	within("load, prompt_eval and eval", []*float64{load, promptMS, eval}, "total_duration", total, slackMS)
	within("load and prompt_eval", []*float64{load, promptMS}, "the time to the first token", a.TTFTMS, slackMS)
	if at := a.Stream.FinishAt; at >= 0 {
		within("total_duration's stretches", []*float64{total}, "the client's time", new(float64(at)/1e6), slackMS)
	}
	if a.LogErr == nil {
		served, half := servedMS(a.Log)
		within("total_duration's stretches", []*float64{total}, "the log's time", served, half+slackMS)
	}
	n := whatCount(d.Count)
	if limit := q.Options.Predict; limit != nil && n != nil && *limit > 0 {
		if *n > *limit {
			fail("eval_count %d, but num_predict %d", *n, *limit)
		}
		if d.Reason != nil && *d.Reason == "length" && *n < *limit && !full(d, q) {
			fail("done_reason length, but eval_count %d of num_predict %d", *n, *limit)
		}
	}
	if p := whatCount(d.PromptCount); p != nil && q.Options.Context != nil && *p > *q.Options.Context {
		fail("prompt_eval_count %d, but num_ctx %d", *p, *q.Options.Context)
	}
	if a.LogErr == nil && a.Record.Generated != nil && n != nil && *a.Record.Generated != *n {
		fail("eval_count %d, but the runner's log has %d", *n, *a.Record.Generated)
	}
	return out
}

// full says whether prompt and reply may have filled the context, which ends a
// reply as its length does.
func full(d *done, q request) bool {
	p, n := whatCount(d.PromptCount), whatCount(d.Count)
	return q.Options.Context == nil || p == nil || n == nil || *p+*n >= *q.Options.Context-1
}
