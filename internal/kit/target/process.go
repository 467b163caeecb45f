package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"assay/internal/kit/keeper"
)

// Launch is what to start.
type Launch struct {
	Argv []string      // program and arguments
	Env  []string      // all of the child's environment, from Scrub
	URL  string        // where it will answer; empty: its log says it
	Log  string        // file that gets its output, appended to
	Wait time.Duration // how long it may take to be ready; 0: 10 minutes
}

// noteExt is that of the file beside the log that says what runs, while it runs.
const noteExt = ".running"

// Reap kills what an earlier kit, which was itself killed, left running with a log
// in dir. Whoever is the next to write to that folder calls it. It fails when that
// kit is still there.
func Reap(dir string) (killed []keeper.Killed, err error) {
	notes, err := filepath.Glob(filepath.Join(escapeGlob.Replace(dir), "*"+noteExt))
	for _, note := range notes {
		more, e := keeper.Reap(note)
		killed, err = append(killed, more...), errors.Join(err, e)
	}
	return killed, errors.Join(err, reapContainers(dir))
}

var escapeGlob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// Process is a server that the kit started.
type Process struct {
	Argv     []string
	PID      int
	LoadTime time.Duration // from the launch until it was ready
	// Cgroup is the folder of the server's own cgroup, whose memory is its alone;
	// empty because of CgroupWhy.
	Cgroup    string
	CgroupWhy string

	kept *keeper.Process
	box  *container      // nil: it runs in none
	done <-chan struct{} // closed when it has ended
}

// Start launches a server, waits until it is ready and finds out what it is.
// Where the launch does not say at which address that will be, the log must. On
// an error nothing is left running.
func Start(ctx context.Context, l Launch, o Options) (*Target, error) {
	if l.Wait == 0 {
		l.Wait = 10 * time.Minute
	}
	logged := markOf(o.Log)
	p, offset, err := launch(l)
	if err != nil {
		return nil, err
	}
	t := &Target{Process: p, key: o.Key, log: l.Log, logStart: offset}
	if err = t.ready(ctx, l, offset, o.readiness()); err == nil {
		p.LoadTime = time.Since(p.kept.Began)
		p.seeContainer(l.Env)
		err = t.ours()
	}
	if err == nil {
		t.follow(o.Log, logged)
		err = t.meet(ctx, o)
	}
	if err != nil {
		_ = p.Stop(0) // it may have ended by itself; then err says so
		return nil, err
	}
	return t, nil
}

func launch(l Launch) (p *Process, logOffset int64, err error) {
	log, err := os.OpenFile(l.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, 0, fmt.Errorf("the target's log: %w", err)
	}
	defer log.Close() // the child has its own
	info, err := log.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("the target's log: %w", err)
	}
	argv, box, err := contain(l.Argv, l.Log)
	if err != nil {
		return nil, 0, fmt.Errorf("the target does not start: %w", err)
	}
	c := keeper.Command{Argv: argv, Env: l.Env, Output: log, Note: l.Log + noteExt}
	if box != nil {
		c.After = box.removal()
	}
	kept, err := keeper.Start(c)
	if err != nil {
		return nil, 0, fmt.Errorf("the target does not start: %w", err)
	}
	p = &Process{box: box, Argv: l.Argv, PID: kept.PID, Cgroup: kept.Cgroup, CgroupWhy: kept.CgroupWhy, kept: kept, done: kept.Done()}
	return p, info.Size(), nil
}

// seeContainer makes the first process of a container the one that is watched.
func (p *Process) seeContainer(environ []string) {
	if p.box == nil {
		return
	}
	if p.box.find(environ); p.box.pid > 0 {
		p.PID, p.Cgroup, p.CgroupWhy = p.box.pid, "", "it runs in a container, whose cgroup is the container program's"
	}
}

// root is the process from which all that belongs to the target descends.
func (p *Process) root() int {
	if p.box != nil && p.box.pid > 0 {
		return p.box.pid
	}
	return p.kept.Root()
}

// Ended says whether the server has ended by itself, and how.
func (p *Process) Ended() (string, bool) {
	select {
	case <-p.done:
		return p.ending(), true
	default:
		return "", false
	}
}

// EndedWithin is Ended that waits a little: when a connection breaks, the end of
// the process that had it may be some milliseconds away.
func (p *Process) EndedWithin(d time.Duration) (string, bool) {
	select {
	case <-p.done:
	case <-time.After(d):
	}
	return p.Ended()
}

// ending is how the process ended, in words.
func (p *Process) ending() string { return p.kept.Ending() }

// Stop ends the server: it is asked to, and killed with all it started when it
// has not gone after grace. It returns an error when the server had ended before
// or had to be killed.
func (p *Process) Stop(grace time.Duration) error {
	if how, ended := p.Ended(); ended {
		return fmt.Errorf("the target had ended by itself: %s", how)
	}
	if grace > 0 {
		p.kept.Terminate()
		select {
		case <-p.done:
			return nil
		case <-time.After(grace):
		}
	}
	p.kept.Kill()
	<-p.done
	if grace > 0 {
		return fmt.Errorf("the target did not stop within %v and was killed", grace)
	}
	return nil
}

// Scrub removes from an environment what would change a started server behind
// the back of its command line: every flag has such a twin. The API key of a
// target that is attached to goes with it.
func Scrub(environ []string) []string {
	var out []string
	for _, kv := range environ {
		if !strings.HasPrefix(kv, "ASSAY_") && !strings.HasPrefix(kv, "LLAMA_ARG_") {
			out = append(out, kv)
		}
	}
	return out
}

// matter are the variables that change how an engine runs and are no secret.
var matter = []string{
	"GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG", "GORACE",
	"OMP_*", "GOMP_*", "KMP_*", "OPENBLAS_*", "MKL_*", "GGML_*", "LLAMA_*", "OLLAMA_*", "STRATA_*",
	"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
	"MALLOC_ARENA_MAX", "LD_PRELOAD", "LD_LIBRARY_PATH",
}

// EnvThatMatters picks what a row records of an environment. The map is empty,
// not nil, when nothing of it is set.
func EnvThatMatters(environ []string) map[string]string {
	out := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		for _, pattern := range matter {
			prefix, wild := strings.CutSuffix(pattern, "*")
			if secret(name) {
				continue
			}
			if name == pattern || wild && strings.HasPrefix(name, prefix) {
				out[name] = value
			}
		}
	}
	return out
}

// secret says whether a variable's name looks like that of a key.
func secret(name string) bool {
	for _, part := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
