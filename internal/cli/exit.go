package cli

import (
	"context"
	"errors"
	"fmt"
)

// Exit statuses. Every command's help names those it can end with.
const (
	ExitOK          = 0
	ExitFailed      = 1   // the command failed
	ExitUsage       = 2   // a flag, an argument or an input file is wrong
	ExitWithheld    = 3   // finished, with rows failed or figures withheld
	ExitUnfit       = 4   // the machine is not fit to measure
	ExitThreshold   = 99  // a threshold was crossed
	ExitInterrupted = 130 // interrupted by the user
)

// exitError carries the status that the program must end with. A nil Err ends
// it without a message, for commands that have printed what there is to say.
type exitError struct {
	Code int
	Err  error
}

func (e *exitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

func (e *exitError) Unwrap() error { return e.Err }

// usagef is an error in what the user asked for.
func usagef(format string, args ...any) error {
	return &exitError{ExitUsage, fmt.Errorf(format, args...)}
}

// exitCode maps an error to the program's exit status.
func exitCode(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	}
	return ExitFailed
}
