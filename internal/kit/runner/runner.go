// Package runner carries out a plan: for each run it makes a prompt, streams the
// completion between two readings of all else that can be read, keeps the
// evidence, and appends the row that package derive makes of it. Data flows one
// way:
//
//	plan -> prompt -> target -> stream -> evidence -> derive -> row -> journal
//
// Nothing is lost on the way out: a request that fails, a server that dies and
// an interrupt each leave a row that says so.
package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"assay/internal/kit/derive"
	"assay/internal/kit/host"
	"assay/internal/kit/plan"
	"assay/internal/kit/prompt"
	"assay/internal/kit/row"
	"assay/internal/kit/target"
	"assay/internal/kit/target/adapters"
	"assay/internal/kit/telemetry"
	"assay/internal/kit/tokens"
)

// Config is what to run, on what, and where the rows go.
type Config struct {
	Plan    plan.Plan // an arm without a name gets one from the target
	Dir     string    // gets the rows, the evidence and the target's log
	Version string    // of this program, for the rows

	// One of the two: a server to start, or the URL of one that runs.
	Launch *Launch
	URL    string
	Target target.Options

	Text   *prompt.Text    // that slices are cut from
	Tokens *tokens.Counter // nil: the server is asked
	Model  Model
	Root   string // "/" but in tests: where host facts are read

	Progress func(Event) // called from one goroutine; nil: nobody listens
}

// Launch is how to start the target.
type Launch struct {
	Argv []string
	Env  []string // from target.Scrub
}

// Model is what is known of the model's files beside what the server says.
type Model struct {
	FileSHA256 map[string]string // by number of the file, from "1"; nil because of Why
	Why        string
	Path       string // of the file, or the first of them; empty: not known
}

// LogFile is the name of the started target's log in Config.Dir.
const LogFile = "target.log"

// Event is a step that a user may want to see.
type Event struct {
	Kind  Kind
	Run   plan.Run       // of RunBegins and RunEnded
	Runs  int            // how many the plan has
	Row   *row.Row       // of RunEnded
	Start *target.Target // of TargetReady
}

// Kind is what happened.
type Kind int

// The kinds of event, in the order in which they come.
const (
	TargetStarts Kind = iota
	TargetReady
	RunBegins
	RunEnded
	TargetStops
)

// Summary is how a plan went.
type Summary struct {
	Rows    string // path of the rows
	Log     string // path of the target's log; empty when attached
	OK      int    // rows, warm-ups included
	Failed  int
	Stopped int
	// Withheld counts the measured rows of status ok that have a figure withheld.
	Withheld int
	Missing  int // runs of the plan that have no row
}

// ErrInterrupted is returned when ctx ended before the plan did. The rows so far
// are written.
var ErrInterrupted = errors.New("interrupted")

// stopGrace is how long a target may take to stop.
const stopGrace = 10 * time.Second

// Run carries out the plan. The summary is there with an error too, as far as
// rows were written.
func Run(ctx context.Context, c Config) (*Summary, error) {
	if err := c.Plan.Check(); err != nil {
		return nil, err
	}
	if c.Progress == nil {
		c.Progress = func(Event) {}
	}
	if c.Root == "" {
		c.Root = "/"
	}
	c.Target.Adapters = adapters.All
	journal, err := row.OpenJournal(c.Dir)
	if err != nil {
		return nil, err
	}
	s := &session{Config: c, journal: journal, host: host.Read(c.Root)}
	s.sum.Rows = journal.Path()
	err = s.run(ctx)
	return &s.sum, errors.Join(err, journal.Close())
}

// session is one start of the target and the runs made with it.
type session struct {
	Config
	journal    *row.Journal
	host       host.Host
	target     *target.Target
	tokens     *tokens.Counter
	maker      *prompt.Maker
	slices     map[sliceKey]prompt.Slice
	startID    string
	threads    target.Threads // what the start's log says of them
	threadsErr error
	recorder   *telemetry.Recorder // of this machine; nil: the target is on another one
	around     derive.Around       // what is known of the machine beside what it reads
	requests   int                 // that this start has been sent
	sum        Summary
}

type sliceKey struct{ ctx, index int }

