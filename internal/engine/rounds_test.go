package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
	"assay/internal/engine/model"
)

// passes are rounds whose pass only notes what it was given, and takes a while.
type passes struct {
	*rounds
	closed chan struct{}
	store  *kv.Store
	during func(all []model.Sequence) error // nil: nothing happens

	mu   sync.Mutex
	seen [][]int // of each pass: tokens of each sequence
}

func newPasses(slots, batch int) *passes {
	p := &passes{
		closed: make(chan struct{}),
		store:  kv.NewStore(kv.Shape{Layers: []kv.Layer{{Heads: 1, Layout: kernel.KVLayout{Dim: 1, Format: kernel.KVF32}}}}),
	}
	p.rounds = newRounds(p.note, p.closed, slots, batch)
	return p
}

func (p *passes) note(stop func() bool, all []model.Sequence) error {
	if stop() {
		return model.ErrStopped
	}
	var sizes []int
	for _, s := range all {
		sizes = append(sizes, len(s.Tokens))
	}
	p.mu.Lock()
	p.seen = append(p.seen, sizes)
	p.mu.Unlock()
	if p.during != nil {
		if err := p.during(all); err != nil {
			return err
		}
	}
	for _, s := range all {
		s.Cache.Extend(len(s.Tokens))
		s.Cache.Commit()
	}
	return nil
}

// client is a turn of one request.
func (p *passes) client(ctx context.Context) *turn {
	t := p.join()
	t.Sequence.Cache = p.store.NewCache()
	t.ended = func() error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.closed:
			return ErrClosed
		default:
			return nil
		}
	}
	return t
}

// ask hands in n tokens.
func (p *passes) ask(ctx context.Context, t *turn, n int, prompt bool) error {
	t.Tokens, t.prompt = make([]int32, n), prompt
	return p.compute(ctx, t)
}

// Sequences that write go through passes together, and each pass is over before its
// sequences go on.
func TestRoundsTakeAll(t *testing.T) {
	const clients, tokens = 4, 30
	p := newPasses(clients, 512)
	p.during = func([]model.Sequence) error { time.Sleep(4 * time.Millisecond); return nil }
	var wg sync.WaitGroup
	for range clients {
		c := p.client(t.Context())
		wg.Go(func() {
			for i := range tokens {
				if err := p.ask(t.Context(), c, 1, false); err != nil || c.Sequence.Cache.Len() != i+1 {
					t.Errorf("%v, %d positions after %d tokens", err, c.Sequence.Cache.Len(), i+1)
				}
			}
			p.leave(c)
		})
	}
	wg.Wait()
	c := p.counted()
	if c.sequences != clients*tokens || c.tokens != c.sequences {
		t.Errorf("%+v", c)
	}
	// On a busy machine somebody is late now and then.
	if c.rounds > clients*tokens/2 {
		t.Errorf("%d passes for %d tokens of %d clients", c.rounds, clients*tokens, clients)
	}
}

