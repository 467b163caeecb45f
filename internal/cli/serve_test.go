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
