package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// plans that make sense, of any kind.
func anyPlan(t *rapid.T) *Plan {
	p := Defaults()
	for i := range rapid.IntRange(1, 4).Draw(t, "arms") {
		a := Arm{Name: fmt.Sprintf("arm%d", i), Target: "assay", Drafts: rapid.IntRange(0, 5).Draw(t, "drafts") == 0}
		if rapid.Bool().Draw(t, "attached") {
			a.URL = "http://127.0.0.1:1"
		}
		p.Arms = append(p.Arms, a)
	}
	p.Contexts = rapid.SliceOfNDistinct(rapid.IntRange(1, 5000), 1, 3, rapid.ID).Draw(t, "contexts")
	if rapid.IntRange(0, 4).Draw(t, "files") == 0 {
		p.Contexts, p.Prompts = nil, []string{"a.txt", "b.txt"}
	}
	p.Repeats = rapid.IntRange(1, 9).Draw(t, "repeats")
	p.Warmups = rapid.IntRange(0, 3).Draw(t, "warm-ups")
	p.Blocks = rapid.IntRange(0, p.Repeats).Draw(t, "blocks")
	p.Order = rapid.SampledFrom([]Order{"", Interleaved, InBlocks}).Draw(t, "order")
	p.Slices = rapid.IntRange(0, 4).Draw(t, "slices")
	p.Turns = rapid.IntRange(1, 3).Draw(t, "turns")
	p.TurnTokens = 10
	p.Cache = rapid.SampledFrom([]Cache{"", Cold, Warm}).Draw(t, "cache")
	if rapid.Bool().Draw(t, "idle") {
		p.Idle = time.Second
	}
	switch rapid.IntRange(0, 2).Draw(t, "cool") {
	case 1:
		p.CoolDown = CoolDown{Seconds: 1, Before: beforeRun}
	case 2:
		p.CoolDown = CoolDown{Seconds: 1, Before: beforeBlock}
	}
	if p.Check() != nil {
		t.Skip()
	}
	return &p
}

// walk follows the starts and stops of a schedule, and fails on what can't be.
func walk(t *rapid.T, p *Plan, s Schedule, visit func(Run)) {
	up := map[string]bool{}
	for _, step := range s.Steps {
		switch step.Kind {
		case Start:
			if up[step.Arm] {
				t.Fatalf("%s is started twice", step.Arm)
			}
			up[step.Arm] = true
		case Stop:
			if !up[step.Arm] {
				t.Fatalf("%s is stopped and was not up", step.Arm)
			}
			delete(up, step.Arm)
		case Do:
			if !up[step.Arm] || step.Arm != step.Run.Arm || step.Block != step.Run.Block {
				t.Fatalf("run %d of %s in a step of %s", step.Run.Number, step.Run.Arm, step.Arm)
			}
			visit(step.Run)
		}
		if p.InOrder() == InBlocks && len(up) > 1 {
			t.Fatalf("%v are up at once, in blocks", up)
		}
	}
	if len(up) > 0 {
		t.Fatalf("%v are still up", up)
	}
}

// Whatever the plan: every cell gets all its repeats once, behind its warm-ups,
// under names and keys of their own, and the slices come evenly.
func TestScheduleProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlan(t)
		s := p.Schedule()
		keys, repeats, texts, warm := map[string]bool{}, map[string][]int{}, map[string]map[int]int{}, map[string]int{}
		last, turn := 0, 0
		walk(t, p, s, func(r Run) {
			if r.Number != last+1 || keys[r.Key()] || r.Attempt != 1 {
				t.Fatalf("run %+v after %d", r, last)
			}
			last, keys[r.Key()] = r.Number, true
			if r.Key() != Key(r.Cell, r.Warmup, r.Repeat) || r.Turn != turn {
				t.Fatalf("run %+v, want turn %d", r, turn)
			}
			turn = (turn + 1) % p.turns()
			if r.Warmup {
				warm[fmt.Sprint(r.Cell, r.Block)]++
				return
			}
			if warm[fmt.Sprint(r.Cell, r.Block)] != p.Warmups {
				t.Fatalf("run %d is measured after %d warm-ups", r.Number, warm[fmt.Sprint(r.Cell, r.Block)])
			}
			repeats[r.Cell] = append(repeats[r.Cell], r.Repeat)
			if texts[r.Cell] == nil {
				texts[r.Cell] = map[int]int{}
			}
			texts[r.Cell][r.Slice]++
		})
		want := make([]int, p.Repeats)
		for i := range want {
			want[i] = i
		}
		if n := len(p.Arms) * len(p.cells()) * p.turns(); len(repeats) != n {
			t.Fatalf("%d cells, want %d", len(repeats), n)
		}
		for cell, got := range repeats {
			if !slices.Equal(got, want) {
				t.Fatalf("%s: repeats %v", cell, got)
			}
			counts := slices.Sorted(maps.Values(texts[cell]))
			if counts[len(counts)-1]-counts[0] > 1 || len(p.Prompts) == 0 && len(counts) != p.SliceCount() {
				t.Fatalf("%s: slices %v", cell, texts[cell])
			}
			if p.drafts() && len(p.Prompts) == 0 && len(counts) < 3 {
				t.Fatalf("%s: drafts over %d texts", cell, len(counts))
			}
		}
		if p.size() != float64(last) {
			t.Fatalf("size %v, but %d runs", p.size(), last)
		}
	})
}

