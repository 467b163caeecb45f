package page

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"assay/internal/kit/row"
)

// mostRuns is how many runs the table of all runs lists.
const mostRuns = 2000

// runsView is the table of all runs: what the marks of the charts say, for who
// can't see them.
type runsView struct {
	Rows []runView
	More int
}

type runView struct {
	Arm, Ctx, Name, Phase string
	Values                []string
	Count, Status         string
	Link, Evidence        string
}

func (p *Page) runTable() runsView {
	var out runsView
	for _, e := range p.entries {
		if len(out.Rows) == mostRuns {
			out.More++
			continue
		}
		r := e.row
		v := runView{
			Arm: clean(r.Arm), Ctx: clean(r.Ctx), Name: "run " + strconv.Itoa(r.Repeat+1), Phase: "",
			Count: said(cmp.Or(textOf(r.CountCheck.Verdict), "unchecked")), Status: clean(string(r.Status)),
		}
		if r.Phase == row.Warmup {
			v.Name = "warm-up " + strconv.Itoa(r.Repeat+1)
		}
		if r.Attempt > 1 {
			v.Name += ", attempt " + strconv.Itoa(r.Attempt)
		}
		if r.Schema == "" {
			v.Name = clean(r.RowID)
		}
		if r.Status == row.OK && slices.Contains(r.Flags, row.FlagLeftOut) {
			v.Status = "short"
		}
		for _, f := range []struct {
			path string
			v    *float64
		}{{"decode_tok_s", r.DecodeTokS}, {"ttft_ms", r.TTFTMS}, {"prompt_tok_s_client", r.PromptTokSClient}} {
			switch {
			case withholds(r, f.path) || f.path == "decode_tok_s" && r.DecodeTokSWithheld != nil:
				v.Values = append(v.Values, "withheld")
			case f.v == nil:
				v.Values = append(v.Values, "none")
			default:
				v.Values = append(v.Values, number(*f.v))
			}
		}
		s := sourceOf(e)
		v.Link, v.Evidence = s.Link, "none kept"
		if r.Evidence.Dir != nil {
			v.Evidence = "evidence"
		}
		out.Rows = append(out.Rows, v)
	}
	return out
}

// urlPath writes a path with slashes as a part of a URL.
func urlPath(path string) string {
	parts := strings.Split(path, "/")
	for i, s := range parts {
		parts[i] = url.PathEscape(s)
	}
	return strings.Join(parts, "/")
}

// facts are the arms, the host and what the figures rest on.
func (p *Page) facts() []factsView {
	var out []factsView
	for _, a := range p.arms {
		out = append(out, factsView{clean(a.label), armFacts(a)})
	}
	return append(out, p.hostFacts()...)
}

// several joins what rows have, each once.
func several(rows []*row.Row, of func(r *row.Row) string) string {
	var out []string
	for _, r := range rows {
		if s := of(r); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
			if len(out) > 4 {
				return strings.Join(out[:3], ", ") + " and more"
			}
		}
	}
	return strings.Join(out, ", ")
}

func armFacts(a *arm) []fact {
	var out []fact
	add := func(name string, mono bool, of func(r *row.Row) string) {
		value := clean(several(a.rows, of))
		if value == "" {
			value = "not known"
			for _, r := range a.rows {
				if why := r.Why[whyPath[name]]; why != "" {
					value += ": " + said(why)
					break
				}
			}
		}
		out = append(out, fact{name, short(value, 1200), mono && !strings.HasPrefix(value, "not known")})
	}
	add("engine", false, func(r *row.Row) string { return r.Engine })
	add("engine commit", true, func(r *row.Row) string { return textOf(r.EngineCommit) })
	add("weights", false, func(r *row.Row) string { return textOf(r.Quant) })
	add("sha256 of the model's files", true, func(r *row.Row) string {
		var files []string
		for _, n := range slices.Sorted(maps.Keys(r.FileSHA256)) {
			files = append(files, r.FileSHA256[n])
		}
		return strings.Join(files, " ")
	})
	add("command line", true, func(r *row.Row) string { return shellLine(r.CommandLine...) })
	add("environment", true, func(r *row.Row) string {
		var env []string
		for _, n := range slices.Sorted(maps.Keys(r.EngineEnv)) {
			env = append(env, n+"="+shell(r.EngineEnv[n]))
		}
		return strings.Join(env, " ")
	})
	add("threads", false, func(r *row.Row) string { return textOf(r.Threads.Line) })
	add("asked of each run", false, func(r *row.Row) string {
		if r.Requested.MaxTokens == nil {
			return ""
		}
		s := fmt.Sprintf("%d tokens", *r.Requested.MaxTokens)
		if t := r.Requested.Sampling.Temperature; t != nil {
			s += fmt.Sprintf(" at temperature %g", *t)
		}
		if r.Requested.NaturalStop != nil && *r.Requested.NaturalStop {
			s += ", or until the model ends"
		}
		return s
	})
	var from []string
	for _, f := range a.from {
		from = append(from, clean(f.Name))
	}
	return append(out, fact{"rows from", short(list(from), 1200), true})
}

