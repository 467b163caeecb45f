package display

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"assay/internal/kit/plan"
	"assay/internal/kit/row"
	"assay/internal/kit/runner"
	"assay/internal/kit/target"
	"assay/internal/kit/telemetry"
)

var update = flag.Bool("update", false, "write the golden files")

// story is a plan that is carried out in a test, on a clock that it sets.
type story struct {
	t     *testing.T
	model *model
	plan  *plan.Plan
	todo  *plan.Schedule
	clock time.Time
	reads atomic.Int64
}

func newStory(t *testing.T, arms ...string) *story {
	s := &story{t: t, clock: time.Date(2026, 12, 2, 14, 3, 0, 0, time.UTC)}
	s.plan = &plan.Plan{Name: "two engines", Contexts: []int{512}, Repeats: 4, Blocks: 2, Warmups: 1, MaxTokens: 64, Order: plan.InBlocks}
	for _, a := range arms {
		s.plan.Arms = append(s.plan.Arms, plan.Arm{Name: a, Target: "assay"})
	}
	s.todo = new(s.plan.Schedule())
	s.model = newModel(func() time.Time { return s.clock })
	s.send(tea.WindowSizeMsg{Width: 80, Height: 24})
	return s
}

func (s *story) send(msg tea.Msg) tea.Cmd {
	_, cmd := s.model.Update(msg)
	return cmd
}

func (s *story) event(e runner.Event, still bool) tea.Cmd {
	e.Plan, e.Todo, e.Of = s.plan, s.todo, len(s.todo.Runs())
	msg := eventMsg{Event: e, still: still}
	msg.text, msg.kept = step(e)
	return s.send(msg)
}

// up starts an arm's target.
func (s *story) up(arm string, block int) {
	s.event(runner.Event{Kind: runner.TargetStarts, Arm: arm, Block: block}, false)
	s.event(runner.Event{Kind: runner.TargetReady, Arm: arm, Block: block, Target: &target.Target{
		URL: "http://127.0.0.1:40000", Identity: target.Identity{Engine: "assay", Model: "builtin:seedling"},
	}}, false)
}

// run makes the n-th run of the plan.
func (s *story) run(n int, still bool, r *row.Row) {
	run := s.begin(n, still, nil)
	s.clock = s.clock.Add(3 * time.Second)
	s.event(runner.Event{Kind: runner.RunEnded, Arm: run.Arm, Block: run.Block, Run: run, N: n, Left: new(time.Duration(16-n) * 3 * time.Second), Row: r}, false)
}

func (s *story) begin(n int, still bool, last func(telemetry.Metric) []telemetry.Reading) plan.Run {
	run := s.todo.Runs()[n-1]
	s.reads.Store(0)
	s.event(runner.Event{Kind: runner.RunBegins, Arm: run.Arm, Block: run.Block, Run: run, N: n, Reads: &s.reads, Last: last}, still)
	return run
}

func okRow(decode float64) *row.Row {
	r := &row.Row{Status: row.OK, Phase: row.Measure, TTFTMS: new(531.4), PromptTokSClient: new(1009.2), DecodeTokS: &decode}
	r.Telemetry.Pinned.VmRSSMaxBytes = new(int64(40 << 20))
	return r
}

func withheldRow() *row.Row {
	r := okRow(0)
	r.DecodeTokS, r.DecodeTokSWithheld = nil, new(410.0)
	r.Withheld = []row.Withheld{{Figure: "decode_tok_s", Value: new(410.0), Codes: []string{"client-lag"}}, {Figure: "gaps.p50_ms", Codes: []string{"clumped", "client-lag"}}}
	return r
}

func failedRow() *row.Row {
	return &row.Row{Status: row.Failed, Phase: row.Measure, Error: new("stream-error: the server hung up after 12 of 64 tokens,\nas it did before, and said nothing more of the reason for it")}
}

// first is a block of the first arm, with all that may happen.
func (s *story) first() {
	s.up("ours", 0)
	s.run(1, true, okRow(388.1))
	s.run(2, true, withheldRow())
	s.run(3, true, failedRow())
	s.event(runner.Event{Kind: runner.TargetStops, Arm: "ours"}, false)
	s.up("theirs", 0)
}

