package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"assay/internal/engine"
)

// outcome is how a request's generation ended.
type outcome struct {
	finish  engine.Finish
	timings engine.Timings
	rest    []placed // tokens that showed no text
	stopped string   // the stop string that ended it
}

// generate runs one job. For every token, show is given what has become certain
// of the text, which may be nothing, and the timings so far; an error of show
// ends the work. When generate returns, the counters are updated and the log
// line is written, so that both are there before a client sees its last frame.
func (s *Server) generate(ctx context.Context, e *engine.Engine, j job, show func(segment, engine.Timings) error) (outcome, error) {
	count, done := s.metrics.begin(), false
	defer func() {
		if !done { // a panic, which net/http logs
			count(ending{finish: "error"}, engine.Timings{})
		}
	}()
	id := s.requests.Add(1)
	text := newAssembler(e.Tokenizer(), j.stops, j.marks())
	var gone error // of show: the client can't be written to
	stopped := false

	result, err := e.Generate(ctx, j.Request, func(t engine.Token) error {
		var seg segment
		seg, stopped = text.push(t)
		if gone = show(seg, t.Timings); gone != nil {
			return gone
		}
		if stopped {
			return engine.ErrStop
		}
		return nil
	})
	cost := result.Timings // of what was done, beside an error too
	var busy *engine.BusyError
	if errors.As(err, &busy) {
		err = s.refuse(busy)
	}
	if err == nil && !stopped {
		gone = show(text.flush(), cost)
		err = gone
	}
	end := ending{finish: string(result.Finish)}
	switch {
	case busy != nil:
		end = ending{finish: "refused"}
	case gone != nil || ctx.Err() != nil && err != nil:
		end = ending{finish: "none", cancelled: true}
	case err != nil:
		end = ending{finish: "error"}
	}
	done = true
	count(end, cost)
	if end.finish == "error" || end.finish == "refused" {
		s.logf("request %d: prompt %d tokens: %v", id, len(j.Prompt), err)
	} else {
		s.logf("%s", logLine(id, len(j.Prompt), end, cost))
	}
	return outcome{finish: result.Finish, timings: cost, rest: text.rest(), stopped: text.stop.found}, err
}

// collect runs a job whose answer is sent whole.
func (s *Server) collect(ctx context.Context, e *engine.Engine, j job) (text string, shown []placed, out outcome, err error) {
	var b strings.Builder
	out, err = s.generate(ctx, e, j, func(seg segment, _ engine.Timings) error {
		b.WriteString(seg.text)
		shown = append(shown, seg.tokens...)
		return nil
	})
	return b.String(), shown, out, err
}

// ending is how a request ended, for the log and the counters.
type ending struct {
	finish    string // OpenAI's finish_reason; "none", "error" or "refused" where there is none
	cancelled bool
}

// logLine is what the log says of one request. Its shape is read by programs:
// the kit's adapter for this server among them.
func logLine(id int64, prompt int, end ending, t engine.Timings) string {
	tm := newTimings(t)
	line := fmt.Sprintf("request %d: prompt %d tokens = %d reused + %d read in %.2f ms (%.2f tok/s), %d generated in %.2f ms (%.2f tok/s)",
		id, prompt, tm.CacheN, tm.PromptN, tm.PromptMS, tm.PromptPerSecond, tm.PredictedN, tm.PredictedMS, tm.PredictedPerSecond)
	if t.Offered > 0 {
		line += fmt.Sprintf(", drafts accepted %d of %d in %d rounds", t.Accepted, t.Offered, t.Rounds)
	}
	if rate, ok := t.HitRate(); ok {
		line += fmt.Sprintf(", experts at hand %d of %d (%.2f %%)", t.ExpertHits, t.ExpertLookups, 100*rate)
	}
	line += ", finish " + end.finish
	if end.cancelled {
		line += " (cancelled)"
	}
	if t.QueueTime > 0 {
		line += fmt.Sprintf(", waited %.2f ms", milliseconds(t.QueueTime))
	}
	return line
}
