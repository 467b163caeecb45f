package engine

import (
	"context"
	"sync/atomic"

	"assay/internal/engine/kv"
)

// slot is the state of one request in work.
type slot struct {
	id     int
	cache  *kv.Cache
	logits []float32 // [vocabulary]
	ids    []int32   // the sequence: the prompt, and what was drawn
	ahead  *ahead    // nil: nothing is drafted
	turn   *turn

	busy                       atomic.Bool
	prompt, cached, read, drew atomic.Int32 // what SlotState tells of them
}

// SlotState is what a slot is doing.
type SlotState struct {
	Busy      bool
	Prompt    int // tokens of the request's prompt; these are of the last one when it is not busy
	Cached    int // of them, reused
	Read      int // of them, computed
	Predicted int // tokens drawn
}

func (e *Engine) newSlots(store *kv.Store) {
	vocabulary := e.info.Vocabulary
	e.slots = make(chan *slot, e.options.Slots)
	for i := range e.options.Slots {
		s := &slot{id: i, cache: store.NewCache(), logits: make([]float32, vocabulary), turn: e.rounds.join()}
		if e.options.Drafts > 0 {
			s.ahead = e.newAhead(e.newDrafter(), e.options.Drafts)
		}
		e.all = append(e.all, s)
		e.slots <- s
	}
	e.boundContexts(store)
	e.rounds.drafts = e.options.Drafts > 0
}

// acquire takes a free slot, and waits for one if it must. Who came first is served
// first.
func (e *Engine) acquire(ctx context.Context) (s *slot, waited bool, err error) {
	select { // a closed Engine takes nobody, even when a slot is free
	case <-e.closed:
		return nil, false, ErrClosed
	default:
	}
	select {
	case s = <-e.slots: // only when nobody waits: a slot that comes back goes to who does
		return s, false, nil
	default:
	}
	if n := e.waiting.Add(1); n > int64(max(0, e.options.Queue)) {
		e.waiting.Add(-1)
		return nil, true, &BusyError{Slots: e.options.Slots, Waiting: int(n) - 1}
	}
	defer e.waiting.Add(-1)
	select {
	case s = <-e.slots:
		return s, true, nil
	case <-ctx.Done():
		return nil, true, ctx.Err()
	case <-e.closed:
		return nil, true, ErrClosed
	}
}

// release gives a slot back.
func (e *Engine) release(s *slot) {
	e.rounds.leave(s.turn)
	s.cache.Release()
	e.rounds.room.leave(s.turn)
	s.turn.Sequence.Tokens, s.turn.ended, s.turn.watched = nil, nil, nil // of the request's
	s.busy.Store(false)
	e.slots <- s
}

// show tells SlotState of the request.
func (s *slot) show(prompt int, t *Timings) {
	s.prompt.Store(int32(prompt))
	s.cached.Store(int32(t.Cached))
	s.read.Store(int32(t.Prompt))
	s.drew.Store(int32(t.Predicted))
}

// SlotStates is what each slot is doing.
func (e *Engine) SlotStates() []SlotState {
	out := make([]SlotState, len(e.all))
	for i, s := range e.all {
		out[i] = SlotState{
			Busy: s.busy.Load(), Prompt: int(s.prompt.Load()), Cached: int(s.cached.Load()),
			Read: int(s.read.Load()), Predicted: int(s.drew.Load()),
		}
	}
	return out
}
