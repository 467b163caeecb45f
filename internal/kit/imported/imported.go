// Package imported reads what other tools measured as rows.
//
// Such a row is marked (row.FlagImported) and has the tool's own timing rule, so
// that it is never mixed with what Assay measured unless someone asks for it. It
// has no evidence: its figures are the tool's word. What the tool wrote of the
// run stands in the row as it was, under "imported", and what it wrote of all runs
// together in the first row of the file, so that nothing that it holds is lost; what
// a row has no place for is not guessed.
//
// A row is one request. Where a tool kept only a summary of many, there is one
// row, and notes that say of how many requests its figures are the median or the
// mean.
package imported

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/kit/count"
	"assay/internal/kit/prompt"
	"assay/internal/kit/row"
	"assay/internal/kit/stats"
)

// Options are what files don't say.
type Options struct {
	Version string // of this program
	Arm     string // name of the arm; empty: made of the tool's and the model's
	Engine  string // that was measured; empty: as the file says, else "unknown"
}

// Result is what one file gave.
type Result struct {
	Tool string     `json:"tool"` // with its version, where the file says it
	Rows []*row.Row `json:"-"`
	// Whole counts rows of summaries, which stand for many requests each.
	Summaries int `json:"summaries"`
}

// Limits of what is read. A row keeps its record, so a record that many rows share
// is there many times.
const (
	MaxFile   = 128 << 20   // bytes of a file
	maxRows   = 100_000     // that one file may give
	maxRecord = 8 << 20     // bytes of what one row keeps
	maxKept   = 3 * MaxFile // bytes of what all rows of a file keep
)

// block is the name under which a row keeps what the tool wrote.
const block = "imported"

// one is a run as a tool tells it.
type one struct {
	model, part     string // part tells runs of one file apart that are no repeats
	engine, commit  string
	quant           string
	ctx             string
	threads         *int
	prompt, output  *int
	cached          *int
	asked           *int
	ttft, load      *float64 // ms
	promptRate      *float64 // tokens a second
	decodeRate      *float64
	promptMS        *float64 // the engine's own times
	decodeMS        *float64
	gaps            []float64 // ms
	finish          string
	failed          string // why; empty: it did not
	notes           map[string]string
	record          json.RawMessage
	began           *float64 // Unix seconds
	seconds         *float64 // of the whole request
	drafts, accepts *int
	summary         bool
}

// format is a form of file that can be read.
type format struct {
	tool   string
	decode string // what the tool divides for its decode rate
	// together: the requests of one part are of one load, whose prompts differ by a
	// few tokens; their cell is named by the middle one.
	together bool
	is       func(f *file) bool
	read     func(f *file) ([]one, error)
}

// formats in the order in which they are tried.
var formats = []format{llamaBench, guideLLM, aiPerf, aiPerfSummary, vllmServe, strataRun, strataMatrix, ollamaBench}

// ErrUnknown says that a file is no result of any tool that is known.
var ErrUnknown = errors.New("not a form that is known")

// Tools are the names of what can be read.
func Tools() []string {
	var out []string
	for _, f := range formats {
		if !slices.Contains(out, f.tool) {
			out = append(out, f.tool)
		}
	}
	return out
}

// Read makes rows of a file; name is its name in errors and rows. Whose it is
// is told by its form.
func Read(name string, data []byte, o Options) (*Result, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("%s: %d bytes, more than the %d that are read: split it, or import its summary", name, len(data), MaxFile)
	}
	f, err := parse(name, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, form := range formats {
		if !form.is(f) {
			continue
		}
		runs, err := form.read(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, form.tool, err)
		}
		if len(runs) == 0 {
			return nil, fmt.Errorf("%s: %s: there is no run in it", name, form.tool)
		}
		if len(runs) > maxRows {
			return nil, fmt.Errorf("%s: %s: %d runs, more than the %d that one file may have", name, form.tool, len(runs), maxRows)
		}
		return form.rows(f, runs, o)
	}
	if first := f.object; has(first, "row_id", "status") || len(f.lines) > 0 && has(f.lines[0], "row_id", "status") {
		return nil, fmt.Errorf("%s: these are rows already: assay summary, compare and report take them as they are", name)
	}
	return nil, fmt.Errorf("%s: %w (want a result of %s)", name, ErrUnknown, strings.Join(Tools(), ", "))
}

// rows makes rows of runs, numbered within their cells.
func (form format) rows(f *file, runs []one, o Options) (*Result, error) {
	tool := form.tool
	if f.version != "" {
		tool += " " + f.version
	}
	sum := sha256.Sum256(f.data)
	out := &Result{Tool: tool}
	repeats := map[string]int{}
	all := len(f.rest) // bytes that the rows keep
	for i, x := range runs {
		if all += len(x.record); len(x.record)+len(f.rest) > maxRecord || all > maxKept {
			return nil, fmt.Errorf("%s: run %d: its record has %d bytes, all up to it %d: more than the %d that a row keeps, or the %d of a file", f.name, i, len(x.record), all, maxRecord, maxKept)
		}
	}
	if form.together {
		sizes(runs)
	}
	for i := range runs {
		r, err := form.row(tool, &runs[i], o, repeats)
		if err != nil {
			return nil, err
		}
		rest := f.rest
		if i > 0 {
			rest = nil
		}
		kept, err := json.Marshal(struct {
			Tool   string          `json:"tool"`
			File   string          `json:"file"`
			SHA256 string          `json:"file_sha256"`
			Record json.RawMessage `json:"record"`
			Rest   json.RawMessage `json:"rest,omitempty"` // of the file, with its first run
		}{tool, f.name, hex.EncodeToString(sum[:]), runs[i].record, rest})
		if err != nil {
			return nil, fmt.Errorf("%s: run %d: %w", f.name, i, err)
		}
		r.Extra = map[string]map[string]json.RawMessage{"": {block: kept}}
		if holdsNull(kept) {
			r.Null("null as "+form.tool+" wrote it", block)
		}
		if runs[i].summary {
			out.Summaries++
		}
		r.Run = i + 1
		out.Rows = append(out.Rows, r)
	}
	return out, nil
}

