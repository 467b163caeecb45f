// Package report sums rows up and prints the result: one line a cell with the
// number of runs, the median and the range of what matters most, and below the
// table everything that a reader must know before using the numbers.
//
// What is withheld is never mixed in, warm-ups and failed runs are left out,
// and rows are pooled only when they are runs of the same thing, timed by the
// same rule.
package report

import (
	"assay/internal/kit/row"
	"assay/internal/kit/stats"
)

// Schema names the form of a Report's JSON.
const Schema = "assay-summary-1"

// Report is the summary of a set of rows.
type Report struct {
	Schema  string    `json:"schema"`
	Rows    int       `json:"rows"` // all that were read
	Warmups int       `json:"warmups"`
	Cells   []*Cell   `json:"cells"`
	Failed  []Failure `json:"failed"` // failed and stopped runs, warm-ups among them
}

// Cell is one arm at one context and load, as far as its rows are runs of the
// same thing.
type Cell struct {
	Arm      string            `json:"arm"`
	Ctx      string            `json:"ctx"`
	Part     string            `json:"part,omitempty"`    // what the cell is beyond arm and context: a load, a turn
	Variant  string            `json:"variant,omitempty"` // tells cells of one arm and context apart
	Settings map[string]string `json:"settings"`          // what all of its rows have in common

	Rule       string `json:"rule"`        // the timing rule, "own" for rows of tools that name none
	DecodeRule string `json:"decode_rule"` // in words

	Runs       int `json:"runs"` // rows that are summed up
	FailedRuns int `json:"failed_runs"`
	Short      int `json:"short"`  // left out: too few tokens; ShortRuns has them
	Starts     int `json:"starts"` // launches of the target, 0 when the rows don't say

	// Figures has every one of the list Figures by its path; null when no run has
	// it, with the reason in Withheld or Missing.
	Figures map[string]*Stat `json:"figures"`
	WarmUps WarmUps          `json:"warm_ups"`

	Withheld []Gone         `json:"withheld"` // figures computed and not shown
	Missing  []Gone         `json:"missing"`  // figures that could not be computed
	Verdicts map[string]int `json:"verdicts"` // of the token count
	Cached   Cached         `json:"cached"`

	ShortRuns []ShortRun `json:"short_runs"`
	Measured  []Run      `json:"measured"` // the runs that are summed up, in their order
}

// ShortRun is a run that is left out because it ended early.
type ShortRun struct {
	RowID  string `json:"row_id"`
	Tokens *int   `json:"completion_tokens"`
	Asked  *int   `json:"asked_tokens"`
}

// WarmUps are a cell's warm-ups, which are in none of its figures.
type WarmUps struct {
	Runs    int              `json:"runs"`
	Figures map[string]*Stat `json:"figures"`
}

// Run is one run of a cell.
type Run struct {
	RowID        string              `json:"row_id"`
	StartID      *string             `json:"start_id"` // null: the target's start was not seen
	Block        int                 `json:"block"`
	Repeat       int                 `json:"repeat"`
	At           *float64            `json:"at"` // Unix seconds
	SliceSHA256  *string             `json:"slice_sha256"`
	PromptTokens *int                `json:"prompt_tokens"`
	Tokens       *int                `json:"completion_tokens"`
	EvidenceDir  *string             `json:"evidence_dir"`
	Values       map[string]*float64 `json:"values"` // of Figures, by path; null when withheld or missing
}

// Stat describes one figure over the runs of a cell.
type Stat struct {
	Unit string `json:"unit"`
	stats.Summary
	// Interval holds the median with 95 % confidence. It is over starts when there
	// are enough of them, else over runs; null when there are too few of either.
	Interval     *stats.Interval `json:"interval"`
	IntervalOver string          `json:"interval_over,omitempty"` // Starts or Runs
	IntervalWhy  string          `json:"interval_why,omitempty"`  // why it is null
	Outliers     []Outlier       `json:"outliers"`                // far from the rest; told of, and kept
}

// What an interval is over.
const (
	OverRuns   = "runs"
	OverStarts = "starts"
)

// Confidence is that of every interval.
const Confidence = 0.95

// Outlier is a value far from the others of its cell.
type Outlier struct {
	RowID string  `json:"row_id"`
	Value float64 `json:"value"`
}

// Gone is a figure that some runs do not show.
type Gone struct {
	Figure string   `json:"figure"`
	Runs   int      `json:"runs"`
	Codes  []string `json:"codes,omitempty"`
	Why    string   `json:"why"` // in the first of the runs, which is
	RowID  string   `json:"row_id"`

	StartID *string `json:"start_id"` // of that run
}

// Cached says how far the runs' prompt rates are of prompts computed anew.
type Cached struct {
	None    int `json:"none"`    // the engine says that nothing came from a cache
	Some    int `json:"some"`    // a little did, and is left out of the rate
	Unknown int `json:"unknown"` // the nonce alone speaks for it
}

// Failure is a run that did not end well.
type Failure struct {
	RowID  string     `json:"row_id"`
	Arm    string     `json:"arm"`
	Ctx    string     `json:"ctx"`
	Phase  row.Phase  `json:"phase"`
	Status row.Status `json:"status"`
	Kind   string     `json:"fail_kind"`
	Error  string     `json:"error"`

	StartID *string `json:"start_id"` // null: there was none, or it was not seen
}

// Clean says that no run failed and nothing is withheld.
func (r *Report) Clean() bool {
	for _, c := range r.Cells {
		if len(c.Withheld) > 0 {
			return false
		}
	}
	return len(r.Failed) == 0
}

// Stat is the cell's figure of that path or name; nil when no run has it.
func (c *Cell) Stat(name string) *Stat {
	f, _ := FigureOf(name)
	return c.Figures[f.Path]
}
