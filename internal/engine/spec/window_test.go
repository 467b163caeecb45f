package spec

import (
	"fmt"
	"math/rand/v2"
	"slices"
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
	busy   bool    // all vary by a few in a hundred, and one in a hundred takes 2 to 5 times as long
}

var curves = []curve{
	{name: "dense", token: 0.03},
	{name: "experts in memory", token: 0.15, first: 0.1},
	{name: "noisy", token: 0.15, first: 0.1, jitter: 0.3},
	{name: "small head", token: 0.12, draft: 0.08},
	{name: "Seedling's head", token: 0.2, draft: 0.5},
	{name: "other experts", token: 0.45, first: 0.15},
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

// noise is how much longer a round takes than the curve says.
func (c curve) noise(r *rand.Rand) float64 {
	x := 1 + c.jitter*r.Float64()
	if !c.busy {
		return x
	}
	if r.IntN(100) == 0 {
		x *= 2 + 3*r.Float64()
	}
	return x * (1 + 0.04*r.NormFloat64())
}

// simulate writes n tokens with drafts that are right with probability accept(at),
// and returns the gain over a run without drafts, and the mean number of drafts. The
// noise is for the window alone: by the gain all rounds of a kind take the same.
func simulate(w *Window, c curve, n int, seed uint64, accept func(at int) float64) (gain, drafts float64) {
	return watch(w, c, n, seed, accept, func(int, int) {})
}

// watch tells of each round where it is and how many tokens it drafts.
func watch(w *Window, c curve, n int, seed uint64, accept func(at int) float64, round func(at, drafts int)) (gain, drafts float64) {
	r := rand.New(rand.NewPCG(seed, 1))
	spent, rounds, drafted := 0.0, 0, 0
	at := 0
	for ; at < n; rounds++ {
		k, right := min(w.Want(), n-1-at), 0
		for right < k && r.Float64() < accept(at+right) {
			right++
		}
		round(at, k)
		d, p := c.draft*float64(k), c.pass(k)
		w.Measured(k, right, time.Duration(d*c.noise(r)*1e7), time.Duration(p*c.noise(r)*1e7))
		spent, drafted = spent+d+p, drafted+k
		at += right + 1
	}
	return float64(at) / spent, float64(drafted) / float64(rounds)
}

// several writes sequences of n tokens each, one after the other in one slot, and
// returns the gain of the first one and of all.
func several(w *Window, c curve, sequences, n int, seed uint64, p float64) (first, all float64) {
	spent := 0.0
	for i := range sequences {
		w.Begin()
		gain, _ := simulate(w, c, n, seed*100+uint64(i), func(int) float64 { return p })
		if i == 0 {
			first = gain
		}
		spent += 1 / gain
	}
	return first, float64(sequences) / spent
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

// On a machine that others use, answers of ordinary length and long ones, one after
// the other in one slot: next to nothing is lost where drafts are bad or pay nearly,
// in the first answer and later, and nearly all is found where they are good.
func TestWindowAmongNoise(t *testing.T) {
	const seeds = 25
	for _, c := range curves {
		c.busy = true
		for _, p := range []float64{0, 0.3, 0.5, 0.8, 1} {
			t.Run(fmt.Sprintf("%s/accepted %g", c.name, p), func(t *testing.T) {
				best := c.best(8, p)
				longEach, longMean := 0.98, 0.985
				if p > 0.5 {
					longEach, longMean = max(longEach, 0.85*best), max(longMean, 0.95*best)
				}
				var first, short, long [seeds]float64
				for seed := range uint64(seeds) {
					first[seed], short[seed] = several(NewWindow(8), c, 6, 128, seed, p)
					_, long[seed] = several(NewWindow(8), c, 4, 1000, seed, p)
				}
				for _, g := range []struct {
					name                 string
					gains                []float64
					atLeast, meanAtLeast float64
				}{
					{"the first 128 tokens", first[:], 0.97, 0.98},
					{"6 times 128 tokens", short[:], 0.98, 0.985},
					{"4 times 1000 tokens", long[:], longEach, longMean},
				} {
					sum := 0.0
					for _, x := range g.gains {
						sum += x
					}
					mean, least := sum/seeds, slices.Min(g.gains)
					t.Logf("%s: %.3f times the rate, at least %.3f; %.3f by the best constant window", g.name, mean, least, best)
					if p > 0.5 && best == 1 { // the same tries, but each right one leads to more
						g.atLeast, g.meanAtLeast = g.atLeast-0.02, g.meanAtLeast-0.005
					}
					if mean < g.meanAtLeast || least < g.atLeast {
						t.Errorf("%s: %.3f times the rate, at least %.3f; want %.3f and %.3f", g.name, mean, least, g.meanAtLeast, g.atLeast)
					}
				}
			})
		}
	}
}

// Text that begins to repeat itself in the middle of an answer is noticed soon.
func TestWindowNoticesSoon(t *testing.T) {
	const seeds, turn = 25, 1000
	for _, c := range curves {
		c.busy = true
		if c.best(8, 0.9) < 1.1 {
			continue
		}
		sum, late := 0, 0
		for seed := range uint64(seeds) {
			rounds, drafting, noticed := 0, 0, -1
			w := NewWindow(8)
			w.Begin()
			watch(w, c, 3000, seed, func(at int) float64 {
				if at < turn {
					return 0
				}
				return 0.9
			}, func(at, drafts int) {
				if at < turn {
					return
				}
				rounds++
				if drafting++; drafts == 0 {
					drafting = 0
				}
				if drafting == 4 && noticed < 0 {
					noticed = rounds
				}
			})
			if noticed < 0 {
				t.Fatalf("%s, run %d: never noticed", c.name, seed)
			}
			if sum += noticed; noticed > 150 {
				late++
			}
		}
		t.Logf("%s: noticed after %d rounds, in %d of %d runs after more than 150", c.name, sum/seeds, late, seeds)
		if sum/seeds > 100 || late > seeds/10 {
			t.Errorf("%s: noticed after %d rounds, in %d of %d runs after more than 150", c.name, sum/seeds, late, seeds)
		}
	}
}

// Where every answer's drafts were wrong, fewer are tried in the next.
func TestWindowTriesLessOften(t *testing.T) {
	w := NewWindow(8)
	var tries [7]int
	for i := range tries {
		w.Begin()
		watch(w, curves[0], 128, 1, func(int) float64 { return 0 }, func(_, drafts int) { tries[i] += drafts })
	}
	if first, last := tries[0], tries[len(tries)-1]; last == 0 || last > first/2 {
		t.Errorf("tries by answer: %d", tries)
	}
}

// The same measurements lead to the same choices, and measuring allocates nothing.
func TestWindowIsAFunctionOfItsMeasurements(t *testing.T) {
	half := func(int) float64 { return 0.5 }
	a, b := NewWindow(8), NewWindow(8)
	c := curves[2]
	c.busy = true
	for i := range uint64(20) {
		var x, y []int
		a.Begin()
		watch(a, c, 100, i, half, func(_, drafts int) { x = append(x, drafts) })
		b.Begin()
		watch(b, c, 100, i, half, func(_, drafts int) { y = append(y, drafts) })
		if !slices.Equal(x, y) || *a != *b {
			t.Fatalf("%v and %v: %+v and %+v", x, y, *a, *b)
		}
	}
	if n := testing.AllocsPerRun(100, func() { a.Measured(a.Want(), 0, 1, 2) }); n > 0 {
		t.Errorf("a round makes %g allocations", n)
	}
	if k := NewWindow(0).Want(); k != 0 {
		t.Errorf("a window of none wants %d", k)
	}
}