// whyPath is where a row says why it does not have one of the facts.
var whyPath = map[string]string{
	"engine commit": "engine_commit", "weights": "quant", "sha256 of the model's files": "file_sha256",
	"command line": "command_line", "environment": "engine_env", "threads": "threads",
}

// hostFacts has a list for each machine that rows were measured on.
func (p *Page) hostFacts() []factsView {
	var seen []row.Host
	var out []factsView
	var rules, versions, hashes []string
	for _, e := range p.entries {
		r := e.row
		rules, versions = also(rules, cmp.Or(r.TimingRule, "the rows' own")), also(versions, cmp.Or(r.AssayVersion, "not by assay"))
		h := r.Host
		if i := slices.IndexFunc(seen, func(o row.Host) bool { return hostText(o) == hostText(h) }); i < 0 {
			seen = append(seen, h)
		}
	}
	for i, h := range seen {
		title := "Host"
		if len(seen) > 1 {
			title = fmt.Sprintf("Host %d", i+1)
		}
		out = append(out, factsView{title, hostItems(h)})
	}
	for _, x := range p.panels {
		slices := map[string]bool{}
		for _, c := range x.cells {
			for _, r := range c.Measured {
				if s := textOf(r.SliceSHA256); s != "" {
					slices[s] = true
				}
			}
		}
		if len(slices) > 0 {
			hashes = append(hashes, fmt.Sprintf("%s: %s", x.name(), keysOf(slices)))
		}
	}
	made := []fact{
		{"timing rule", short(clean(strings.Join(rules, ", ")), 240), true},
		{"rows written by", "assay " + short(clean(strings.Join(versions, ", ")), 240), false},
		{"page made by", "assay " + cmp.Or(p.options.Version, "of an unnamed version"), false},
	}
	if hashes != nil {
		made = append(made, fact{"sha256 of the prompts' slices", short(strings.Join(hashes[:min(len(hashes), 12)], "; "), 1600), true})
	}
	return append(out, factsView{"How it was made", made})
}

func keysOf(set map[string]bool) string {
	all := slices.Sorted(maps.Keys(set))
	for i := range all {
		all[i] = clean(all[i])
	}
	if len(all) > 3 {
		all = append(all[:3], fmt.Sprintf("and %d more", len(all)-3))
	}
	return strings.Join(all, " ")
}

func also(list []string, s string) []string {
	if slices.Contains(list, s) || len(list) == 8 {
		return list
	}
	return append(list, s)
}

func hostText(h row.Host) string { return fmt.Sprint(hostItems(h)) }

func hostItems(h row.Host) []fact {
	var out []fact
	add := func(name, value string) {
		if value == "" {
			value = "not known"
		}
		out = append(out, fact{Name: name, Value: short(clean(value), 240)})
	}
	whole := func(n *int, noun string) string {
		if n == nil {
			return ""
		}
		return plural(*n, noun)
	}
	memory := ""
	if h.MemoryBytes != nil {
		memory = bytesText(float64(*h.MemoryBytes))
	}
	add("processor", textOf(h.CPUModel))
	add("cores", strings.Trim(whole(h.Sockets, "socket")+", "+whole(h.Cores, "core")+", "+whole(h.CPUs, "hardware thread"), ", "))
	add("memory", memory)
	add("system", strings.TrimSpace(textOf(h.Distribution)+" "+textOf(h.Arch)))
	add("kernel", textOf(h.Kernel))
	add("governor", textOf(h.Governor))
	add("virtualisation", textOf(h.Virtualisation))
	return out
}

// rules are the timing rules in words.
func (p *Page) rules() []string {
	var out []string
	for _, c := range p.summary.Cells {
		if s := short(clean(c.DecodeRule), 600); s != "" && !slices.Contains(out, s) && len(out) < 6 {
			out = append(out, s)
		}
	}
	return out
}

// commands are what measures this again, where a plan is kept beside the rows, and
// what checks it and makes the report again.
func (p *Page) commands() []string {
	var out, dirs []string
	for _, f := range p.folders {
		if f.Plan != "" {
			out = append(out, shellLine("assay", "run", f.Plan, "--out", strings.TrimRight(f.Name, "/")+"-again"))
		}
	}
	for _, f := range p.folders {
		dirs = append(dirs, f.Name)
		if f.Path != "" && p.keeps(f) {
			out = append(out, shellLine("assay", "verify", f.Name))
		}
	}
	return append(out, shellLine(append([]string{"assay", "summary"}, dirs...)...), shellLine(append(append([]string{"assay", "report"}, dirs...), "-o", "report.html")...))
}

// keeps says whether rows of a folder have evidence.
func (p *Page) keeps(f *Folder) bool {
	return slices.ContainsFunc(p.entries, func(e entry) bool { return e.folder == f && e.row.Evidence.Dir != nil })
}
