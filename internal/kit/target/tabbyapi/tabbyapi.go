// Package tabbyapi is the adapter for TabbyAPI, the server of ExLlama.
package tabbyapi

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"

	"assay/internal/kit/stream"
	"assay/internal/kit/target"
)

// Adapter is for TabbyAPI. It is started from its own folder by a configuration
// file, so a plan names the command.
type Adapter struct{ target.Base }

// Name is "tabbyapi".
func (Adapter) Name() string { return "tabbyapi" }

// Facts: its times are rounded to 10 ms.
func (Adapter) Facts() target.Facts {
	return target.Facts{
		About:       "TabbyAPI, the server of ExLlama",
		DecodeBasis: "n",
		ExactLength: true,
		Exactly:     "ignore_eos and min_tokens; its detector of loops may still end a run",
		CacheOff:    "no switch: the nonce at the start of the prompt keeps prefixes apart, and the log tells cached tokens",
		Counts:      []string{"usage", "log"},
	}
}

// Recognise knows it by the owner of its model, or by the form of its health.
func (Adapter) Recognise(p *target.Probe) bool {
	if strings.EqualFold(p.OwnedBy(), "tabbyAPI") {
		return true
	}
	var h struct {
		Status string            `json:"status"`
		Issues []json.RawMessage `json:"issues"`
	}
	return p.Object("/health", &h) == nil && h.Status == "healthy" && h.Issues != nil
}

// Identify reads /v1/model, the one that is loaded.
func (Adapter) Identify(p *target.Probe) target.Identity {
	id := target.Identity{Engine: "tabbyapi", Model: p.FirstModel(), Why: map[string]string{
		"version": "no endpoint says it", "commit": "no endpoint says it", "format": "no endpoint says it",
	}}
	var m struct {
		ID         string `json:"id"`
		Parameters struct {
			MaxSeqLen    int `json:"max_seq_len"`
			MaxBatchSize int `json:"max_batch_size"`
		} `json:"parameters"`
	}
	err := p.Object("/v1/model", &m)
	if err == nil {
		if m.ID != "" {
			id.Model = m.ID
		}
		id.Context, id.Slots = target.Positive(m.Parameters.MaxSeqLen), target.Positive(m.Parameters.MaxBatchSize)
		err = fmt.Errorf("/v1/model does not say it")
	}
	for name, missing := range map[string]bool{"context": id.Context == nil, "slots": id.Slots == nil} {
		if missing {
			id.Why[name] = err.Error()
		}
	}
	return id
}

// runningOn is how its web server names its address. When the port is taken it
// changes to another one, and says so nowhere else.
var runningOn = regexp.MustCompile(`(?i)(?:running on|listening on) (https?://[^\s)]+)`)

// Readiness: it listens when the model is loaded.
func (Adapter) Readiness() target.Readiness {
	return target.Readiness{Address: runningOn, Path: "/health", Ready: func(a target.Answer) (bool, string) {
		var h struct {
			Status string `json:"status"`
		}
		if a.Status != 200 || json.Unmarshal(a.Body, &h) != nil || h.Status != "healthy" {
			return false, ""
		}
		return true, ""
	}}
}

// Body asks for an exact length.
func (Adapter) Body(a target.Ask, model string) map[string]any {
	body := target.ChatBody(a, model)
	target.Set(body, "top_k", a.TopK)
	target.Set(body, "min_p", a.MinP)
	target.Set(body, "repetition_penalty", a.RepeatPenalty)
	target.SetThinking(body, a)
	if a.IgnoreEOS {
		body["ignore_eos"], body["min_tokens"] = true, a.MaxTokens
	}
	return body
}

// TokenizeForms is its own form.
func (Adapter) TokenizeForms() []target.TokenizeForm {
	return []target.TokenizeForm{{Path: "/v1/token/encode", Field: "text", Fixed: map[string]any{"add_bos_token": false, "encode_special_tokens": false}}}
}

// Usage is what its usage object holds beside OpenAI's counts. Times are in
// seconds, rounded to 0.01; a rate that it can't give is the text "Indeterminate".
type usage struct {
	PromptTime     *float64 `json:"prompt_time"`
	CompletionTime *float64 `json:"completion_time"`
	PromptRate     any      `json:"prompt_tokens_per_sec"`
	CompletionRate any      `json:"completion_tokens_per_sec"`
}

func readUsage(c *stream.Completion) *usage {
	raw, ok := c.Objects["usage"]
	if !ok {
		return nil
	}
	u := new(usage)
	if json.Unmarshal(raw, u) != nil {
		return nil
	}
	return u
}

// OwnTime is the time of the prompt and of the tokens, from the usage object.
func (Adapter) OwnTime(c *stream.Completion) *stream.Timings {
	u := readUsage(c)
	if u == nil || u.CompletionTime == nil || c.Usage == nil || c.Usage.Completion == nil {
		return nil
	}
	t := &stream.Timings{PredictedN: c.Usage.Completion, PredictedMS: new(*u.CompletionTime * 1e3), PredictedPerSecond: rate(u.CompletionRate)}
	if u.PromptTime != nil {
		t.PromptMS, t.PromptPerSecond = new(*u.PromptTime*1e3), rate(u.PromptRate)
		// How many tokens that was is known only when none came from the cache, which
		// the usage does not say.
	}
	return t
}

