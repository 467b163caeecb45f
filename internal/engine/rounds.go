package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"assay/internal/engine/expert"
	"assay/internal/engine/model"
)

// rounds runs passes, one at a time, each over all sequences that have tokens to
// compute: a round.
//
// # Who runs a round
//
// There is no goroutine for it. A request hands in its turn, and the one that is last
// runs the pass for all of them, and wakes the others when it is over. With a single
// request nothing is handed from one goroutine to another, which would cost a small
// model a good share of its time.
//
// A round waits for the sequences of the last one, which are drawing their next
// tokens and sending them. Who takes longer than half of what the last round took is
// not waited for, and joins a later one: a client that takes its text slowly holds up
// nobody else.
//
// # What a round takes
//
// Of a sequence that writes: its next token and its drafts, all of them. Of prompts:
// chunks, in equal parts, so that a short prompt needs not wait for the end of a long
// one. While others write, the prompts' chunks are together only as large as makes the
// round last about promptSlows times as long as one without them, and at least
// leastPrompt tokens: reading a long prompt slows down what others write to no less
// than about a quarter, and goes on in every round.
//
// What a round with prompts in it took says nothing of drafts. So where tokens are
// drafted, prompts wait for one round after measureAfter such ones: else nothing would
// be known of drafts, nor of rounds without prompts, as long as prompts keep coming.
//
// What a round takes changes no token of any sequence, only the time.
type rounds struct {
	pass   func(stop func() bool, all []model.Sequence) error
	closed <-chan struct{}
	batch  int   // tokens of prompts in one pass, at most
	room   *room // for keys and values; nil: nobody bounds them
	drafts bool  // tokens are drafted, which has to be measured
	mixed  int   // rounds of both kinds since the last without prompts; guarded by mu

	mu     sync.Mutex
	turns  []*turn // of all slots
	ready  []*turn // that have handed in tokens, in that order
	coming int     // turns that have not, and are waited for
	busy   bool    // a round runs, or one of the ready ones was told to run it
	late   *time.Timer
	armed  bool // late is to be heeded

	// Of the round that runs; they belong to who runs it.
	now  []*turn
	seqs []model.Sequence
	stop func() bool

	pace  pace
	count roundCount
}

// roundCount is what rounds did since the start.
type roundCount struct {
	rounds, sequences, tokens int64
}

// turn is a slot's part in rounds.
type turn struct {
	model.Sequence              // what is to be computed; Logits are for its last tokens
	prompt         bool         // of a prompt: a round may take fewer tokens
	ended          func() error // says why the request is over, once it is
	watched        *watched     // gets the hidden states of the tokens; nil: nobody watches

	looked expert.Count // experts that its last pass asked for
	pages  int64        // of keys and values, counted by rounds.room

	taken int           // tokens that the round computed
	took  time.Duration // this sequence's part of its time; 0: not known
	err   error

	place place         // guarded by rounds.mu, as are lead and held
	lead  bool          // it was told to run the round
	held  bool          // while it is coming, it is waited for however long it takes
	wake  chan struct{} // one at a time: its round is over, or it is to run it
	one   [1]*turn
}

type place uint8

const (
	away      place = iota // is not waited for
	coming                 // was in the last round
	ready                  // has handed in tokens
	computing              // is in the round that runs
)

// Of how long a round waits for those that are coming.
const (
	graceShare = 2 // half of the last round
	graceLeast = 100 * time.Microsecond
	graceMost  = 100 * time.Millisecond
)

func newRounds(pass func(func() bool, []model.Sequence) error, closed <-chan struct{}, slots, batch int) *rounds {
	r := &rounds{
		pass: pass, closed: closed, batch: batch,
		ready: make([]*turn, 0, slots), now: make([]*turn, 0, slots), seqs: make([]model.Sequence, 0, slots),
		pace: newPace(slots),
	}
	r.stop = r.stopped
	r.late = time.AfterFunc(time.Hour, r.expire)
	r.late.Stop()
	return r
}

// join makes a slot's turn.
func (r *rounds) join() *turn {
	t := &turn{wake: make(chan struct{}, 1)}
	t.one[0] = t
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns = append(r.turns, t)
	return t
}

// compute hands in t and returns when a round has taken it, or its request is over
// before that, or has no room; then the sequence is as it was.
func (r *rounds) compute(ctx context.Context, t *turn) error {
	if err := t.ended(); err != nil {
		return err
	}
	before := t.pages
	if err := r.room.grow(t); err != nil {
		return err
	}
	if t.pages > before {
		r.room.yield()
	}
	r.room.provide(t)
	for lead := r.arrive(t); ; lead = t.lead {
		if lead {
			t.lead = false
			if r.run(t) {
				return t.err
			}
		}
		if !r.wait(ctx, t) {
			return t.ended()
		}
		if !t.lead {
			return t.err
		}
	}
}

// arrive takes t's tokens in. It returns true when t has to run the round.
func (r *rounds) arrive(t *turn) (lead bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.place == coming {
		r.coming--
	}
	t.place, t.held = ready, false
	r.ready = append(r.ready, t)
	switch {
	case r.busy:
	case r.coming == 0:
		r.busy = true
		return true
	default:
		r.arm()
	}
	return false
}

// wait returns true when t's round is over, or t has to run it; false when t left
// because its request is over.
func (r *rounds) wait(ctx context.Context, t *turn) bool {
	select {
	case <-t.wake:
		return true
	case <-ctx.Done():
	case <-r.closed:
	}
	if r.withdraw(t) {
		return false
	}
	<-t.wake // of the round that it is in
	return true
}

