package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/engine/sample"
	"assay/internal/gguf"
	"assay/models/seedling"
)

// randomRequest has a prompt that begins as others do, and repeats itself, so that
// there is something to reuse and to draft.
func randomRequest(r *rand.Rand) Request {
	p := greedy()
	if r.IntN(3) > 0 {
		p = sample.Defaults()
		p.Seed, p.Temperature = r.Uint64(), 0.2+r.Float32()
	}
	if r.IntN(3) == 0 {
		p.RepeatPenalty, p.RepeatLastN, p.FrequencyPenalty = 1.1, 16+r.IntN(64), r.Float32()
	}
	var prompt []int32
	most := 40
	if testing.Short() { // for the race detector
		most = 8
	}
	for range 1 + r.IntN(3) {
		kind, n := r.IntN(3), 1+r.IntN(most)
		for i := range n {
			prompt = append(prompt, int32(40+20*kind+i%(7+kind)))
		}
	}
	q := Request{
		Prompt: prompt, MaxTokens: 1 + r.IntN(most), Sampling: p,
		IgnoreEOS: r.IntN(2) == 0, Logprobs: r.IntN(3) - 1, NoReuse: r.IntN(5) == 0,
	}
	if r.IntN(12) == 0 && !testing.Short() {
		q.MaxTokens = -1 // to the end of the context
	}
	return q
}

