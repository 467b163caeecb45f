package selftest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// serveHere runs a server in this process until the test ends.
func serveHere(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c.(*net.TCPConn)
}

func ask(t *testing.T, c net.Conn, br *bufio.Reader, method, path, body string) (*http.Response, string) {
	t.Helper()
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(data)
}

func streamsOf(t *testing.T, c net.Conn, br *bufio.Reader, query string) []Truth {
	t.Helper()
	_, body := ask(t, c, br, "GET", "/streams"+query, "")
	var v struct{ Streams []Truth }
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return v.Streams
}

// One connection serves one request after the other: errors, whole replies and
// streams.
func TestServerAnswers(t *testing.T) {
	c := dial(t, serveHere(t))
	br := bufio.NewReader(c)
	for _, tc := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/health", "", 200, `"ok"`},
		{"GET", "/v1/models", "", 200, `"id":"selftest"`},
		{"GET", "/nowhere", "", 404, `there is no GET /nowhere`},
		{"GET", "/streams?after=x", "", 400, `is not a number`},
		{"POST", "/v1/chat/completions", "{", 400, `is not JSON`},
		{"POST", "/v1/chat/completions", `{"model":"gpt"}`, 400, `is not here`},
		{"POST", "/v1/chat/completions", `{"model":"selftest","max_tokens":3}`, 200, `"content":" all that we"`},
		{"POST", "/v1/chat/completions", `{"model":"selftest?ttft=1ms&gap=1ms","stream":true,"max_completion_tokens":2}`, 200, `"content":" that"}`},
	} {
		resp, body := ask(t, c, br, tc.method, tc.path, tc.body)
		if resp.StatusCode != tc.status || !strings.Contains(body, tc.want) {
			t.Errorf("%s %s %s: status %d, %s", tc.method, tc.path, tc.body, resp.StatusCode, body)
		}
	}
	got := streamsOf(t, c, br, "")
	if len(got) != 1 || got[0].Tokens != 2 || got[0].LastNS-got[0].FirstNS < 0 || got[0].FirstNS-got[0].ArrivedNS < 1e6 {
		t.Errorf("%+v", got)
	}
	if got := streamsOf(t, c, br, "?after=1"); len(got) != 0 {
		t.Errorf("after the first: %+v", got)
	}
}

// A stream that is asked for in full is sent in full to a client that does not
// read for a while: the socket fills up, and the server goes on later.
func TestServerWaitsForASlowClient(t *testing.T) {
	addr := serveHere(t)
	c := dial(t, addr)
	c.SetReadBuffer(4096)
	const tokens = 30_000 // some 8 MB, more than the kernel holds for one socket
	body := fmt.Sprintf(`{"model":"selftest?ttft=0s&gap=10us","stream":true,"max_tokens":%d}`, tokens)
	fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	time.Sleep(500 * time.Millisecond)
	c.SetReadBuffer(4 << 20)
	br := bufio.NewReaderSize(c, 1<<20)
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), `"finish_reason":null`); n != tokens+1 || !strings.HasSuffix(string(data), "data: [DONE]\n\n") {
		t.Errorf("%d frames with text or role, want %d; the end is %q", n, tokens+1, data[len(data)-50:])
	}
	got := streamsOf(t, c, br, "")
	if len(got) != 1 || got[0].Tokens != tokens || got[0].Stalls == 0 {
		t.Errorf("%+v: want %d tokens and a stall", got, tokens)
	}
}

// A client that goes away ends its stream, and no other.
func TestServerOutlivesAClient(t *testing.T) {
	addr := serveHere(t)
	gone := dial(t, addr)
	body := `{"model":"selftest?ttft=1ms&gap=1ms","stream":true,"max_tokens":10000}`
	fmt.Fprintf(gone, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	io.ReadFull(gone, make([]byte, 1000))
	gone.SetLinger(0)
	gone.Close()
	c := dial(t, addr)
	br := bufio.NewReader(c)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if got := streamsOf(t, c, br, ""); len(got) == 1 {
			if got[0].Err == "" || got[0].Tokens >= 10000 {
				t.Errorf("%+v: want an error", got)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the stream of a client that is gone goes on")
		}
	}
}

// A server that is stopped leaves no stream behind.
func TestServerStopsWithinAStream(t *testing.T) {
	c := dial(t, serveHere(t))
	body := `{"model":"selftest?ttft=1ms&gap=1ms","stream":true,"max_tokens":100000}`
	fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	io.ReadFull(c, make([]byte, 1000))
}