// withdraw takes t out, unless a round has it or had it.
func (r *rounds) withdraw(t *turn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.place != ready {
		return false
	}
	t.place = away
	for i, other := range r.ready {
		if other == t {
			r.ready = append(r.ready[:i], r.ready[i+1:]...)
			break
		}
	}
	if t.lead { // somebody else has to
		<-t.wake
		t.lead, r.busy = false, false
	}
	r.begin()
	return true
}

// leave tells that t will not come for now.
func (r *rounds) leave(t *turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.held = false
	if t.place == coming {
		r.coming--
		t.place = away
		r.begin()
	}
}

// begin has one of the ready turns run a round, if nobody else is waited for.
func (r *rounds) begin() {
	if !r.busy && r.coming == 0 && len(r.ready) > 0 {
		r.busy = true
		t := r.ready[0]
		t.lead = true
		t.wake <- struct{}{}
	}
}

// arm sets a limit to the wait for those that are coming.
func (r *rounds) arm() {
	if !r.armed {
		r.armed = true
		r.late.Reset(min(max(r.pace.last/graceShare, graceLeast), graceMost))
	}
}

// expire ends the wait for those that are coming.
func (r *rounds) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.armed || r.busy {
		return
	}
	r.armed = false
	for _, t := range r.turns {
		if t.place == coming && !t.held {
			t.place = away
			r.coming--
		}
	}
	r.begin()
	if r.coming > 0 {
		r.arm()
	}
}

// hold has the next round wait for t, which computes what it will hand in: a drafter's
// guesses, which no round could go on beside.
func (r *rounds) hold(t *turn) {
	r.mu.Lock()
	t.held = true
	r.mu.Unlock()
}

// run is a round, by t. It returns whether there was room for t in it.
func (r *rounds) run(t *turn) (taken bool) {
	r.mu.Lock()
	if r.armed {
		r.armed = false
		r.late.Stop()
	}
	r.gather()
	r.mu.Unlock()
	began := time.Now()
	err := r.pass(r.stop, r.seqs)
	took := time.Since(began)
	switch {
	case errors.Is(err, model.ErrStopped):
		for _, t := range r.now {
			t.err = t.ended()
		}
	case err != nil && len(r.now) > 1:
		r.each()
	default:
		for _, t := range r.now {
			t.err = err
		}
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.finish(took, err != nil)
	for i, other := range r.now {
		other.place = coming
		if other != t {
			other.wake <- struct{}{}
		}
		r.now[i], r.seqs[i] = nil, model.Sequence{}
	}
	r.coming += len(r.now)
	r.now, r.seqs, r.busy = r.now[:0], r.seqs[:0], false
	if len(r.ready) > 0 {
		r.arm()
	}
	return t.place == coming
}

// each runs the sequences of a round that failed one by one: what can't be read for
// one of them is no reason for the others to fail.
func (r *rounds) each() {
	all, seqs := r.now, r.seqs
	defer func() { r.now, r.seqs = all, seqs }()
	for i, t := range all {
		r.now, r.seqs = t.one[:], seqs[i:i+1]
		if t.err = r.pass(r.stop, r.seqs); errors.Is(t.err, model.ErrStopped) {
			t.err = t.ended()
		}
	}
}

// stopped says that all requests of the round are over, so that it need not go on.
func (r *rounds) stopped() bool {
	for _, t := range r.now {
		if t.ended() == nil {
			return false
		}
	}
	return true
}

// measureAfter costs prompts little: a round without them is a short one.
const measureAfter = 16

// gather chooses what the round takes from those that are ready; the others stay.
func (r *rounds) gather() {
	prompts, writing := 0, 0
	for _, t := range r.ready {
		if t.prompt {
			prompts++
		}
	}
	room := model.MaxBatch
	if prompts > 0 {
		room -= leastPrompt // is theirs
	}
	for _, t := range r.ready {
		if !t.prompt && len(t.Tokens) <= room-writing {
			writing += len(t.Tokens)
			r.take(t, len(t.Tokens))
		}
	}
	budget := r.pace.prompts(r.batch, model.MaxBatch-writing, writing > 0)
	switch {
	case prompts == 0:
		r.mixed = 0
	case writing == 0:
	case r.drafts && r.mixed >= measureAfter:
		r.mixed, budget = 0, 0
	default:
		r.mixed++
	}
	for _, t := range r.ready {
		if !t.prompt {
			continue
		}
		if n := min(len(t.Tokens), (budget+prompts-1)/prompts); n > 0 {
			r.take(t, n)
			budget -= n
		}
		prompts--
	}
	rest := r.ready[:0]
	for _, t := range r.ready {
		if t.place == ready {
			rest = append(rest, t)
		}
	}
	clear(r.ready[len(rest):])
	r.ready = rest
}

// take puts the first n tokens of t in the round.
func (r *rounds) take(t *turn, n int) {
	s := t.Sequence
	if t.taken = n; n < len(s.Tokens) {
		s.Tokens, s.Logits = s.Tokens[:n], nil
	}
	if t.watched != nil {
		s.Hidden = t.watched.rows(0, n)
	}
	t.place = computing
	r.now, r.seqs = append(r.now, t), append(r.seqs, s)
}

// finish tells the turns of a round what it cost them.
func (r *rounds) finish(took time.Duration, failed bool) {
	var l workload
	for _, t := range r.now {
		l.tokens += t.taken
		if t.prompt {
			l.prompt += t.taken
		} else {
			l.writing++
			l.drafts += t.taken - 1
		}
	}
	if failed {
		for _, t := range r.now {
			t.took = 0
		}
		return
	}
	r.count.rounds++
	r.count.sequences += int64(len(r.now))
	r.count.tokens += int64(l.tokens)
	base := r.pace.measured(l, took)
	for _, t := range r.now {
		t.took = base.part(l, took, t.taken)
	}
}

// counted is what rounds did so far.
func (r *rounds) counted() roundCount {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}
