package serve

import (
	"net/http"

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
	c := chatMessage{FinishReason: out.finish}
	c.Message.Role, c.Message.Content = "assistant", text
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

func (s *Server) readChatJob(w http.ResponseWriter, r *http.Request, e *engine.Engine) (job, *apiError) {
	f, err := readFields(w, r)
	if err != nil {
		return job{}, err
	}
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
	prompt, err := renderPrompt(f, e)
	if err != nil {
		return job{}, err
	}
	j.Prompt = EncodePrompt(e.Tokenizer(), prompt)
	if len(j.Prompt) == 0 {
		return job{}, badField("messages", "they make an empty prompt")
	}
	return j, nil
}

// renderPrompt puts a request's messages through the model's template.
func renderPrompt(f *fields, e *engine.Engine) (string, *apiError) {
	in, err := readChat(f)
	if err != nil {
		return "", err
	}
	t, tErr := e.Template()
	if tErr != nil {
		return "", badRequest("the model's chat template can't be used: %v; send text to /v1/completions instead", tErr)
	}
	prompt, rErr := t.Render(in)
	if rErr != nil {
		return "", badField("messages", "the model's chat template refuses them: %v", rErr)
	}
	return prompt, nil
}

// streamChat sends a frame with the role, one for each piece of text, one with
// the finish reason, and one with the usage when it was asked for.
func (s *Server) streamChat(w http.ResponseWriter, r *http.Request, e *engine.Engine, j job) {
	ev := newEvents(w)
	base := s.newAnswer("chatcmpl-", "chat.completion.chunk")
	out, err := s.generate(r.Context(), e, j, func(seg segment, t engine.Timings) error {
		if !ev.started && ev.buf.Len() == 0 {
			if err := ev.add(base.with(chatDelta{Delta: roleDelta{Role: "assistant"}})); err != nil {
				return err
			}
		}
		if seg.text != "" {
			c := chatDelta{Delta: contentDelta{seg.text}}
			if j.Logprobs >= 0 {
				c.Logprobs = newChatLogprobs(e.Tokenizer(), seg.tokens)
			}
			if j.tokenIDs {
				c.TokenIDs = ids(seg.tokens)
			}
			frame := base.with(c)
			if j.timingsPerToken {
				frame.Timings = newTimings(t)
			}
			if err := ev.add(frame); err != nil {
				return err
			}
		}
		return ev.send()
	})
	if err != nil {
		ev.fail(asAPIError(err))
		return
	}
	c := chatDelta{FinishReason: &out.finish, Delta: struct{}{}}
	if j.tokenIDs {
		c.TokenIDs = ids(out.rest)
	}
	last := base.with(c)
	if j.includeUsage {
		_ = ev.add(last) // plain values: encoding can't fail
		last = base.with()
		last.Usage = newUsage(out.timings)
	}
	last.Timings = newTimings(out.timings)
	_ = ev.add(last)
	ev.finish()
}

func ids(tokens []placed) []int32 {
	out := make([]int32, len(tokens))
	for i, t := range tokens {
		out[i] = t.ID
	}
	return out
}
