package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"assay/internal/engine/sample"
)

// Generate runs one request: it waits for a free slot, reads the prompt and
// draws tokens, each of which is given to emit before the next is computed.
// When ctx ends, or the Engine is closed, it stops within one layer of a pass and
// returns the reason. An error of emit
// ends it too; ErrStop is no failure. The Result is valid up to where it came,
// also beside an error.
func (e *Engine) Generate(ctx context.Context, r Request, emit func(Token) error) (Result, error) {
	if err := e.check(&r); err != nil {
		return Result{}, err
	}
	queued := time.Now()
	var s *slot
	select { // a closed Engine takes nobody, even when a slot is free
	case <-e.closed:
		return Result{}, ErrClosed
	default:
	}
	select {
	case s = <-e.slots:
	case <-ctx.Done():
		return Result{}, ctx.Err()
	case <-e.closed:
		return Result{}, ErrClosed
	}
	defer func() {
		s.cache.Release()
		e.slots <- s
	}()
	g := generation{e: e, slot: s, r: r, sampler: sample.New(r.Sampling, e.info.Vocabulary, e.options.Context)}
	g.result.Timings.QueueTime = time.Since(queued)
	err := g.run(ctx, emit)
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
	id      [1]int32      // the token to compute
	window  window        // of the last pass
	took    time.Duration // of the last pass, the wait for it left out
	stop    func() bool   // whether to give up, made once so that tokens allocate nothing
}

func (g *generation) run(ctx context.Context, emit func(Token) error) error {
	t := &g.result.Timings
	start := time.Now()
	if err := g.readPrompt(ctx, start); err != nil {
		return err
	}
	if g.r.Constraint != nil {
		end := g.e.options.Context
		if g.r.MaxTokens >= 0 {
			end = min(end, g.slot.cache.Len()+g.r.MaxTokens)
		}
		g.sampler.Constrain(g.r.Constraint, g.slot.cache.Len(), end)
	}
	var banned []int32
	if g.r.IgnoreEOS {
		banned = g.e.tokenizer.EOG()
	}
	var first time.Time
	g.result.Finish = FinishLength
	g.beginDrafts()
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

// readPrompt computes the prompt, batch by batch, and leaves the logits after
// it in the slot.
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
	for rest := g.r.Prompt; len(rest) > 0; {
		n := min(g.e.options.Batch, len(rest))
		var logits []float32
		if n == len(rest) {
			logits = g.slot.logits
		}
		if err := g.forward(ctx, rest[:n], logits); err != nil {
			return err
		}
		for _, id := range rest[:n] {
			g.sampler.Accept(id)
		}
		rest = rest[n:]
		t.Prompt += n
		t.PromptTime = time.Since(start)
		if err := progress(); err != nil {
			return err
		}
	}
	return nil
}

// forward is one pass, when it is this request's turn.
func (g *generation) forward(ctx context.Context, ids []int32, logits []float32) error {
	g.e.passing.Lock()
	defer g.e.passing.Unlock()
	if err := g.ended(ctx); err != nil {
		return err
	}
	if g.stop == nil {
		g.stop = func() bool { return g.ended(ctx) != nil }
	}
	began := time.Now()
	defer func() { g.took = time.Since(began) }()
	if !g.e.pass.RunUnless(g.stop, g.slot.cache, ids, logits) {
		return g.ended(ctx)
	}
	return nil
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
