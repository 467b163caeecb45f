package target

import (
	"strings"
	"testing"
)

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
