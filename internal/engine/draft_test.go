package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"assay/internal/engine/sample"
	"assay/internal/engine/spec"
	"assay/internal/gguf"
	"assay/models/seedling"
)

// replay drafts the text that will come, each token of it with a probability; else
// another token.
type replay struct {
	prompt int     // its tokens
	text   []int32 // that follows it
	right  float64
	r      *rand.Rand
	at     int // of the text, once the prompt is over
}

func (d *replay) Begin(tokens []int32)               { d.at = len(tokens) - d.prompt }
func (d *replay) Watches() bool                      { return false }
func (d *replay) Accept(tokens []int32, _ []float32) { d.at += len(tokens) }
func (d *replay) Draft(to []spec.Guess, _ float32) int {
	n := copyGuesses(to, d.text[min(max(0, d.at), len(d.text)):])
	for i := range to[:n] {
		if d.r.Float64() >= d.right {
			to[i].ID = (to[i].ID + 1) % 4000
		}
	}
	return n
}

func copyGuesses(to []spec.Guess, ids []int32) int {
	n := min(len(to), len(ids))
	for i, id := range ids[:n] {
		to[i] = spec.Guess{ID: id, P: 1}
	}
	return n
}

// draftWith makes the engine's only slot draft with d, at most most tokens a round.
func draftWith(e *Engine, d spec.Drafter, most int) {
	s := <-e.slots
	s.ahead = e.newAhead(d, most)
	e.slots <- s
}

// trained makes the window's chooser believe that drafts are free and right, so
// that it drafts all it may for a while.
func trained(e *Engine) {
	s := <-e.slots
	trainWindow(s.ahead)
	e.slots <- s
}

func trainWindow(a *ahead) {
	a.choose.Measured(0, 0, 0, time.Millisecond) // it wants two rounds without drafts first
	for k := range len(a.guesses) + 1 {
		a.choose.Measured(k, k, 0, time.Millisecond)
	}
}

// A text is the same, token for token and bit for bit of its probabilities, with
// and without drafts: whoever drafts, however often it is right, sampled or not,
// however many threads compute. ASSAY_WIDE=1 tries 200 ways.
func TestDraftsChangeNothing(t *testing.T) {
	tries := 24
	switch {
	case testing.Short():
		tries = 4
	case os.Getenv("ASSAY_WIDE") != "":
		tries = 200
	}
	r := rand.New(rand.NewPCG(2, 7))
	var engines, drafting [3]*Engine
	for i := range engines {
		engines[i] = load(t, Options{Threads: 1 + i, Context: 400})
		drafting[i] = loadWithHead(t, Options{Threads: 1 + i, Context: 400, Drafts: 4, Batch: 7 + 50*i})
	}
	offered, accepted := 0, 0
	for try := range tries {
		p := greedy()
		if r.IntN(3) > 0 {
			p = sample.Defaults()
			p.Seed, p.Temperature = r.Uint64(), 0.2+r.Float32()
		}
		if r.IntN(3) == 0 {
			p.RepeatPenalty, p.RepeatLastN, p.FrequencyPenalty = 1.1, 16+r.IntN(64), r.Float32()
		}
		prompt := make([]int32, 1+r.IntN(60))
		for i := range prompt {
			prompt[i] = int32(40 + r.IntN(12)) // repeats itself, so that there is something to find
		}
		q := Request{Prompt: prompt, MaxTokens: 1 + r.IntN(60), Sampling: p, IgnoreEOS: r.IntN(2) == 0, Logprobs: r.IntN(3) - 1}
		if r.IntN(8) == 0 {
			q.MaxTokens = -1 // to the end of the context
		}
		want, wantResult := whole(t, engines[0], q)
		e, most := drafting[r.IntN(3)], 1+r.IntN(8)
		var d spec.Drafter = spec.NewSuffix(400)
		how := "suffix"
		switch right := []float64{-2, -2, -1, 0, 0.5, 0.8, 1}[r.IntN(7)]; {
		case right == -2:
			how, d = "mtp", e.newDrafter()
		case right >= 0:
			how = fmt.Sprintf("replay %g", right)
			ids := make([]int32, len(want))
			for i, tok := range want {
				ids[i] = tok.ID
			}
			d = &replay{prompt: len(q.Prompt), text: ids, right: right, r: r}
		}
		draftWith(e, d, most)
		trained(e)
		got, result := whole(t, e, q)
		if result.Finish != wantResult.Finish || !slices.EqualFunc(got, want, sameToken) {
			t.Fatalf("try %d, %s of up to %d, %d threads, %+v: %d tokens and %q, want %d and %q", try, how, most, e.options.Threads, q, len(got), result.Finish, len(want), wantResult.Finish)
		}
		tm := result.Timings
		if tm.Accepted > tm.Offered || tm.Rounds+tm.Accepted != tm.Predicted-1 {
			t.Errorf("try %d: %d rounds, %d drafts, %d of them right, for %d tokens", try, tm.Rounds, tm.Offered, tm.Accepted, tm.Predicted)
		}
		offered, accepted = offered+tm.Offered, accepted+tm.Accepted
	}
	t.Logf("%d texts, %d drafts, %d of them right", tries, offered, accepted)
	if offered < tries || accepted == 0 || accepted == offered {
		t.Errorf("%d drafts, %d of them right: the test proves nothing", offered, accepted)
	}
}

