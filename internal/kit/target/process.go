package target

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Launch is what to start.
type Launch struct {
	Argv []string      // program and arguments
	Env  []string      // all of the child's environment, from Scrub
	URL  string        // where it will answer; empty: its log says it
	Log  string        // file that gets its output, appended to
	Wait time.Duration // how long it may take to be ready; 0: 10 minutes
}

// Process is a server that the kit started.
type Process struct {
	Argv     []string
	PID      int
	LoadTime time.Duration // from the launch until it was ready

	done chan struct{} // closed when it has ended
	err  error         // how it ended; read after done
}

// Start launches a server, waits until it is ready and finds out what it is.
// Where the launch does not say at which address that will be, the log must. On
// an error nothing is left running.
func Start(ctx context.Context, l Launch, o Options) (*Target, error) {
	if l.Wait == 0 {
		l.Wait = 10 * time.Minute
	}
	began := time.Now()
	p, offset, err := launch(l)
	if err != nil {
		return nil, err
	}
	t := &Target{Process: p, key: o.Key, log: l.Log, logStart: offset}
	if err = t.ready(ctx, l, offset, o.readiness()); err == nil {
		p.LoadTime = time.Since(began)
		err = t.meet(ctx, o)
	}
	if err != nil {
		_ = p.Stop(0) // it may have ended by itself; then err says so
		return nil, err
	}
	return t, nil
}

// launch starts the child. Its parent in the kernel's eyes is a thread, not the
// kit: the thread that forks must live as long as the child, or the child gets
// its death signal when the Go runtime retires the thread. So a goroutine keeps
// one for itself until the child has ended.
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
	cmd := exec.Command(l.Argv[0], l.Argv[1:]...)
	cmd.Env = l.Env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttr()
	p = &Process{Argv: l.Argv, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			killGroup(cmd.Process.Pid) // what it left behind
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, 0, fmt.Errorf("the target does not start: %w", err)
	}
	p.PID = cmd.Process.Pid
	return p, info.Size(), nil
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

// ending is how the process ended, in words.
func (p *Process) ending() string {
	if p.err == nil {
		return "exit status 0"
	}
	return p.err.Error()
}

// Stop ends the server: it is asked to, and killed with all it started when it
// has not gone after grace. It returns an error when the server had ended before
// or had to be killed.
func (p *Process) Stop(grace time.Duration) error {
	if how, ended := p.Ended(); ended {
		return fmt.Errorf("the target had ended by itself: %s", how)
	}
	if grace > 0 {
		terminate(p.PID)
		select {
		case <-p.done:
			return nil
		case <-time.After(grace):
		}
	}
	killGroup(p.PID)
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
	"OMP_*", "GOMP_*", "KMP_*", "OPENBLAS_*", "MKL_*", "GGML_*", "LLAMA_*",
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
