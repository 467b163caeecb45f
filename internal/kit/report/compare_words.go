package report

import (
	"fmt"
	"math"
	"strings"

	"assay/internal/kit/stats"
)

// ratio is a ratio as it is shown.
func ratio(r float64) string {
	if r >= 10 {
		return fmt.Sprintf("%.1f", r)
	}
	return fmt.Sprintf("%.3f", r)
}

// percent is a ratio as a difference: "4.2 % lower".
func percent(r float64) string {
	word := "higher"
	if r < 1 {
		word = "lower"
	}
	p := 100 * math.Abs(r-1)
	if p == 0 {
		return "no difference"
	}
	if p >= 20 {
		return fmt.Sprintf("%.0f %% %s", p, word)
	}
	return fmt.Sprintf("%.1f %% %s", p, word)
}

func pValue(p float64) string {
	if p < 0.001 {
		return "p < 0.001"
	}
	return fmt.Sprintf("p = %.3f", p)
}

// sentence puts a change into words.
func sentence(f Figure, p *Pair, c *Change, tests int) string {
	at := strings.TrimSpace(p.Ctx + " " + p.Part)
	arm, base := p.Arm, p.Base
	if c.Verdict == Unknown {
		return fmt.Sprintf("%s: can't tell whether the %s of %s differs from that of %s: %s.", at, f.Label, arm, base, c.Why)
	}
	figures := fmt.Sprintf("%s %s against %s %s", f.Label,
		number(*c.Other.Median, decimals(*c.Other.Median)), number(*c.Base.Median, decimals(*c.Base.Median)), f.Unit)
	by := c.by(tests)
	in := c.Interval
	if c.Verdict == Same {
		return fmt.Sprintf("%s: %s and %s are the same within noise: %s; what can't be ruled out lies between %s and %s (%s).",
			at, arm, base, figures, percent(in.Low), percent(in.High), by)
	}
	comparative := string(c.Verdict) + " than"
	if f.less == "less" {
		comparative = "at " + string(c.Verdict) + " than"
	}
	return fmt.Sprintf("%s: %s is %s %s: %s, %s (with 95 %% confidence between %s and %s; %s).",
		at, arm, comparative, base, figures, percent(*c.Ratio), percent(in.Low), percent(in.High), by)
}

// by says which test it goes by.
func (c *Change) by(tests int) string {
	name := "Mann-Whitney"
	if c.Over == OverStartPairs || c.Over == OverRunPairs {
		name = "signed rank"
	}
	if c.Test.Method == stats.Exact {
		name = "exact " + name
	}
	units := fmt.Sprintf("%d + %d %s", c.Units[0], c.Units[1], c.Over)
	if c.Over == OverStartPairs || c.Over == OverRunPairs {
		units = fmt.Sprintf("%d %s", c.Units[0], c.Over)
	}
	if c.Over == OverRuns || c.Over == OverRunPairs {
		units += c.ofStarts()
	}
	among := ""
	if tests > 1 {
		among = fmt.Sprintf(" among %d tests", tests)
	}
	return fmt.Sprintf("%s%s, %s over %s", pValue(*c.PAdjusted), among, name, units)
}

// ofStarts says of how few starts runs are, where starts are not what it is over.
func (c *Change) ofStarts() string {
	switch a, b := c.Base.Starts, c.Other.Starts; {
	case a <= 1 && b <= 1:
		return " of a single start each"
	default:
		return fmt.Sprintf(" of %d and %d starts", a, b)
	}
}

// refusals lists mismatches.
func refusals(list []Mismatch) string {
	var parts []string
	for _, m := range list {
		parts = append(parts, fmt.Sprintf("%s (%s against %s)", m.Kind, m.Base, m.Other))
	}
	return strings.Join(parts, ", ")
}

// advice says what can be done about what was refused.
func advice(list []Mismatch) string {
	var allow []string
	for _, m := range list {
		if m.Never {
			return "figures of different timing rules are not of the same thing: measure both by one"
		}
		allow = append(allow, m.Kind)
	}
	return "--allow " + strings.Join(allow, ",") + " compares them all the same"
}
