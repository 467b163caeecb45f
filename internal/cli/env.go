// Package cli is the command line: one file a command, each with its options,
// its flags, a run function and the EXIT STATUS in its help. Everything that a
// command touches outside comes in through Env, so that whole commands run
// inside a test.
package cli

import (
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

// Env is the world of one call of the program.
type Env struct {
	Args   []string // without the program's name
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
	// Environ is the whole environment, which started targets inherit but for
	// what is scrubbed.
	Environ func() []string
	// StderrIsTerminal says whether progress may be drawn on Stderr.
	StderrIsTerminal bool
	// Executable is the path of this program, which run starts as a target.
	Executable func() (string, error)
	// Context ends when the user interrupts (Ctrl-C, SIGTERM).
	Context func() (context.Context, context.CancelFunc)
	// Interrupts tells of each time that the user interrupts, for commands that have
	// something to finish after the first. The function ends it; nil: nobody can
	// interrupt.
	Interrupts func() (<-chan os.Signal, func())
}

// System is the Env of the running process.
func System() *Env {
	return &Env{
		Args:             os.Args[1:],
		Stdin:            os.Stdin,
		Stdout:           os.Stdout,
		Stderr:           os.Stderr,
		Getenv:           os.Getenv,
		Environ:          os.Environ,
		StderrIsTerminal: isTerminal(os.Stderr),
		Executable:       executable,
		Context: func() (context.Context, context.CancelFunc) {
			return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		},
		Interrupts: func() (<-chan os.Signal, func()) {
			told := make(chan os.Signal, 4)
			signal.Notify(told, os.Interrupt, syscall.SIGTERM)
			return told, func() { signal.Stop(told) }
		},
	}
}

// executable is the path of this program: as the system says, or, where there is no
// /proc to say it, as it was called.
func executable() (string, error) {
	path, err := os.Executable()
	if err == nil {
		return path, nil
	}
	called, lookErr := exec.LookPath(os.Args[0])
	if lookErr != nil {
		return "", err
	}
	return filepath.Abs(called)
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
