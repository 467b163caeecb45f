package display

import (
	"fmt"
	"io"
	"sync"

	"assay/internal/kit/runner"
)

// Lines writes a line a step.
type Lines struct {
	to io.Writer
	mu sync.Mutex // an interrupt is told of while a run is shown
}

// NewLines makes Lines that write to w.
func NewLines(w io.Writer) *Lines { return &Lines{to: w} }

// Show writes a step.
func (l *Lines) Show(e runner.Event) {
	if text, _ := step(e); text != "" {
		l.Note(text)
	}
}

// Note writes a line.
func (l *Lines) Note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.to, "assay: %s\n", text)
}

// Close does nothing: every line is written already.
func (l *Lines) Close() {}