// The views, as they look without colours. The golden files are written by -update.
func TestViews(t *testing.T) {
	tests := []struct {
		name string
		tell func(s *story)
	}{
		{"nothing", func(s *story) {}},
		{"starting", func(s *story) {
			s.event(runner.Event{Kind: runner.TargetStarts, Arm: "ours"}, false)
		}},
		{"timed", func(s *story) {
			s.first()
			s.begin(4, true, nil)
		}},
		{"live", func(s *story) {
			s.first()
			s.begin(4, false, func(m telemetry.Metric) []telemetry.Reading {
				switch m {
				case telemetry.GPUPower:
					return []telemetry.Reading{{Source: "nvml", Of: "0", Value: new(310.0)}, {Source: "nvml", Of: "1", Value: new(290.0)}, {Source: "smi", Of: "0", Value: new(300.0)}}
				case telemetry.GPUTemp:
					return []telemetry.Reading{{Source: "nvml", Of: "0", Value: new(61.0)}, {Source: "nvml", Of: "1", Value: new(64.0)}}
				case telemetry.VmRSS:
					return []telemetry.Reading{{Source: "proc", Value: new(3.5 * (1 << 30))}}
				}
				return []telemetry.Reading{{Source: "wall", Why: "no meter"}}
			})
			for i := range 12 {
				s.reads.Store(int64(max(0, i-2) * 10))
				s.clock = s.clock.Add(every)
				s.send(tickMsg(s.clock))
			}
		}},
		{"waiting", func(s *story) {
			s.first()
			s.begin(4, false, nil)
			s.clock = s.clock.Add(7 * time.Second)
			s.send(tickMsg(s.clock))
		}},
		{"interrupted", func(s *story) {
			s.first()
			s.begin(4, true, nil)
			s.send(noteMsg("finishing the run at hand; Ctrl-C again ends it now"))
		}},
		{"trouble", func(s *story) {
			s.first()
			s.event(runner.Event{Kind: runner.TargetEnds, Arm: "theirs", Err: errors.New("the target ended by itself: signal: killed")}, false)
			s.event(runner.Event{Kind: runner.TargetFails, Arm: "theirs", Block: 1, Err: errors.New("no file m.gguf")}, false)
			s.event(runner.Event{Kind: runner.Idles, Arm: "ours", Wait: 30 * time.Second}, true)
		}},
	}
	for _, tt := range tests {
		for _, size := range []tea.WindowSizeMsg{{Width: 80, Height: 24}, {Width: 200, Height: 50}, {Width: 40, Height: 9}} {
			name := fmt.Sprintf("%s-%dx%d", tt.name, size.Width, size.Height)
			t.Run(name, func(t *testing.T) {
				s := newStory(t, "ours", "theirs")
				tt.tell(s)
				s.send(size)
				got := ansi.Strip(s.model.View().Content)
				golden(t, name, got)
				golden(t, tt.name+"-left", strings.Join(smaller(s).last(), "\n")+"\n")
			})
		}
	}
}

// smaller is a story's model at the usual size.
func smaller(s *story) *model {
	s.send(tea.WindowSizeMsg{Width: 80, Height: 24})
	return s.model
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got; -update writes it):\n%s", path, diff)
	}
}

// Whatever happens and however large the terminal is, no line is wider than it, and
// the view is no higher.
func TestViewFits(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newStory(t, rapid.StringMatching(`[a-z]{1,60}`).Draw(r, "arm"), "日本語のエンジン")
		size := tea.WindowSizeMsg{Width: rapid.IntRange(1, 220).Draw(r, "width"), Height: rapid.IntRange(1, 60).Draw(r, "height")}
		s.send(size)
		s.up(s.plan.Arms[0].Name, 0)
		for n := range rapid.IntRange(0, len(s.todo.Runs())-1).Draw(r, "runs") {
			s.run(n+1, rapid.Bool().Draw(r, "still"), rapid.SampledFrom([]*row.Row{okRow(4e9), withheldRow(), failedRow()}).Draw(r, "row"))
			if rapid.Bool().Draw(r, "note") {
				s.send(noteMsg(rapid.String().Draw(r, "text")))
			}
		}
		lines := strings.Split(s.model.View().Content, "\n")
		if len(lines) > size.Height && size.Height > 1 {
			r.Fatalf("%d lines on %d:\n%s", len(lines), size.Height, strings.Join(lines, "\n"))
		}
		for _, l := range lines {
			if w := ansi.StringWidth(l); w > max(size.Width, 8) {
				r.Fatalf("%d wide on %d: %q", w, size.Width, l)
			}
		}
	})
}

