package stream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Decode reads frames as a completion. Frames of unknown shape are counted, not
// refused: what they carried is then missing from the figures, visibly.
func Decode(frames []Frame) *Completion {
	d := &decoder{c: &Completion{FinishFrame: -1, FinishAt: -1}}
	for i := range frames {
		d.frame(i, &frames[i])
	}
	c := d.c
	c.Joined, c.Text, c.Reasoning, c.Tools = d.joined.String(), d.text.String(), d.reasoning.String(), d.tools.String()
	return c
}

type decoder struct {
	c                              *Completion
	joined, text, reasoning, tools strings.Builder
}

func (d *decoder) frame(i int, f *Frame) {
	c := d.c
	if f.Comment {
		c.Comments++
		return
	}
	data := strings.TrimSpace(f.Data)
	if data == "[DONE]" {
		c.Done = true
		return
	}
	c.DataFrames++
	var s shape
	raw := []byte(data)
	if err := json.Unmarshal(raw, &s); err != nil {
		if f.Event == "error" && data != "" {
			c.Errors = append(c.Errors, excerpt(raw))
		} else {
			d.bad(i, f, err)
		}
		return
	}
	if failed := d.errors(f, &s, raw); !failed && !s.known() {
		if c.Unknown++; c.Unknown == 1 {
			c.UnknownFirst = excerpt(raw)
		}
		return
	}
	d.labels(&s)
	d.keep("usage", s.Usage.raw)
	d.keep("timings", s.Timings.raw)
	d.keep("metrics", s.Metrics.raw)
	d.keep("stats", s.Stats.raw)
	if !s.Choices.ok && s.OllamaDone != nil && bool(*s.OllamaDone) {
		d.keep("done", bytes.Clone(raw))
	}
	t := token{}
	d.openAI(&s, &t)
	d.llamaNative(&s, &t)
	d.ollama(&s, &t)
	running := d.counts(&s)
	d.token(i, f, &t, running)
	if t.finish != "" {
		d.finish(i, f, t.finish)
	}
}

// bad keeps why a frame could not be read; a broken last frame is the usual
// trace of a stream that was cut.
func (d *decoder) bad(i int, f *Frame, err error) {
	const most = 8
	if len(d.c.BadFrames) < most {
		d.c.BadFrames = append(d.c.BadFrames, fmt.Sprintf("frame %d (read %d, %.3f ms): %v", i, f.Read, float64(f.At)/1e6, err))
	}
}

func (d *decoder) errors(f *Frame, s *shape, raw []byte) (failed bool) {
	e := errorText(s.Error)
	if e == "" && (f.Event == "error" || s.Object.v == "error") {
		e = errorText(raw)
	}
	if e != "" {
		d.c.Errors = append(d.c.Errors, e)
	}
	return e != ""
}

func (d *decoder) labels(s *shape) {
	for _, l := range []struct {
		to *string
		v  string
	}{
		{&d.c.ID, s.ID.v}, {&d.c.Model, s.Model.v}, {&d.c.Fingerprint, s.Fingerprint.v},
	} {
		if l.v != "" {
			*l.to = l.v
		}
	}
}

// keep keeps an object that is there.
func (d *decoder) keep(name string, raw json.RawMessage) {
	if raw == nil {
		return
	}
	if d.c.Objects == nil {
		d.c.Objects = map[string]json.RawMessage{}
	}
	d.c.Objects[name] = raw
}

// token is the generated text that one frame carries.
type token struct {
	content, reasoning, tools string
	tool                      bool
	role                      bool
	running                   *int
	ids                       list[num]
	finish                    string // why the generation ended; empty: it did not
}

func (d *decoder) openAI(s *shape, t *token) {
	for k := range s.Choices.v {
		ch := &s.Choices.v[k]
		if n := ch.Index.count(); n != nil && *n != 0 {
			d.c.OtherChoices++
			continue
		}
		for _, m := range []*lenient[delta]{&ch.Delta, &ch.Message} {
			if m.ok {
				t.delta(&m.v)
			}
		}
		t.content += ch.Text.v
		if ch.TokenIDs.ok {
			t.ids = ch.TokenIDs
		}
		if ch.FinishReason.v != "" {
			t.finish = ch.FinishReason.v
		}
	}
}

func (t *token) delta(m *delta) {
	t.role = t.role || m.Role.v != ""
	t.content += m.Content.v
	// Some servers send the same reasoning under two names.
	r := m.ReasoningContent.v
	if r == "" {
		r = m.Reasoning.v
	}
	if r == "" {
		r = m.Thinking.v
	}
	t.reasoning += r
	for k := range m.ToolCalls.v {
		t.tool = true
		fn := &m.ToolCalls.v[k].Function.v
		t.tools += fn.Name.v + argumentText(fn.Arguments)
	}
}

func (d *decoder) llamaNative(s *shape, t *token) {
	if s.Choices.ok || s.Stop == nil {
		return
	}
	t.content += s.Content.v
	if s.Tokens.ok {
		t.ids = s.Tokens
	}
	t.running = s.TokensPredicted.count()
	if !*s.Stop {
		return
	}
	t.finish = "stop"
	if s.StopType.v == "limit" || bool(s.StoppedLimit) {
		t.finish = "length"
	}
	d.c.Done = true
	d.c.Usage = &Usage{Field: "tokens_predicted", Prompt: s.TokensEvaluated.count(), Completion: s.TokensPredicted.count()}
}

