package display

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"

	"assay/internal/kit/plan"
	"assay/internal/kit/runner"
)

// frames is how often the view may be drawn in a second.
const frames = 4

// Live draws a view on a terminal.
type Live struct {
	out   *screen
	model *model
	prog  *tea.Program
	gpus  bool
	urls  map[string]string // of the targets that are up, by arm
	done  chan struct{}     // closed when the program has ended
	err   error             // why, if it was not asked to; after done
	echo  func()            // gives the echo back
	after *Lines            // what is told when the program has ended by itself
	once  sync.Once
}

// NewLive begins to draw on a terminal. environ decides on colours (NO_COLOR, TERM).
// gpus says whether this machine has GPUs that compute: without them every target
// on it is one that drawing would disturb.
func NewLive(terminal io.Writer, environ []string, gpus bool) *Live {
	l := &Live{
		out: newScreen(terminal), model: newModel(time.Now), gpus: gpus, urls: map[string]string{},
		done: make(chan struct{}), after: NewLines(terminal), echo: quiet(terminal),
	}
	// Without an input the terminal is not asked for anything, and stays in its own
	// mode: Ctrl-C reaches the program as a signal, also when it is busy.
	l.prog = tea.NewProgram(l.model, tea.WithInput(nil), tea.WithOutput(l.out.writer()), tea.WithEnvironment(environ),
		tea.WithFPS(frames), tea.WithoutSignalHandler())
	go func() {
		defer close(l.done)
		_, l.err = l.prog.Run()
	}()
	return l
}

// screen counts what is written to the terminal.
type screen struct {
	to     io.Writer
	writes atomic.Int64
}

// file is a screen that bubbletea can ask for its size.
type file struct {
	*os.File
	screen *screen
}

func newScreen(w io.Writer) *screen { return &screen{to: w} }

func (s *screen) writer() io.Writer {
	if f, ok := s.to.(*os.File); ok {
		return file{f, s}
	}
	return s
}

// Write writes to the terminal.
func (s *screen) Write(p []byte) (int, error) {
	s.writes.Add(1)
	return s.to.Write(p)
}

// Write writes to the terminal.
func (f file) Write(p []byte) (int, error) { return f.screen.Write(p) }

// WriteString keeps the file's own from going past the count.
func (f file) WriteString(s string) (int, error) { return f.screen.Write([]byte(s)) }

// ReadFrom keeps the file's own from going past the count.
func (f file) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{f.screen}, r)
}

// Show draws a step. Where nothing may be drawn from then on, it waits until the
// step is on the screen: a frame's time at most.
func (l *Live) Show(e runner.Event) {
	if l.over() {
		l.after.Show(e)
		return
	}
	msg := eventMsg{Event: e}
	msg.text, msg.kept = step(e)
	switch e.Kind {
	case runner.TargetReady:
		l.urls[e.Arm] = e.Target.URL
	case runner.RunBegins, runner.Idles:
		msg.still = l.disturbs(e)
	}
	l.prog.Send(msg)
	if msg.still {
		l.prog.Send(syncMsg{}) // taken only when the one before has been dealt with
		l.drawn()
	}
}

// drawn waits for the next write to the terminal.
func (l *Live) drawn() {
	before := l.out.writes.Load()
	// Longer than a frame: when the last one came just before the count was read,
	// there is none to come.
	end := time.Now().Add(time.Second/frames + 50*time.Millisecond)
	for l.out.writes.Load() == before && time.Now().Before(end) {
		time.Sleep(2 * time.Millisecond)
	}
}

// disturbs says whether drawing would disturb what an event begins.
func (l *Live) disturbs(e runner.Event) bool {
	if e.Arm == "" {
		return true // all that are up stand idle
	}
	var arm *plan.Arm
	if a, ok := e.Plan.ArmNamed(e.Arm); ok {
		arm = a
	}
	return still(arm, l.urls[e.Arm], l.gpus)
}

func (l *Live) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// Note draws a line that is not lost.
func (l *Live) Note(text string) {
	if l.over() {
		l.after.Note(text)
		return
	}
	l.prog.Send(noteMsg(text))
}

// Close takes the view away, writes its last state as plain lines and gives the
// terminal back.
func (l *Live) Close() {
	l.once.Do(func() {
		defer l.echo()
		l.prog.Send(endMsg{})
		select {
		case <-l.done:
		case <-time.After(2 * time.Second): // a terminal that takes nothing
			l.prog.Kill()
			<-l.done
		}
		for _, line := range l.model.last() {
			fmt.Fprintln(l.out, line)
		}
	})
}