// The view draws itself anew only while a run is made that it does not disturb.
func TestTicks(t *testing.T) {
	s := newStory(t, "ours")
	s.up("ours", 0)
	if cmd := s.event(runner.Event{Kind: runner.RunBegins, Arm: "ours", Run: s.todo.Runs()[0], N: 1}, true); cmd != nil {
		t.Error("it ticks while a run of a CPU engine is timed")
	}
	if cmd := s.send(tea.WindowSizeMsg{Width: 100, Height: 30}); cmd != nil {
		t.Error("it ticks because the terminal was resized")
	}
	s.event(runner.Event{Kind: runner.RunEnded, Arm: "ours", Run: s.todo.Runs()[0], N: 1, Row: okRow(1)}, false)
	if cmd := s.event(runner.Event{Kind: runner.RunBegins, Arm: "ours", Run: s.todo.Runs()[1], N: 2}, false); cmd == nil {
		t.Error("it does not tick while another run is made")
	}
	if cmd := s.send(noteMsg("a note")); cmd != nil {
		t.Error("it ticks twice")
	}
	if cmd := s.send(tickMsg(s.clock)); cmd == nil {
		t.Error("it ticks once only")
	}
	s.event(runner.Event{Kind: runner.RunEnded, Arm: "ours", Run: s.todo.Runs()[1], N: 2, Row: okRow(1)}, false)
	if cmd := s.send(tickMsg(s.clock)); cmd != nil {
		t.Error("it goes on to tick after the run")
	}
}

func TestStill(t *testing.T) {
	const here, there = "http://127.0.0.1:8080", "http://gpu.example:8080"
	for _, tt := range []struct {
		name string
		arm  *plan.Arm
		url  string
		gpus bool
		want bool
	}{
		{"ours", &plan.Arm{Target: "assay"}, here, true, true},
		{"another, no GPU here", &plan.Arm{Target: "llama-server"}, here, false, true},
		{"another, GPUs here", &plan.Arm{Target: "llama-server"}, here, true, false},
		{"another, without layers on them", &plan.Arm{Target: "llama-server", GPULayers: new(0)}, here, true, true},
		{"attached", &plan.Arm{Target: "auto", URL: here}, here, false, true},
		{"attached, GPUs here", &plan.Arm{Target: "auto", URL: here}, here, true, false},
		{"far away", &plan.Arm{Target: "auto", URL: there}, there, false, false},
	} {
		if got := still(tt.arm, tt.url, tt.gpus); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1400 * time.Millisecond: "1s", 250 * time.Second: "4m10s", 21*time.Minute + 29*time.Second: "21m", 2*time.Hour + 5*time.Minute: "2h5m",
	} {
		if got := duration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestLines(t *testing.T) {
	var out strings.Builder
	l, s := NewLines(&out), newStory(t, "ours")
	run := s.todo.Runs()[1]
	for _, e := range []runner.Event{
		{Kind: runner.TargetStarts, Arm: "ours"},
		{Kind: runner.RunBegins, Run: run, N: 2},
		{Kind: runner.RunEnded, Run: run, N: 2, Row: withheldRow()},
		{Kind: runner.RunEnded, Run: run, N: 3, Row: &row.Row{Status: row.Failed, Error: new("it hung up")}},
	} {
		e.Plan, e.Of = s.plan, 7
		l.Show(e)
	}
	want := `assay: waiting for the target
assay: 2/7  512 run 1: TTFT 531.4 ms, prompt 1009.2 tok/s, decode withheld (client-lag, clumped)
assay: 3/7  512 run 1: failed: it hung up
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