func (s *session) run(ctx context.Context) (err error) {
	s.Progress(Event{Kind: TargetStarts})
	defer func() {
		if s.recorder != nil {
			s.recorder.Close()
		}
	}()
	if err := s.begin(ctx); err != nil {
		return interruptedOr(ctx, err)
	}
	defer func() {
		if s.target.Process != nil {
			s.Progress(Event{Kind: TargetStops})
			if e := s.target.Process.Stop(stopGrace); err == nil {
				err = e
			}
		}
	}()
	if s.Plan.Arm == "" {
		s.Plan.Arm = ArmName(s.target.Identity.Engine, s.target.Identity.Model)
	}
	runs := s.Plan.Runs()
	s.sum.Missing = len(runs)
	s.Progress(Event{Kind: TargetReady, Start: s.target, Runs: len(runs)})
	if err := s.cut(ctx, runs); err != nil {
		return interruptedOr(ctx, err)
	}
	for _, run := range runs {
		if ctx.Err() != nil {
			return ErrInterrupted
		}
		s.Progress(Event{Kind: RunBegins, Run: run, Runs: len(runs)})
		r, err := s.one(ctx, run)
		if err != nil {
			return interruptedOr(ctx, err)
		}
		s.Progress(Event{Kind: RunEnded, Run: run, Runs: len(runs), Row: r})
		if s.target.Process != nil {
			if how, ended := s.target.Process.Ended(); ended {
				return fmt.Errorf("the target ended by itself during run %d of %d: %s; its log is %s", run.Number, len(runs), how, s.sum.Log)
			}
		}
	}
	return nil
}

func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	return err
}

// begin starts the target or attaches to it, and settles who counts tokens.
func (s *session) begin(ctx context.Context) error {
	var err error
	if s.Launch != nil {
		s.watch()
		s.sum.Log = filepath.Join(s.Dir, LogFile)
		s.target, err = target.Start(ctx, target.Launch{Argv: s.Launch.Argv, Env: s.Launch.Env, Log: s.sum.Log}, s.Config.Target)
		if err != nil {
			return err
		}
		s.recorder.Target(s.target.Process.PID, "")
		s.startID = fmt.Sprintf("%s-%d", time.Now().UTC().Format("20060102T150405Z"), s.target.Process.PID)
	} else if s.target, err = target.Attach(ctx, s.URL, s.Config.Target); err != nil {
		return err
	} else {
		s.watchAttached()
	}
	s.threads, s.threadsErr = s.target.Threads()
	s.tokens = s.Tokens
	if s.tokens == nil {
		s.tokens = askServer(ctx, s.target)
	}
	return nil
}

// cut makes the plan's slices before anything is measured, so that no slow
// tokenizer runs between two runs.
func (s *session) cut(ctx context.Context, runs []plan.Run) error {
	s.maker = prompt.NewMaker(s.Text, s.tokens.Encode, s.tokens.Why)
	s.slices = map[sliceKey]prompt.Slice{}
	for _, r := range runs {
		key := sliceKey{r.Ctx, r.Slice}
		if _, ok := s.slices[key]; ok {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		slice, err := s.maker.Slice(r.Ctx, r.Slice)
		if err != nil {
			return fmt.Errorf("the prompt of %s tokens: %w", r.Label(), err)
		}
		s.slices[key] = slice
	}
	return s.fits(runs)
}

// fits compares the plan with the target's context, so that a plan which can't
// work fails at once and not at its last cell.
func (s *session) fits(runs []plan.Run) error {
	have := s.target.Identity.Context
	if have == nil {
		return nil
	}
	for _, r := range runs {
		// The template and the nonce come on top; what they take is not known here.
		if need := r.Ctx + s.Plan.MaxTokens; need > *have {
			return fmt.Errorf("a prompt of %s tokens and %d to generate need a context of more than %d, but the target has %d: start it with a larger one, or ask for less", r.Label(), s.Plan.MaxTokens, need, *have)
		}
	}
	return nil
}

// askServer makes a counter of the server's own endpoints.
func askServer(ctx context.Context, t *target.Target) *tokens.Counter {
	encode, err := t.Encoder(ctx)
	if err != nil {
		return &tokens.Counter{Why: fmt.Sprintf("no tokenizer of this model: none was given, and the server does not help: %v", err)}
	}
	c := &tokens.Counter{Name: "the server's own tokenizer", Encode: encode}
	if t.Adapter.Template() {
		c.Prompt = func(content, nonce string) (tokens.Size, error) {
			r, err := t.Render(ctx, content, nonce)
			return tokens.Size{BeforeNonce: r.BeforeNonce}, err
		}
	}
	return c
}

// CheckDir sees to it that dir is new or empty: rows of two plans must not mix.
func CheckDir(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s is not empty (it holds %s): choose a new folder", dir, entries[0].Name())
	}
	return nil
}

// ArmName makes the name of an arm from an engine and a model, which may be a
// path.
func ArmName(engine, model string) string {
	name := engine + "-" + strings.TrimSuffix(ModelBase(model), ".gguf")
	name = notInNames.ReplaceAllString(name, "-")
	return strings.Trim(name[:min(len(name), 80)], "-._")
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._]+`)

// ModelBase is a file's name without its folders, which may tell of the machine.
func ModelBase(path string) string {
	return path[strings.LastIndexAny(path, `/\`)+1:]
}
