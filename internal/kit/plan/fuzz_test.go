package plan

import (
	"errors"
	"os"
	"testing"

	"assay/plans"
)

// Whatever the bytes: an answer soon, no panic, a position in every problem, and
// a plan that parses has a schedule and can be described.
func FuzzParse(f *testing.F) {
	for _, name := range plans.Names() {
		data, _ := plans.Example(name)
		f.Add(string(data))
	}
	every, err := os.ReadFile("testdata/every-key.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(every))
	f.Add("arms: &a [{name: a, command: *a}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse("f", []byte(text), Options{Targets: targets})
		if err != nil {
			var problems Problems
			if len(text) <= maxFile && !errors.As(err, &problems) {
				t.Fatalf("no Problems: %v", err)
			}
			for _, one := range problems {
				if one.Line < 1 || one.Text == "" {
					t.Fatalf("%+v", one)
				}
			}
			return
		}
		s := p.Schedule()
		if len(s.Runs()) == 0 || float64(len(s.Runs())) != p.size() {
			t.Fatalf("%d runs, size %v", len(s.Runs()), p.size())
		}
		if p.Describe(s, nil) == "" || p.Check() != nil || p.Resumable(p) != nil {
			t.Fatal(p.Check(), p.Resumable(p))
		}
	})
}
