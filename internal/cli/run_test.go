package cli

import (
	"bytes"
	"context"
	"errors"
	"testing"
)

// On a terminal the current step is drawn over and over on one line.
func TestStepsOnATerminal(t *testing.T) {
	var out bytes.Buffer
	s := &steps{to: &out, redraw: true}
	s.line("one")
	s.line("two")
	s.clear()
	s.clear()
	if got := out.String(); got != "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[K" {
		t.Errorf("%q", got)
	}
}

// The hash of a file is the one that MODEL.md gives.
func TestHashModel(t *testing.T) {
	files := []string{"../../models/seedling/formats/seedling-15m-q8_0.gguf"}
	env := &Env{Getenv: func(string) string { return "" }}
	got, err := hashModel(t.Context(), env, files, files[0])
	if err != nil || len(got) != 1 || got["1"] != "f76633b942374f76bd0179c3b01072be7e8dcd9a6cd7aa64e71aab2f542576f3" {
		t.Errorf("%v, %v", got, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := hashModel(ended, env, files, files[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
