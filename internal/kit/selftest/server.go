package selftest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

var errStopped = errors.New("the server is stopping")

// maxBody bounds a request's body: a prompt of a peer may be long.
const maxBody = 64 << 20

// keepTruths is how many finished streams the server remembers.
const keepTruths = 20_000

// server plays streams. It speaks HTTP by itself and not through net/http's
// server, whose writes go through buffers and other goroutines: a stamp is to be
// followed by the write and by nothing else.
type server struct {
	clock   clock
	pacer   *pacer
	mu      sync.Mutex
	serial  int
	scripts map[schedule]*script
	truths  []Truth
	conns   map[net.Conn]bool
}

// Serve plays streams on l until ctx ends.
func Serve(ctx context.Context, l net.Listener) error {
	defer l.Close()
	c, err := newClock()
	if err != nil {
		return err
	}
	// The pacer comes back from each sleep to a free processor of the Go runtime,
	// and never waits for one behind a request that is parsed.
	runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0)))
	s := &server{clock: c, pacer: newPacer(c), scripts: map[schedule]*script{}, conns: map[net.Conn]bool{}}
	var running sync.WaitGroup
	running.Go(s.pacer.run)
	unhook := context.AfterFunc(ctx, func() { l.Close() })
	defer unhook()
	for {
		conn, aerr := l.Accept()
		if aerr != nil {
			err = aerr
			break
		}
		s.mu.Lock()
		s.conns[conn] = true
		s.mu.Unlock()
		running.Go(func() {
			defer s.close(conn)
			s.serve(conn)
		})
	}
	close(s.pacer.quit)
	s.closeAll()
	running.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (s *server) close(conn net.Conn) {
	s.mu.Lock()
	delete(s.conns, conn)
	s.mu.Unlock()
	conn.Close()
}

func (s *server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		conn.Close()
	}
}

// serve answers the requests of one connection.
func (s *server) serve(conn net.Conn) {
	br := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
		arrived := s.clock.now()
		if err != nil || len(body) > maxBody {
			return
		}
		if err := s.answer(conn, req, body, arrived); err != nil || req.Close {
			return
		}
	}
}

// answer writes one response. With an error the connection is of no more use.
func (s *server) answer(conn net.Conn, req *http.Request, body []byte, arrived int64) error {
	switch route := req.Method + " " + req.URL.Path; route {
	case "GET /health":
		return reply(conn, http.StatusOK, []byte(`{"status":"ok"}`))
	case "GET /v1/models":
		return replyJSON(conn, map[string]any{"object": "list", "data": []map[string]string{
			{"id": modelName, "object": "model", "owned_by": "assay selftest"},
		}})
	case "GET /streams":
		return s.streams(conn, req)
	case "POST /v1/chat/completions", "POST /v1/completions":
		return s.complete(conn, body, arrived)
	}
	return replyError(conn, http.StatusNotFound, fmt.Errorf("there is no %s %s", req.Method, req.URL.Path))
}

// streams tells what was really sent, for clients that do not keep the stamps:
// of the streams that ended, those after the first ?after=N of them.
func (s *server) streams(conn net.Conn, req *http.Request) error {
	after := 0
	if v := req.URL.Query().Get("after"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			return replyError(conn, http.StatusBadRequest, fmt.Errorf("after: %q is not a number of streams", v))
		}
		after = n
	}
	s.mu.Lock()
	out := append([]Truth{}, s.truths[min(after, len(s.truths)):]...)
	s.mu.Unlock()
	return replyJSON(conn, map[string]any{"streams": out})
}

// complete plays a stream.
func (s *server) complete(conn net.Conn, body []byte, arrived int64) error {
	var ask struct {
		Model         string `json:"model"`
		Stream        bool   `json:"stream"`
		MaxTokens     int    `json:"max_tokens"`
		MaxCompletion int    `json:"max_completion_tokens"`
	}
	if err := json.Unmarshal(body, &ask); err != nil {
		return replyError(conn, http.StatusBadRequest, fmt.Errorf("the body is not JSON that a completion is asked for with: %w", err))
	}
	sch, err := parseSchedule(ask.Model, max(ask.MaxTokens, ask.MaxCompletion))
	if err != nil {
		return replyError(conn, http.StatusBadRequest, err)
	}
	s.mu.Lock()
	s.serial++
	id := fmt.Sprintf("selftest-%d", s.serial)
	s.mu.Unlock()
	if !ask.Stream {
		return replyJSON(conn, whole(id, sch))
	}
	sc := s.script(sch)
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
	if _, err := io.WriteString(conn, head); err != nil {
		return err
	}
	wall := float64(time.Now().UnixNano()-(s.clock.now()-arrived)) / 1e9
	truth, err := s.pacer.play(sc, raw, Truth{ID: id, Model: ask.Model, ArrivedNS: arrived, ArrivedUnix: wall})
	s.mu.Lock()
	if len(s.truths) < keepTruths {
		s.truths = append(s.truths, truth)
	}
	s.mu.Unlock()
	if err == nil && sc.hangUp {
		err = errors.New("hung up, as was asked for")
	}
	return err
}

// keepScripts is how many schedules are kept ready.
const keepScripts = 32

// script finds or writes a schedule's script: all streams of a level share one.
func (s *server) script(sch schedule) *script {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc := s.scripts[sch]
	if sc == nil {
		if len(s.scripts) >= keepScripts {
			clear(s.scripts)
		}
		sc = sch.write()
		s.scripts[sch] = sc
	}
	return sc
}

// whole is a reply that is not streamed.
func whole(id string, s schedule) any {
	const prompt = 8
	return map[string]any{
		"id": id, "object": "chat.completion", "created": 1700000000, "model": modelName,
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": "length",
			"message": map[string]string{"role": "assistant", "content": text(0, s.tokens)},
		}},
		"usage": map[string]int{"prompt_tokens": prompt, "completion_tokens": s.tokens, "total_tokens": prompt + s.tokens},
	}
}

func replyJSON(conn net.Conn, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return reply(conn, http.StatusOK, data)
}

func replyError(conn net.Conn, status int, err error) error {
	data, merr := json.Marshal(map[string]any{"error": map[string]any{"message": err.Error(), "code": status}})
	if merr != nil {
		return merr
	}
	return reply(conn, status, data)
}

func reply(conn net.Conn, status int, body []byte) error {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", status, http.StatusText(status), len(body))
	b.Write(body)
	_, err := io.WriteString(conn, b.String())
	return err
}
