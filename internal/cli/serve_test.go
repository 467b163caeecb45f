package cli

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// server is an `assay serve` process of its own.
type server struct {
	*exec.Cmd
	url    string
	stderr *bufio.Reader
}

func startServer(t *testing.T, args ...string) server {
	t.Helper()
	s := server{Cmd: exec.Command("assay", append([]string{"serve", "--port", "0", "-c", "4096", "-t", "1"}, args...)...)}
	pipe, err := s.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Process.Kill() }) // which fails when it has ended
	s.stderr = bufio.NewReader(pipe)
	for {
		line, err := s.stderr.ReadString('\n')
		if err != nil {
			t.Fatalf("the server ended before it was ready: %v", err)
		}
		if url, ok := strings.CutPrefix(strings.TrimSpace(line), "assay serve: listening on "); ok {
			s.url = url
			return s
		}
	}
}

// stream asks for n tokens and returns once the first is there.
func (s server) stream(t *testing.T, n string) io.Reader {
	t.Helper()
	resp, err := http.Post(s.url+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt":"Once","ignore_eos":true,"stream":true,"max_tokens":`+n+`}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	body := bufio.NewReader(resp.Body)
	if _, err := body.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return body
}

// exit waits for the process and returns its status and the rest of its log.
func (s server) exit(t *testing.T) (int, string) {
	t.Helper()
	kill := time.AfterFunc(time.Minute, func() { _ = s.Process.Kill() })
	defer kill.Stop()
	log, _ := io.ReadAll(s.stderr) // the pipe ends with the process
	err := s.Wait()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		t.Fatal(err)
	}
	return s.ProcessState.ExitCode(), string(log)
}

func TestServeDrainsOnSIGTERM(t *testing.T) {
	s := startServer(t, "--drain", "5m")
	body := s.stream(t, "40")
	_ = s.Process.Signal(syscall.SIGTERM)
	rest, err := io.ReadAll(body)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") || !strings.Contains(string(rest), `"completion_tokens":40`) {
		t.Errorf("the answer ended with %.300q, %v", rest[max(0, len(rest)-300):], err)
	}
	if status, log := s.exit(t); status != ExitOK || !strings.Contains(log, "finish length") {
		t.Errorf("exit status %d, log:\n%s", status, log)
	}
}

func TestServeEndsAtOnceOnASecondSignal(t *testing.T) {
	s := startServer(t, "--drain", "1h")
	s.stream(t, "-1")
	_ = s.Process.Signal(syscall.SIGTERM)
	for line := ""; !strings.Contains(line, "stopping: 1 requests in work"); {
		var err error
		if line, err = s.stderr.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.Process.Signal(syscall.SIGINT)
	if status, log := s.exit(t); status != ExitInterrupted || !strings.Contains(log, "1 requests cut off") {
		t.Errorf("exit status %d, log:\n%s", status, log)
	}
}

// A signal in the middle of windows of drafts, with two requests at once: both get
// their whole text.
func TestServeDrainsWindows(t *testing.T) {
	s := startServer(t, "--drain", "5m", "-np", "2", "--spec", "8")
	var bodies []io.Reader
	for range 2 {
		bodies = append(bodies, s.stream(t, "120"))
	}
	_ = s.Process.Signal(syscall.SIGTERM)
	for _, body := range bodies {
		rest, err := io.ReadAll(body)
		if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") || !strings.Contains(string(rest), `"completion_tokens":120`) {
			t.Errorf("the answer ended with %.300q, %v", rest[max(0, len(rest)-300):], err)
		}
	}
	if status, log := s.exit(t); status != ExitOK || strings.Count(log, "finish length") != 2 {
		t.Errorf("exit status %d, log:\n%s", status, log)
	}
}

// What one run computed of a prompt, the next one finds in --cache-disk.
func TestServeKeepsPromptsFromRunToRun(t *testing.T) {
	dir := t.TempDir()
	ask := func(s server) string {
		resp, err := http.Post(s.url+"/v1/completions", "application/json",
			strings.NewReader(`{"prompt":"`+strings.Repeat("Alice was beginning to get very tired. ", 9)+`","max_tokens":2,"ignore_eos":true}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Process.Signal(syscall.SIGTERM)
		if status, log := s.exit(t); status != ExitOK {
			t.Errorf("exit status %d, log:\n%s", status, log)
		}
		return string(answer)
	}
	if first := ask(startServer(t, "--cache-disk", dir)); !strings.Contains(first, `"cached_tokens":0`) {
		t.Errorf("the first run answered %s", first)
	}
	if second := ask(startServer(t, "--cache-disk", dir)); !strings.Contains(second, `"prompt_n":1,`) || strings.Contains(second, `"cached_tokens":0`) {
		t.Errorf("the second run answered %s", second)
	}
}
