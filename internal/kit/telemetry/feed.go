package telemetry

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// helper is a program that prints a line a reading.
type helper struct {
	argv []string
	// poke says that a newline on its standard input asks for a reading at once,
	// and that the end of that input ends it.
	poke bool
	line func(line []byte, at time.Time) error // an error ends the helper and is its reason
}

// helpers are the programs that are running.
type helpers struct {
	mu   sync.Mutex
	pids map[int]io.Writer // nil: it can't be asked
}

func newHelpers() helpers { return helpers{pids: map[int]io.Writer{}} }

// longest is the longest line that a helper may print.
const longest = 1 << 20

// run starts the program and reads it until it ends or ctx does. The error says
// how it ended by itself; nil: ctx ended it.
func (hs *helpers) run(ctx context.Context, h helper, cpu *atomic.Int64) error {
	cmd := exec.CommandContext(ctx, h.argv[0], h.argv[1:]...)
	ownGroup(cmd)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Cancel = func() error {
		err := killGroup(cmd)
		_ = stdout.Close() // something of it that left its group may hold the other end
		return err
	}
	cmd.WaitDelay = time.Second
	var stdin io.WriteCloser
	if h.poke {
		if stdin, err = cmd.StdinPipe(); err != nil {
			return err
		}
	}
	said := &tail{}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		return err
	}
	hs.mu.Lock()
	hs.pids[cmd.Process.Pid] = stdin
	hs.mu.Unlock()
	lineErr := readLines(stdout, h.line)
	if lineErr != nil {
		_ = killGroup(cmd)
	}
	if stdin != nil {
		_ = stdin.Close()
	}
	err = cmd.Wait()
	cpu.Add(int64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()))
	hs.mu.Lock()
	delete(hs.pids, cmd.Process.Pid)
	hs.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil
	case lineErr != nil:
		return lineErr
	case err == nil:
		err = errors.New("it ended")
	}
	if s := said.String(); s != "" {
		return fmt.Errorf("%w: %s", err, s)
	}
	return err
}

// readLines hands out the lines of r until its end or an error of line. A line
// that is too long is left out.
func readLines(r io.Reader, line func([]byte, time.Time) error) error {
	b := bufio.NewReaderSize(r, 64<<10)
	var text []byte
	for {
		part, err := b.ReadSlice('\n')
		if len(text)+len(part) <= longest {
			text = append(text, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		at := time.Now()
		if got := bytes.TrimSpace(text); len(got) > 0 {
			if err := line(got, at); err != nil {
				return err
			}
		}
		if err != nil {
			return nil // the end, however it came; Wait tells how
		}
		text = text[:0]
	}
}

// ask pokes the helpers that can be asked.
func (hs *helpers) ask() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for _, w := range hs.pids {
		if w != nil {
			_, _ = w.Write([]byte("\n")) // a helper that has ended tells so by itself
		}
	}
}

// running lists their processes.
func (hs *helpers) running() []int {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	var out []int
	for pid := range hs.pids {
		out = append(out, pid)
	}
	return out
}

// tail keeps the end of what a program says of its trouble.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-500):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(t.b), "?")), " ")
}
