package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"assay/internal/kit/plan"
	"assay/internal/kit/row"
	"assay/internal/kit/runner"
	"assay/internal/kit/target"
)

// On a terminal the current step is drawn over and over on one line, and only
// what a user must still see afterwards stays: the target, and runs that failed.
func TestStepsOnATerminal(t *testing.T) {
	var out bytes.Buffer
	s := &steps{to: &out, redraw: true}
	run, p := plan.Run{Number: 2, Ctx: 512}, &plan.Plan{Arms: []plan.Arm{{Name: "a"}}}
	s.show(runner.Event{Kind: runner.TargetStarts, Plan: p})
	s.show(runner.Event{Kind: runner.TargetReady, Plan: p, Target: &target.Target{URL: "http://127.0.0.1:1", Identity: target.Identity{Engine: "openai", Model: "m"}}})
	s.show(runner.Event{Kind: runner.RunBegins, Run: run, Plan: p, N: 2, Of: 7})
	s.show(runner.Event{Kind: runner.RunEnded, Run: run, Plan: p, N: 2, Of: 7, Row: &row.Row{Status: row.OK, TTFTMS: new(12.34), DecodeTokS: new(56.78)}})
	s.show(runner.Event{Kind: runner.RunEnded, Run: run, Plan: p, N: 2, Of: 7, Row: &row.Row{Status: row.Failed, Error: new("it hung up")}})
	s.show(runner.Event{Kind: runner.TargetStops, Plan: p})
	s.clear()
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 3 {
		t.Fatalf("%q: want two lines that stay", out.String())
	}
	for i, want := range []string{"measuring openai at http://127.0.0.1:1, model m", "2/7  512 run 1: failed: it hung up"} {
		if last := lines[i][strings.LastIndex(lines[i], "\r\x1b[K")+4:]; last != want {
			t.Errorf("line %d ends as %q, want %q", i+1, last, want)
		}
	}
	if !strings.Contains(out.String(), "\r\x1b[K2/7  512 run 1: TTFT 12.3 ms, prompt withheld, decode 56.8 tok/s") {
		t.Errorf("%q: the finished run is not drawn", out.String())
	}
	if !strings.HasSuffix(out.String(), "\r\x1b[K") {
		t.Errorf("%q: the last line is not taken away", out.String())
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
