package stats

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"testing"
)

// reference is what scipy and statsmodels say of 20 data sets; see
// tools/stats/reference.py, which wrote it.
type reference struct {
	Confidence float64 `json:"confidence"`
	Sets       []struct {
		Name           string      `json:"name"`
		X              []float64   `json:"x"`
		Y              []float64   `json:"y"`
		MedianInterval *[2]float64 `json:"median_interval"`
		MannWhitney    struct {
			U      float64  `json:"u"`
			Exact  *float64 `json:"exact"`
			Normal float64  `json:"normal"`
		} `json:"mann_whitney"`
		ShiftBetween *refShift `json:"shift_between"`
		Differences  []float64 `json:"differences"`
		SignedRank   *struct {
			W     float64 `json:"w"`
			Exact float64 `json:"exact"`
		} `json:"signed_rank"`
		ShiftOfPairs *refShift `json:"shift_of_pairs"`
	} `json:"sets"`
	Holm []struct {
		P        []float64 `json:"p"`
		Adjusted []float64 `json:"adjusted"`
	} `json:"holm"`
}

type refShift struct {
	Middle   float64     `json:"middle"`
	Interval *[2]float64 `json:"interval"` // null: no shift is refused
}

// near says whether two figures are the same but for rounding.
func near(a, b float64) bool {
	return a == b || math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b))
}

func TestAgainstSciPy(t *testing.T) {
	data, err := os.ReadFile("testdata/scipy.json")
	if err != nil {
		t.Fatal(err)
	}
	var ref reference
	if err := json.Unmarshal(data, &ref); err != nil {
		t.Fatal(err)
	}
	if len(ref.Sets) != 20 {
		t.Fatalf("%d data sets, want 20", len(ref.Sets))
	}
	checked := map[string]int{}
	for _, s := range ref.Sets {
		t.Run(s.Name, func(t *testing.T) {
			same := func(what string, got, want float64) {
				t.Helper()
				checked[what]++
				if !near(got, want) {
					t.Errorf("%s: %v, scipy says %v", what, got, want)
				}
			}
			interval := func(what string, got Interval, err error, want *[2]float64) {
				t.Helper()
				if want == nil {
					if !errors.Is(err, ErrTooFew) {
						t.Errorf("%s: %v, %v, scipy gives none", what, got, err)
					}
					checked[what+": none"]++
					return
				}
				if err != nil {
					t.Errorf("%s: %v, scipy says %v", what, err, *want)
					return
				}
				same(what, got.Low, want[0])
				same(what, got.High, want[1])
				if got.Confidence < ref.Confidence || got.Confidence >= 1 {
					t.Errorf("%s: confidence %v", what, got.Confidence)
				}
			}
			in, err := MedianInterval(s.X, ref.Confidence)
			interval("median interval", in, err, s.MedianInterval)

			normal := mannWhitneyNormal(s.X, s.Y)
			same("U", normal.Statistic, s.MannWhitney.U)
			same("Mann-Whitney, normal", normal.P, s.MannWhitney.Normal)
			if want := s.MannWhitney.Exact; want != nil {
				exact := mannWhitneyExact(s.X, s.Y)
				same("U", exact.Statistic, s.MannWhitney.U)
				same("Mann-Whitney, exact", exact.P, *want)
			}
			if want := s.SignedRank; want != nil {
				got, err := SignedRank(s.Differences)
				if err != nil || got.Method != Exact {
					t.Fatalf("%+v, %v", got, err)
				}
				same("W", got.Statistic, want.W)
				same("signed rank", got.P, want.Exact)
			}
			if want := s.ShiftBetween; want != nil {
				got, err := ShiftBetween(s.X, s.Y, ref.Confidence)
				same("shift", got.Middle, want.Middle)
				interval("shift interval", got.Interval, err, want.Interval)
			}
			if want := s.ShiftOfPairs; want != nil {
				got, err := ShiftOfPairs(s.Differences, ref.Confidence)
				same("shift of pairs", got.Middle, want.Middle)
				interval("interval of pairs", got.Interval, err, want.Interval)
			}
		})
	}
	for _, h := range ref.Holm {
		for i, got := range Holm(h.P) {
			checked["Holm"]++
			if !near(got, h.Adjusted[i]) {
				t.Errorf("Holm of %d: %v, statsmodels says %v", len(h.P), got, h.Adjusted[i])
			}
		}
	}
	// A data set that scipy could say nothing of would pass unseen.
	for what, least := range map[string]int{
		"median interval": 20, "median interval: none": 3, "Mann-Whitney, normal": 20, "Mann-Whitney, exact": 17,
		"signed rank": 9, "shift interval": 10, "shift interval: none": 2, "interval of pairs": 6, "Holm": 30,
	} {
		if checked[what] < least {
			t.Errorf("%s: compared %d times, want %d at least", what, checked[what], least)
		}
	}
	t.Logf("compared: %v", checked)
}
