package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/kit/derive"
	"assay/internal/kit/evidence"
	"assay/internal/kit/row"
)

// two arms, of which b may die, and is slower.
const two = `
arms:
  - {name: a, target: openai, command: [$SERVER, $(port)]}
  - {name: b, target: openai, command: [$SERVER, $(port)], env: {DIE: $DIR/die, PACE: 2ms}}
contexts: [64]
max_tokens: 20
repeats: 4
`

// Two arms that can't be up together: A B B A, a warm-up in every block, each block a
// start of its own, and a row says which, and how many requests came before.
func TestBlocks(t *testing.T) {
	c := started(t, two+"blocks: 2\n")
	var events []string
	c.Progress = func(e Event) {
		switch e.Kind {
		case TargetReady:
			events = append(events, "start "+e.Arm)
		case TargetStops:
			events = append(events, "stop "+e.Arm)
		case RunEnded:
			if e.N != len(events)-strings.Count(strings.Join(events, "\n"), "st")+1 || e.Of != 12 || e.Left == nil {
				t.Errorf("run %d of %d after %d events, left %v", e.N, e.Of, len(events), e.Left)
			}
			events = append(events, e.Row.RowID)
		}
	}
	sum, err := Run(t.Context(), c)
	if err != nil || sum.OK != 12 || sum.Left+sum.Missing != 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	want := []string{
		"start a", "a/warmup/a1/run-001", "a/measure/a1/run-002", "a/measure/a1/run-003", "stop a",
		"start b", "b/warmup/a1/run-004", "b/measure/a1/run-005", "b/measure/a1/run-006", "stop b",
		"start b", "b/warmup/a1/run-007", "b/measure/a1/run-008", "b/measure/a1/run-009", "stop b",
		"start a", "a/warmup/a1/run-010", "a/measure/a1/run-011", "a/measure/a1/run-012", "stop a",
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	all := whole(t, &c)
	if got := starts(all); got != "AAABBBCCCDDD" {
		t.Errorf("starts %s", got)
	}
	var places []string
	for _, r := range all {
		places = append(places, fmt.Sprintf("%d/%d", r.Block, *r.RequestsSinceStart))
		if *r.LoadMS <= 0 || r.CommandLine[0] != c.Executable {
			t.Errorf("%s: loaded in %v ms by %v", r.RowID, *r.LoadMS, r.CommandLine)
		}
	}
	if got := strings.Join(places, " "); got != "0/1 0/2 0/3 0/1 0/2 0/3 1/1 1/2 1/3 1/1 1/2 1/3" {
		t.Errorf("block/request: %s", got)
	}
	for _, name := range []string{"target-a.log", "target-b.log"} {
		if _, err := os.Stat(filepath.Join(c.Dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// Arms that take turns are up together, each in one start.
func TestInterleaved(t *testing.T) {
	c := started(t, two+"order: interleaved\nidle: 100ms\n")
	sum, err := Run(t.Context(), c)
	if err != nil || sum.OK != 10 {
		t.Fatalf("%+v, %v", sum, err)
	}
	all := whole(t, &c)
	if got := starts(all); got != "ABABBAABBA" {
		t.Errorf("starts %s", got)
	}
	if why := all[3].Why["telemetry.vram.growth_mib"]; why == "" {
		t.Error("the growth of memory is told, though another target was up")
	}
	for _, r := range all {
		rec, err := evidence.Read(filepath.Join(c.Dir, *r.Evidence.Dir))
		if err != nil {
			t.Fatal(err)
		}
		if f, err := derive.ReadFacts(rec); err != nil || f.Around.Idle == nil || f.Around.Idle.Seconds < 0.1 {
			t.Errorf("%s: the idle of both is not kept: %+v, %v", r.RowID, f.Around.Idle, err)
		}
	}
}

// A target that dies in block 3: its run has a row that says so, what its start had
// left is not run, the other arm's block is. Taken up again it is all there.
func TestTargetDiesInBlock3(t *testing.T) {
	c := started(t, two+"blocks: 2\n")
	stops := 0
	c.Progress = func(e Event) {
		if e.Kind != TargetStops {
			return
		}
		if stops++; stops == 2 {
			if err := os.WriteFile(filepath.Join(filepath.Dir(c.Dir), "die"), []byte("2"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	sum, err := Run(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "the target ended by itself during run 8 of 12: signal: killed") {
		t.Fatalf("error %v", err)
	}
	if sum.OK != 10 || sum.Failed != 1 || sum.Missing != 1 || sum.Left != 2 {
		t.Errorf("%+v", sum)
	}
	all := rows(t, c.Dir)
	if r := all[7]; r.RowID != "b/measure/a1/run-008" || r.Status != row.Failed || *r.FailKind != "target-ended" {
		t.Errorf("%s is %s", r.RowID, r.Status)
	}
	c.Resume, c.Progress = true, nil
	if sum, err = Run(t.Context(), c); err != nil || sum.Before != 11 || sum.OK != 3 || sum.Left != 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	want := []string{"b/warmup/a2/run-007", "b/measure/a2/run-008", "b/measure/a1/run-009"}
	all = whole(t, &c)
	if diff := cmp.Diff(want, ids(all)[11:]); diff != "" {
		t.Errorf("the second try: want -, got +:\n%s", diff)
	}
	// It is a start of its own, of the same block, and counts its requests anew.
	if got := starts(all); got != "AAABBBCCDDDEEE" {
		t.Errorf("starts %s", got)
	}
	for i, r := range all[11:] {
		if r.Block != 1 || *r.RequestsSinceStart != i+1 {
			t.Errorf("%s: block %d, request %d", r.RowID, r.Block, *r.RequestsSinceStart)
		}
	}
}

// An arm that does not start is a failed row for each of its runs, with the reason,
// and the plan goes on with the others.
func TestArmThatDoesNotStart(t *testing.T) {
	c := started(t, strings.Replace(two, "$SERVER, $(port)]}", "/bin/sh, -c, 'echo no such model >&2; exit 3']}", 1)+"blocks: 1\n")
	sum, err := Run(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "arm a, block 0: the target ended before it was ready: exit status 3") {
		t.Errorf("error %v", err)
	}
	if sum.OK != 5 || sum.Failed != 5 || sum.Left != 4 {
		t.Errorf("%+v", sum)
	}
	all := rows(t, c.Dir)
	clean(t, c.Dir)
	for _, r := range all[:5] {
		if r.Arm != "a" || r.Status != row.Failed || *r.FailKind != "start-failed" || !strings.Contains(*r.Error, "no such model") || r.Why["requested.max_tokens"] == "" {
			t.Errorf("%s: %s, %v", r.RowID, r.Status, r.FailKind)
		}
	}
}

// One writer in a folder.
func TestOneWriter(t *testing.T) {
	c := started(t, two+"blocks: 2\n")
	journal, err := row.OpenJournal(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "another assay is writing to") || errors.Is(err, ErrInterrupted) {
		t.Errorf("error %v", err)
	}
}
