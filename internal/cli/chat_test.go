package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/engine"
	"assay/internal/engine/sample"
	"assay/internal/gguf"
	"assay/models/seedling"
)

// signals is an Env's Context that a test interrupts: like a real signal, one
// ends every context that is open then.
type signals struct {
	mu   sync.Mutex
	open map[int]context.CancelFunc
	next int
}

func (s *signals) context() (context.Context, context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	id := s.next
	s.next++
	s.open[id] = cancel
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, id)
		cancel()
	}
}

func (s *signals) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cancel := range s.open {
		cancel()
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// interactive is a chat at a terminal: what is typed, what is shown.
type interactive struct {
	*conversation
	signals   *signals
	typed     *io.PipeWriter
	out, errs *lockedBuffer
	ended     chan error
}

func startChat(t *testing.T, o chatOptions) *interactive {
	t.Helper()
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Load(context.Background(), f, engine.Options{Threads: 1, Context: 4096}, func(done, total int64) {})
	if err != nil {
		t.Fatal(err)
	}
	template, err := e.Template()
	if err != nil {
		t.Fatal(err)
	}
	stdin, typed := io.Pipe()
	i := &interactive{
		signals: &signals{open: map[int]context.CancelFunc{}}, typed: typed,
		out: &lockedBuffer{}, errs: &lockedBuffer{}, ended: make(chan error, 1),
	}
	env := &Env{Stdin: stdin, Stdout: i.out, Stderr: i.errs, Context: i.signals.context}
	i.conversation = &conversation{env: env, options: o, engine: e, template: template, interactive: true}
	i.reset()
	go func() { i.ended <- i.run(context.Background()) }()
	t.Cleanup(func() {
		typed.Close()
		i.signals.interrupt()
		i.signals.interrupt()
		_ = e.Close()
	})
	return i
}

func (i *interactive) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 6000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("not within 30 s: %s; shown:\n%s\n%s", what, i.out, i.errs)
}

func (i *interactive) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-i.ended:
		return err
	case <-time.After(time.Minute):
		t.Fatalf("still running; shown:\n%s\n%s", i.out, i.errs)
		return nil
	}
}

// answering is a chat whose answers only end when they are stopped.
func answering(t *testing.T) *interactive {
	t.Helper()
	return startChat(t, chatOptions{
		system:        "Be brief.",
		samplingFlags: samplingFlags{params: sample.Defaults(), maxTokens: -1, ignoreEOS: true, seed: 1},
	})
}

func TestCtrlCStopsTheAnswerAndTwiceEnds(t *testing.T) {
	i := answering(t)
	io.WriteString(i.typed, "Hello.\n")
	i.await(t, "some of an answer", func() bool { return len(i.out.String()) > 40 })
	i.signals.interrupt()
	i.await(t, "the next line's mark", func() bool { return strings.HasSuffix(i.out.String(), "\n> ") })
	i.signals.interrupt()
	err := i.wait(t)
	if exitCode(err) != ExitInterrupted {
		t.Errorf("ended with %v", err)
	}
	if n := len(i.messages); n != 3 || i.messages[2].Role != "assistant" || !strings.Contains(i.out.String(), i.messages[2].Content) {
		t.Errorf("the conversation is %v", i.messages)
	}
}

func TestCtrlCAtTheMarkWarnsFirst(t *testing.T) {
	i := answering(t)
	i.await(t, "the mark", func() bool { return strings.HasSuffix(i.out.String(), "> ") })
	i.signals.interrupt()
	i.await(t, "a warning", func() bool { return strings.Contains(i.errs.String(), "Ctrl-C again or /exit to end") })
	io.WriteString(i.typed, "/help\n") // and all is well again
	i.await(t, "help", func() bool { return strings.Contains(i.out.String(), chatHelp) })
	i.await(t, "the mark", func() bool { return strings.HasSuffix(i.out.String(), "> ") })
	i.signals.interrupt()
	i.await(t, "a second warning", func() bool { return strings.Count(i.errs.String(), "Ctrl-C again") == 2 })
	i.typed.Close() // Ctrl-D
	if err := i.wait(t); err != nil {
		t.Errorf("ended with %v", err)
	}
}