// A, B, B, A: with an even number of rounds no arm comes earlier than another on
// the whole.
func TestOrderFavoursNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlan(t)
		p.Warmups, p.Cache = 0, Cold
		p.Blocks = 2 * rapid.IntRange(1, 3).Draw(t, "pairs")
		p.Repeats = p.Blocks * 2 * rapid.IntRange(1, 2).Draw(t, "runs")
		if p.Check() != nil {
			t.Skip()
		}
		sum, n := map[string]int{}, map[string]int{}
		for i, step := range p.Schedule().Steps {
			if step.Kind == Start {
				sum[step.Arm] += i
				n[step.Arm]++
			}
		}
		runs := map[string]int{}
		for _, r := range p.Schedule().Runs() {
			runs[r.Arm] += r.Number
		}
		first := p.Arms[0].Name
		for _, a := range p.Arms {
			if sum[a.Name] != sum[first] || n[a.Name] != p.Blocks || runs[a.Name] != runs[first] {
				t.Fatalf("starts %v (%v), sums of run numbers %v", sum, n, runs)
			}
		}
	})
}

// A plan that is interrupted at any moment, with some runs failed, and taken up
// again until nothing is left, has every run once, each row a name of its own,
// and every turn of a conversation from one and the same try.
func TestResumeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPlan(t)
		done := map[string]Done{}
		rows := map[string]bool{}
		measured := map[string]int{}
		tries := map[string]int{} // attempt in which each measured run went well
		for try := 0; ; try++ {
			s := p.Remaining(done)
			if len(s.Steps) == 0 {
				break
			}
			if try == 0 && cmp.Diff(p.Schedule(), s) != "" {
				t.Fatal("with nothing done, something is missing")
			}
			limit := rapid.IntRange(1, 40).Draw(t, "runs until the interrupt")
			if try > 20 {
				limit = 1 << 30
			}
			i, warm := 0, map[string]int{}
			lost := "" // conversation whose earlier turn failed
			walk(t, p, s, func(r Run) {
				id := r.ID(r.Arm)
				if r.Warmup {
					warm[fmt.Sprint(r.Cell, r.Block)]++
				}
				if i++; i > limit || lost == r.conversation() {
					return
				}
				if rows[id] {
					t.Fatalf("row %s is there twice", id)
				}
				rows[id] = true
				if !r.Warmup && warm[fmt.Sprint(r.Cell, r.Block)] != p.Warmups {
					t.Fatalf("%s comes after %d warm-ups", id, warm[fmt.Sprint(r.Cell, r.Block)])
				}
				ok := try > 20 || rapid.IntRange(0, 9).Draw(t, "fate") > 0
				if !ok {
					lost = r.conversation()
				}
				d := done[r.Key()]
				done[r.Key()] = Done{Attempts: max(d.Attempts, r.Attempt), OK: d.OK || ok}
				if ok && !r.Warmup {
					measured[r.Key()]++
					tries[r.Key()] = r.Attempt
				}
			})
		}
		for _, r := range p.Schedule().Runs() {
			if r.Warmup {
				continue
			}
			if measured[r.Key()] == 0 || p.turns() == 1 && measured[r.Key()] != 1 {
				t.Fatalf("%s was measured %d times", r.Key(), measured[r.Key()])
			}
			if tries[r.Key()] != tries[r.conversation()] {
				t.Fatalf("%s is of attempt %d, its first turn of %d", r.Key(), tries[r.Key()], tries[r.conversation()])
			}
		}
	})
}

