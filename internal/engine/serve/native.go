package serve

import (
	"net/http"

	"assay/internal/engine"
)

// nativeFrame is a frame, or the whole, of llama-server's own /completion.
type nativeFrame struct {
	Index     int             `json:"index"`
	Content   string          `json:"content"`
	Tokens    []int32         `json:"tokens"`
	Stop      bool            `json:"stop"`
	Slot      int             `json:"id_slot"`
	Predicted int             `json:"tokens_predicted"`
	Evaluated int             `json:"tokens_evaluated"`
	Timings   *timings        `json:"timings,omitempty"`
	Progress  *promptProgress `json:"prompt_progress,omitempty"`

	*nativeEnd
}

// nativeEnd is what the last frame has, or the whole, and no other.
type nativeEnd struct {
	Model        string `json:"model"`
	StopType     string `json:"stop_type"` // eos, word or limit
	StoppingWord string `json:"stopping_word"`
	Truncated    bool   `json:"truncated"` // of the prompt, which is never cut here
	Cached       int    `json:"tokens_cached"`
}

// native is POST /completion: a text completion in llama-server's own shape.
func (s *Server) native(w http.ResponseWriter, r *http.Request, e *engine.Engine) {
	j, err := s.readTextJob(w, r, e)
	if err != nil {
		writeError(w, err)
		return
	}
	frame := func(seg segment, t engine.Timings) nativeFrame {
		return nativeFrame{Content: seg.text, Tokens: ids(seg.tokens), Slot: t.Slot, Predicted: t.Predicted, Evaluated: t.Prompt + t.Cached}
	}
	last := func(seg segment, out outcome) nativeFrame {
		f := frame(seg, out.timings)
		f.Stop, f.Timings = true, newTimings(out.timings)
		f.nativeEnd = &nativeEnd{Model: s.modelID(), StopType: "eos", Cached: out.timings.Cached + out.timings.Prompt + out.timings.Predicted}
		switch {
		case out.stopped != "":
			f.StopType, f.StoppingWord = "word", out.stopped
		case out.finish == engine.FinishLength:
			f.StopType = "limit"
		}
		return f
	}
	if !j.stream {
		text, shown, out, failed := s.collect(r.Context(), e, j)
		if failed != nil {
			writeError(w, asAPIError(failed))
			return
		}
		f := last(segment{text, append(shown, out.rest...)}, out)
		if !j.tokenIDs && !j.nativeTokens {
			f.Tokens = []int32{} // as there: a stream has them, a whole answer when asked
		}
		writeJSON(w, http.StatusOK, f)
		return
	}
	ev := newEvents(w, s.config.Stall)
	defer ev.keepAlive(s.config.Ping)()
	emit := func(f nativeFrame) error {
		if err := ev.add(f); err != nil {
			return err
		}
		return ev.send()
	}
	if j.progress {
		j.Progress = func(t engine.Timings) error {
			f := frame(segment{}, t)
			f.Timings, f.Progress = newTimings(t), newProgress(len(j.Prompt), t)
			return emit(f)
		}
	}
	out, failed := s.generate(r.Context(), e, j, func(seg segment, t engine.Timings) error {
		if seg.text == "" {
			return nil
		}
		f := frame(seg, t)
		if j.timingsPerToken {
			f.Timings = newTimings(t)
		}
		return emit(f)
	})
	if failed != nil {
		ev.fail(asAPIError(failed))
		return
	}
	_ = emit(last(segment{tokens: out.rest}, out)) // who would be told has gone
}
