package figure_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"assay/internal/kit/figure"
)

// The user's page on this rule, docs/timing.md: its example is computed here, and
// its table is the program's.
func TestTimingPage(t *testing.T) {
	b, err := os.ReadFile("../../../docs/timing.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	f := figure.Compute(inputs(t, join(
		at(50, role()), at(120, text(words(4))), every(140, 20, 30, 2),
		at(725, finish("stop")), at(1225, usage(5, 65), done())), true))
	if len(f.Withheld) > 0 {
		t.Errorf("withheld %+v", f.Withheld)
	}
	lines := []string{
		fmt.Sprintf("| `ttft_ms` | %s |", value(f.TTFT)),
		fmt.Sprintf("| N_first | %g |", *f.Window.NFirst),
		fmt.Sprintf("| N_last | %g |", *f.Window.NLast),
		fmt.Sprintf("| `decode_tok_s` | %s |", value(f.Decode)),
		fmt.Sprintf("| `decode_tok_s_simple` | %s |", value(f.DecodeSimple)),
		fmt.Sprintf("| `gaps.median_ms` | %s |", value(f.GapMedian)),
		// Thirty frames in 600 ms; 64 tokens in 1105 ms.
		fmt.Sprintf("Frames taken for tokens would give %.3f; a window up to the usage frame %.3f.", 30/0.6, 64/1.105),
	}
	lines = append(lines, "| code | when | withheld |", "| --- | --- | --- |")
	for _, c := range figure.Table {
		groups := make([]string, len(c.Withholds))
		for i, g := range c.Withholds {
			groups[i] = string(g)
		}
		what := strings.Join(groups, ", ")
		if c.Fails {
			what = "all; the run failed"
		}
		lines = append(lines, fmt.Sprintf("| `%s` | %s | %s |", c.Code, c.Means, what))
	}
	for _, l := range lines {
		if !strings.Contains(page, "\n"+l) {
			t.Errorf("docs/timing.md lacks the line\n%s", l)
		}
	}
	if table := strings.Count(page, "\n| `"); table != len(figure.Table)+4 {
		t.Errorf("docs/timing.md has %d lines of figures and codes, want %d", table, len(figure.Table)+4)
	}
}
