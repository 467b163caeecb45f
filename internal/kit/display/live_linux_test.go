package display

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/kit/plan"
	"assay/internal/kit/runner"
	"assay/internal/kit/target"
)

// TestMain is also the program on the terminals of the tests.
func TestMain(m *testing.M) {
	if play := os.Getenv("DISPLAY_PLAY"); play != "" {
		plays[play]()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// plays are what the program does.
var plays = map[string]func(){
	"still": func() { // for a second of a run nothing is drawn
		playRuns(NewLive(os.Stderr, os.Environ(), false), time.Second)
	},
	"live": func() {
		playRuns(NewLive(os.Stderr, os.Environ(), true), 2*time.Second)
	},
	"panic": func() {
		l := NewLive(os.Stderr, os.Environ(), false)
		defer l.Close()
		l.Show(playEvent(runner.Event{Kind: runner.TargetStarts}))
		time.Sleep(500 * time.Millisecond)
		panic("something is wrong")
	},
	"view panics": func() {
		l := NewLive(os.Stderr, os.Environ(), false)
		defer l.Close()
		l.prog.Send(eventMsg{Event: playEvent(runner.Event{Kind: runner.RunEnded, Run: plan.Run{Arm: "a", Ctx: 512}})}) // without a row
		<-l.done
		l.Note("what comes after is told line by line")
	},
}

func playEvent(e runner.Event) runner.Event {
	p := &plan.Plan{Name: "a play", Arms: []plan.Arm{{Name: "a", Target: "auto"}}, Contexts: []int{512}, Repeats: 2}
	e.Plan, e.Todo, e.Arm, e.Of = p, new(p.Schedule()), "a", 2
	return e
}

func playRuns(l *Live, each time.Duration) {
	l.Show(playEvent(runner.Event{Kind: runner.TargetReady, Target: &target.Target{URL: "http://127.0.0.1:1"}}))
	run := plan.Run{Arm: "a", Ctx: 512}
	var reads atomic.Int64
	for n := 1; n <= 2; n++ {
		l.Show(playEvent(runner.Event{Kind: runner.RunBegins, Run: run, N: n, Reads: &reads}))
		fmt.Println("timed", n)
		for end := time.Now().Add(each); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			reads.Add(1)
		}
		fmt.Println("over", n)
		l.Show(playEvent(runner.Event{Kind: runner.RunEnded, Run: run, N: n, Row: okRow(50)}))
		run.Repeat++
	}
	l.Close()
	l.Close()
}

// chunk is what was drawn at one time.
type chunk struct {
	at   time.Time
	text string
}

// played is what came of a play on a terminal of its own.
type played struct {
	drawn  []chunk
	said   map[string]time.Time // lines of stdout
	modes  [2]unix.Termios      // before and after
	status int
}

func (p *played) all() string {
	var b strings.Builder
	for _, c := range p.drawn {
		b.WriteString(c.text)
	}
	return b.String()
}

// play runs a play on a pseudo terminal of 80x24, which is its controlling one.
func play(t *testing.T, name string, env ...string) *played {
	t.Helper()
	keeper, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	defer keeper.Close()
	fd := int(keeper.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	p := &played{said: map[string]time.Time{}}
	modes := func(i int) {
		m, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		p.modes[i] = *m
	}
	modes(0)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(append(os.Environ(), "DISPLAY_PLAY="+name, "TERM=xterm-256color"), env...)
	cmd.Stdin, cmd.Stderr = terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	go func() { // until the terminal is closed
		buf := make([]byte, 1<<16)
		for {
			n, err := keeper.Read(buf)
			if err != nil {
				return
			}
			mu.Lock()
			p.drawn = append(p.drawn, chunk{time.Now(), string(buf[:n])})
			mu.Unlock()
		}
	}()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for buf := make([]byte, 64); ; {
		n, err := said.Read(buf)
		for line := range strings.Lines(string(buf[:n])) {
			p.said[strings.TrimSpace(line)] = time.Now()
		}
		text.Write(buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait() // the status says it
	p.status = cmd.ProcessState.ExitCode()
	modes(1)
	time.Sleep(100 * time.Millisecond) // what it wrote last
	mu.Lock()
	defer mu.Unlock()
	p.drawn = append([]chunk(nil), p.drawn...)
	return p
}

func (p *played) between(t *testing.T, from, to string) (n int) {
	t.Helper()
	a, b := p.said[from], p.said[to]
	if a.IsZero() || b.IsZero() {
		t.Fatalf("%q and %q: %v\n%s", from, to, p.said, p.all())
	}
	const late = 30 * time.Millisecond // between the writing and our reading
	for _, c := range p.drawn {
		if c.at.After(a.Add(late)) && c.at.Before(b.Add(-late)) {
			n++
		}
	}
	return n
}

// clean demands that the terminal is as it was.
func (p *played) clean(t *testing.T) {
	t.Helper()
	if p.modes[0] != p.modes[1] {
		t.Errorf("the terminal's modes were %+v, and are %+v", p.modes[0], p.modes[1])
	}
	all := p.all()
	for name, s := range map[string]string{"the alternate screen": "\x1b[?1049h", "bracketed paste": "\x1b[?2004h", "a query": "\x1b[c"} {
		if strings.Contains(all, s) {
			t.Errorf("%s was asked for: %q", name, all)
		}
	}
	if hidden, shown := strings.LastIndex(all, "\x1b[?25l"), strings.LastIndex(all, "\x1b[?25h"); hidden > shown {
		t.Errorf("the cursor is hidden: %q", all)
	}
}

// On a CPU engine nothing is drawn while a run is timed, and the view of its beginning
// is there before.
func TestStillOnATerminal(t *testing.T) {
	p := play(t, "still")
	p.clean(t)
	for n := 1; n <= 2; n++ {
		if drawn := p.between(t, fmt.Sprint("timed ", n), fmt.Sprint("over ", n)); drawn > 0 {
			t.Errorf("run %d: drawn %d times while it was timed", n, drawn)
		}
	}
	if all := p.all(); p.status != 0 || !strings.Contains(all, "512 run 2, since") || !strings.Contains(all, "assay: 2 of 2 runs in ") {
		t.Errorf("status %d, %q", p.status, all)
	}
}

// Otherwise it is drawn, up to four times a second.
func TestLiveOnATerminal(t *testing.T) {
	p := play(t, "live", "NO_COLOR=1")
	p.clean(t)
	if drawn := p.between(t, "timed 2", "over 2"); drawn < 2 || drawn > 9 {
		t.Errorf("drawn %d times in 2 s", drawn)
	}
	all := p.all()
	if !strings.Contains(all, "tok/s") {
		t.Errorf("no rate: %q", all)
	}
	for _, colour := range []string{"\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[38;"} {
		if strings.Contains(all, colour) {
			t.Errorf("%q though NO_COLOR is set", colour)
		}
	}
}

// A panic, of what is measured or of the view itself, leaves a terminal that works.
func TestPanicOnATerminal(t *testing.T) {
	p := play(t, "panic")
	p.clean(t)
	if all := p.all(); p.status != 2 || !strings.Contains(all, "panic: something is wrong") {
		t.Errorf("status %d, %q", p.status, all)
	}
	p = play(t, "view panics")
	p.clean(t)
	if all := p.all(); p.status != 0 || !strings.Contains(all, "assay: what comes after is told line by line") {
		t.Errorf("status %d, %q", p.status, all)
	}
}
