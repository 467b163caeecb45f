package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/kit/row"
	"assay/internal/kit/stats"
)

// Mismatch is something in which the runs of two arms differ though they must
// not, for a comparison to mean anything.
type Mismatch struct {
	Kind  string `json:"kind"` // what --allow takes
	Base  string `json:"base"`
	Other string `json:"other"`
	Never bool   `json:"never,omitempty"` // it can't be allowed
}

// timingRule is the one kind that nothing allows: figures of two rules are two
// figures.
const timingRule = "timing-rule"

// kinds are what the runs of a pair must agree in. of gives what one run has; ""
// is unknown.
var kinds = []struct {
	name string
	of   func(r *row.Row) string
}{
	{"imported", func(r *row.Row) string {
		if imported(r) {
			return "imported"
		}
		return "measured by assay"
	}},
	{timingRule, func(r *row.Row) string {
		if ruleOf(r) == ownRule {
			return r.DecodeRule
		}
		return ruleOf(r)
	}},
	{"slice", func(r *row.Row) string { return textOf(r.SliceSHA256) }},
	{"asked-tokens", askedOf},
	{"sampling", samplingOf},
	{"reasoning", func(r *row.Row) string { return textOf(r.Requested.Reasoning) }},
	{"cache", func(r *row.Row) string { return textOf(r.Requested.Cache) }},
}

const (
	promptTokens = "prompt-tokens"
	mixedKind    = "mixed"
	importedKind = "imported"
)

// AllowKinds are the mismatches that can be passed over.
func AllowKinds() []string {
	out := []string{promptTokens, mixedKind}
	for _, k := range kinds {
		if k.name != timingRule {
			out = append(out, k.name)
		}
	}
	slices.Sort(out)
	return out
}

func checkAllow(allow []string) error {
	for _, a := range allow {
		switch {
		case a == timingRule:
			return fmt.Errorf("allow: rows of different timing rules are never compared: their figures are not of the same thing")
		case !slices.Contains(AllowKinds(), a):
			return fmt.Errorf("allow: %q is not known (want %s)", a, strings.Join(AllowKinds(), ", "))
		}
	}
	return nil
}

// imported says whether a row is not of our own measuring: of another tool's
// making, or marked as taken over from one.
func imported(r *row.Row) bool { return r.Schema == "" || slices.Contains(r.Flags, "imported") }

func askedOf(r *row.Row) string {
	asked := numberOf(r.Requested.MaxTokens)
	if n := r.Requested.NaturalStop; n != nil && *n {
		asked += " or a natural stop"
	}
	return asked
}

// promptTolerance is how far the numbers of prompt tokens may lie apart: a
// fresh nonce makes them differ by a token or two.
const promptTolerance = 0.01

// mismatches lists what stands against comparing two arms' runs of a cell, and
// what would but is allowed.
func mismatches(base, other []*row.Row, allow []string) (refused, allowed []Mismatch) {
	refused, allowed = []Mismatch{}, []Mismatch{}
	add := func(m Mismatch) {
		if slices.Contains(allow, m.Kind) {
			allowed = append(allowed, m)
		} else {
			refused = append(refused, m)
		}
	}
	oneImported := false
	for _, k := range kinds {
		a, b := setOf(base, k.of), setOf(other, k.of)
		if slices.Equal(a, b) {
			continue
		}
		m := Mismatch{Kind: k.name, Base: tell(a), Other: tell(b)}
		switch k.name {
		case importedKind:
			oneImported = true
		case timingRule:
			// Who asks for another tool's rows asks for their rule with them.
			if oneImported && slices.Contains(allow, importedKind) {
				allowed = append(allowed, m)
				continue
			}
			m.Never = true
		}
		add(m)
	}
	if a, b := tokensIn(base), tokensIn(other); a != nil && b != nil && math.Abs(*a-*b) > promptTolerance*max(*a, *b) {
		add(Mismatch{Kind: promptTokens, Base: fmt.Sprintf("%g", *a), Other: fmt.Sprintf("%g", *b)})
	} else if (a == nil) != (b == nil) {
		add(Mismatch{Kind: promptTokens, Base: tellNumber(a), Other: tellNumber(b)})
	}
	for i, rows := range [][]*row.Row{base, other} {
		if of := mixedIn(rows); of != "" {
			m := Mismatch{Kind: mixedKind, Base: "one thing", Other: "one thing"}
			if i == 0 {
				m.Base = "runs that differ in " + of
			} else {
				m.Other = "runs that differ in " + of
			}
			add(m)
		}
	}
	return refused, allowed
}

// setOf is what the rows have, each once, sorted.
func setOf(rows []*row.Row, of func(*row.Row) string) []string {
	var out []string
	for _, r := range rows {
		out = append(out, of(r))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func tell(set []string) string {
	var out []string
	for _, s := range set {
		switch {
		case s == "":
			s = "not known"
		case len(s) == 64 && !strings.ContainsFunc(s, func(c rune) bool { return !strings.ContainsRune("0123456789abcdef", c) }):
			s = s[:12] + "…"
		}
		out = append(out, short(clean(s), 60))
	}
	return strings.Join(out, ", ")
}

func tokensIn(rows []*row.Row) *float64 {
	var values []float64
	for _, r := range rows {
		if r.PromptTokens != nil {
			values = append(values, float64(*r.PromptTokens))
		}
	}
	s, ok := stats.Summarize(values)
	if !ok {
		return nil
	}
	return &s.Median
}

func tellNumber(v *float64) string {
	if v == nil {
		return "not known"
	}
	return fmt.Sprintf("%g", *v)
}

// makes are what all runs of one arm must share to be runs of one thing.
var makes = []struct {
	name string
	of   func(r *row.Row) string
}{
	{"engine", func(r *row.Row) string { return r.Engine }},
	{"engine commit", func(r *row.Row) string { return textOf(r.EngineCommit) }},
	{"model files", modelFiles},
	{"quant", func(r *row.Row) string { return textOf(r.Quant) }},
	{"processor", func(r *row.Row) string { return textOf(r.Host.CPUModel) }},
	{"threads", threadsOf},
}

// mixedIn says in what the runs of one arm in one cell differ, though they are
// held to be runs of the same thing.
func mixedIn(rows []*row.Row) string {
	var out []string
	for _, m := range makes {
		first := m.of(rows[0])
		if slices.ContainsFunc(rows[1:], func(r *row.Row) bool { return m.of(r) != first }) {
			out = append(out, m.name)
		}
	}
	return strings.Join(out, ", ")
}
