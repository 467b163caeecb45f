package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"assay/internal/kit/derive"
	"assay/internal/kit/plan"
	"assay/internal/kit/prompt"
	"assay/internal/kit/row"
	"assay/internal/kit/target"
	"assay/internal/kit/telemetry"
	"assay/internal/kit/tokens"
)

// live is one start of one arm, and what is known of it.
type live struct {
	arm   *plan.Arm
	block int
	files Files
	key   string // API key; empty: none

	target     *target.Target
	startID    string   // empty: attached
	env        []string // of a started target
	left       []string // flags of its adapter's that its version does not know
	threads    target.Threads
	threadsErr error

	tokens *tokens.Counter
	maker  *prompt.Maker
	kept   map[keptKey]prompt.Prompt // of a warm cache
	talk   talk

	watched bool // figures of this machine say something of the target
	pid     int  // of its first process; 0: not known because of pidWhy
	pidWhy  string
	disk    disk
	around  derive.Around
	idle    *telemetry.Idle

	requests int // that it has been sent
	reads    atomic.Int64
	failed   error // why it did not come up
	over     error // why it serves nothing more; nil: it does
}

func (s *session) newLive(arm *plan.Arm, block int) *live {
	files := s.Arms[arm.Name]
	return &live{
		arm: arm, block: block, files: files, key: lookUp(s.Environ, arm.KeyEnv),
		kept: map[keptKey]prompt.Prompt{}, disk: s.diskOf(arm, files.Model.Path),
	}
}

// lookUp finds a variable's value; empty when it has none, or no name.
func lookUp(environ []string, name string) string {
	for _, kv := range slices.Backward(environ) { // the last one counts
		if n, value, _ := strings.Cut(kv, "="); n == name && name != "" {
			return value
		}
	}
	return ""
}

// stopGrace is how long a target may take to stop.
const stopGrace = 10 * time.Second

// close stops the target, if the kit started it.
func (l *live) close() error {
	if l.target == nil || l.target.Process == nil {
		return nil
	}
	return l.target.Process.Stop(stopGrace)
}

// launch starts the target or attaches to it.
func (s *session) launch(l *live) error {
	o := target.Options{Adapters: s.Adapters, Adapter: l.arm.Target, Key: l.key, Model: l.arm.ModelName, Log: l.arm.Log}
	l.around.Disk, l.around.Model = l.disk.name, s.modelFiles(l)
	longest, err := s.longest(l)
	if err != nil {
		return err
	}
	// Some engines are told these with each request, attached or not.
	o.Settings = target.Settings{Context: s.Plan.ContextFor(longest), Threads: l.arm.Threads, GPULayers: l.arm.GPULayers}
	if l.arm.Kind() == plan.Attached {
		if l.target, err = target.Attach(s.soft, l.arm.URL, o); err == nil {
			s.attached(l)
		}
		return err
	}
	run, command, err := s.launchOf(l, o.Settings.Context)
	if err != nil {
		return err
	}
	o.Version, l.left = command.Version, command.Left
	o.Log = cmp.Or(command.Log, o.Log)
	s.baseline(l)
	if l.target, err = target.Start(s.soft, run, o); err != nil {
		return err
	}
	l.env, l.watched = run.Env, true
	l.pid, l.pidWhy = l.target.Process.PID, ""
	l.startID = fmt.Sprintf("%s-%d", time.Now().UTC().Format("20060102T150405Z"), l.pid)
	return nil
}

