// Package derive makes a row out of the evidence of a run. A run calls it to get
// the row that it appends, and assay verify calls it to see whether the row that
// was appended is the one that the evidence gives: everything in a row but its
// place in the journal and the hashes of the evidence itself is a pure function
// of the evidence.
//
// Most of a row is read from kept bytes: stream, request, prompt, /metrics, log.
// What only the run knew is kept beside them as Facts.
package derive

import (
	"encoding/json"
	"fmt"

	"assay/internal/kit/evidence"
	"assay/internal/kit/guard"
	"assay/internal/kit/host"
	"assay/internal/kit/row"
	"assay/internal/kit/target"
	"assay/internal/kit/target/adapters"
	"assay/internal/kit/telemetry"
)

// Form names the layout of Facts.
const Form = "assay-facts-1"

// Facts are what a row depends on beside the kept bytes: what only the run knew.
// They hold no secret. A text named Why says why the value beside it is not
// there.
type Facts struct {
	Form         string `json:"form"`
	AssayVersion string `json:"assay_version"`
	TimingRule   string `json:"timing_rule"`

	Plan     Plan      `json:"plan"`
	Target   Target    `json:"target"`
	Start    *Start    `json:"start"` // null: the target was only attached to
	Model    Model     `json:"model"`
	Host     host.Host `json:"host"`
	Around   Around    `json:"around"`
	Prompt   Prompt    `json:"prompt"`
	Exchange Exchange  `json:"exchange"`
	Text     Text      `json:"text"`
}

// Plan is the run's place in its plan, and what the plan asked for that the
// request does not show.
type Plan struct {
	Arm         string    `json:"arm"`
	Cell        string    `json:"cell"`
	Ctx         int       `json:"ctx"`            // tokens of the slice; 0: the prompt is a file, read whole
	File        string    `json:"file,omitempty"` // that file's name, without its folder and ending
	Turn        int       `json:"turn,omitempty"` // of a conversation, from 0; the prompt is what this turn adds
	Phase       row.Phase `json:"phase"`
	Block       int       `json:"block"`
	Repeat      int       `json:"repeat"`
	Attempt     int       `json:"attempt"`
	Run         int       `json:"run"`
	NaturalStop bool      `json:"natural_stop"`
	Cache       string    `json:"cache"`
}

// Target is what was known of the server that was measured.
type Target struct {
	Adapter string  `json:"adapter"` // whose formats of log and metrics apply
	Engine  string  `json:"engine"`
	Commit  *string `json:"commit"`
	Format  *string `json:"format"` // of the weights
	// Why has the reasons under "commit" and "format".
	Why map[string]string `json:"why"`
	// Found is what else was learnt of the server, in words.
	Found map[string]string `json:"found,omitempty"`
	// What the adapter documented when the run was made.
	EndTokenCounted *bool  `json:"end_token_counted"`
	DecodeBasis     string `json:"decode_basis"`
	// ThreadsLog is the part of the engine's log in which it tells its threads.
	ThreadsLog string `json:"threads_log"`
	ThreadsWhy string `json:"threads_why,omitempty"`
}

// Start is the launch of the target.
type Start struct {
	ID       string            `json:"id"`
	Argv     []string          `json:"argv"`
	Env      map[string]string `json:"env"` // the variables that matter
	LoadMS   float64           `json:"load_ms"`
	Requests int               `json:"requests"` // sent to this start so far, the run's own included
	// CgroupWhy is why the target has no cgroup of its own; empty: it has one.
	CgroupWhy string `json:"cgroup_why,omitempty"`
}

// Around is what was known of the machine beside the samples.
type Around struct {
	Why      string              `json:"why,omitempty"`  // why there are no samples
	Disk     string              `json:"disk,omitempty"` // that holds the model; empty: not known
	Baseline *telemetry.Baseline `json:"baseline"`       // null: the target was only attached to
	Model    *host.Model         `json:"model"`          // of the model's files, before the start; null because of Why
	Idle     *telemetry.Idle     `json:"idle,omitempty"` // of the start, with the model loaded; null: the plan asked for none
	Cool     *Cool               `json:"cool,omitempty"` // the wait before the run; null: there was none
}

// Cool is a wait for the machine to cool down.
type Cool struct {
	Seconds float64  `json:"seconds"`        // that it took
	C       *float64 `json:"c,omitempty"`    // the last reading, in °C; null: the plan gave a time only, or it can't be read
	Why     string   `json:"why,omitempty"`  // why it can't
	Late    bool     `json:"late,omitempty"` // the wait was over before the machine was as cool as the plan wants
}

// Model is what was known of the model's files.
type Model struct {
	FileSHA256 map[string]string `json:"file_sha256"`
	Why        string            `json:"why,omitempty"`
}

// Prompt is what was known of the prompt beside its text.
type Prompt struct {
	Nonce       string `json:"nonce"`
	Total       *int   `json:"total"`        // tokens of the rendered prompt by our own count
	BeforeNonce *int   `json:"before_nonce"` // of these, before the nonce
	Why         string `json:"why,omitempty"`
}

// Exchange is how the request went, as far as the recording does not say it.
type Exchange struct {
	Err              string `json:"err,omitempty"` // why there is no recording
	Interrupted      bool   `json:"interrupted"`
	TimedOut         bool   `json:"timed_out"`
	MonotonicNS      int64  `json:"monotonic_ns"` // from before the request to after it
	WallNS           int64  `json:"wall_ns"`      // the same by the wall clock
	MetricsBeforeWhy string `json:"metrics_before_why,omitempty"`
	MetricsAfterWhy  string `json:"metrics_after_why,omitempty"`
	LogWhy           string `json:"log_why,omitempty"`
	Ended            string `json:"ended,omitempty"` // how the target ended by itself; empty: it did not
	// NotSent says why there was no request at all, and NotSentKind in one word.
	NotSent     string        `json:"not_sent,omitempty"`
	NotSentKind string        `json:"not_sent_kind,omitempty"`
	Guard       *guard.Report `json:"guard,omitempty"` // how the guard's watch went; null: it had nothing to watch
}

// Text is what a tokenizer made of the completion.
type Text struct {
	Tokenizer string  `json:"tokenizer,omitempty"` // whose it was
	Ends      []int   `json:"ends"`                // offset in the text at which each token ends; null: not known
	IDs       []int32 `json:"ids"`                 // where the ends are not known
	Why       string  `json:"why,omitempty"`       // why there is neither
}

// ReadFacts takes the facts out of evidence.
func ReadFacts(rec *evidence.Record) (*Facts, error) {
	f := new(Facts)
	if err := json.Unmarshal(rec.Meta.Facts, f); err != nil {
		return nil, fmt.Errorf("%s: facts: %w", evidence.MetaFile, err)
	}
	if f.Form != Form {
		return nil, fmt.Errorf("%s: facts: form %q, want %q", evidence.MetaFile, f.Form, Form)
	}
	return f, nil
}

// adapter finds the adapter that reads log and metrics.
func (f *Facts) adapter() (target.Adapter, error) {
	a, err := adapters.ByName(f.Target.Adapter)
	if err != nil {
		return nil, fmt.Errorf("%s: facts.target.adapter: %w", evidence.MetaFile, err)
	}
	return a, nil
}
