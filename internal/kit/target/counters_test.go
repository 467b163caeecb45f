package target

import (
	"math"
	"strings"
	"testing"
)

// A server that prints six digits of its totals: what one run added to a large one
// is not exact, and is then not told.
func TestRoundedCounters(t *testing.T) {
	names := CounterNames{Prompt: "p", Predicted: "n", PredictedSeconds: "s", Digits: 6}
	for _, c := range []struct {
		name, before, after string
		predicted, seconds  float64 // that were added; -1: not told
		why                 string
	}{
		{"small", "n 100\ns 1.5\n", "n 228\ns 2.75\n", 128, 1.25, ""},
		{"the last exact count", "n 999871\ns 1\n", "n 999999\ns 2\n", 128, 1, ""},
		{"a count of seven digits", "n 1.00001e+06\ns 1\n", "n 1.00014e+06\ns 2\n", -1, 1, "the server prints 6 digits of its total of generated tokens, 1.00014e+06: what one run added is not exact"},
		{"a time of many seconds", "n 1\ns 123456\n", "n 2\ns 123459\n", 1, 3, ""},
		{"a time whose digits are too few", "n 1\ns 1234.5\n", "n 2\ns 1234.6\n", 1, -1, "the server prints 6 digits of its total of decode seconds, 1234.6: what one run added is not exact"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := MeteredBy(names, []byte(c.before), []byte(c.after))
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range []struct {
				got  *float64
				want float64
			}{{got.Predicted, c.predicted}, {got.PredictedSeconds, c.seconds}} {
				if (x.got == nil) != (x.want < 0) || x.got != nil && math.Abs(*x.got-x.want) > 1e-9 {
					t.Errorf("got %v, want %v", x.got, x.want)
				}
			}
			if got.Why != c.why {
				t.Errorf("why %q, want %q", got.Why, c.why)
			}
		})
	}
}

func FuzzMetered(f *testing.F) {
	f.Add([]byte("n 1\n"), []byte("n{a=\"}\"} 1.5e+06 17\n"))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		d, err := MeteredBy(CounterNames{Prompt: "p", Cached: "c", PromptSeconds: "s", Predicted: "n", PredictedSeconds: "t", Digits: 6}, before, after)
		if err == nil && d.Predicted != nil && *d.Predicted < 0 {
			t.Errorf("a difference of %v without an error", *d.Predicted)
		}
		if n := Whole(d.Predicted); n != nil && *n < 0 {
			t.Errorf("%d tokens", *n)
		}
	})
}

func TestReadCounters(t *testing.T) {
	for _, c := range []struct {
		name, text, err string
		want            float64
	}{
		{"plain", "# HELP x y\nn 12\n", "", 12},
		{"labels with a brace and a quote", `n{a="}\" {",b=""} 3` + "\n" + `n{a="2"} 4 1700000000` + "\n", "", 7},
		{"exponent", "n 1.5e+03\n", "", 1500},
		{"other names only", "m 1\n", "none of the engine's counters", 0},
		{"not a number", "n many\n", `line 1: "many" is not a number`, 0},
		{"labels without end", "n{a=\"b\" 1\n", "labels do not end", 0},
		{"no value", "n\n", "has no value", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ReadCounters([]byte(c.text), CounterNames{Predicted: "n"})
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
			case err != nil:
				t.Error(err)
			case got.Predicted == nil || *got.Predicted != c.want:
				t.Errorf("got %v, want %v", got.Predicted, c.want)
			}
		})
	}
}