// A crash in block 3 of A B B A: what is left is the rest of that block, behind
// its warm-ups, and the last one.
func TestResumeInBlock3(t *testing.T) {
	p := mustParse(t, "arms: [{name: a}, {name: b}]\ncontexts: [512]\nrepeats: 4\nblocks: 2\ncool_down: {seconds: 1, before: block}\n")
	done := map[string]Done{}
	for _, r := range p.Schedule().Runs()[:8] { // a, b, and of the second b its warm-up and one run
		done[r.Key()] = Done{Attempts: 1, OK: true}
	}
	failed := p.Schedule().Runs()[7]
	done[failed.Key()] = Done{Attempts: 1}
	got := p.Remaining(done).String()
	want := strings.TrimPrefix(`
start  b  block 1
    7  warm up  b/512/warmup/r1  slice 1  attempt 2  after cooling down
    8  measure  b/512/measure/r2  slice 0  attempt 2
    9  measure  b/512/measure/r3  slice 0
stop   b  block 1
start  a  block 1
   10  warm up  a/512/warmup/r1  slice 1  after cooling down
   11  measure  a/512/measure/r2  slice 0
   12  measure  a/512/measure/r3  slice 0
stop   a  block 1
`, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// Interleaved arms take turns, turned around with every repeat; warm runs repeat
// the texts of their warm-ups; a conversation keeps together.
func TestInterleavedConversations(t *testing.T) {
	p := mustParse(t, `
arms: [{name: a, url: "http://127.0.0.1:1"}, {name: b, url: "http://127.0.0.1:2"}]
contexts: [1K]
repeats: 2
slices: 2
warm_ups: 2
turns: 2
cache: warm
idle: 30s
`)
	want := strings.TrimPrefix(`
start  a  block 0
start  b  block 0
watch  idle
    1  warm up  a/1K/turn-1/warmup/r0  slice 0
    2  warm up  a/1K/turn-2/warmup/r0  slice 0
    3  warm up  a/1K/turn-1/warmup/r1  slice 1
    4  warm up  a/1K/turn-2/warmup/r1  slice 1
    5  warm up  b/1K/turn-1/warmup/r0  slice 0
    6  warm up  b/1K/turn-2/warmup/r0  slice 0
    7  warm up  b/1K/turn-1/warmup/r1  slice 1
    8  warm up  b/1K/turn-2/warmup/r1  slice 1
    9  measure  a/1K/turn-1/measure/r0  slice 0
   10  measure  a/1K/turn-2/measure/r0  slice 0
   11  measure  b/1K/turn-1/measure/r0  slice 0
   12  measure  b/1K/turn-2/measure/r0  slice 0
   13  measure  b/1K/turn-1/measure/r1  slice 1
   14  measure  b/1K/turn-2/measure/r1  slice 1
   15  measure  a/1K/turn-1/measure/r1  slice 1
   16  measure  a/1K/turn-2/measure/r1  slice 1
stop   a  block 0
stop   b  block 0
`, "\n")
	if diff := cmp.Diff(want, p.Schedule().String()); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	if n := p.ContextFor(p.Longest()); n != 2048 { // 1000 + 2 x (128 + 256) + 128 = 1896, in pages of 256
		t.Errorf("context %d", n)
	}
}

// Rows of a changed plan: more of the same may be added, a run may not become
// another.
func TestResumable(t *testing.T) {
	const old = "arms: [{name: a, flags: [--threads, 2]}]\ncontexts: [512]\nmax_tokens: 64\n"
	for plan, want := range map[string]string{
		old: "",
		"arms: [{name: a, flags: [--threads, 2]}, {name: b}]\ncontexts: [512, 4K]\nrepeats: 9\nwarm_ups: 2\nmax_tokens: 64\nguard: {disk_free: 1GiB}\norder: blocks": "",
		strings.Replace(old, "64", "65", 1):               "max_tokens is 65, but was 64 in the plan of the rows that are there: such runs can't stand beside each other (want the old value, or a new folder)",
		strings.Replace(old, "--threads, 2", "", 1):       `arm a: flags is not given, but was ["--threads","2"] in the plan of the rows that are there (want the old value, another name for the arm, or a new folder)`,
		old + "sampling: {seed: 1}":                       "seed is 1, but was not given in the plan",
		old + "cache: warm":                               `cache is "warm", but was "cold"`,
		strings.Replace(old, "a,", "c,", 1) + "idle: 30s": "",
	} {
		err := mustParse(t, plan).Resumable(mustParse(t, old))
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s\ngot  %v\nwant %s", plan, err, want)
		}
	}
}

// min_seconds makes max_tokens larger, never smaller, and not without end.
func TestTokensFor(t *testing.T) {
	p := Plan{MaxTokens: 128, MinSeconds: 10, TokensAtMost: 1000}
	for rate, want := range map[float64]int{0: 128, -1: 128, 1: 128, 12: 128, 20: 224, 50: 528, 95: 1000, 1e300: 1000} { // 20 x 10 x 1.05 = 210, up to a multiple of 16
		if got := p.TokensFor(rate); got != want {
			t.Errorf("at %v tok/s: %d, want %d", rate, got, want)
		}
	}
	p.MinSeconds = 0
	if got := p.TokensFor(100); got != 128 {
		t.Errorf("without min_seconds: %d", got)
	}
}