func rate(v any) *float64 {
	f, ok := v.(float64)
	if !ok {
		return nil
	}
	return &f
}

var (
	generated = regexp.MustCompile(`(?m)^.*Metrics \(ID: [^)]*\): (\d+) tokens generated in ` + target.Decimal + ` seconds.*$`)
	detail    = regexp.MustCompile(`\(Queue: ` + target.Decimal + ` s, Process: (\d+) cached tokens and (\d+) new tokens at ` + target.Decimal + ` T/s, Generate: ` + target.Decimal + ` T/s, Context: (\d+) tokens`)
	drafts    = regexp.MustCompile(`Draft: (\d+) / (\d+) tokens accepted`)
)

// ReadLog reads the lines of one request, which the log may wrap.
func (Adapter) ReadLog(segment []byte) (target.LogRecord, error) {
	all := generated.FindAllSubmatch(segment, -1)
	if err := target.OnlyOne(len(all), "Metrics (ID: ...): N tokens generated"); err != nil {
		return target.LogRecord{}, err
	}
	g := target.Groups(all[0])
	rec := target.LogRecord{Line: strings.TrimSpace(g.Text(0)), Generated: g.Int(1)}
	flat := []byte(strings.Join(strings.Fields(string(segment)), " "))
	if m := detail.FindSubmatch(flat); m != nil {
		d := target.Groups(m)
		rec.Cached, rec.PromptN, rec.PromptRate, rec.DecodeRate = d.Int(2), d.Int(3), d.Float(4), d.Float(5)
		if rec.Generated != nil && rec.DecodeRate != nil && *rec.DecodeRate > 0 {
			rec.DecodeMS = new(float64(*rec.Generated) / *rec.DecodeRate * 1e3)
		}
		if rec.PromptN != nil && rec.PromptRate != nil && *rec.PromptRate > 0 {
			rec.PromptMS = new(float64(*rec.PromptN) / *rec.PromptRate * 1e3)
		}
	}
	if m := drafts.FindSubmatch(flat); m != nil {
		d := target.Groups(m)
		rec.DraftAccepted, rec.DraftN = d.Int(1), d.Int(2)
	}
	return rec, nil
}

// Fields are TabbyAPI's own part of a row.
type Fields struct {
	PromptTimeS     *float64 `json:"prompt_time_s"`     // rounded to 0.01 s by the server
	CompletionTimeS *float64 `json:"completion_time_s"` // likewise
	PromptRead      *int     `json:"prompt_read"`       // prompt tokens computed, by the log
	Reused          *int     `json:"reused"`            // prompt tokens from the cache, by the log
	DraftsOffered   *int     `json:"drafts_offered"`
	DraftsAccepted  *int     `json:"drafts_accepted"`
}

// Block is from the usage object and the log.
func (Adapter) Block(a *target.Account) *target.Block {
	f := &Fields{PromptRead: a.Record.PromptN, Reused: a.Record.Cached, DraftsOffered: a.Record.DraftN, DraftsAccepted: a.Record.DraftAccepted}
	b := &target.Block{Name: "tabbyapi", Fields: f, Why: map[string]string{"prompt_time_s": "not in the usage", "completion_time_s": "not in the usage"}}
	u := readUsage(a.Stream)
	if u != nil {
		f.PromptTimeS, f.CompletionTimeS = u.PromptTime, u.CompletionTime
	}
	why := "not in the log"
	if a.LogErr != nil {
		why = "the log: " + a.LogErr.Error()
	}
	for _, name := range []string{"prompt_read", "reused", "drafts_offered", "drafts_accepted"} {
		b.Why[name] = why
	}
	b.Failed = identities(a, u)
	return b
}

func identities(a *target.Account, u *usage) []string {
	var out []string
	c := a.Stream.Usage
	if c == nil {
		return nil
	}
	if n, r := c.Prompt, a.Record; n != nil && r.PromptN != nil && r.Cached != nil && *n != *r.PromptN+*r.Cached {
		out = append(out, fmt.Sprintf("the log reads %d and reuses %d prompt tokens, usage says %d", *r.PromptN, *r.Cached, *n))
	}
	if u == nil || u.CompletionTime == nil || c.Completion == nil {
		return out
	}
	// The time is rounded to 0.01 s and the rate to 0.01 tok/s.
	if v := rate(u.CompletionRate); v != nil && *u.CompletionTime > 0 {
		low, high := float64(*c.Completion)/(*u.CompletionTime+0.005)-0.005, math.Inf(1)
		if *u.CompletionTime > 0.005 {
			high = float64(*c.Completion)/(*u.CompletionTime-0.005) + 0.005
		}
		if *v < low || *v > high {
			out = append(out, fmt.Sprintf("%d tokens in %.2f s are not %.2f tok/s", *c.Completion, *u.CompletionTime, *v))
		}
	}
	return out
}
