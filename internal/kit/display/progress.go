// Package display shows how a run goes while it goes: a line a step (Lines), or a
// view that is drawn anew on a terminal (Live).
//
// What is measured must not notice that somebody looks. While a run of an engine on
// this machine's processors is timed nothing is drawn at all: the view of its
// beginning is on the screen before it begins, and stays until it has ended. At all
// other times it is drawn at most four times a second.
//
// The terminal keeps its modes, but for the echo of what is typed: Ctrl-C and Ctrl-Z
// stay signals, the alternate screen is not used, the cursor stays visible. When the
// view ends its last state is left behind as plain lines.
//
// The files: text.go (a step in words), lines.go, model.go (what is known of the
// run), view.go (how it looks), live.go (the program that draws it), echo*.go.
package display

import "assay/internal/kit/runner"

// View is shown the steps of a run, from one goroutine. Notes may come from others.
type View interface {
	// Show tells of a step. It may take until the step is on the screen.
	Show(runner.Event)
	// Note tells of something that is no step.
	Note(text string)
	// Close leaves the last state behind and gives the terminal back. It may be
	// called twice.
	Close()
}

// None shows nothing.
type None struct{}

// Show does nothing.
func (None) Show(runner.Event) {}

// Note does nothing.
func (None) Note(string) {}

// Close does nothing.
func (None) Close() {}
