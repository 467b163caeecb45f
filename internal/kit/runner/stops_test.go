package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/kit/derive"
	"assay/internal/kit/evidence"
	"assay/internal/kit/row"
)

// A run that takes longer than the guard allows is stopped with its target, and its
// row has the figures. What follows is as the plan says.
func TestGuard(t *testing.T) {
	for then, want := range map[string]struct {
		rows string
		err  string
	}{
		"next": {"b/measure/a1/run-002 stopped, b/measure/a1/run-003 stopped, a ok", "the guard stopped run 2 (b/64): the run took"},
		"end":  {"b/measure/a1/run-002 stopped", "the guard ended the plan: the run took"},
	} {
		t.Run(then, func(t *testing.T) {
			c := started(t, strings.Replace(two+"blocks: 2\nwarm_ups: 0\nguard: {run_time: {limit: 600ms, then: "+then+"}}\n", "PACE: 2ms", "PACE: 200ms", 1))
			c.Plan.Repeats = 2
			sum, err := Run(t.Context(), c)
			if err == nil || !strings.Contains(err.Error(), want.err) || errors.Is(err, ErrGuard) != (then == "end") {
				t.Fatalf("%+v, %v", sum, err)
			}
			var got []string
			for _, r := range rows(t, c.Dir)[1:] {
				if r.Arm == "a" {
					got = append(got, "a "+string(r.Status))
					continue
				}
				got = append(got, r.RowID+" "+string(r.Status))
				if *r.FailKind != "guard" || !strings.Contains(*r.Error, "over the limit of 600ms") || r.DecodeTokS != nil {
					t.Errorf("%s: %s, %s", r.RowID, *r.FailKind, *r.Error)
				}
				rec, err := evidence.Read(filepath.Join(c.Dir, *r.Evidence.Dir))
				if err != nil {
					t.Fatal(err)
				}
				if f, err := derive.ReadFacts(rec); err != nil || f.Exchange.Guard.Trip == nil || f.Exchange.Guard.Trip.Value < 0.6 {
					t.Errorf("%s: the figures are not kept: %+v, %v", r.RowID, f.Exchange.Guard, err)
				}
			}
			if s := strings.Join(got, ", "); s != want.rows {
				t.Errorf("after the first row: %s, want %s", s, want.rows)
			}
			clean(t, c.Dir)
		})
	}
}

// A first interrupt finishes the run at hand, also when it comes within a cool-down;
// then the plan goes on where it was.
func TestFinish(t *testing.T) {
	c := started(t, two+"blocks: 2\ncool_down: {seconds: 0.05, before: run}\n")
	finish := make(chan struct{})
	c.Finish = finish
	c.Progress = func(e Event) {
		if e.Kind == RunBegins && e.Run.Number == 3 {
			go func() {
				for e.Reads.Load() == 0 { // the first token
					time.Sleep(time.Millisecond)
				}
				close(finish)
			}()
		}
	}
	sum, err := Run(t.Context(), c)
	if !errors.Is(err, ErrInterrupted) || sum.OK != 3 || sum.Stopped != 0 || sum.Missing != 9 || sum.Left != 6 {
		t.Fatalf("%+v, %v", sum, err)
	}
	c.Finish, c.Progress, c.Resume = nil, nil, true
	if sum, err = Run(t.Context(), c); err != nil || sum.Before != 3 || sum.OK != 9-1+1 || sum.Left != 0 {
		t.Fatalf("%+v, %v", sum, err) // of the first start nothing is left, so it is not made again
	}
	all := whole(t, &c)
	rec, err := evidence.Read(filepath.Join(c.Dir, *all[1].Evidence.Dir))
	if err != nil {
		t.Fatal(err)
	}
	if f, err := derive.ReadFacts(rec); err != nil || f.Around.Cool == nil || f.Around.Cool.Seconds < 0.05 {
		t.Errorf("the wait is not kept: %+v, %v", f.Around.Cool, err)
	}
}