func whole(t *testing.T, e *Engine, r Request) (tokens []Token, _ Result) {
	t.Helper()
	result, err := e.Generate(context.Background(), r, func(tok Token) error {
		tokens = append(tokens, tok)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tokens, result
}

// loadWithHead loads the built-in model, and the block that drafts for it.
func loadWithHead(t *testing.T, o Options) *Engine {
	t.Helper()
	o.Head = openGGUF(t, "seedling-15m-mtp-q8_0.gguf")
	e := load(t, o)
	if o.Drafts > 0 && e.options.Drafter != spec.KindMTP {
		t.Fatalf("the drafter is %q", e.options.Drafter)
	}
	return e
}

// openGGUF opens one of Seedling's other files.
func openGGUF(t testing.TB, name string) *gguf.File {
	t.Helper()
	f, err := gguf.Open("../../models/seedling/formats/" + name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func sameToken(a, b Token) bool {
	return a.ID == b.ID && a.End == b.End && a.Logprob == b.Logprob && slices.Equal(a.Top, b.Top)
}

// What ends a request ends it in the middle of a window too: nothing behind is
// emitted.
func TestWindowsEndExactly(t *testing.T) {
	e := load(t, Options{Threads: 1, Context: 200, Drafts: 8})
	q := Request{Prompt: []int32{42, 43}, MaxTokens: 60, Sampling: greedy(), IgnoreEOS: true, Logprobs: -1}
	text, _ := collect(t, e, q)
	broken := errors.New("broken pipe")
	last := 30
	if testing.Short() {
		last = 13
	}
	for n := 10; n < last; n++ {
		for _, c := range []struct {
			name string
			end  func(cancel func()) error
			want error
		}{
			{"stop", func(func()) error { return ErrStop }, nil},
			{"error", func(func()) error { return broken }, broken},
			{"cancel", func(cancel func()) error { cancel(); return nil }, context.Canceled},
		} {
			draftWith(e, &replay{prompt: len(q.Prompt), text: text, right: 1, r: rand.New(rand.NewPCG(1, 1))}, 8)
			trained(e)
			ctx, cancel := context.WithCancel(context.Background())
			var got []int32
			result, err := e.Generate(ctx, q, func(tok Token) error {
				if got = append(got, tok.ID); len(got) == n {
					return c.end(cancel)
				}
				return nil
			})
			cancel()
			if !errors.Is(err, c.want) || !slices.Equal(got, text[:n]) || result.Timings.Predicted != n {
				t.Errorf("%s after %d tokens: %v after %d", c.name, n, err, len(got))
			}
			if result.Timings.Accepted == 0 {
				t.Errorf("%s after %d tokens: no window was long", c.name, n)
			}
		}
		q.MaxTokens = n
		draftWith(e, &replay{prompt: len(q.Prompt), text: text, right: 1, r: rand.New(rand.NewPCG(1, 1))}, 8)
		trained(e)
		if got, result := collect(t, e, q); !slices.Equal(got, text[:n]) || result.Finish != FinishLength {
			t.Errorf("at most %d tokens: %d and %q", n, len(got), result.Finish)
		}
		q.MaxTokens = 60
	}
}

// Drafting allocates nothing a token.
func TestDraftsAllocateNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("under the race detector a sync.Pool forgets at random")
	}
	e := load(t, Options{Threads: 2, Context: 512, Drafts: 8})
	cost := func(n int) float64 {
		r := Request{Prompt: []int32{42}, MaxTokens: n, Sampling: greedy(), IgnoreEOS: true, Logprobs: -1}
		return testing.AllocsPerRun(5, func() {
			if _, err := e.Generate(context.Background(), r, func(Token) error { return nil }); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := cost(2), cost(102); many > few+1 {
		t.Errorf("100 tokens more make %.0f allocations more", many-few)
	}
}

func TestDraftOptions(t *testing.T) {
	for _, o := range []Options{{Drafts: -1}, {Drafts: spec.MaxDrafts + 1}, {Drafts: 1, DraftMinP: 2}} {
		if e, err := loadSeedling(o); err == nil {
			_ = e.Close()
			t.Errorf("%+v was accepted", o)
		}
	}
}

// Tokens a second, drafts on against off, by who drafts.
func BenchmarkDrafts(b *testing.B) {
	for _, c := range []struct {
		name  string
		right float64
	}{{"off", -1}, {"suffix", -2}, {"mtp", -3}, {"replay 0", 0}, {"replay 0.5", 0.5}, {"replay 0.8", 0.8}, {"replay 1", 1}} {
		b.Run(c.name, func(b *testing.B) {
			o := Options{Threads: 2, Context: 1024}
			if c.right == -3 {
				o.Drafts, o.Head = 1, openGGUF(b, "seedling-15m-mtp-q8_0.gguf")
			}
			e, err := loadBench(o)
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			q := Request{Prompt: []int32{42, 43, 44}, MaxTokens: 256, Sampling: greedy(), IgnoreEOS: true, Logprobs: -1}
			var text []int32
			run := func() Timings {
				text = text[:0]
				r, err := e.Generate(context.Background(), q, func(tok Token) error {
					text = append(text, tok.ID)
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
				return r.Timings
			}
			run()
			switch {
			case c.right >= 0:
				draftWith(e, &replay{prompt: len(q.Prompt), text: slices.Clone(text), right: c.right, r: rand.New(rand.NewPCG(1, 2))}, 8)
			case c.right == -2:
				draftWith(e, spec.NewSuffix(1024), 8)
			case c.right == -3:
				draftWith(e, e.newDrafter(), 8)
			}
			var sum Timings
			for b.Loop() {
				tm := run()
				sum.DecodeTime += tm.DecodeTime
				sum.Predicted += tm.Predicted - 1
				sum.Rounds += tm.Rounds
				sum.Offered += tm.Offered
				sum.Accepted += tm.Accepted
			}
			b.ReportMetric(float64(sum.Predicted)/sum.DecodeTime.Seconds(), "tok/s")
			b.ReportMetric(float64(sum.Predicted)/float64(sum.Rounds), "tok/round")
			b.ReportMetric(float64(sum.Accepted)/float64(max(1, sum.Offered)), "accepted")
		})
	}
}

// loadBench opens the model that ASSAY_BENCH_MODEL names, or the built-in one.
func loadBench(o Options) (*Engine, error) {
	f, err := benchFile()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Load(context.Background(), f, o, nil)
}

func benchFile() (*gguf.File, error) {
	if path := os.Getenv("ASSAY_BENCH_MODEL"); path != "" {
		return gguf.Open(path)
	}
	return gguf.Parse(seedling.Name, seedling.GGUF)
}

func loadSeedling(o Options) (*Engine, error) {
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		return nil, err
	}
	return Load(context.Background(), f, o, nil)
}