// A client that takes long between its tokens holds up nobody, and neither does one
// that has left.
func TestRoundsWaitForNobodyLong(t *testing.T) {
	p := newPasses(3, 512)
	ctx := t.Context()
	slow, gone, quick := p.client(ctx), p.client(ctx), p.client(ctx)
	for _, c := range []*turn{slow, gone} {
		if err := p.ask(ctx, c, 1, false); err != nil {
			t.Fatal(err)
		}
	}
	p.leave(gone)
	// slow comes back only after this, which would never end if it were waited for.
	for range 100 {
		if err := p.ask(ctx, quick, 1, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.ask(ctx, slow, 1, false); err != nil {
		t.Fatal(err)
	}
}

// A sequence that computes its drafts is waited for, however long that takes, and one
// that then leaves is not.
func TestRoundsWaitForDrafts(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		p := newPasses(2, 512)
		ctx := t.Context()
		drafts, other := p.client(ctx), p.client(ctx)
		for _, c := range []*turn{drafts, other} {
			if err := p.ask(ctx, c, 1, false); err != nil {
				t.Fatal(err)
			}
		}
		// Both are to come, whether their passes were one or two.
		p.rounds.mu.Lock()
		for _, c := range []*turn{drafts, other} {
			if c.place == away {
				c.place = coming
				p.coming++
			}
		}
		p.rounds.mu.Unlock()
		p.hold(drafts)
		done := make(chan error)
		go func() { done <- p.ask(ctx, other, 1, false) }()
		select {
		case err := <-done:
			t.Fatalf("the round did not wait: %v", err)
		case <-time.After(20 * graceLeast):
		}
		if leaves {
			p.leave(drafts)
		} else if err := p.ask(ctx, drafts, 5, false); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		p.late.Stop()
		if last := p.seen[len(p.seen)-1]; leaves != (len(last) == 1) {
			t.Errorf("the last pass took %v", last)
		}
	}
}

// together runs one round of turns that were all handed in before it began, and
// returns what its pass took of each.
func (p *passes) together(t *testing.T, turns []*turn) [][]int {
	t.Helper()
	p.mu.Lock()
	p.seen = nil
	p.mu.Unlock()
	hold, held := make(chan struct{}), make(chan struct{})
	first := p.client(t.Context())
	during := p.during
	p.during = func([]model.Sequence) error {
		p.during = during
		close(held)
		<-hold
		return nil
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.ask(t.Context(), first, 1, false); err != nil {
			t.Error(err)
		}
		p.leave(first)
	})
	<-held
	for i, c := range turns {
		wg.Go(func() {
			_ = p.compute(t.Context(), c) // it stays in c.err
			p.leave(c)
		})
		for waiting := 0; waiting <= i; { // in this order
			time.Sleep(time.Millisecond)
			p.rounds.mu.Lock()
			waiting = len(p.ready)
			p.rounds.mu.Unlock()
		}
	}
	close(hold)
	wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[1:]
}

// What a round takes: all of those that write; of prompts equal parts of what is left
// of the batch, or of the share while others write; what a prompt does not need goes
// to the next.
func TestRoundsShare(t *testing.T) {
	for _, c := range []struct {
		name    string
		batch   int
		share   int
		writing []int
		prompts []int
		want    []int // of the first pass
	}{
		{"writing only", 512, 32, []int{1, 5, 1}, nil, []int{1, 5, 1}},
		{"prompts only", 512, 32, nil, []int{2000, 100, 2000}, []int{171, 100, 241}},
		{"a smaller batch", 64, 32, nil, []int{2000, 2000}, []int{32, 32}},
		{"both", 512, 40, []int{1, 1}, []int{2000, 10, 2000}, []int{1, 1, 14, 10, 16}},
		{"more prompts than tokens", 2, 40, nil, []int{9, 9, 9}, []int{1, 1}},
		{"no more than a pass takes", 512, 512, []int{300, 300}, nil, []int{300}},
		{"prompts keep a part", 512, 512, []int{300, 190, 190}, []int{900}, []int{300, 190, 22}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPasses(len(c.writing)+len(c.prompts)+1, c.batch)
			p.pace.share = c.share
			var turns []*turn
			for i, n := range slices.Concat(c.writing, c.prompts) {
				turn := p.client(t.Context())
				turn.Tokens, turn.prompt = make([]int32, n), i >= len(c.writing)
				turns = append(turns, turn)
			}
			if got := p.together(t, turns)[0]; !slices.Equal(got, c.want) {
				t.Errorf("the first pass took %v, want %v", got, c.want)
			}
			for i, turn := range turns {
				if turn.err != nil || turn.taken == 0 || turn.taken > len(turn.Tokens) || !turn.prompt && turn.taken != len(turn.Tokens) {
					t.Errorf("turn %d: %v, %d of %d tokens", i, turn.err, turn.taken, len(turn.Tokens))
				}
			}
		})
	}
}

