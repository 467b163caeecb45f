package report

import (
	"compress/gzip"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"assay/internal/kit/row"
	"assay/internal/kit/stats"
)

// Comparisons of arms that are known to be the same, or known to differ: plans
// drawn anew from rows that were really measured. Nothing is assumed about how
// runs vary; they vary as they did.
//
// testdata/threads.jsonl.gz has 126 rows of "assay run --ctx 512 --max-tokens
// 256 -t 1 (or 2)", cut down to the fields that are read here: six rounds of
// both in turns, A B B A, then six more of -t 2; six runs and a warm-up each. The
// machine had two processors and nothing else to do in rounds 0 to 4; from round
// 5 on others used it as well, and -t 2 ran at half its speed.

const plansDrawn = 10000

func threadRows(t testing.TB) []*row.Row {
	t.Helper()
	f, err := os.Open("testdata/threads.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out []*row.Row
	for r, err := range row.Read(z, "threads.jsonl") {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// round is the number of a recorded row's round.
func round(r *row.Row) int {
	name, _, _ := strings.Cut(r.RowID, "/")
	var arm, n int
	if _, err := fmt.Sscanf(name, "t%d-%d", &arm, &n); err != nil {
		panic(err)
	}
	return n
}

// measured are the rows of an arm that count, in rounds from first to last.
func measured(rows []*row.Row, arm string, first, last int) []*row.Row {
	var out []*row.Row
	for _, r := range rows {
		if r.Arm == arm && r.Phase == row.Measure && round(r) >= first && round(r) <= last {
			out = append(out, r)
		}
	}
	return out
}

// as gives rows another arm's name and, where start is not empty, one start and
// no time; times is what its rate is multiplied by.
func as(arm, start string, times float64, rows []*row.Row) []*row.Row {
	var out []*row.Row
	for _, r := range rows {
		c := *r
		c.Arm, c.Cell = arm, arm+"/"+r.Ctx
		c.DecodeTokS = new(*r.DecodeTokS * times)
		if start != "" {
			c.StartID = &start
			c.Telemetry.Window.T0 = nil
		}
		out = append(out, &c)
	}
	return out
}

// drawn picks n of the rows, none twice.
func drawn(rng *rand.Rand, rows []*row.Row, n int) []*row.Row {
	var out []*row.Row
	for _, i := range rng.Perm(len(rows))[:n] {
		out = append(out, rows[i])
	}
	return out
}

// ratesAlike are the nine published rows, each rate in units of the middle one of
// its context: what is left is how runs of that engine vary.
func ratesAlike(t testing.TB) []float64 {
	byCtx := map[string][]float64{}
	f, err := os.Open("../row/testdata/seed-rows.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r, err := range row.Read(f, "seed-rows.jsonl") {
		if err != nil {
			t.Fatal(err)
		}
		byCtx[r.Ctx] = append(byCtx[r.Ctx], *r.DecodeTokS)
	}
	var out []float64
	for _, ctx := range []string{"4K", "32K", "128K"} {
		s, _ := stats.Summarize(byCtx[ctx])
		for _, v := range byCtx[ctx] {
			out = append(out, 200*v/s.Median)
		}
	}
	return out
}

// seeded are n rows with rates drawn from the published ones, again and again.
func seeded(rng *rand.Rand, rates []float64, arm string, n int, times float64) []*row.Row {
	var v []float64
	for range n {
		v = append(v, times*rates[rng.IntN(len(rates))])
	}
	return runsOf(arm, v...)
}

// starts are the rows of each start of an arm.
func starts(rows []*row.Row) [][]*row.Row {
	byStart := map[string][]*row.Row{}
	var order []string
	for _, r := range rows {
		if byStart[*r.StartID] == nil {
			order = append(order, *r.StartID)
		}
		byStart[*r.StartID] = append(byStart[*r.StartID], r)
	}
	var out [][]*row.Row
	for _, s := range order {
		out = append(out, byStart[s])
	}
	return out
}

// One thing compared with itself, 10,000 times: in how many plans does the tool
// say that there is a difference? Between 2 and 5.5 % may.
func TestFalseAlarms(t *testing.T) {
	all := threadRows(t)
	pool := measured(all, "t2", 0, 11)
	byStart := starts(pool)
	published := ratesAlike(t)
	if len(pool) != 72 || len(byStart) != 12 || len(published) != 9 {
		t.Fatalf("%d rows of %d starts, %d published", len(pool), len(byStart), len(published))
	}
	for name, tt := range map[string]struct {
		over string // what comparisons must be over
		plan func(rng *rand.Rand) (a, b []*row.Row)
	}{
		"6 + 6 runs": {OverRuns, func(rng *rand.Rand) (a, b []*row.Row) {
			d := drawn(rng, pool, 12)
			return as("a", "1", 1, d[:6]), as("b", "2", 1, d[6:])
		}},
		"6 + 6 published runs": {OverRuns, func(rng *rand.Rand) (a, b []*row.Row) {
			return seeded(rng, published, "a", 6, 1), seeded(rng, published, "b", 6, 1)
		}},
		"10 + 14 runs": {OverRuns, func(rng *rand.Rand) (a, b []*row.Row) {
			d := drawn(rng, pool, 24)
			return as("a", "1", 1, d[:10]), as("b", "2", 1, d[10:])
		}},
		"two contexts": {OverRuns, func(rng *rand.Rand) (a, b []*row.Row) {
			d := drawn(rng, pool, 24)
			other := func(rows []*row.Row) []*row.Row {
				return each(rows, func(_ int, r *row.Row) { r.Ctx, r.Cell = "2K", r.Arm+"/2K" })
			}
			return slices.Concat(as("a", "1", 1, d[:6]), other(as("a", "1", 1, d[12:18]))),
				slices.Concat(as("b", "2", 1, d[6:12]), other(as("b", "2", 1, d[18:])))
		}},
		"6 + 6 starts": {OverStarts, func(rng *rand.Rand) (a, b []*row.Row) {
			for i, s := range rng.Perm(12) {
				rows := byStart[s]
				if i < 6 {
					a = append(a, each(as("a", "", 1, rows), noTime)...)
				} else {
					b = append(b, each(as("b", "", 1, rows), noTime)...)
				}
			}
			return a, b
		}},
		// As many starts as a plan of two arms and two sizes has by itself; each
		// start's runs are shared out to both.
		"two contexts of 5 + 5 starts": {OverStarts, func(rng *rand.Rand) (a, b []*row.Row) {
			for i, s := range rng.Perm(12)[:10] {
				name, to := "a", &a
				if i >= 5 {
					name, to = "b", &b
				}
				*to = append(*to, each(as(name, "", 1, byStart[s]), func(k int, r *row.Row) {
					noTime(k, r)
					if k >= len(byStart[s])/2 {
						r.Ctx, r.Cell = "2K", r.Arm+"/2K"
					}
				})...)
			}
			return a, b
		}},
		"6 pairs of starts": {OverStartPairs, func(rng *rand.Rand) (a, b []*row.Row) {
			for i := 0; i < 12; i += 2 {
				flip := rng.IntN(2)
				a = append(a, as("a", "", 1, byStart[i+flip])...)
				b = append(b, as("b", "", 1, byStart[i+1-flip])...)
			}
			return a, b
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(1, 2))
			plans := plansDrawn
			switch {
			case thorough():
			case testing.Short(): // as under the race detector
				plans /= 50
			case strings.Contains(name, "starts"): // of 72 rows each
				plans /= 20
			case name != "6 + 6 runs":
				plans /= 10
			}
			alarms, outside := 0, 0
			for range plans {
				a, b := tt.plan(rng)
				c := compared(t, CompareOptions{}, a, b)
				alarm, out := false, false
				for _, p := range c.Pairs {
					ch := p.Change(decodePath)
					if ch.Over != tt.over || ch.Verdict == Unknown {
						t.Fatalf("over %s: %s", ch.Over, ch.Words)
					}
					alarm = alarm || ch.Verdict != Same
					out = out || !ch.Interval.Contains(1)
				}
				if alarm {
					alarms++
				}
				if out {
					outside++
				}
			}
			rate := float64(alarms) / float64(plans)
			t.Logf("%d plans: %.2f %% false alarms; 1 outside of the interval in %.2f %%", plans, 100*rate, 100*float64(outside)/float64(plans))
			low, high := 0.02, 0.055
			if plans < plansDrawn { // a count of so few has an error of its own
				by := 3 * math.Sqrt(high/float64(plans))
				low, high = low-by, high+by
			}
			if rate < low || rate > high {
				t.Errorf("%.2f %% false alarms, want %.1f to %.1f %%", 100*rate, 100*low, 100*high)
			}
		})
	}
}

func noTime(_ int, r *row.Row) { r.Telemetry.Window.T0 = nil }

func thorough() bool { return os.Getenv("ASSAY_WIDE") != "" }

// found counts in how many of so many plans the second arm is found slower.
func found(t *testing.T, plans int, plan func(rng *rand.Rand) (a, b []*row.Row)) int {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	n := 0
	for range plans {
		a, b := plan(rng)
		switch ch := compared(t, CompareOptions{}, a, b).Pairs[0].Change(decodePath); ch.Verdict {
		case Slower:
			n++
		case Faster:
			t.Errorf("the slower one is called faster: %s", ch.Words)
		}
	}
	return n
}

// A slow-down of 10 % replayed on real rows: in plans of 6 + 6 runs it is found
// in 18 of 20 where runs vary as the published ones do (3 %). The machine of the
// recorded ones varied by 6 % from run to run with nothing else to do; there it
// takes 18 runs of each, and 6 + 6 find it in half of the plans.
func TestSlowdownIsFound(t *testing.T) {
	published := ratesAlike(t)
	idle := measured(threadRows(t), "t2", 0, 4)
	if len(idle) != 30 {
		t.Fatalf("%d rows", len(idle))
	}
	again := func(rng *rand.Rand, arm string, n int, times float64) []*row.Row {
		var rows []*row.Row
		for range n {
			rows = append(rows, idle[rng.IntN(len(idle))])
		}
		return as(arm, arm, times, rows)
	}
	for name, tt := range map[string]struct {
		least int // of 20
		plan  func(rng *rand.Rand) (a, b []*row.Row)
	}{
		"published, 6 + 6": {18, func(rng *rand.Rand) (a, b []*row.Row) {
			return seeded(rng, published, "a", 6, 1), seeded(rng, published, "b", 6, 0.9)
		}},
		"a noisy machine, 6 + 6": {8, func(rng *rand.Rand) (a, b []*row.Row) {
			return again(rng, "a", 6, 1), again(rng, "b", 6, 0.9)
		}},
		"a noisy machine, 18 + 18": {18, func(rng *rand.Rand) (a, b []*row.Row) {
			return again(rng, "a", 18, 1), again(rng, "b", 18, 0.9)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := found(t, 20, tt.plan)
			t.Logf("found in %d of 20", n)
			if n < tt.least {
				t.Errorf("found in %d of 20 plans, want %d", n, tt.least)
			}
			many := 100
			if thorough() {
				many = 2000
			}
			t.Logf("and in %.1f %% of %d", 100*float64(found(t, many, tt.plan))/float64(many), many)
		})
	}
}

// One thread instead of two, really measured: found in every round that nothing
// disturbed, by its 6 + 6 runs, and over the starts of these rounds.
func TestFewerThreadsAreFound(t *testing.T) {
	all := threadRows(t)
	for r := range 5 {
		ch := compared(t, CompareOptions{}, measured(all, "t2", r, r), measured(all, "t1", r, r)).Pairs[0].Change(decodePath)
		if ch.Verdict != Slower || ch.Over != OverRuns {
			t.Errorf("round %d: %s", r, ch.Words)
		}
	}
	c := compared(t, CompareOptions{}, measured(all, "t2", 0, 4), measured(all, "t1", 0, 4))
	if ch := c.Pairs[0].Change(decodePath); ch.Verdict != Slower || ch.Over != OverStarts || !ch.Interval.Contains(0.57) {
		t.Error(ch.Words)
	}
	// With the round that was disturbed, one pair of six goes the other way. The
	// signed ranks of six pairs show a difference only when all six agree.
	c = compared(t, CompareOptions{}, measured(all, "t2", 0, 5), measured(all, "t1", 0, 5))
	if ch := c.Pairs[0].Change(decodePath); ch.Verdict != Same || ch.Over != OverStartPairs {
		t.Error(ch.Words)
	}
	if d := c.Arms[1].Differences; !slices.ContainsFunc(d, func(d Difference) bool {
		return d == Difference{"command line", "--threads 2", "--threads 1"}
	}) {
		t.Errorf("what differs: %+v", d)
	}
}

// Why starts are the units where there are enough of them: the same program with
// the same arguments, started twice and compared by the runs of these two starts,
// is called different in 6 of 20 cases here. That is what the note on a
// single start is for.
func TestStartsOfOneArmDiffer(t *testing.T) {
	all := threadRows(t)
	differ, pairs := 0, 0
	for _, arm := range []string{"t1", "t2"} {
		for a := range 5 {
			for b := range a {
				ch := compared(t, CompareOptions{}, as("a", "", 1, measured(all, arm, a, a)), as("b", "", 1, measured(all, arm, b, b))).Pairs[0].Change(decodePath)
				if !strings.Contains(ch.Note, "a single start of each arm: another start may differ by more") || !strings.Contains(ch.Words, "of a single start each") {
					t.Fatalf("not labelled: %s; %s", ch.Words, ch.Note)
				}
				pairs++
				if ch.Verdict != Same {
					differ++
				}
			}
		}
	}
	if differ != 6 || pairs != 20 {
		t.Errorf("%d of %d pairs of starts of one arm are called different by their runs, not 6 of 20", differ, pairs)
	}
}