func (d *decoder) ollama(s *shape, t *token) {
	if s.Choices.ok || s.OllamaDone == nil {
		return
	}
	if s.Message.ok {
		t.delta(&s.Message.v)
	}
	t.content += s.Response.v
	t.reasoning += s.Thinking.v
	if !*s.OllamaDone {
		return
	}
	d.c.Done = true
	if t.finish = s.DoneReason.v; t.finish == "" {
		t.finish = "stop"
	}
	// Ollama leaves a zero out, so what is absent is unknown.
	d.c.Usage = &Usage{Field: "eval_count", Prompt: s.PromptEvalCount.count(), Completion: s.EvalCount.count()}
	d.c.Timings = &Timings{
		PromptN: s.PromptEvalCount.count(), PromptMS: milliseconds(s.PromptEvalDuration),
		PredictedN: s.EvalCount.count(), PredictedMS: milliseconds(s.EvalDuration),
		WholePrompt: true,
	}
}

func milliseconds(ns num) *float64 {
	if ns.v == nil {
		return nil
	}
	ms := *ns.v / 1e6
	return &ms
}

// finish keeps the frame that ended the generation. A server may say it once
// more, beside the usage half a second later: that frame ends nothing.
func (d *decoder) finish(i int, f *Frame, reason string) {
	c := d.c
	if n := len(c.Tokens); c.FinishFrame >= 0 && (n == 0 || c.Tokens[n-1].Frame <= c.FinishFrame) {
		return
	}
	c.FinishReason, c.FinishFrame, c.FinishAt = reason, i, f.At
}

// counts keeps the latest usage and timings and gives the running count of the
// frame, by whichever of them has one.
func (d *decoder) counts(s *shape) (running *int) {
	if s.Usage.ok {
		u := &s.Usage.v
		cached := u.PromptDetails.v.Cached.count()
		if cached == nil {
			cached = u.Cached.count()
		}
		reasoning := u.Details.v.Reasoning.count()
		if reasoning == nil {
			reasoning = u.Reasoning.count()
		}
		d.c.Usage = &Usage{Field: "usage.completion_tokens", Prompt: u.Prompt.count(), Completion: u.Completion.count(), Cached: cached, Reasoning: reasoning}
		running = d.c.Usage.Completion
	}
	if s.Timings.ok {
		t := &s.Timings.v
		d.c.Timings = &Timings{
			CacheN: t.CacheN.count(), PromptN: t.PromptN.count(), PromptMS: t.PromptMS.v, PromptPerSecond: t.PromptPerSecond.v,
			PredictedN: t.PredictedN.count(), PredictedMS: t.PredictedMS.v, PredictedPerSecond: t.PredictedPerSecond.v,
			DraftN: t.DraftN.count(), DraftAccepted: t.DraftAccepted.count(),
		}
		if n := d.c.Timings.PredictedN; n != nil {
			running = n
		}
	}
	return running
}

func (d *decoder) token(i int, f *Frame, t *token, running *int) {
	c := d.c
	for _, id := range t.ids.v {
		if n := id.count(); n != nil {
			c.TokenIDs = append(c.TokenIDs, int64(*n))
		}
	}
	c.HasTokenIDs = c.HasTokenIDs || t.ids.ok
	if t.content == "" && t.reasoning == "" && !t.tool {
		if t.role {
			c.RoleFrames++
		}
		return
	}
	d.text.WriteString(t.content)
	d.reasoning.WriteString(t.reasoning)
	d.tools.WriteString(t.tools)
	// One frame may hold both the end of the reasoning and the begin of the reply.
	d.joined.WriteString(t.reasoning + t.content + t.tools)
	if running == nil {
		running = t.running
	}
	// A count of zero beside text is a placeholder (Ollama's /v1/completions).
	if running != nil && *running == 0 {
		running = nil
	}
	if t.content != "" {
		c.ContentFrames++
	}
	c.RunningCount = c.RunningCount || running != nil
	c.Tokens = append(c.Tokens, TokenFrame{
		Frame: i, At: f.At, Kernel: f.Kernel, Read: f.Read,
		Content: t.content != "", Reasoning: t.reasoning != "", Tool: t.tool,
		End: d.joined.Len(), Running: running, IDs: len(c.TokenIDs),
	})
}

// WholeText says whether Joined is text as it was generated, as far as that can
// be seen; otherwise why it is not: a recount of it would not be of the tokens.
func (c *Completion) WholeText() (bool, string) {
	switch {
	case c.Joined == "":
		return false, "no text"
	case strings.ContainsRune(c.Joined, utf8.RuneError):
		return false, "the text holds U+FFFD: some bytes did not arrive"
	case c.Tools != "":
		return false, "tool calls: the tokens that mark them are never shown"
	case c.Reasoning != "":
		return false, "reasoning: the tokens that mark it are never shown"
	}
	return true, ""
}