// Where tokens are drafted, what a round without prompts takes is measured now and then,
// also while somebody reads one all the time, which goes on.
func TestRoundsAreMeasuredBesidePrompts(t *testing.T) {
	p := newPasses(2, 512)
	p.drafts = true
	p.during = func([]model.Sequence) error { time.Sleep(2 * time.Millisecond); return nil }
	writer, reader := p.client(t.Context()), p.client(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	reader.ended = ctx.Err
	var wg sync.WaitGroup
	wg.Go(func() {
		for p.ask(ctx, reader, 1000, true) == nil {
			if n := reader.taken; n < 1 {
				t.Errorf("%d tokens of the prompt were taken", n)
			}
		}
		p.leave(reader)
	})
	unknown, measured := 0, 0
	for range 150 {
		if err := p.ask(t.Context(), writer, 1, false); err != nil {
			t.Fatal(err)
		}
		if unknown++; writer.took > 0 {
			unknown, measured = 0, measured+1
		}
		if unknown > measureAfter {
			t.Fatalf("%d rounds one after the other had prompts in them", unknown)
		}
	}
	p.leave(writer)
	cancel()
	wg.Wait()
	if p.pace.plain == 0 || measured == 0 || reader.Sequence.Cache.Len() == 0 {
		t.Errorf("%d of 150 rounds had no prompt; one takes %v; %d tokens of the prompt were read", measured, p.pace.plain, reader.Sequence.Cache.Len())
	}
}

// A request that is over leaves at once when it waits, and with the end of the pass
// when it is in one; the others go on, also when it was to run the next round.
func TestRoundsLetGo(t *testing.T) {
	p := newPasses(3, 512)
	hold, held := make(chan struct{}), make(chan struct{}, 10)
	p.during = func([]model.Sequence) error { held <- struct{}{}; <-hold; return nil }
	ctx, cancel := context.WithCancel(t.Context())
	inside, waits, stays := p.client(ctx), p.client(ctx), p.client(t.Context())
	ended := make(chan error, 3)
	go func() { ended <- p.ask(ctx, inside, 1, false) }()
	<-held
	go func() { ended <- p.ask(ctx, waits, 1, false) }()
	for waiting := 0; waiting == 0; {
		time.Sleep(time.Millisecond)
		p.rounds.mu.Lock()
		waiting = len(p.ready)
		p.rounds.mu.Unlock()
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || waits.Sequence.Cache.Len() != 0 {
		t.Errorf("who waited: %v, %d positions", err, waits.Sequence.Cache.Len())
	}
	select {
	case err := <-ended:
		t.Fatalf("who is in a pass left it: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	go func() { ended <- p.ask(t.Context(), stays, 1, false) }()
	close(hold)
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	close(p.closed)
	if err := p.ask(t.Context(), stays, 1, false); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// However clients come, go and are cancelled, every round is run, and nobody waits for
// ever.
func TestRoundsNeverHang(t *testing.T) {
	const clients = 6
	p := newPasses(clients, 512)
	var wg sync.WaitGroup
	for i := range clients {
		c := p.client(t.Context())
		wg.Go(func() {
			for n := range 150 {
				ctx, cancel := context.WithCancel(t.Context())
				c.ended = ctx.Err
				if (n+i)%3 == 0 {
					go cancel() // at any time
				}
				before := c.Sequence.Cache.Len()
				switch err := p.ask(ctx, c, 1+n%5, n%4 == 0); {
				case err == nil && c.Sequence.Cache.Len() != before+c.taken:
					t.Errorf("%d positions and %d tokens make %d", before, c.taken, c.Sequence.Cache.Len())
				case err != nil && !errors.Is(err, context.Canceled):
					t.Error(err)
				}
				cancel()
				if n%7 == 0 {
					p.leave(c)
				}
			}
			p.leave(c)
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("somebody waits for ever")
	}
	p.late.Stop()
	p.rounds.mu.Lock()
	defer p.rounds.mu.Unlock()
	if p.busy || p.coming != 0 || len(p.ready) != 0 {
		t.Errorf("busy %v, %d coming, %d ready when all have left", p.busy, p.coming, len(p.ready))
	}
}

// What fails for one sequence does not fail for its neighbours.
func TestRoundsFailAlone(t *testing.T) {
	broken := errors.New("a disk is broken")
	p := newPasses(4, 512)
	var turns []*turn
	for range 3 {
		c := p.client(t.Context())
		c.Tokens = make([]int32, 2)
		turns = append(turns, c)
	}
	bad := turns[1].Sequence.Cache
	p.during = func(all []model.Sequence) error {
		for _, s := range all {
			if s.Cache == bad {
				return broken
			}
		}
		return nil
	}
	if got := p.together(t, turns); !slices.EqualFunc(got, [][]int{{2, 2, 2}, {2}, {2}, {2}}, slices.Equal) {
		t.Errorf("passes of %v, want one of all, and one of each", got)
	}
	for i, c := range turns {
		want, n := error(nil), 2
		if i == 1 {
			want, n = broken, 0
		}
		if !errors.Is(c.err, want) || c.Sequence.Cache.Len() != n {
			t.Errorf("sequence %d: %v, %d positions", i, c.err, c.Sequence.Cache.Len())
		}
	}
}

// The share of prompts follows what they cost: it shrinks while a round with them
// takes longer than four without, grows while it takes less, and has a least.
func TestPaceOfPrompts(t *testing.T) {
	const token, plain = 100 * time.Microsecond, 2 * time.Millisecond
	p := newPace(1)
	for range 100 {
		p.measured(workload{writing: 1, tokens: 1}, plain)
		n := p.prompts(512, 511, true)
		p.measured(workload{writing: 1, prompt: n, tokens: 1 + n}, plain+time.Duration(n)*token)
	}
	if n := p.prompts(512, 511, true); n < 45 || n > 76 { // 60 tokens make it four times as long
		t.Errorf("the share is %d", n)
	}
	for range 100 {
		p.measured(workload{writing: 1, prompt: 64, tokens: 65}, time.Second)
	}
	if n := p.prompts(512, 511, true); n != leastPrompt {
		t.Errorf("the share is %d where prompts are dear, want %d", n, leastPrompt)
	}
	if n := p.prompts(512, 511, false); n != 511 {
		t.Errorf("%d tokens where nobody writes, want all there is room for", n)
	}
}

// What sequences are told that a round cost: all of it alone, and together no more
// than all of it, with the drafts' part going to those who drafted.
func TestPartsOfARound(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name   string
		base   time.Duration
		l      workload
		took   time.Duration
		tokens []int
		want   []time.Duration
	}{
		{"alone", 0, workload{writing: 1, drafts: 4, tokens: 5}, 8 * ms, []int{5}, []time.Duration{8 * ms}},
		{"no drafts", 0, workload{writing: 2, tokens: 2}, 8 * ms, []int{1, 1}, []time.Duration{4 * ms, 4 * ms}},
		{"one drafts", 6 * ms, workload{writing: 2, drafts: 3, tokens: 5}, 9 * ms, []int{4, 1}, []time.Duration{6 * ms, 3 * ms}},
		{"both draft", 6 * ms, workload{writing: 2, drafts: 4, tokens: 6}, 10 * ms, []int{4, 2}, []time.Duration{6 * ms, 4 * ms}},
		{"nothing known", 0, workload{writing: 2, drafts: 4, tokens: 6}, 12 * ms, []int{4, 2}, []time.Duration{8 * ms, 4 * ms}},
		{"with prompts", 6 * ms, workload{writing: 2, prompt: 5, tokens: 7}, 12 * ms, []int{1, 1, 5}, []time.Duration{0, 0, 0}},
	} {
		for i, n := range c.tokens {
			if got := base(c.base).part(c.l, c.took, n); got != c.want[i] {
				t.Errorf("%s: sequence %d is told %v, want %v", c.name, i, got, c.want[i])
			}
		}
	}
}

// What a round costs besides its pass, with one sequence and with four.
func BenchmarkRounds(b *testing.B) {
	for name, n := range map[string]int{"1": 1, "4": 4} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			closed := make(chan struct{})
			r := newRounds(func(func() bool, []model.Sequence) error { return nil }, closed, n, 512)
			var wg sync.WaitGroup
			for range n {
				t := r.join()
				t.Tokens, t.ended = make([]int32, 1), b.Context().Err
				wg.Go(func() {
					for range b.N {
						_ = r.compute(b.Context(), t)
					}
					r.leave(t)
				})
			}
			wg.Wait()
			b.ReportMetric(float64(r.count.sequences)/float64(r.count.rounds), "sequences/round")
		})
	}
}
