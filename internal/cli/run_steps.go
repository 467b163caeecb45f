package cli

import (
	"fmt"
	"io"
	"sync"

	"assay/internal/kit/display"
	"assay/internal/kit/host"
)

// What --progress takes, of run and of commands that are no plan.
const (
	runProgressHelp = "auto (a view on a terminal, else a line a step, with --json nothing), plain (a line a step) or none"
	progressHelp    = "auto (on a terminal only), plain (a line a step) or none"
)

// progressOf makes what shows a run on stderr, once it begins. Who asks for JSON is a
// program, which reads errors there.
func progressOf(env *Env, mode string, asJSON bool) (func() display.View, error) {
	switch {
	case mode == "plain", mode == "auto" && !env.StderrIsTerminal && !asJSON:
		return func() display.View { return display.NewLines(env.Stderr) }, nil
	case mode == "auto" && env.StderrIsTerminal:
		return func() display.View {
			return display.NewLive(env.Stderr, env.Environ(), len(host.ReadDetail("/").GPUs) > 0)
		}, nil
	case mode == "auto" || mode == "none":
		return func() display.View { return display.None{} }, nil
	}
	return nil, usagef("--progress: %q is none of auto, plain, none", mode)
}

// steps shows how a command goes that is no plan, on stderr: one line that is drawn
// over and over on a terminal, or a line a step.
type steps struct {
	to     io.Writer // nil: show nothing
	redraw bool

	mu    sync.Mutex
	drawn bool
}

func newSteps(env *Env, mode string) (*steps, error) {
	switch {
	case mode == "plain":
		return &steps{to: env.Stderr}, nil
	case mode == "auto" && env.StderrIsTerminal:
		return &steps{to: env.Stderr, redraw: true}, nil
	case mode == "auto" || mode == "none":
		return &steps{}, nil
	}
	return nil, usagef("--progress: %q is none of auto, plain, none", mode)
}

// line shows a text in place of the one before.
func (s *steps) line(text string) {
	if s.to == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.redraw {
		fmt.Fprintf(s.to, "assay: %s\n", text)
		return
	}
	fmt.Fprintf(s.to, "\r\x1b[K%s", text)
	s.drawn = true
}

// clear takes away the line that was drawn last.
func (s *steps) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drawn {
		fmt.Fprint(s.to, "\r\x1b[K")
		s.drawn = false
	}
}