// launchOf is how a started arm is started, as anyone would from a shell, and of
// one that is started by its name what its adapter made of that. context is what
// the plan needs, in positions.
func (s *session) launchOf(l *live, context int) (run target.Launch, c target.Command, err error) {
	at := plan.Launch{Context: context}
	run = target.Launch{
		Env: l.arm.Environ(target.Scrub(s.Environ)), Wait: s.Plan.StartLimit,
		Log: filepath.Join(s.Dir, s.fileOf(l.arm, "target", ".log")),
	}
	named := l.arm.Kind() == plan.Named
	// Our own engine takes any free port and names it in its log.
	if named && l.arm.Target != row.OwnEngine || !named && strings.Contains(strings.Join(l.arm.Command, " "), "$(port)") {
		if at.Port, err = freePort(); err != nil {
			return target.Launch{}, c, err
		}
		run.URL = fmt.Sprintf("http://127.0.0.1:%d", at.Port)
	}
	if run.Argv = l.arm.Argv(at); named {
		adapter, err := target.ByName(s.Adapters, l.arm.Target)
		if err != nil {
			return target.Launch{}, c, err
		}
		if c, err = target.Compose(s.soft, adapter, Settings(l.arm, at, s.Executable), run.Env); err != nil {
			return target.Launch{}, c, err
		}
		run.Argv, run.Env = c.Argv, append(run.Env, c.Env...)
	}
	if !slices.Contains(s.sum.Logs, run.Log) {
		s.sum.Logs = append(s.sum.Logs, run.Log)
	}
	return run, c, nil
}

// Settings are what a plan pins of an engine that is started by its name.
// executable is this program, for our own engine.
func Settings(a *plan.Arm, at plan.Launch, executable string) target.Settings {
	s := target.Settings{
		Program: a.Program, Model: cmp.Or(a.Model, a.ModelName), Port: at.Port, Context: at.Context,
		Threads: a.Threads, GPULayers: a.GPULayers, Args: a.Argv(at),
	}
	if a.Target == row.OwnEngine && len(s.Program) == 0 {
		s.Program = []string{executable, "serve"}
	}
	return s
}

// fileOf names a file of an arm in the folder of the rows. Where there is only one
// arm its name is left out.
func (s *session) fileOf(arm *plan.Arm, stem, ext string) string {
	if len(s.Plan.Arms) > 1 {
		stem += "-" + arm.Name
	}
	return stem + ext
}

// freePort is a port of the loopback device that nobody listens on at this moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("no free port for the target: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// prepare settles who counts tokens and cuts the prompts of the runs to come.
func (s *session) prepare(l *live, runs []plan.Run) error {
	l.threads, l.threadsErr = l.target.Threads()
	if err := s.modelToldBy(l); err != nil {
		return err
	}
	if l.tokens = l.files.Tokens; l.tokens == nil {
		l.tokens = askServer(s.soft, l.target)
	}
	return s.cut(l, runs)
}

// modelToldBy hashes the model's file where only the server knows which it is. What
// a server says of its files is taken for true on this machine only, and not where
// the file's name holds another hash. An error is the user's interrupt: a file that
// can't be read is one of which no hash is known.
func (s *session) modelToldBy(l *live) error {
	file := l.target.Identity.Found["model_file"]
	m := &l.files.Model
	if file == "" || m.FileSHA256 != nil || s.ModelAt == nil || !target.Loopback(l.target.URL) || !filepath.IsAbs(file) {
		return nil
	}
	name := ModelBase(file)
	told, err := s.ModelAt(s.soft, file)
	switch sum, ok := strings.CutPrefix(name, "sha256-"); {
	case s.soft.Err() != nil:
		return s.soft.Err()
	case err != nil:
		m.Why = fmt.Sprintf("the server has it from %s, which can't be read here: %v", name, WithoutPath(err))
	case ok && sum != told.FileSHA256["1"]:
		m.Why = fmt.Sprintf("the server has it from %s, but the file of that name here is another one", name)
	default:
		m.FileSHA256, m.Why = told.FileSHA256, ""
	}
	return nil
}

// WithoutPath is an error of a file without the folders of this machine, for rows.
func WithoutPath(err error) error {
	if at := new(fs.PathError); errors.As(err, &at) {
		return at.Err
	}
	return err
}

// askServer makes a counter of the server's own endpoints.
func askServer(ctx context.Context, t *target.Target) *tokens.Counter {
	encode, err := t.Encoder(ctx)
	if err != nil {
		return &tokens.Counter{Why: fmt.Sprintf("no tokenizer of this model: none was given, and the server does not help: %v", err)}
	}
	c := &tokens.Counter{Name: "the server's own tokenizer", Encode: encode}
	if t.Adapter.Template() {
		c.Prompt = func(chat tokens.Chat, nonce string) (tokens.Size, error) {
			r, err := t.Render(ctx, chat, nonce)
			return tokens.Size{BeforeNonce: r.BeforeNonce}, err
		}
	}
	return c
}
