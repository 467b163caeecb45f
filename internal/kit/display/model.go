package display

import (
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"

	"assay/internal/kit/plan"
	"assay/internal/kit/row"
	"assay/internal/kit/runner"
	"assay/internal/kit/target"
	"assay/internal/kit/telemetry"
)

// every is how often the view is drawn anew while something changes by itself.
const every = 250 * time.Millisecond

type (
	eventMsg struct {
		runner.Event
		text  string // in words: a target changes, so it is read where it is told of
		kept  bool
		still bool // of RunBegins and Idles: nothing is drawn until it has ended
	}
	noteMsg string
	tickMsg time.Time
	syncMsg struct{} // what was sent before it has been dealt with
	endMsg  struct{}
)

// model is what is known of a run.
type model struct {
	now           func() time.Time
	began         time.Time
	width, height int

	plan   *plan.Plan
	starts []start
	at     int // the start at hand; -1: none yet
	of, n  int
	left   *time.Duration
	counts map[row.Status]int
	held   int // rows of status ok with figures withheld

	doing   string // in words
	since   time.Time
	still   bool
	run     *running // nil: none is being made
	ticking bool
	ended   bool

	rows []made   // the newest last
	kept []string // what should not be lost
	note string   // of the interrupt
}

// start is one launch of a target, and how far its runs are.
type start struct {
	arm        string
	block      int
	done, runs int
	state      string // empty: not yet; up, done, failed
}

// running is the run that is being made.
type running struct {
	name  string
	reads *atomic.Int64
	last  func(telemetry.Metric) []telemetry.Reading
	seen  []seen // of the last two seconds, the oldest first
}

type seen struct {
	at    time.Time
	reads int64
}

// made is a run that has a row.
type made struct {
	name string
	row  *row.Row
}

const (
	mostRows = 100 // more than any screen shows
	mostKept = 1000
)

func newModel(now func() time.Time) *model {
	return &model{now: now, began: now(), width: 80, height: 24, at: -1, counts: map[row.Status]int{}}
}

// Init has nothing to do.
func (m *model) Init() tea.Cmd { return nil }

// Update takes a step in.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case eventMsg:
		m.event(msg)
	case noteMsg:
		m.note = string(msg)
		m.keep(m.note)
	case tickMsg:
		m.ticking = false
		m.sample(time.Time(msg))
	case endMsg:
		m.ended = true
		return m, tea.Quit
	}
	if m.run != nil && !m.still && !m.ticking {
		m.ticking = true
		return m, tea.Tick(every, func(t time.Time) tea.Msg { return tickMsg(t) })
	}
	return m, nil
}

func (m *model) keep(text string) {
	m.kept = append(m.kept, text)
	m.kept = m.kept[max(0, len(m.kept)-mostKept):]
}

func (m *model) event(e eventMsg) {
	if m.plan == nil {
		m.plan, m.starts = e.Plan, startsOf(e.Todo)
	}
	m.of, m.still, m.since = e.Of, e.still, m.now()
	if e.Left != nil {
		m.left = e.Left
	}
	if e.kept {
		m.keep(e.text)
	}
	s := m.startOf(e.Arm, e.Block)
	switch e.Kind {
	case runner.TargetStarts:
		s.state = "up"
		m.doing = e.text
	case runner.TargetReady:
		m.doing = ""
	case runner.TargetFails:
		s.state = "failed"
		m.doing = ""
	case runner.RunBegins:
		m.n = e.N
		m.run = &running{name: name(e.Plan, e.Run), reads: e.Reads, last: e.Last}
	case runner.RunEnded:
		m.n, m.run, m.doing = e.N, nil, ""
		s.done++
		m.count(e.Row)
		m.rows = append(m.rows, made{name(e.Plan, e.Run), e.Row})
		m.rows = m.rows[max(0, len(m.rows)-mostRows):]
		if s.done == s.runs && s.state == "up" {
			s.state = "done"
		}
	case runner.TargetEnds:
		s.state = "failed"
	default:
		m.doing = e.text
	}
}

func (m *model) count(r *row.Row) {
	m.counts[r.Status]++
	if r.Status == row.OK && len(r.Withheld) > 0 {
		m.held++
	}
}

// startOf finds the start that an event is of, and takes it for the one at hand.
// One that no plan has is a fresh one that nobody sees.
func (m *model) startOf(arm string, block int) *start {
	for i := range m.starts {
		if s := &m.starts[i]; s.arm == arm && s.block == block {
			m.at = i
			return s
		}
	}
	return &start{}
}

// startsOf lists the launches of a schedule with the number of their runs.
func startsOf(todo *plan.Schedule) []start {
	if todo == nil {
		return nil
	}
	var out []start
	up := map[string]int{} // arm to its place
	for _, s := range todo.Steps {
		switch s.Kind {
		case plan.Start:
			up[s.Arm] = len(out)
			out = append(out, start{arm: s.Arm, block: s.Block})
		case plan.Do:
			if i, ok := up[s.Run.Arm]; ok {
				out[i].runs++
			}
		}
	}
	return out
}

// sample notes how many reads there were.
func (m *model) sample(at time.Time) {
	if m.run == nil || m.run.reads == nil {
		return
	}
	r := m.run
	r.seen = append(r.seen, seen{at, r.reads.Load()})
	for len(r.seen) > 2 && at.Sub(r.seen[1].at) >= 2*time.Second {
		r.seen = r.seen[1:]
	}
}

// rate is how many reads a second there were in the last two seconds; false: it is
// not known yet. The first read ends the prompt, so that none counts before it.
func (r *running) rate() (float64, bool) {
	for i, a := range r.seen {
		b := r.seen[len(r.seen)-1]
		if a.reads == 0 || b.at.Sub(a.at) < every/2 {
			continue
		}
		return float64(b.reads-r.seen[i].reads) / b.at.Sub(a.at).Seconds(), true
	}
	return 0, false
}

// still says whether drawing would disturb a target: it is served by the processors
// of this machine. gpus says whether the machine has any that compute.
func still(arm *plan.Arm, url string, gpus bool) bool {
	switch {
	case arm == nil || url != "" && !target.Loopback(url):
		return false
	case !gpus || arm.Kind() != plan.Attached && arm.Target == row.OwnEngine:
		return true
	}
	return arm.GPULayers != nil && *arm.GPULayers == 0
}
