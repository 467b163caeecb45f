package serve

import (
	"net/http"
	"strings"

	"assay/internal/chat/reply"
	"assay/internal/engine"
)

// chatCompletions is POST /v1/chat/completions.
func (s *Server) chatCompletions(w http.ResponseWriter, r *http.Request, e *engine.Engine) {
	j, err := s.readChatJob(w, r, e)
	if err != nil {
		writeError(w, err)
		return
	}
	if j.stream {
		s.streamChat(w, r, e, j)
		return
	}
	text, shown, out, failed := s.collect(r.Context(), e, j)
	if failed != nil {
		writeError(w, asAPIError(failed))
		return
	}
	parser := reply.NewParser(j.format, j.reading)
	c := newChatMessage(append(parser.Push(text), parser.Close()...))
	c.FinishReason = finishOf(out.finish, len(c.Message.Calls) > 0)
	if j.Logprobs >= 0 {
		c.Logprobs = newChatLogprobs(e.Tokenizer(), shown)
	}
	if j.tokenIDs {
		c.TokenIDs = ids(append(shown, out.rest...))
	}
	a := s.newAnswer("chatcmpl-", "chat.completion").with(c)
	a.Usage, a.Timings = newUsage(out.timings), newTimings(out.timings)
	writeJSON(w, http.StatusOK, a)
}

// finishToolCalls is OpenAI's reason of an answer that ended with calls.
const finishToolCalls engine.Finish = "tool_calls"

func finishOf(f engine.Finish, called bool) engine.Finish {
	if called && f == engine.FinishStop {
		return finishToolCalls
	}
	return f
}

func newChatMessage(deltas []reply.Delta) chatMessage {
	var c chatMessage
	var content, reasoning strings.Builder
	for _, d := range deltas {
		content.WriteString(d.Content)
		reasoning.WriteString(d.Reasoning)
		if d.Call == nil {
			continue
		}
		if d.Call.Name != "" {
			call := toolCall{ID: d.Call.ID, Type: "function"}
			call.Function.Name = d.Call.Name
			c.Message.Calls = append(c.Message.Calls, call)
		}
		c.Message.Calls[d.Call.Index].Function.Arguments += d.Call.Arguments
	}
	c.Message.Role, c.Message.Reasoning = "assistant", reasoning.String()
	if text := content.String(); text != "" || len(c.Message.Calls) == 0 {
		c.Message.Content = &text
	}
	return c
}

func (s *Server) readChatJob(w http.ResponseWriter, r *http.Request, e *engine.Engine) (job, *apiError) {
	f, err := s.readFields(w, r)
	if err != nil {
		return job{}, err
	}
	defer f.release()
	j, err := readJob(f, e.Info().Vocabulary)
	if err != nil {
		return job{}, err
	}
	top := f.int("top_logprobs", 0, 0, maxTop)
	switch want := f.bool("logprobs", false); {
	case want:
		j.Logprobs = top
	case f.get("top_logprobs") != nil && top > 0:
		f.fail("top_logprobs", "needs logprobs: true")
	}
	split := readReasoningFormat(f)
	prompt, format, err := renderPrompt(f, e, &j.form)
	if err != nil {
		return job{}, err
	}
	j.Prompt = EncodePrompt(e.Tokenizer(), prompt)
	if len(j.Prompt) == 0 {
		return job{}, badField("messages", "they make an empty prompt")
	}
	after := format.After(prompt)
	j.format = format
	j.reading = reply.Options{Thinking: after, Reasoning: split}
	if len(j.form.tools) > 0 {
		j.reading.Tools = reply.ReadTools(j.form.rawTools)
	}
	return j, s.constrain(e, &j, format, after)
}

// readReasoningFormat reads llama-server's setting of where reasoning goes: to
// reasoning_content, or with none nowhere else than it was.
func readReasoningFormat(f *fields) (split bool) {
	switch v := f.string("reasoning_format", "auto"); v {
	case "auto", "deepseek":
		return true
	case "none":
	default:
		f.fail("reasoning_format", "%q is not known (want auto, deepseek or none)", v)
	}
	return false
}

