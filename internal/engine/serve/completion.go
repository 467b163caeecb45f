package serve

import (
	"encoding/json"
	"net/http"

	"assay/internal/chat/reply"
	"assay/internal/engine"
)

// completions is POST /v1/completions.
func (s *Server) completions(w http.ResponseWriter, r *http.Request, e *engine.Engine) {
	j, err := s.readTextJob(w, r, e)
	if err != nil {
		writeError(w, err)
		return
	}
	if j.stream {
		s.streamText(w, r, e, j)
		return
	}
	text, shown, out, failed := s.collect(r.Context(), e, j)
	if failed != nil {
		writeError(w, asAPIError(failed))
		return
	}
	c := textChoice{Text: text, FinishReason: &out.finish}
	if j.Logprobs >= 0 {
		c.Logprobs = newTextLogprobs(e.Tokenizer(), shown)
	}
	if j.tokenIDs {
		c.TokenIDs = ids(append(shown, out.rest...))
	}
	a := s.newAnswer("cmpl-", "text_completion").with(c)
	a.Usage, a.Timings = newUsage(out.timings), newTimings(out.timings)
	writeJSON(w, http.StatusOK, a)
}

func (s *Server) readTextJob(w http.ResponseWriter, r *http.Request, e *engine.Engine) (job, *apiError) {
	f, err := s.readFields(w, r)
	if err != nil {
		return job{}, err
	}
	defer f.release()
	j, err := readJob(f, e.Info().Vocabulary)
	if err != nil {
		return job{}, err
	}
	j.Logprobs = f.int("logprobs", -1, 0, maxTop)
	j.nativeTokens = f.bool("return_tokens", false)
	j.Prompt = readPrompt(f, e)
	if f.err != nil {
		return j, f.err
	}
	return j, s.constrain(e, &j, reply.Format{Style: reply.Bare}, reply.ThinkOver)
}

// readPrompt takes a string, an array of token ids, which is used as it is, or
// an array with one of either.
func readPrompt(f *fields, e *engine.Engine) []int32 {
	raw := f.get("prompt")
	if kind(raw) == "an array" {
		var items []json.RawMessage
		_ = json.Unmarshal(raw, &items) // it is part of a document that has been parsed
		if len(items) > 0 && kind(items[0]) != "a number" {
			if len(items) > 1 {
				f.fail("prompt", "%d prompts (want one a request)", len(items))
				return nil
			}
			raw = items[0]
		}
	}
	var prompt []int32
	switch kind(raw) {
	case "nothing":
		f.fail("prompt", "missing (want a string or an array of token ids)")
		return nil
	case "a string":
		text, _ := asString(raw)
		prompt = EncodePrompt(e.Tokenizer(), text)
	case "an array":
		prompt = readTokens(f, "prompt", raw, e.Info().Vocabulary)
	default:
		f.fail("prompt", "%s is neither a string nor an array of token ids", kind(raw))
		return nil
	}
	if len(prompt) == 0 {
		f.fail("prompt", "empty (want at least one token)")
	}
	return prompt
}

// streamText sends a frame for each piece of text and one with the finish
// reason, which always has usage and timings.
func (s *Server) streamText(w http.ResponseWriter, r *http.Request, e *engine.Engine, j job) {
	ev := newEvents(w, s.config.Stall)
	defer ev.keepAlive(s.config.Ping)()
	base := s.newAnswer("cmpl-", "text_completion")
	if j.progress {
		j.Progress = func(t engine.Timings) error {
			frame := base.with(textChoice{})
			frame.Timings, frame.Progress = newTimings(t), newProgress(len(j.Prompt), t)
			if err := ev.add(frame); err != nil {
				return err
			}
			return ev.send()
		}
	}
	out, err := s.generate(r.Context(), e, j, func(seg segment, t engine.Timings) error {
		if seg.text == "" {
			return nil
		}
		c := textChoice{Text: seg.text}
		if j.Logprobs >= 0 {
			c.Logprobs = newTextLogprobs(e.Tokenizer(), seg.tokens)
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
		return ev.send()
	})
	if err != nil {
		ev.fail(asAPIError(err))
		return
	}
	c := textChoice{FinishReason: &out.finish}
	if j.tokenIDs {
		c.TokenIDs = ids(out.rest)
	}
	last := base.with(c)
	last.Usage, last.Timings = newUsage(out.timings), newTimings(out.timings)
	_ = ev.add(last) // plain values: encoding can't fail
	ev.finish()
}
