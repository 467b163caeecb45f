package spec

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// curve is what rounds cost on some machine, in passes of one token.
type curve struct {
	name   string
	token  float64 // that each further token adds to a pass
	first  float64 // that the second token adds besides: other kernels, other experts
	draft  float64 // of drafting a token
	jitter float64 // up to so much longer, at random
}

var curves = []curve{
	{name: "dense", token: 0.03},
	{name: "experts in memory", token: 0.15, first: 0.1},
	{name: "noisy", token: 0.15, first: 0.1, jitter: 0.3},
	{name: "small head", token: 0.12, draft: 0.08},
	{name: "Seedling's head", token: 0.2, draft: 0.5},
	{name: "experts on disk", token: 0.9},
}

func (c curve) pass(drafts int) float64 {
	if drafts == 0 {
		return 1
	}
	return 1 + c.first + c.token*float64(drafts)
}

// best is the highest rate of a constant window, against none.
func (c curve) best(most int, p float64) float64 {
	best, tokens, all := 1.0, 1.0, 1.0
	for k := 1; k <= most; k++ {
		all *= p
		tokens += all
		best = max(best, tokens/(c.pass(k)+c.draft*float64(k)))
	}
	return best
}

// simulate writes n tokens with drafts that are right with probability accept(at),
// and returns the gain over a run without drafts, and the mean number of drafts.
func simulate(w *Window, c curve, n int, seed uint64, accept func(at int) float64) (gain, drafts float64) {
	r := rand.New(rand.NewPCG(seed, 1))
	spent, plain, rounds, drafted := 0.0, 0.0, 0, 0
	noise := func() float64 { return 1 + c.jitter*r.Float64() }
	for at := 0; at < n; rounds++ {
		k, right := w.Want(), 0
		for right < k && r.Float64() < accept(at) {
			right++
		}
		d, p := c.draft*float64(k), c.pass(k)*noise()
		w.Measured(k, right, time.Duration(d*1e7), time.Duration(p*1e7))
		spent, drafted = spent+d+p, drafted+k
		for range right + 1 {
			plain += noise()
		}
		at += right + 1
	}
	return plain / spent, float64(drafted) / float64(rounds)
}

// What drafting gains over 2000 tokens: little is ever lost, and most of what a
// window that knew everything would gain is found.
func TestWindowPays(t *testing.T) {
	for _, c := range curves {
		for _, p := range []float64{0, 0.5, 0.8, 1} {
			for _, most := range []int{4, 8} {
				t.Run(fmt.Sprintf("%s/accepted %g/up to %d", c.name, p, most), func(t *testing.T) {
					gain, drafts := 0.0, 0.0
					const runs = 5
					for seed := range uint64(runs) {
						g, d := simulate(NewWindow(most), c, 2000, seed, func(int) float64 { return p })
						gain, drafts = gain+g/runs, drafts+d/runs
						if g < 0.97 {
							t.Errorf("run %d: %.3f times the rate without drafts, want at least 0.97", seed, g)
						}
					}
					best := c.best(most, p)
					t.Logf("%.3f times the rate, %.3f by the best constant window; %.1f drafts a round", gain, best, drafts)
					if gain < 1+0.8*(best-1)-0.03 {
						t.Errorf("%.3f times the rate, but a constant window has %.3f", gain, best)
					}
					if p == 1 && c.token <= 0.2 && c.draft < 0.5 && gain < 1.3 {
						t.Errorf("every draft is right and the gain is %.3f, want at least 1.3", gain)
					}
				})
			}
		}
	}
}

// An answer of ordinary length loses no more either.
func TestWindowLosesLittleSoon(t *testing.T) {
	for _, c := range curves {
		for seed := range uint64(20) {
			gain, _ := simulate(NewWindow(8), c, 128, seed, func(int) float64 { return 0 })
			if gain < 0.97 {
				t.Errorf("%s, run %d: 128 tokens at %.3f times the rate", c.name, seed, gain)
			}
		}
	}
}

// Where text begins to repeat itself late, the window finds out; where it ends to,
// it falls back.
func TestWindowFollowsTheText(t *testing.T) {
	c := curves[1]
	for seed := range uint64(5) {
		w := NewWindow(8)
		simulate(w, c, 3000, seed, func(int) float64 { return 0 })
		if _, drafts := simulate(w, c, 500, seed, func(int) float64 { return 0 }); drafts > 0.05 {
			t.Errorf("run %d: %.2f drafts a round where none is right", seed, drafts)
		}
		if gain, _ := simulate(w, c, 2000, seed, func(int) float64 { return 1 }); gain < 1.3 {
			t.Errorf("run %d: gain %.2f after the text began to repeat itself", seed, gain)
		}
		if gain, _ := simulate(w, c, 500, seed, func(int) float64 { return 0 }); gain < 0.9 {
			t.Errorf("run %d: %.2f times the rate after it ended to", seed, gain)
		}
	}
}

// The same measurements lead to the same choices, and measuring allocates nothing.
func TestWindowIsAFunctionOfItsMeasurements(t *testing.T) {
	half := func(int) float64 { return 0.5 }
	a, b := NewWindow(8), NewWindow(8)
	for range 20 {
		x, _ := simulate(a, curves[2], 50, 3, half)
		y, _ := simulate(b, curves[2], 50, 3, half)
		if x != y || *a != *b {
			t.Fatalf("%+v and %+v", *a, *b)
		}
	}
	if n := testing.AllocsPerRun(100, func() { a.Measured(a.Want(), 0, 1, 2) }); n > 0 {
		t.Errorf("a round makes %g allocations", n)
	}
	if k := NewWindow(0).Want(); k != 0 {
		t.Errorf("a window of none wants %d", k)
	}
}