// renderPrompt puts a request's messages through the model's template, and says
// in which format the model answers.
func renderPrompt(f *fields, e *engine.Engine, o *form) (string, reply.Format, *apiError) {
	in, err := readChat(f, o)
	if err != nil {
		return "", reply.Format{}, err
	}
	t, tErr := e.Template()
	if tErr != nil {
		return "", reply.Format{}, badRequest("the model's chat template can't be used: %v; send text to /v1/completions instead", tErr)
	}
	prompt, rErr := t.Render(in)
	if rErr != nil {
		return "", reply.Format{}, badField("messages", "the model's chat template refuses them: %v", rErr)
	}
	return prompt, reply.Detect(t.Source()), nil
}

// chatStream writes an answer's frames.
type chatStream struct {
	ev      *events
	base    answer
	j       job
	e       *engine.Engine
	parser  *reply.Parser
	opened  bool
	called  bool
	pending []placed // tokens that no frame has carried yet
}

// streamChat sends a frame with the role, one for each piece of text, reasoning
// or call, one with the finish reason, and one with the usage when it was asked
// for.
func (s *Server) streamChat(w http.ResponseWriter, r *http.Request, e *engine.Engine, j job) {
	ev := newEvents(w, s.config.Stall)
	defer ev.keepAlive(s.config.Ping)()
	c := &chatStream{
		ev: ev, base: s.newAnswer("chatcmpl-", "chat.completion.chunk"), j: j, e: e,
		parser: reply.NewParser(j.format, j.reading),
	}
	if j.progress {
		j.Progress = func(t engine.Timings) error {
			frame := c.base.with(chatDelta{Delta: roleDelta{Role: "assistant"}})
			frame.Timings, frame.Progress = newTimings(t), newProgress(len(j.Prompt), t)
			if err := ev.add(frame); err != nil {
				return err
			}
			return ev.send()
		}
	}
	out, err := s.generate(r.Context(), e, j, c.show)
	if err != nil {
		ev.fail(asAPIError(err))
		return
	}
	// Plain values: encoding can't fail.
	_ = c.deltas(c.parser.Close(), out.timings)
	finish := finishOf(out.finish, c.called)
	end := chatDelta{FinishReason: &finish, Delta: struct{}{}}
	if j.tokenIDs {
		end.TokenIDs = ids(append(c.pending, out.rest...))
	}
	last := c.base.with(end)
	if j.includeUsage {
		_ = ev.add(last)
		last = c.base.with()
		last.Usage = newUsage(out.timings)
	}
	last.Timings = newTimings(out.timings)
	_ = ev.add(last)
	ev.finish()
}

func (c *chatStream) show(seg segment, t engine.Timings) error {
	if !c.opened {
		c.opened = true
		if err := c.ev.add(c.base.with(chatDelta{Delta: roleDelta{Role: "assistant"}})); err != nil {
			return err
		}
	}
	c.pending = append(c.pending, seg.tokens...)
	if seg.text != "" {
		if err := c.deltas(c.parser.Push(seg.text), t); err != nil {
			return err
		}
	}
	return c.ev.send()
}

// deltas adds a frame for each piece of the answer; the first has the tokens.
func (c *chatStream) deltas(list []reply.Delta, t engine.Timings) error {
	for _, d := range list {
		choice := chatDelta{}
		switch {
		case d.Call != nil:
			c.called = true
			call := callDelta{Index: d.Call.Index, ID: d.Call.ID, Function: functionDelta{d.Call.Name, d.Call.Arguments}}
			if call.ID != "" {
				call.Type = "function"
			}
			choice.Delta = callsDelta{[]callDelta{call}}
		case d.Reasoning != "":
			choice.Delta = reasoningDelta{d.Reasoning}
		default:
			choice.Delta = contentDelta{d.Content}
		}
		if c.j.Logprobs >= 0 {
			choice.Logprobs = newChatLogprobs(c.e.Tokenizer(), c.pending)
		}
		if c.j.tokenIDs {
			choice.TokenIDs = ids(c.pending)
		}
		c.pending = nil
		frame := c.base.with(choice)
		if c.j.timingsPerToken {
			frame.Timings = newTimings(t)
		}
		if err := c.ev.add(frame); err != nil {
			return err
		}
	}
	return nil
}

func ids(tokens []placed) []int32 {
	out := make([]int32, len(tokens))
	for i, t := range tokens {
		out[i] = t.ID
	}
	return out
}
