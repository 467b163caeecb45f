package engine

import (
	"context"
	"time"

	"assay/internal/engine/spec"
)

// ahead is what a slot needs to draft.
type ahead struct {
	drafter spec.Drafter
	choose  *spec.Window
	guesses []spec.Guess
	ids     []int32   // the last token, then its drafts
	joined  []int32   // tokens drawn since the drafter was told
	logits  []float32 // [1+drafts, vocabulary]
	watched watched   // the model's hidden states of the last pass
	row     int       // the row of them that the first row of logits came from
}

// watched is where a pass puts the hidden states of its tokens for a drafter that
// watches. Nobody watches the zero value.
type watched struct {
	states []float32 // [tokens, width]
	width  int
}

// rows are the states of n tokens, the first of them in row i; nil: nobody watches.
func (w *watched) rows(i, n int) []float32 {
	if w.states == nil {
		return nil
	}
	return w.states[i*w.width:][:n*w.width]
}

// newAhead makes room for windows of most drafts and, where the drafter watches, for
// the states of as many tokens of a prompt as a pass takes.
func (e *Engine) newAhead(d spec.Drafter, most int) *ahead {
	a := &ahead{
		drafter: d, choose: spec.NewWindow(most),
		guesses: make([]spec.Guess, most), ids: make([]int32, 1+most), joined: make([]int32, 0, 1+most),
		logits: make([]float32, (1+most)*e.info.Vocabulary),
	}
	if d.Watches() {
		n := max(e.options.Batch, 1+most)
		a.watched = watched{make([]float32, n*e.info.Embedding), e.info.Embedding}
	}
	return a
}

// window is the last pass: its rows of logits, of which the first is of the last
// token that was sure, and each of the others of a draft.
type window struct {
	start    int           // position of what is drawn from the first row
	row      int           // that is drawn from now: all drafts before it were right
	drafts   int           // that the pass verified
	drafting time.Duration // that guessing them took
}

// beginDrafts starts a sequence of which reused tokens of the prompt are at hand.
func (g *generation) beginDrafts(reused int) {
	if a := g.slot.ahead; a != nil {
		a.drafter.Begin(g.r.Prompt[:reused+1])
		a.choose.Begin()
		a.joined = a.joined[:0]
	}
}

// readDrafts tells the drafter of n tokens of the prompt that were just computed,
// the first of them at position from, by the tokens that follow them.
func (g *generation) readDrafts(from, n int) {
	if a := g.slot.ahead; a != nil {
		next := g.r.Prompt[from+1 : min(from+n+1, len(g.r.Prompt))]
		a.drafter.Accept(next, a.watched.rows(0, len(next)))
		a.row = n - 1
	}
}

// position is where the next token is drawn.
func (g *generation) position() int { return g.window.start + g.window.row }

// logits are those that the next token is drawn from.
func (g *generation) logits() []float32 {
	if g.window.drafts == 0 {
		return g.slot.logits
	}
	n := g.e.info.Vocabulary
	return g.slot.ahead.logits[g.window.row*n:][:n]
}

// next sees to the logits after id, which was just drawn: they are there already if
// it was drafted, and else take a pass. That a window is drawn from token by token
// makes every end exact, a cancelled request's too.
func (g *generation) next(ctx context.Context, id int32) error {
	w, a, t := &g.window, g.slot.ahead, &g.result.Timings
	if a == nil {
		w.start++
		g.id[0] = id
		return g.forward(ctx, g.id[:], g.slot.logits)
	}
	a.joined = append(a.joined, id)
	if w.row < w.drafts && id == a.ids[1+w.row] {
		w.row++
		return g.ended(ctx)
	}
	g.measured()
	at := g.position()
	g.slot.cache.Truncate(at) // drafts that were wrong
	a.drafter.Accept(a.joined, a.watched.rows(a.row, len(a.joined)))
	a.joined, a.row = a.joined[:0], 0

	*w = window{start: at + 1}
	a.ids[0] = id
	room := g.e.options.Context - 2 - at // what is drawn last has the context's last position
	if g.r.MaxTokens >= 0 {
		room = min(room, g.r.MaxTokens-t.Predicted-1)
	}
	if n := min(a.choose.Want(), room); n > 0 {
		g.e.rounds.hold(g.slot.turn)
		began := time.Now()
		w.drafts = a.drafter.Draft(a.guesses[:n], g.e.options.DraftMinP)
		w.drafting = time.Since(began)
		for i, guess := range a.guesses[:w.drafts] {
			a.ids[1+i] = guess.ID
		}
	}
	return g.forward(ctx, a.ids[:1+w.drafts], g.windowLogits())
}

// count adds the token that was just drawn to those of a round: the first of a new
// one, or a draft that was right and has its successor now. So tokens are one of the
// prompt, one of each round, and the accepted drafts, however a request ends.
func (w *window) count(t *Timings) {
	if w.row > 0 {
		t.Accepted++
		return
	}
	t.Rounds++
	t.Offered += w.drafts
}

// windowLogits has room for the logits of the window's rows.
func (g *generation) windowLogits() []float32 {
	if g.window.drafts == 0 {
		return g.slot.logits
	}
	return g.slot.ahead.logits[:(1+g.window.drafts)*g.e.info.Vocabulary]
}

// measured tells the window's chooser of a round that is over. The prompt's last
// pass is none; nor is one of which this sequence's part is not known.
func (g *generation) measured() {
	if w, took := &g.window, g.slot.turn.took; g.result.Timings.Rounds > 0 && took > 0 {
		g.slot.ahead.choose.Measured(w.drafts, w.row, w.drafting, took)
	}
}
