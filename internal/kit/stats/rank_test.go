package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The least that can show anything at 95 %: known from the counts of
// arrangements, 2/2^6, 2/C(8,4) and 2/2^6.
func TestSmallestSamples(t *testing.T) {
	if a, b, c := MedianNeeds(0.95), ShiftNeeds(0.95), PairsNeeds(0.95); a != 6 || b != 4 || c != 6 {
		t.Errorf("median %d, shift %d, pairs %d; want 6, 4, 6", a, b, c)
	}
	for _, tt := range []struct {
		n, m int
		can  bool
	}{{4, 4, true}, {3, 4, false}, {3, 5, true}, {3, 3, false}, {2, 8, true}, {2, 7, false}, {1, 39, true}, {1, 38, false}, {0, 9, false}, {500, 600, true}} {
		if got := CanShift(tt.n, tt.m, 0.95); got != tt.can {
			t.Errorf("%d and %d: %v", tt.n, tt.m, got)
		}
		if tt.n == 0 {
			continue
		}
		if _, err := ShiftBetween(make([]float64, tt.n), make([]float64, tt.m), 0.95); (err == nil) != tt.can {
			t.Errorf("%d and %d: %v", tt.n, tt.m, err)
		}
	}
}

func TestMedianInterval(t *testing.T) {
	upTo := func(n int) []float64 {
		var v []float64
		for i := n; i > 0; i-- {
			v = append(v, float64(i))
		}
		return v
	}
	// Places and confidences as tables of the binomial distribution have them.
	for n, want := range map[int]Interval{
		6: {1, 6, 0.96875}, 8: {1, 8, 0.9921875}, 9: {2, 8, 0.9609375}, 10: {2, 9, 0.978515625}, 20: {6, 15, 0.958610534667969},
	} {
		got, err := MedianInterval(upTo(n), 0.95)
		if err != nil || got.Low != want.Low || got.High != want.High || !near(got.Confidence, want.Confidence) {
			t.Errorf("%d: %+v, %v; want %+v", n, got, err, want)
		}
	}
	for n := range 6 {
		if _, err := MedianInterval(upTo(n), 0.95); !errors.Is(err, ErrTooFew) || !strings.Contains(err.Error(), "needs 6") {
			t.Errorf("%d: %v", n, err)
		}
	}
	// Where the exact count gives way to the normal one, no more than a place
	// changes.
	small, _ := MedianInterval(upTo(1000), 0.95)
	large, _ := MedianInterval(upTo(1001), 0.95)
	if math.Abs(large.Low-small.Low) > 1.5 || math.Abs(large.High-small.High) > 2.5 {
		t.Errorf("%+v, then %+v", small, large)
	}
	for _, c := range []float64{0, 1, -1, math.NaN()} {
		if _, err := MedianInterval(upTo(9), c); err == nil {
			t.Errorf("confidence %v is taken", c)
		}
	}
}

// small samples of few different values, so that many are tied.
func tiedSample(name string, least, most int) *rapid.Generator[[]float64] {
	return rapid.Custom(func(t *rapid.T) []float64 {
		var v []float64
		for _, n := range rapid.SliceOfN(rapid.IntRange(-3, 3), least, most).Draw(t, name) {
			v = append(v, float64(n))
		}
		return v
	})
}

// Counting all arrangements by their sums gives what going through them gives.
func TestExactAgainstAllArrangements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, y := tiedSample("x", 1, 5).Draw(t, "x"), tiedSample("y", 1, 5).Draw(t, "y")
		test, err := MannWhitney(x, y)
		if err != nil || test.Method != Exact {
			t.Fatal(test, err)
		}
		all := slices.Concat(x, y)
		u := func(mask int) (u float64) {
			for i, a := range all {
				for j, b := range all {
					if mask>>i&1 == 1 && mask>>j&1 == 0 {
						switch {
						case a > b:
							u++
						case a == b:
							u += 0.5
						}
					}
				}
			}
			return u
		}
		mine := u(1<<len(x) - 1)
		low, high, n := 0.0, 0.0, 0.0
		for mask := range 1 << len(all) {
			if bits(mask) != len(x) {
				continue
			}
			n++
			switch v := u(mask); {
			case v < mine:
				low++
			case v > mine:
				high++
			default:
				low++
				high++
			}
		}
		if want := min(1, 2*min(low, high)/n); !near(test.P, want) || test.Statistic != mine {
			t.Fatalf("U %v, p %v; want %v, %v", test.Statistic, test.P, mine, want)
		}
	})
}

func bits(mask int) (n int) {
	for ; mask > 0; mask &= mask - 1 {
		n++
	}
	return n
}

func TestSignedRankAgainstAllSigns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := tiedSample("d", 1, 9).Draw(t, "d")
		test, err := SignedRank(d)
		if err != nil {
			t.Fatal(err)
		}
		d = slices.DeleteFunc(slices.Clone(d), func(v float64) bool { return v == 0 })
		away := make([]float64, len(d))
		mine := 0
		for i, v := range d {
			away[i] = math.Abs(v)
			if v > 0 {
				mine |= 1 << i
			}
		}
		ranks, _ := doubledRanks(away)
		w := func(mask int) (sum int) {
			for i, r := range ranks {
				if mask>>i&1 == 1 {
					sum += r
				}
			}
			return sum
		}
		low, high := 0.0, 0.0
		for mask := range 1 << len(d) {
			if w(mask) <= w(mine) {
				low++
			}
			if w(mask) >= w(mine) {
				high++
			}
		}
		want := min(1, 2*min(low, high)/float64(int(1)<<len(d)))
		if !near(test.P, want) || test.N != [2]int{len(d), test.N[1]} {
			t.Fatalf("%+v, want p %v", test, want)
		}
	})
}