// Whatever a crash leaves, the next try settles it: evidence without its row becomes
// one, a torn line and what was half written are set aside or taken away.
func TestAfterACrash(t *testing.T) {
	c := started(t, two+"blocks: 2\n")
	before := map[string][]byte{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.Progress = func(e Event) {
		switch {
		case e.Kind == RunEnded && e.Run.Number == 7: // in block 3
			for _, name := range []string{row.RowsFile, row.HeadFile} {
				data, err := os.ReadFile(filepath.Join(c.Dir, name))
				if err != nil {
					t.Fatal(err)
				}
				before[name] = data
			}
		case e.Kind == RunBegins && e.Run.Number == 9:
			cancel()
		}
	}
	if _, err := Run(ctx, c); !errors.Is(err, ErrInterrupted) {
		t.Fatal(err)
	}
	put := func(name string, data []byte) {
		t.Helper()
		path := filepath.Join(c.Dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	put(row.HeadFile, before[row.HeadFile]) // run 8 has its evidence and half a row
	put(row.RowsFile, append(before[row.RowsFile], `{"schema":"assay-row-1","row_id":"b/mea`...))
	put("evidence/b/measure/a1/.evidence-123/stream.zst", []byte("half"))
	put("evidence/b/measure/a1/run-099/meta.json", []byte("{"))

	c.Progress, c.Resume = nil, true
	sum, err := Run(t.Context(), c)
	if err != nil || sum.Before != 7 || sum.Adopted < 1 || sum.Left != 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	all := whole(t, &c)
	if r := all[7]; r.RowID != "b/measure/a1/run-008" || r.Status != row.OK {
		t.Errorf("row 8 is %s, %s", r.RowID, r.Status)
		if r.Error != nil {
			t.Error(*r.Error)
		}
	}
	if data, err := os.ReadFile(filepath.Join(c.Dir, row.TornFile)); err != nil || !strings.HasPrefix(string(data), `{"schema":"assay-row-1","row_id":"b/mea`) {
		t.Errorf("the torn line: %q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(c.Dir, AsideFolder, "b-measure-a1-run-099", "meta.json")); err != nil {
		t.Error(err)
	}
}

// Rows of another plan are not gone on with, and nothing is written over.
func TestResumeIsRefused(t *testing.T) {
	c := started(t, two+"blocks: 1\norder: interleaved\n")
	if _, err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "go on with them (--resume") {
		t.Errorf("a second run in the folder: %v", err)
	}
	c.Resume = true
	c.Plan.MaxTokens = 30
	if _, err := Run(t.Context(), c); err == nil || !strings.HasPrefix(err.Error(), "max_tokens is 30, but was 20") {
		t.Errorf("another plan: %v", err)
	}
	c.Plan.MaxTokens, c.Plan.Repeats = 20, 5
	sum, err := Run(t.Context(), c)
	if err != nil || sum.OK != 4 || sum.Before != 10 { // a repeat and a warm-up of each arm
		t.Fatalf("more repeats: %+v, %v", sum, err)
	}
	whole(t, &c)
	if sum, err = Run(t.Context(), c); err != nil || sum.OK != 0 || sum.Before != 14 {
		t.Errorf("nothing is left: %+v, %v", sum, err)
	}
	c.Plan.Contexts = []int{32, 64} // the runs of the plan are now counted otherwise
	if sum, err = Run(t.Context(), c); err != nil || sum.OK != 12 || sum.Left != 0 {
		t.Fatalf("a new size: %+v, %v", sum, err)
	}
	whole(t, &c)
	if err := os.Remove(filepath.Join(c.Dir, PlanFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "there is no plan.json") {
		t.Errorf("without a plan: %v", err)
	}
}

// A start that takes longer than start_time has failed; the last look at it is told.
func TestStartLimit(t *testing.T) {
	c := started(t, `
arms: [{name: a, target: openai, command: [$SERVER, $(port)], env: {MUTE: "1"}}]
contexts: [64]
guard: {start_time: 1s}
`)
	began := time.Now()
	_, err := Run(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "status 503") || time.Since(began) > 10*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	if all := rows(t, c.Dir); len(all) != 0 {
		t.Errorf("the only arm never started, and there are rows: %s", fmt.Sprint(ids(all)))
	}
}
