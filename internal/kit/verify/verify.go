// Package verify checks a folder of rows against itself: the chain of the rows,
// the hashes of the evidence, and every value of every row, computed anew from
// the evidence by the functions that the run used.
//
// What it can't know it says: whose rows follow a rule of another version, and
// whose text was not tokenised again because the tokenizer is not at hand.
package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"assay/internal/kit/derive"
	"assay/internal/kit/evidence"
	"assay/internal/kit/row"
	"assay/internal/kit/tokens"
)

// Schema names the form of a Report's JSON.
const Schema = "assay-verify-1"

// Options are what a check can use beside the folder.
type Options struct {
	Version string // of this program
	// Counter finds the tokenizer that rows name; nil: it is not at hand.
	Counter func(name string) *tokens.Counter
}

// Report is what a check found.
type Report struct {
	Schema     string         `json:"schema"`
	Dir        string         `json:"dir"`
	Rows       int            `json:"rows"`
	Files      int            `json:"files"`      // files of evidence that were hashed
	Recomputed int            `json:"recomputed"` // rows
	Rules      map[string]int `json:"rules"`      // timing rule to the rows recomputed by it
	Recounted  map[string]int `json:"recounted"`  // tokenizer to the rows whose text it tokenised anew
	Left       []Left         `json:"left"`       // rows whose text was not tokenised anew
	Imported   int            `json:"imported"`   // rows of other tools, of which nothing can be computed again
	Findings   []Finding      `json:"findings"`   // everything that is not as it should be
	Notes      []Finding      `json:"notes"`      // what differs, but proves nothing
	Clean      bool           `json:"clean"`      // there are no findings
}

// Left is why the text of some rows was not tokenised anew.
type Left struct {
	Why  string `json:"why"`
	Rows int    `json:"rows"`
}

// Kind is what a finding is about.
type Kind string

// The kinds of finding.
const (
	Chain    Kind = "chain"    // the order and number of the rows
	File     Kind = "file"     // a file of evidence: changed, missing, or unknown
	Evidence Kind = "evidence" // files of evidence that contradict each other or can't be read
	Value    Kind = "value"    // a value that is not what the evidence gives
	Rule     Kind = "rule"     // a row that this version can't compute
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Kind    Kind   `json:"kind"`
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"` // of the rows, from 1
	Row     string `json:"row,omitempty"`  // its row_id
	Path    string `json:"path,omitempty"` // of a value
	Problem string `json:"problem"`
	// InRow and Recomputed are a value's two sides; null where the value is
	// absent, which JSON's null is not.
	InRow      json.RawMessage `json:"in_row,omitempty"`
	Recomputed json.RawMessage `json:"recomputed,omitempty"`
}

// String is the finding on one line.
func (f Finding) String() string {
	s := f.File
	if f.Line > 0 {
		s = fmt.Sprintf("%s:%d", s, f.Line)
	}
	if f.Row != "" {
		s += ": " + f.Row
	}
	if f.Path != "" {
		s += ": " + f.Path
	}
	return s + ": " + f.Problem
}

// Dir checks the folder dir. An error means that it could not be read as one of
// rows; what is wrong with the rows is in the report.
func Dir(ctx context.Context, dir string, o Options) (*Report, error) {
	path := filepath.Join(dir, row.RowsFile)
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: is %s a folder of rows?", err, dir)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return nil, errors.Join(err, fmt.Errorf("%s: not a file of rows", path))
	}
	c := newCheck(dir, o)
	if err := c.chain(); err != nil {
		return nil, err
	}
	if err := c.lines(ctx, f); err != nil {
		return nil, err
	}
	if err := c.orphans(); err != nil {
		return nil, err
	}
	c.report.Clean = len(c.report.Findings) == 0
	return c.report, nil
}

func newCheck(dir string, o Options) *check {
	return &check{
		dir: dir, rows: filepath.Join(dir, row.RowsFile), options: o,
		report: &Report{
			Schema: Schema, Dir: dir,
			Rules: map[string]int{}, Recounted: map[string]int{}, Left: []Left{}, Findings: []Finding{}, Notes: []Finding{},
		},
		names: map[string]int{}, dirs: map[string]int{},
	}
}

// lines checks every row against its evidence.
func (c *check) lines(ctx context.Context, f io.Reader) error {
	for line := range row.Lines(f) {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := line.Row()
		if err != nil || r == nil {
			continue // the chain has told
		}
		c.line = line.Number
		c.report.Rows++
		c.inTime(r)
		c.row(r)
	}
	return nil
}

// check is the work on one folder.
type check struct {
	dir     string
	rows    string // the file of rows
	options Options
	report  *Report
	line    int
	before  *float64       // when the run of the row before began
	names   map[string]int // row_id to its line
	dirs    map[string]int // folder of evidence to the line of its row
	bundle  *bundled       // nil: a folder as the run left it
}

func (c *check) add(f Finding) { c.report.Findings = append(c.report.Findings, f) }

// about is a finding about the row at hand.
func (c *check) about(kind Kind, r *row.Row, format string, args ...any) {
	c.add(Finding{Kind: kind, File: c.rows, Line: c.line, Row: r.RowID, Problem: fmt.Sprintf(format, args...)})
}