// What each of several clients gets, token for token and bit for bit of its
// probabilities, is what it gets alone: however many run at once, whatever is reused
// and drafted, however many threads compute, and whoever hangs up in between.
// ASSAY_WIDE=1 tries 200 ways.
func TestClientsGetWhatTheyGetAlone(t *testing.T) {
	tries := 20
	switch {
	case testing.Short():
		tries = 2
	case os.Getenv("ASSAY_WIDE") != "":
		tries = 200
	}
	r := rand.New(rand.NewPCG(8, 5))
	alone := load(t, Options{Threads: 1, Context: 300})
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	d, err := DemandOf(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	page := d.KVPosition * int64(d.KVPage)
	var engines []*Engine
	for i := range 6 {
		o := Options{Threads: 1 + i%3, Context: 300, Slots: []int{4, 3, 2, 4, 1, 4}[i], Batch: []int{512, 5, 64, 1, 512, 30}[i], Drafts: []int{0, 4, 8, 0, 3, 2}[i]}
		o.ReuseBytes = []int64{0, 100 * page, 3 * page, 7 * page, 100 * page, 2 * page}[i]
		if i == 2 || i == 5 {
			o.ReuseDir = t.TempDir()
		}
		open := load
		if i%3 == 2 {
			open = loadWithHead
		}
		engines = append(engines, open(t, o))
	}
	hungUp := errors.New("hung up")
	for try := range tries {
		e := engines[try%len(engines)]
		for _, s := range e.all { // each try drafts from the start
			if s.ahead != nil {
				trainWindow(s.ahead)
			}
		}
		var wg sync.WaitGroup
		for range 2 + r.IntN(6) {
			q := randomRequest(r)
			leaves := -1 // after so many tokens
			if r.IntN(4) == 0 {
				leaves = r.IntN(20)
			}
			want, wantResult := whole(t, alone, q)
			wg.Go(func() {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if leaves == 0 {
					time.AfterFunc(time.Millisecond, cancel) // at any time
				}
				var got []Token
				result, err := e.Generate(ctx, q, func(tok Token) error {
					if got = append(got, tok); len(got) == leaves {
						if leaves%2 == 0 {
							cancel()
							return nil
						}
						return hungUp
					}
					return nil
				})
				how := fmt.Sprintf("try %d, %+v: %+v", try, e.options, q)
				switch tm := result.Timings; {
				case leaves >= 0 && (errors.Is(err, hungUp) || errors.Is(err, context.Canceled)):
					if len(got) > len(want) || !slices.EqualFunc(got, want[:len(got)], sameToken) {
						t.Errorf("%s: %d tokens before it hung up, and not those that it gets alone", how, len(got))
					}
				case err != nil:
					t.Errorf("%s: %v", how, err)
				case result.Finish != wantResult.Finish || !slices.EqualFunc(got, want, sameToken):
					t.Errorf("%s: %d tokens and %q, alone %d and %q", how, len(got), result.Finish, len(want), wantResult.Finish)
				case tm.Prompt+tm.Cached != len(q.Prompt) || tm.Prompt < 1 || tm.Rounds+tm.Accepted != tm.Predicted-1:
					t.Errorf("%s: %+v", how, tm)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
	}
	if testing.Short() {
		return
	}
	var hits, disk, together int64
	for _, e := range engines {
		s := e.Stats()
		if s.Reuse != nil {
			hits, disk = hits+s.Reuse.Hits, disk+s.Reuse.DiskHits
		}
		if s.RoundSequences > s.Rounds {
			together++
		}
		if s.Running != 0 || s.Waiting != 0 {
			t.Errorf("%+v when nobody asks", s)
		}
	}
	if hits < int64(tries) || disk == 0 || together < 4 {
		t.Errorf("%d hits, %d on disk, %d engines with several at once: the test proves nothing", hits, disk, together)
	}
}

// A second turn computes its new tokens and no others; one that must not be reused
// computes all, and leaves nothing.
func TestSecondTurnComputesWhatIsNew(t *testing.T) {
	e := load(t, Options{Threads: 2, Context: 2048, ReuseBytes: 64 << 20})
	long, answers := 700, 40
	if testing.Short() { // for the race detector
		long, answers = 30, 4
	}
	first := Request{Prompt: make([]int32, long), MaxTokens: answers, Sampling: greedy(), IgnoreEOS: true, Logprobs: -1}
	for i := range first.Prompt {
		first.Prompt[i] = int32(300 + i*13%900)
	}
	answer, _ := collect(t, e, first)
	second := first
	second.Prompt = slices.Concat(first.Prompt, answer, []int32{301, 302, 303, 304, 305})

	alone := second
	alone.NoReuse = true
	entries := e.Stats().Reuse.Entries
	want, result := collect(t, e, alone)
	if tm := result.Timings; tm.Cached != 0 || tm.Prompt != len(second.Prompt) || e.Stats().Reuse.Entries != entries {
		t.Errorf("without reuse: %+v, %d entries", tm, e.Stats().Reuse.Entries)
	}
	before := e.Stats().RoundTokens
	got, result := collect(t, e, second)
	// The last token of the answer was drawn, but nothing was computed of it.
	tm := result.Timings
	if tm.Cached != len(first.Prompt)+len(answer)-1 || tm.Prompt != 6 {
		t.Errorf("the second turn reused %d tokens and computed %d, want %d and 6", tm.Cached, tm.Prompt, len(first.Prompt)+len(answer)-1)
	}
	if n := e.Stats().RoundTokens - before; n != int64(6+len(got)-1) {
		t.Errorf("%d tokens were computed for 6 new ones and %d drawn", n, len(got))
	}
	if !slices.Equal(got, want) {
		t.Errorf("wrote %v, without reuse %v", got, want)
	}
	// The same again: a token is computed.
	if _, result = collect(t, e, second); result.Timings.Prompt != 1 {
		t.Errorf("the same prompt again: %+v", result.Timings)
	}
}

// Drafts that were wrong, or were not reached, are not left to later requests.
func TestDraftsAreNotKept(t *testing.T) {
	e := load(t, Options{Threads: 1, Context: 200, Drafts: 8, ReuseBytes: 64 << 20})
	last, most := 12, 30
	if testing.Short() { // for the race detector
		last, most = 5, 8
	}
	for _, right := range []float64{0, 1} {
		for stop := 3; stop < last; stop++ {
			q := Request{Prompt: []int32{42, int32(100*right) + int32(stop), 44}, MaxTokens: most, Sampling: greedy(), IgnoreEOS: true, Logprobs: -1, NoReuse: true}
			text, _ := collect(t, e, q)
			draftWith(e, &replay{prompt: len(q.Prompt), text: text, right: right, r: rand.New(rand.NewPCG(1, 1))}, 8)
			trained(e)
			q.NoReuse = false
			n := 0
			if _, err := e.Generate(context.Background(), q, func(Token) error {
				if n++; n == stop {
					return ErrStop
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			// Behind what was drawn there are zeros where a sequence's tokens are noted.
			sure := len(q.Prompt) + stop - 1
			q.Prompt = slices.Concat(q.Prompt, text[:stop], make([]int32, 12))
			if _, result := collect(t, e, q); result.Timings.Cached != sure {
				t.Errorf("stopped after %d tokens: %d were reused, and %d sure", stop, result.Timings.Cached, sure)
			}
		}
	}
}

// What was computed of a prompt is there for the next, though the request was given
// up in the middle of it.
func TestGivenUpPromptIsKept(t *testing.T) {
	batch := 100
	if testing.Short() { // for the race detector
		batch = 8
	}
	e := load(t, Options{Threads: 2, Context: 2048, Batch: batch, ReuseBytes: 64 << 20})
	q := Request{Prompt: slices.Repeat([]int32{42, 43, 44}, 3*batch), MaxTokens: 1, Sampling: greedy(), Logprobs: -1}
	ctx, cancel := context.WithCancel(context.Background())
	q.Progress = func(tm Timings) error {
		if tm.Prompt >= 3*batch {
			cancel()
		}
		return nil
	}
	if _, err := e.Generate(ctx, q, func(Token) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	q.Progress = nil
	if _, result := collect(t, e, q); result.Timings.Cached != 3*batch {
		t.Errorf("%d tokens were reused, want the %d that were computed", result.Timings.Cached, 3*batch)
	}
}

// How much may be kept goes by what is free, if nobody says.
func TestReuseAuto(t *testing.T) {
	e := load(t, Options{Context: 64, ReuseBytes: ReuseAuto})
	if n := e.Options().ReuseBytes; n <= 0 || n > 1<<30 || e.Stats().Reuse.Limit != n {
		t.Errorf("%d bytes, and a limit of %d", n, e.Stats().Reuse.Limit)
	}
	if none := load(t, Options{Context: 64}); none.Stats().Reuse != nil {
		t.Error("something is kept that nobody asked for")
	}
}

// With a folder, what one run computed is there for the next; another model's files
// are of no use.
func TestReuseFromRunToRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "prefixes")
	long, answer := 300, 10
	if testing.Short() { // for the race detector
		long, answer = 30, 2
	}
	q := Request{Prompt: slices.Repeat([]int32{42, 43, 44}, long/3), MaxTokens: answer, Sampling: greedy(), IgnoreEOS: true, Logprobs: -1}
	var want []int32
	for run, cache := range []string{"f16", "f16", "q8_0"} {
		var lines []string
		e, err := loadSeedling(Options{
			Threads: 2, Context: 512, CacheType: cache, ReuseBytes: 64 << 20, ReuseDir: dir,
			Log: func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) },
		})
		if err != nil {
			t.Fatal(err)
		}
		got, result := collect(t, e, q)
		switch {
		case run == 0:
			want = got
		case run == 1 && (result.Timings.Cached != long-1 || !slices.Equal(got, want)):
			t.Errorf("the next run reused %d tokens, want %d, and wrote %v, want %v", result.Timings.Cached, long-1, got, want)
		case run == 2 && result.Timings.Cached != 0:
			t.Errorf("%d tokens in another format were reused", result.Timings.Cached)
		}
		if err := e.Close(); err != nil || lines != nil {
			t.Errorf("%v, log %q", err, lines)
		}
	}
}

// More requests than may wait are refused at once, and those that wait are served in
// the order in which they came.
func TestQueue(t *testing.T) {
	e := load(t, Options{Threads: 1, Context: 256, Queue: 2})
	hold, held := make(chan struct{}), make(chan struct{})
	q := Request{Prompt: []int32{42}, MaxTokens: 1, Sampling: greedy(), Logprobs: -1}
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = e.Generate(context.Background(), q, func(Token) error { close(held); <-hold; return nil })
	})
	<-held
	served := make(chan int, 2)
	for i := range 2 {
		wg.Go(func() {
			if _, err := e.Generate(context.Background(), q, func(Token) error { served <- i; return nil }); err != nil {
				t.Error(err)
			}
		})
		for e.Stats().Waiting <= i {
			time.Sleep(time.Millisecond)
		}
	}
	time.Sleep(10 * time.Millisecond) // counted, the second need not be in the line yet
	_, err := e.Generate(context.Background(), q, nil)
	var busy *BusyError
	if !errors.As(err, &busy) || busy.Waiting != 2 || busy.Slots != 1 || !strings.Contains(err.Error(), "2 requests wait") {
		t.Errorf("a third one: %v", err)
	}
	if s := e.Stats(); s.Running != 1 || s.Waiting != 2 {
		t.Errorf("%+v", s)
	}
	if s := e.SlotStates(); !s[0].Busy || s[0].Prompt != 1 || s[0].Read != 1 || s[0].Predicted != 1 {
		t.Errorf("%+v", s)
	}
	close(hold)
	wg.Wait()
	if a, b := <-served, <-served; a != 0 || b != 1 {
		t.Errorf("served %d before %d", a, b)
	}
	none := load(t, Options{Threads: 1, Context: 256, Queue: -1})
	b, err := none.Bench(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := none.Generate(context.Background(), q, nil); !errors.As(err, &busy) {
		t.Errorf("nobody may wait: %v", err)
	}
}

// Several at once allocate nothing a token either.
func TestBatchesAllocateNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("under the race detector a sync.Pool forgets at random")
	}
	e := load(t, Options{Threads: 2, Context: 512, Slots: 3, Drafts: 2, ReuseBytes: 64 << 20})
	cost := func(n int) float64 {
		return testing.AllocsPerRun(5, func() {
			var wg sync.WaitGroup
			for i := range 3 {
				wg.Go(func() {
					r := Request{Prompt: []int32{int32(42 + i)}, MaxTokens: n, Sampling: greedy(), IgnoreEOS: true, Logprobs: -1}
					if _, err := e.Generate(context.Background(), r, func(Token) error { return nil }); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		})
	}
	if few, many := cost(2), cost(102); many > few+6 {
		t.Errorf("3 times 100 tokens more make %.0f allocations more", many-few)
	}
}

// Every architecture's clients get what they get alone, with reuse and drafts: those
// with recurrent layers, which can't be cut short anywhere, too.
func TestClientsOfOtherArchitectures(t *testing.T) {
	paths, _ := filepath.Glob(filepath.Join("..", "..", "..", "shared", "models", "arch", "models", "*.gguf"))
	if len(paths) == 0 {
		t.Skip("there are no models of other architectures here")
	}
	if testing.Short() {
		t.Skip("computes for long under the race detector")
	}
	ran, rounds := 0, 2
	if os.Getenv("ASSAY_WIDE") != "" {
		rounds = 12
	}
	for _, path := range paths {
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if CanRun(f) != nil {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			ran++
			r := rand.New(rand.NewPCG(2, 6))
			open := func(o Options) *Engine {
				o.Context = 200
				e, err := Load(context.Background(), f, o, nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = e.Close() })
				return e
			}
			alone := open(Options{Threads: 1})
			dir := t.TempDir()
			reused := 0
			for range 2 { // the second one finds what the first one left on the disk
				e := open(Options{Threads: 2, Slots: 3, Drafts: 4, Batch: 30, ReuseBytes: 64 << 20, ReuseDir: dir})
				for range rounds {
					for _, s := range e.all {
						trainWindow(s.ahead)
					}
					var wg sync.WaitGroup
					for range 3 {
						q := randomRequest(r)
						q.MaxTokens = min(q.MaxTokens, 20)
						want, _ := whole(t, alone, q)
						again := q // a second turn
						for _, tok := range want {
							again.Prompt = append(slices.Clone(again.Prompt), tok.ID)
						}
						again.Prompt = append(again.Prompt, 50, 51)
						fits := len(again.Prompt) < 180
						wantAgain := []Token(nil)
						if fits {
							wantAgain, _ = whole(t, alone, again)
						}
						wg.Go(func() {
							if got, result := whole(t, e, q); !slices.EqualFunc(got, want, sameToken) {
								t.Errorf("%+v: %d tokens, not those that it gets alone; %+v", q, len(got), result.Timings)
							}
							if !fits {
								return
							}
							got, result := whole(t, e, again)
							if !slices.EqualFunc(got, wantAgain, sameToken) {
								t.Errorf("%+v: %d tokens, not those that it gets alone; %+v", again, len(got), result.Timings)
							}
							if !q.NoReuse && result.Timings.Cached < len(q.Prompt)-1 {
								t.Errorf("the second turn reused %d tokens of %d", result.Timings.Cached, len(again.Prompt))
							}
						})
					}
					wg.Wait()
				}
				reused += int(e.Stats().Reuse.Hits)
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			}
			if reused == 0 {
				t.Error("nothing was reused: the test proves nothing")
			}
		})
	}
	if ran == 0 {
		t.Error("no model could be run")
	}
}