// sizes names the cells of runs by the middle number of their prompt tokens.
func sizes(runs []one) {
	of := map[string][]int{}
	for _, x := range runs {
		if x.prompt != nil && *x.prompt >= 0 {
			of[x.part] = append(of[x.part], *x.prompt)
		}
	}
	for i := range runs {
		if all := of[runs[i].part]; len(all) > 0 && runs[i].ctx == "" {
			slices.Sort(all)
			runs[i].ctx = prompt.FormatCount(all[len(all)/2])
		}
	}
}

// row is the row of one run.
func (form format) row(tool string, x *one, o Options, repeats map[string]int) (*row.Row, error) {
	arm := o.Arm
	if arm == "" {
		arm = strings.Trim(form.tool+"-"+x.model, "-")
	}
	if x.part != "" {
		arm += "-" + x.part
	}
	arm = clean(arm)
	engine := cleanOr(o.Engine, cleanOr(x.engine, "unknown"))
	ctx := x.ctx
	if ctx == "" && x.prompt != nil {
		ctx = prompt.FormatCount(*x.prompt)
	}
	if ctx == "" {
		ctx = "unknown"
	}
	cell := arm + "/" + ctx
	n := repeats[cell]
	repeats[cell]++
	r := &row.Row{
		Schema: row.Schema, AssayVersion: o.Version, TimingRule: tool, DecodeRule: form.tool + ": " + form.decode,
		RowID: fmt.Sprintf("%s/imported/a1/run-%03d", cell, n+1), Cell: cell, Arm: arm, Engine: engine,
		EngineCommit: text(x.commit), Quant: text(x.quant), Ctx: ctx, Phase: row.Measure, Repeat: n, Attempt: 1,
		Status: row.OK, Flags: []string{row.FlagImported}, IdentitiesFailed: []string{}, Withheld: []row.Withheld{},
		Sources: map[string]string{}, Notes: map[string]string{}, Why: map[string]string{},
		TTFTMS: positive(x.ttft), LoadMS: positive(x.load), PromptTokens: whole(x.prompt), CompletionTokens: whole(x.output),
		CachedTokens: whole(x.cached), FinishReason: text(x.finish),
		PromptTokSClient: positive(x.promptRate), DecodeTokS: positive(x.decodeRate),
	}
	r.Requested.MaxTokens, r.Threads.Workers = whole(x.asked), nil
	r.CountCheck = row.CountCheck{
		Verdict: new(string(count.Unchecked)), CompletionTokens: whole(x.output), Unread: []row.Unread{}, Sources: []row.CountSource{},
		Why: new("imported: " + form.tool + " kept nothing to count again"),
	}
	if x.threads != nil && *x.threads >= 0 {
		r.Threads.Workers = x.threads
	}
	if x.promptMS != nil || x.decodeMS != nil {
		r.ServerTimings = row.ServerTimings{
			PromptMS: positive(x.promptMS), PredictedMS: positive(x.decodeMS), PredictedN: whole(x.output), CacheN: whole(x.cached),
			DraftN: whole(x.drafts), DraftNAccepted: whole(x.accepts),
		}
	}
	r.Telemetry.Window.T0, r.Telemetry.Window.Seconds = positive(x.began), positive(x.seconds)
	if x.began != nil && x.seconds != nil {
		r.Telemetry.Window.T1 = positive(new(*x.began + *x.seconds))
	}
	if len(x.gaps) > 0 {
		if s, ok := stats.Summarize(x.gaps); ok {
			r.Gaps.N, r.Gaps.MedianMS, r.Gaps.MaxMS = new(len(x.gaps)), positive(&s.Median), positive(&s.Max)
		}
	}
	for path, v := range map[string]*float64{"ttft_ms": r.TTFTMS, "prompt_tok_s_client": r.PromptTokSClient, "decode_tok_s": r.DecodeTokS, "load_ms": r.LoadMS} {
		if v != nil {
			r.Sources[path] = tool + "'s own"
		}
	}
	for path, note := range x.notes {
		r.Notes[path] = note
	}
	if x.failed != "" {
		r.Status, r.FailKind, r.Error = row.Failed, new("imported"), new(clean(x.failed))
		r.TTFTMS, r.PromptTokSClient, r.DecodeTokS = nil, nil, nil
		r.Sources = map[string]string{}
	}
	r.Explain()
	if err := r.Because("imported: " + form.tool + " does not say"); err != nil {
		return nil, err
	}
	delete(r.Why, "prev_sha256") // set when the row is appended
	return r, nil
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// clean takes out of a stranger's text what does not belong in a name.
func clean(s string) string {
	const most = 200
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '/' || r == '\\' {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(s, "_"))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}

func cleanOr(s, otherwise string) string {
	if s = clean(strings.TrimSpace(s)); s == "" {
		return otherwise
	}
	return s
}

// positive leaves out what no clock and no rate gives.
func positive(v *float64) *float64 {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) || *v < 0 {
		return nil
	}
	return v
}

func whole(n *int) *int {
	if n == nil || *n < 0 {
		return nil
	}
	return n
}

// over is a rate of n things in ms, nil where either is not known.
func over(n *int, ms *float64) *float64 {
	if n == nil || ms == nil || *ms <= 0 {
		return nil
	}
	return new(float64(*n) / *ms * 1000)
}

var errNoRate = errors.New("it has neither times nor rates")
