package report

import (
	"encoding/json"
	"slices"
	"strings"

	"assay/internal/kit/row"
)

// Difference is one thing in which two arms differ.
type Difference struct {
	What  string `json:"what"`
	Base  string `json:"base"`
	Other string `json:"other"`
}

// facts are what is held side by side, beside the command line and the
// environment.
var facts = []struct {
	name string
	of   func(r *row.Row) string
}{
	{"engine", func(r *row.Row) string { return r.Engine }},
	{"engine commit", func(r *row.Row) string { return textOf(r.EngineCommit) }},
	{"model files", modelFiles},
	{"quant", func(r *row.Row) string { return textOf(r.Quant) }},
	{"threads", threadsOf},
	{"endpoint", func(r *row.Row) string { return textOf(r.Requested.Endpoint) }},
	{"assay", func(r *row.Row) string { return r.AssayVersion }},
	{"host: processor", func(r *row.Row) string { return textOf(r.Host.CPUModel) }},
	{"host: processors", func(r *row.Row) string { return numberOf(r.Host.CPUs) }},
	{"host: memory", func(r *row.Row) string { return jsonOf(r.Host.MemoryBytes) }},
	{"host: kernel", func(r *row.Row) string { return textOf(r.Host.Kernel) }},
	{"host: governor", func(r *row.Row) string { return textOf(r.Host.Governor) }},
	{"GPU power limit, W", func(r *row.Row) string { return jsonOf(r.Telemetry.PowerLimit.MaxW) }},
}

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil || string(text) == "null" {
		return ""
	}
	return string(text)
}

// differences lists what is not the same of two arms.
func differences(base, other []*row.Row) []Difference {
	out := []Difference{}
	for _, f := range facts {
		if a, b := setOf(base, f.of), setOf(other, f.of); !slices.Equal(a, b) && len(a) > 0 && len(b) > 0 {
			out = append(out, Difference{f.name, tell(a), tell(b)})
		}
	}
	if a, b := onlyIn(argvOf(base), argvOf(other)), onlyIn(argvOf(other), argvOf(base)); len(a)+len(b) > 0 {
		out = append(out, Difference{"command line", orNothing(a), orNothing(b)})
	}
	if a, b := onlyIn(envOf(base), envOf(other)), onlyIn(envOf(other), envOf(base)); len(a)+len(b) > 0 {
		out = append(out, Difference{"environment", orNothing(a), orNothing(b)})
	}
	return out
}

func orNothing(parts []string) string {
	if len(parts) == 0 {
		return "nothing more"
	}
	return short(clean(strings.Join(parts, " ")), 2*maxText)
}

// argvOf is what all command lines of an arm share, each flag with its value. A
// port differs from start to start, so it drops out by itself, and where there
// is one start by its name.
func argvOf(rows []*row.Row) []string {
	return shared(rows, func(r *row.Row) []string {
		var out []string
		for i := 0; i < len(r.CommandLine); i++ {
			part := r.CommandLine[i]
			if strings.HasPrefix(part, "-") && i+1 < len(r.CommandLine) && !strings.HasPrefix(r.CommandLine[i+1], "-") {
				i++
				part += " " + r.CommandLine[i]
			}
			if name, _, _ := strings.Cut(strings.ReplaceAll(part, "=", " "), " "); name != "--port" {
				out = append(out, part)
			}
		}
		return out
	})
}

func envOf(rows []*row.Row) []string {
	return shared(rows, func(r *row.Row) []string {
		var out []string
		for name, v := range r.EngineEnv {
			out = append(out, name+"="+v)
		}
		slices.Sort(out)
		return out
	})
}

// shared is what all rows have, in the order of the first.
func shared(rows []*row.Row, of func(*row.Row) []string) []string {
	if len(rows) == 0 {
		return nil
	}
	out := of(rows[0])
	for _, r := range rows[1:] {
		have := of(r)
		out = slices.DeleteFunc(out, func(s string) bool { return !slices.Contains(have, s) })
	}
	return out
}

func onlyIn(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
