package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// Launch is what to start.
type Launch struct {
	Argv []string      // program and arguments
	Env  []string      // all of the child's environment, from Scrub
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

// Start launches a server, waits until it is ready and finds out what it is. The
// log's first lines must name its address, as ours and llama-server's do:
// "listening on http://127.0.0.1:8080". On an error nothing is left running.
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
	if err = t.ready(ctx, l, offset); err == nil {
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

var listening = regexp.MustCompile(`listening on (https?://\S+)`)

// ready waits for the address in the log and then for /health.
func (t *Target) ready(ctx context.Context, l Launch, offset int64) error {
	ctx, cancel := context.WithTimeout(ctx, l.Wait)
	defer cancel()
	lastErr := errNoAnswer
	for pause := 5 * time.Millisecond; ; pause = min(pause*2, 100*time.Millisecond) {
		log, err := readFrom(l.Log, offset)
		if err != nil {
			return err
		}
		if t.URL == "" {
			if m := listening.FindSubmatch(log); m != nil {
				if t.URL, err = ParseURL(string(m[1])); err != nil {
					return fmt.Errorf("the target's log: %w", err)
				}
				t.client = newClient(t.URL)
			}
		}
		if t.URL != "" {
			if lastErr = t.health(ctx); lastErr == nil {
				return nil
			}
		}
		select {
		case <-t.Process.done:
			log, err := readFrom(l.Log, offset)
			return errors.Join(fmt.Errorf("the target ended before it was ready: %s; its last words:\n%s", t.Process.ending(), orNone(tail(log))), err)
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return fmt.Errorf("the target was not ready within %v; the last look at it: %w; its last words:\n%s", l.Wait, lastErr, orNone(tail(log)))
		case <-time.After(pause):
		}
	}
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
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