func (c *check) chain() error {
	faults, err := row.Check(c.dir)
	for _, f := range faults {
		c.add(Finding{Kind: Chain, File: f.File, Line: f.Line, Problem: f.Problem})
	}
	return err
}

// inTime notes a run that began before the one above it. It may be that the row
// was moved, or that the clock was set back between the two.
func (c *check) inTime(r *row.Row) {
	began := r.Telemetry.Window.T0
	if began == nil {
		return
	}
	if c.before != nil && *began < *c.before {
		c.report.Notes = append(c.report.Notes, Finding{
			Kind: Chain, File: c.rows, Line: c.line, Row: r.RowID,
			Problem: "the run began before the one above it: the row was moved, or the machine's clock was set back",
		})
	}
	c.before = began
}

// row checks one row against its evidence.
func (c *check) row(r *row.Row) {
	if first, ok := c.names[r.RowID]; ok {
		c.about(Chain, r, "the row of line %d has the same row_id", first)
	} else {
		c.names[r.RowID] = c.line
	}
	if r.Schema != row.Schema {
		c.about(Rule, r, "schema %q is not known to this version (want %q): nothing in the row can be computed again", r.Schema, row.Schema)
		return
	}
	if r.Evidence.Dir == nil && slices.Contains(r.Flags, row.FlagImported) {
		c.report.Imported++
		return
	}
	rec := c.evidence(r)
	if rec == nil {
		return
	}
	facts, err := derive.ReadFacts(rec)
	if err != nil {
		c.about(Evidence, r, "%v", err)
		return
	}
	for _, err := range derive.Contradictions(rec) {
		c.about(Evidence, r, "%v", err)
	}
	c.bundle.again(c.line, rec, facts)
	again, err := derive.Row(rec, facts)
	switch {
	case errors.Is(err, derive.ErrUnknownRule):
		c.about(Rule, r, "%v: nothing in the row can be computed again", err)
		return
	case err != nil:
		c.about(Evidence, r, "%v", err)
		return
	}
	c.report.Recomputed++
	c.report.Rules[facts.TimingRule]++
	if counted := c.recount(r, rec, facts); counted {
		if anew, err := derive.Row(rec, facts); err != nil {
			c.about(Evidence, r, "counted anew: %v", err)
		} else {
			again = anew
		}
	}
	c.compare(r, again)
}

// evidence checks the hashes of a row's evidence and reads it; nil when there is
// none that can be read.
func (c *check) evidence(r *row.Row) *evidence.Record {
	if r.Evidence.Dir == nil {
		c.about(File, r, "the row names no evidence: nothing in it can be computed again")
		return nil
	}
	name := filepath.FromSlash(*r.Evidence.Dir)
	if !filepath.IsLocal(name) {
		c.about(File, r, "evidence.dir: %q leads out of the folder", *r.Evidence.Dir)
		return nil
	}
	dir := filepath.Join(c.dir, name)
	if c.bundle != nil {
		return c.bundle.evidence(c, r, dir)
	}
	if c.takenBefore(r, dir) {
		return nil
	}
	for _, err := range evidence.Check(dir, r.Evidence.Files) {
		c.about(File, r, "%v", err)
	}
	c.report.Files += len(r.Evidence.Files)
	rec, err := evidence.Read(dir)
	if err != nil {
		c.about(Evidence, r, "%v", err)
		return nil
	}
	return rec
}

// takenBefore says whether a row above has the same evidence. It is computed once:
// many rows that name one large file would take for ever.
func (c *check) takenBefore(r *row.Row, dir string) bool {
	first, ok := c.dirs[dir]
	if ok {
		c.about(Chain, r, "the row of line %d names the same evidence", first)
		return true
	}
	c.dirs[dir] = c.line
	return false
}

// recount tokenises the row's text and prompt anew where the tokenizer is at
// hand, and notes why where they are not.
func (c *check) recount(r *row.Row, rec *evidence.Record, facts *derive.Facts) bool {
	text := &facts.Text
	if text.Ends == nil && text.IDs == nil {
		c.left("there was nothing to count: " + text.Why)
		return false
	}
	var counter *tokens.Counter
	if c.options.Counter != nil {
		counter = c.options.Counter(text.Tokenizer)
	}
	if counter == nil {
		how := "only their number could be checked"
		if text.Ends != nil {
			how = "the ends of the kept tokens fit the text"
		}
		c.left(fmt.Sprintf("%s is not at hand (name it with --tokenizer); %s", text.Tokenizer, how))
		return false
	}
	if c.bundle.promptGone(r) { // the text alone
		without := *counter
		without.Prompt = nil
		counter = &without
	}
	for _, err := range facts.Recount(counter, rec) {
		c.about(Evidence, r, "%v", err)
	}
	c.report.Recounted[counter.Name]++
	return true
}

func (c *check) left(why string) {
	for i := range c.report.Left {
		if c.report.Left[i].Why == why {
			c.report.Left[i].Rows++
			return
		}
	}
	c.report.Left = append(c.report.Left, Left{Why: why, Rows: 1})
}
