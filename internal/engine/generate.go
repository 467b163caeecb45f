package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"assay/internal/engine/expert"
	"assay/internal/engine/model"
	"assay/internal/engine/sample"
)

// Generate runs one request: it waits for a free slot, reads the prompt and
// draws tokens, each of which is given to emit before the next is computed.
// When ctx ends, or the Engine is closed, it stops within one layer of a pass, or
// with the pass where others share it, and returns the reason. An error of emit ends
// it too; ErrStop is no failure. The Result is valid up to where it came, also beside
// an error.
func (e *Engine) Generate(ctx context.Context, r Request, emit func(Token) error) (Result, error) {
	if err := e.check(&r); err != nil {
		return Result{}, err
	}
	queued := time.Now()
	s, waited, err := e.acquire(ctx)
	if err != nil {
		return Result{}, err
	}
	defer e.release(s)
	g := generation{e: e, slot: s, r: r, sampler: sample.New(r.Sampling, e.info.Vocabulary, e.options.Context)}
	g.result.Timings.Slot = s.id
	if waited {
		g.result.Timings.QueueTime = time.Since(queued)
	}
	g.begin(ctx)
	err = g.run(ctx, emit)
	g.keep()
	return g.result, err
}

func (e *Engine) check(r *Request) error {
	if err := r.Sampling.Validate(); err != nil {
		return err
	}
	if len(r.Prompt) == 0 {
		return fmt.Errorf("the prompt has no tokens; at least one is needed")
	}
	if len(r.Prompt) >= e.options.Context {
		return &ContextError{Prompt: len(r.Prompt), Context: e.options.Context}
	}
	for i, id := range r.Prompt {
		if id < 0 || int(id) >= e.info.Vocabulary {
			return fmt.Errorf("prompt token %d is %d, but the vocabulary has ids 0 to %d", i, id, e.info.Vocabulary-1)
		}
	}
	return nil
}

// generation is one request in a slot.
type generation struct {
	e       *Engine
	slot    *slot
	r       Request
	sampler *sample.Sampler
	result  Result
	id      [1]int32 // the token to compute
	window  window   // of the last pass
}

// begin makes the slot the request's.
func (g *generation) begin(ctx context.Context) {
	t := g.slot.turn
	t.Sequence.Cache = g.slot.cache
	t.ended = func() error { return g.ended(ctx) }
	g.slot.busy.Store(true)
	g.slot.show(len(g.r.Prompt), &g.result.Timings)
}

func (g *generation) run(ctx context.Context, emit func(Token) error) error {
	t := &g.result.Timings
	start := time.Now()
	g.recall(ctx)
	if err := g.readPrompt(ctx, start); err != nil {
		return err
	}
	if g.r.Constraint != nil {
		at, end := g.slot.cache.Len(), g.e.options.Context
		if g.r.MaxTokens >= 0 {
			end = at + min(g.r.MaxTokens, end-at) // MaxTokens may be any number
		}
		g.sampler.Constrain(g.r.Constraint, at, end)
	}
	var banned []int32
	if g.r.IgnoreEOS {
		banned = g.e.tokenizer.EOG()
	}
	var first time.Time
	g.result.Finish = FinishLength
	for g.r.MaxTokens < 0 || t.Predicted < g.r.MaxTokens {
		logits, position := g.logits(), g.position()
		id := g.sampler.Draw(logits, position, banned)
		now := time.Now()
		if t.Predicted++; t.Predicted == 1 {
			first, t.PromptTime = now, now.Sub(start)
		} else {
			g.window.count(t)
		}
		t.DecodeTime = now.Sub(first)
		g.drawn(id)
		token := Token{ID: id, End: g.e.tokenizer.IsEOG(id), Timings: *t}
		if g.r.Logprobs >= 0 {
			token.Logprob, token.Top = sample.Logprobs(logits, id, g.r.Logprobs)
		}
		if token.End {
			g.result.Finish = FinishStop
		}
		if err := emit(token); errors.Is(err, ErrStop) {
			g.result.Finish = FinishStop
			return nil
		} else if err != nil {
			return err
		}
		g.sampler.Accept(id)
		if g.sampler.Ended() {
			g.result.Finish = FinishStop
			return nil
		}
		if token.End || t.Predicted == g.r.MaxTokens || position+1 >= g.e.options.Context {
			return nil
		}
		if err := g.next(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// drawn notes a token.
func (g *generation) drawn(id int32) {
	g.slot.drew.Store(int32(g.result.Timings.Predicted))
	if g.reuses() {
		g.slot.ids = append(g.slot.ids, id)
	}
}

// readPrompt computes what there is not of the prompt, chunk by chunk, and leaves the
// logits after it in the slot.
func (g *generation) readPrompt(ctx context.Context, start time.Time) error {
	t := &g.result.Timings
	progress := func() error {
		if g.r.Progress == nil {
			return nil
		}
		return g.r.Progress(*t)
	}
	if err := progress(); err != nil {
		return err
	}
	g.beginDrafts(t.Cached)
	turn := g.slot.turn
	turn.prompt = true
	defer func() { turn.prompt = false }()
	for rest := g.r.Prompt[t.Cached:]; len(rest) > 0; {
		if err := g.forward(ctx, rest, g.slot.logits); err != nil {
			return err
		}
		n := turn.taken
		for _, id := range rest[:n] {
			g.sampler.Accept(id)
		}
		g.readDrafts(g.window.start, n)
		rest = rest[n:]
		g.window.start += n
		g.mark()
		t.Prompt += n
		t.PromptTime = time.Since(start)
		g.slot.show(len(g.r.Prompt), t)
		if err := progress(); err != nil {
			return err
		}
	}
	return nil
}

// forward computes tokens in the next round. The logits are for the last of them.
func (g *generation) forward(ctx context.Context, ids []int32, logits []float32) error {
	t := g.slot.turn
	t.Tokens, t.Logits = ids, logits
	if a := g.slot.ahead; a != nil {
		t.watched = &a.watched
	}
	t.looked = expert.Count{}
	err := g.e.rounds.compute(ctx, t)
	g.result.Timings.ExpertLookups += t.looked.Lookups
	g.result.Timings.ExpertHits += t.looked.Hits
	return err
}

// runPass is a round's pass.
func (e *Engine) runPass(stop func() bool, all []model.Sequence) error {
	defer endOnPanic()
	e.passing.Lock()
	defer e.passing.Unlock()
	before := e.lookups()
	err := e.pass.Run(stop, all)
	after := e.lookups()
	e.rounds.looked(expert.Count{Lookups: after.Lookups - before.Lookups, Hits: after.Hits - before.Hits})
	e.experts.Store(e.pass.ExpertsRead())
	return err
}

// endOnPanic ends the program when a pass panics, as it ends when a worker of the pool
// does: caches are half written, workers may still be at it, and all whose round it is
// wait. An HTTP server would recover the panic, and they would wait for ever.
func endOnPanic() {
	if v := recover(); v != nil {
		go panic(fmt.Sprintf("%v, in a pass:\n%s", v, debug.Stack())) // which nobody recovers
		select {}
	}
}

// ended says why the request is over before its time, if it is.
func (g *generation) ended(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-g.e.closed:
		return ErrClosed
	default:
		return nil
	}
}
