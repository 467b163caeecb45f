package serve

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"assay/models/seedling"
)

// While nothing happens, comments keep the connection alive, the headers before
// them; frames and errors still come behind them.
func TestSilenceIsFilledWithComments(t *testing.T) {
	goOn := make(chan bool)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ev := newEvents(w, time.Minute)
		defer ev.keepAlive(time.Millisecond)()
		<-goOn
		if r.URL.Path == "/fails" {
			ev.fail(errLoading)
			return
		}
		_ = ev.add(map[string]int{"a": 1})
		_ = ev.send()
		ev.finish()
	}))
	defer h.Close()
	for path, want := range map[string]string{
		"/":      "data: {\"a\":1}\ndata: [DONE]\n",
		"/fails": "data: {\"error\":{\"message\":\"Loading model\",\"type\":\"unavailable_error\",\"param\":null,\"code\":503}}\n",
	} {
		resp, err := http.Get(h.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(resp.Body)
		comments, rest := 0, ""
		for lines.Scan() {
			switch line := lines.Text(); {
			case strings.HasPrefix(line, ":"):
				if comments++; comments == 2 {
					goOn <- true
				}
			case line != "":
				rest += line + "\n"
			}
		}
		resp.Body.Close()
		if comments < 2 || rest != want || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s: %d comments, then %q, want %q", path, comments, rest, want)
		}
	}
}

// pipes is a listener of connections without any buffer.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.done)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// A client that stops reading is given up: its slot is free again.
func TestAStalledClientFreesItsSlot(t *testing.T) {
	log := &lockedBuffer{}
	s := New(Config{ModelPath: seedling.Name, Log: log, Stall: 50 * time.Millisecond})
	s.SetEngine(sharedEngine(t))
	l := &pipes{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: s}
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	client, conn := net.Pipe()
	l.conns <- conn
	body := `{"prompt":"Once","max_tokens":1000,"ignore_eos":true,"stream":true}`
	r, err := http.NewRequest(http.MethodPost, "http://x/v1/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Write(client); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the request ends", func() bool { return strings.Contains(log.String(), "(cancelled)") })
	if n := s.metrics.inFlight(); n != 0 {
		t.Errorf("%d requests are in work", n)
	}
	client.Close()
	server.Close()
	<-done
}
