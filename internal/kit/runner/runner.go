// Package runner carries out a plan: it walks the plan's steps, starts targets and
// stops them, and for each run makes a prompt, streams the completion between two
// readings of all else that can be read, keeps the evidence, and appends the row
// that package derive makes of it. Data flows one way:
//
//	plan -> prompt -> target -> stream -> evidence -> derive -> row -> journal
//
// Nothing is lost on the way out: a start or a request that fails, a server that
// dies, a limit of the guard and an interrupt each leave rows that say so. What
// has no row when a plan ends is made when it is taken up again.
//
// The files: runner.go (what goes in and out), walk.go (the steps), live.go (one
// start of one arm), one.go (one run), prompts.go (what is asked), wait.go (cooling
// down and standing idle), machine.go (who reads this machine), folder.go (the plan
// and the rows of an earlier try), event.go (what a user may see).
package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"assay/internal/kit/host"
	"assay/internal/kit/keeper"
	"assay/internal/kit/plan"
	"assay/internal/kit/prompt"
	"assay/internal/kit/row"
	"assay/internal/kit/target"
	"assay/internal/kit/tokens"
)

// Config is what to run, on what, and where the rows go.
type Config struct {
	Plan    plan.Plan
	Dir     string // gets the rows, the evidence, the plan and the targets' logs
	Resume  bool   // Dir holds the rows of an earlier try
	Version string // of this program, for the rows

	Executable string   // this program, which is started for our own engine
	Environ    []string // that started targets inherit, and in which the arms' keys are looked up
	Adapters   []target.Adapter

	Arms    map[string]Files  // what was read for each arm, by its name
	Text    *prompt.Text      // that slices are cut from
	Prompts map[string]string // the plan's prompt files, by their path in it
	Root    string            // "/" but in tests: where the machine's facts are read
	// ModelAt reads and hashes the model of which a path names the first file, for
	// servers that tell it only once they run; nil: such files are not looked at.
	ModelAt func(ctx context.Context, path string) (Model, error)

	// Finish asks for an end after the run at hand, when it is closed; nil: nobody
	// will ask. Cancelling the context of Run ends that run too.
	Finish   <-chan struct{}
	Progress func(Event) // called from one goroutine; nil: nobody listens
}

// Files is what was read of an arm's files before anything starts.
type Files struct {
	Tokens *tokens.Counter // nil: the server is asked
	Model  Model
}

// Model is what is known of the model's files beside what the server says.
type Model struct {
	FileSHA256 map[string]string // by number of the file, from "1"; nil because of Why
	Why        string
	Path       string   // of the file, or the first of them; empty: not known
	More       []string // paths of the others
}

// Summary is how a plan went.
type Summary struct {
	Rows    string   // path of the rows
	Logs    []string // paths of the started targets' logs
	OK      int      // rows of this try, warm-ups included
	Failed  int
	Stopped int
	Reaped  []keeper.Killed // what an earlier try had left running
	Before  int             // rows that were there before
	Adopted int             // of these, made of evidence that a crash had left without its row
	// Withheld counts the measured rows of status ok that have a figure withheld.
	Withheld int
	Missing  int // runs of the plan that have no row
	// Left is how many runs of the plan, warm-ups apart, have no row of status ok:
	// what taking the plan up again would make.
	Left int
}

// ErrInterrupted is returned when a user's interrupt ended the plan. The rows so
// far are written.
var ErrInterrupted = errors.New("interrupted")

// ErrGuard is returned when a limit of the guard ended the plan.
var ErrGuard = errors.New("the guard ended the plan")

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
	journal, err := row.OpenJournal(c.Dir)
	if err != nil {
		return nil, err
	}
	s := newSession(c, journal)
	if err = s.open(); err == nil {
		soft, cancel := until(ctx, c.Finish)
		defer cancel()
		s.soft = soft
		err = s.run(ctx)
		s.count()
	}
	return &s.sum, errors.Join(err, journal.Close())
}

// until is a context that ends with another one, or when finish is closed.
func until(ctx context.Context, finish <-chan struct{}) (context.Context, context.CancelFunc) {
	soft, cancel := context.WithCancel(ctx)
	if finish != nil {
		go func() {
			select {
			case <-finish:
				cancel()
			case <-soft.Done():
			}
		}()
	}
	return soft, cancel
}

func newSession(c Config, journal *row.Journal) *session {
	return &session{
		Config: c, journal: journal, host: host.Read(c.Root), past: newHistory(&c.Plan),
		up: map[string]*live{}, slices: map[sliceKey]prompt.Slice{},
		sum: Summary{Rows: journal.Path()},
	}
}

// open takes up what an earlier try left in the folder, and keeps the plan there.
func (s *session) open() error {
	var err error
	if s.sum.Reaped, err = target.Reap(s.Dir); err != nil {
		return err
	}
	if !s.Resume && s.journal.Rows() > 0 {
		return fmt.Errorf("%s holds %d rows: go on with them (--resume %s), or choose a new folder", s.Dir, s.journal.Rows(), s.Dir)
	}
	if s.Resume {
		before, err := ReadPlan(s.Dir)
		if err != nil {
			return err
		}
		if err := s.Plan.Resumable(before); err != nil {
			return err
		}
	}
	if err := s.takeUp(); err != nil {
		return err
	}
	return writePlan(s.Dir, &s.Plan)
}

// count counts what is still to be done.
func (s *session) count() {
	for _, r := range s.Plan.Runs() {
		d := s.past.done[r.Key()]
		if d.Attempts == 0 {
			s.sum.Missing++
		}
		if !d.OK && !r.Warmup {
			s.sum.Left++
		}
	}
}

// CheckDir sees to it that dir is new or empty: rows of two plans must not mix. What
// a try leaves that was killed before it had begun counts as nothing.
func CheckDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, PlanFile)); err == nil {
		return fmt.Errorf("%s holds the rows of another run: go on with it (--resume %s), or choose a new folder", dir, dir)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return err
		}
		if begun := e.IsDir() || info.Size() > 0; begun && e.Name() != PlanFile+newExt {
			return fmt.Errorf("%s is not empty (it holds %s): choose a new folder", dir, e.Name())
		}
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
