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
}

func newAhead(d spec.Drafter, most, vocabulary int) *ahead {
	return &ahead{
		drafter: d, choose: spec.NewWindow(most),
		guesses: make([]spec.Guess, most), ids: make([]int32, 1+most), joined: make([]int32, 0, 1+most),
		logits: make([]float32, (1+most)*vocabulary),
	}
}

// window is the last pass: its rows of logits, of which the first is of the last
// token that was sure, and each of the others of a draft.
type window struct {
	start    int           // position of what is drawn from the first row
	row      int           // that is drawn from now: all drafts before it were right
	drafts   int           // that the pass verified
	drafting time.Duration // that guessing them took
}

func (g *generation) beginDrafts() {
	g.window = window{start: g.slot.cache.Len()}
	if a := g.slot.ahead; a != nil {
		a.drafter.Begin(g.r.Prompt)
		a.choose.Begin()
		a.joined = a.joined[:0]
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
	a.drafter.Accept(a.joined)
	a.joined = a.joined[:0]

	*w = window{start: at + 1}
	a.ids[0] = id
	room := g.e.options.Context - 2 - at // what is drawn last has the context's last position
	if g.r.MaxTokens >= 0 {
		room = min(room, g.r.MaxTokens-t.Predicted-1)
	}
	if n := min(a.choose.Want(), room); n > 0 {
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
// pass is none.
func (g *generation) measured() {
	if w := &g.window; g.result.Timings.Rounds > 0 {
		g.slot.ahead.choose.Measured(w.drafts, w.row, w.drafting, g.took)
	}
}