// What the test refuses lies outside of the interval, and the other way round:
// the two never contradict each other where no values are tied.
func TestIntervalsGoWithTheirTests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfNDistinct(rapid.Float64Range(1, 2), 4, 12, rapid.ID[float64]).Draw(t, "x")
		y := rapid.SliceOfNDistinct(rapid.Float64Range(1.2, 2.4), 4, 12, rapid.ID[float64]).Draw(t, "y")
		if both := slices.Concat(x, y); len(slices.Compact(slices.Sorted(slices.Values(both)))) < len(both) {
			t.Skip("tied")
		}
		s, err := ShiftBetween(x, y, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		test, _ := MannWhitney(x, y)
		if inside := s.Low <= 0 && 0 <= s.High; inside != (test.P > 0.05) {
			t.Fatalf("p %v with %+v", test.P, s)
		}
		if !s.Contains(s.Middle) || s.Confidence < 0.95 || s.Confidence > 1 {
			t.Fatalf("%+v", s)
		}
		back, _ := ShiftBetween(y, x, 0.95)
		if !near(back.Middle, -s.Middle) || !near(back.Low, -s.High) || !near(back.High, -s.Low) {
			t.Fatalf("%+v, and the other way round %+v", s, back)
		}
		n := min(len(x), len(y))
		if n < 6 {
			return
		}
		d := make([]float64, n)
		for i := range d {
			d[i] = y[i] - x[i]
		}
		p, err := ShiftOfPairs(d, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		signed, _ := SignedRank(d)
		if away := slices.Compact(slices.Sorted(slices.Values(absOf(d)))); len(away) < n || away[0] == 0 {
			return
		}
		if inside := p.Low <= 0 && 0 <= p.High; inside != (signed.P > 0.05) {
			t.Fatalf("p %v with %+v", signed.P, p)
		}
	})
}

func absOf(d []float64) []float64 {
	out := make([]float64, len(d))
	for i, v := range d {
		out[i] = math.Abs(v)
	}
	return out
}

// Beyond what is counted exactly, the normal approximation takes over without a
// jump, and nothing grows without bound.
func TestLargeSamples(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	draw := func(n int, by float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = by + rng.NormFloat64()
		}
		return v
	}
	x, y := draw(50, 0), draw(50, 0.4)
	exact, normal := mannWhitneyExact(x, y), mannWhitneyNormal(x, y)
	if math.Abs(exact.P-normal.P) > 0.002 {
		t.Errorf("exact %v, normal %v", exact.P, normal.P)
	}
	before, err := ShiftBetween(x, y, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	after, err := ShiftBetween(append(x, x[0]), append(y, y[0]), 0.95)
	if err != nil || math.Abs(after.Low-before.Low) > 0.1 || math.Abs(after.High-before.High) > 0.1 {
		t.Errorf("%+v, then %+v, %v", before, after, err)
	}
	d := draw(300, 0.5)
	if test, err := SignedRank(d); err != nil || test.Method != Normal || test.P > 1e-6 {
		t.Errorf("%+v, %v", test, err)
	}
	if s, err := ShiftOfPairs(d, 0.95); err != nil || !s.Contains(0.5) || s.High-s.Low > 0.4 {
		t.Errorf("%+v, %v", s, err)
	}
	if test, err := MannWhitney(draw(1000, 0), draw(1000, 0)); err != nil || test.Method != Normal || test.P < 1e-3 {
		t.Errorf("%+v, %v", test, err)
	}
	if _, err := ShiftBetween(make([]float64, 3000), make([]float64, 3000), 0.95); err == nil {
		t.Error("nine million differences were made")
	}
	if _, err := ShiftOfPairs(make([]float64, 3000), 0.95); err == nil {
		t.Error("4.5 million averages were made")
	}
}

func TestNoValues(t *testing.T) {
	_, e1 := MannWhitney(nil, []float64{1})
	_, e2 := SignedRank(nil)
	_, e3 := ShiftBetween([]float64{1}, nil, 0.95)
	_, e4 := ShiftOfPairs(nil, 0.95)
	for i, err := range []error{e1, e2, e3, e4} {
		if !errors.Is(err, ErrNoValues) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if test, err := SignedRank([]float64{0, 0}); err != nil || test.P != 1 || test.N != [2]int{0, 2} {
		t.Errorf("pairs without a difference: %+v, %v", test, err)
	}
	if len(Holm(nil)) != 0 {
		t.Error("Holm of nothing")
	}
}

func TestOutliers(t *testing.T) {
	for name, tt := range map[string]struct {
		values []float64
		want   []int
	}{
		"none":            {[]float64{50, 51, 49, 50.5, 49.5, 50.2}, nil},
		"one":             {[]float64{50, 51, 49, 12.5, 50.5, 49.5}, []int{3}},
		"both sides":      {[]float64{50, 51, 49, 12.5, 50.5, 49.5, 90}, []int{3, 6}},
		"four are few":    {[]float64{50, 51, 49, 1}, nil},
		"mostly the same": {[]float64{50, 50, 50, 50, 10}, nil},
		"half and half":   {[]float64{50, 50.1, 50.2, 60, 60.1, 60.2}, nil},
	} {
		if got := Outliers(tt.values); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
