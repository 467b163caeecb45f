package stream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server that sends each piece, flushed, after a pause.
func serve(t *testing.T, pause time.Duration, pieces ...string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, p := range pieces {
			io.WriteString(w, p)
			w.(http.Flusher).Flush()
			select {
			case <-time.After(pause):
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// raw starts a server that answers any request with these bytes, in as many
// writes as there are pieces, and then hangs up.
func raw(t *testing.T, pieces ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				io.Copy(io.Discard, r.Body)
				for _, p := range pieces {
					io.WriteString(c, p)
					time.Sleep(2 * time.Millisecond)
				}
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return "http://" + l.Addr().String()
}

func do(t *testing.T, url string) (*Recording, *Error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	rec, err := Do(ctx, Options{}, Request{URL: url, Body: []byte("{}")})
	var e *Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("%v is not an *Error", err)
	}
	return rec, e
}

func TestDoStampsFramesAsTheyArrive(t *testing.T) {
	const pause = 20 * time.Millisecond
	s := serve(t, pause, "data: a\n\n", "data: b\n\n", "data: c\n\n")
	rec, e := do(t, s.URL)
	if e != nil {
		t.Fatal(e)
	}
	if rec.Status != 200 || !rec.Clean || rec.Reused || rec.DialNS <= 0 || rec.Err != "" || rec.Proto != "HTTP/1.1" {
		t.Errorf("recording: %+v", rec)
	}
	if rec.HeadersAt <= 0 || rec.SentAt <= 0 || rec.SentAt > rec.HeadersAt || rec.EndAt < rec.HeadersAt+2*int64(pause) {
		t.Errorf("stamps: sent %d, headers %d, end %d", rec.SentAt, rec.HeadersAt, rec.EndAt)
	}
	if d := time.Since(time.Unix(0, rec.T0)); d < 0 || d > time.Minute {
		t.Errorf("T0 is %v ago", d)
	}
	kind, err := rec.KindOf()
	if err != nil {
		t.Fatal(err)
	}
	frames, err := Frames(rec, kind)
	if err != nil || len(frames) != 3 {
		t.Fatalf("%d frames, %v", len(frames), err)
	}
	for i := 1; i < 3; i++ {
		// The server sleeps at least this long; how much longer is the machine's.
		if gap := time.Duration(frames[i].At - frames[i-1].At); gap < pause-5*time.Millisecond {
			t.Errorf("frame %d came %v after the one before, the server waited %v", i, gap, pause)
		}
	}
	if runtime.GOOS == "linux" {
		// The kernel begins to stamp a moment after it is asked, so the first frame
		// may have no time.
		for i, f := range frames {
			if (f.Kernel < 0 && i > 0) || f.Kernel > f.At || (i > 0 && f.Kernel < frames[i-1].At) {
				t.Errorf("frame %d: the kernel had it at %d, stamped at %d", i, f.Kernel, f.At)
			}
		}
	}
}

func TestDoSendsTheRequestAsGiven(t *testing.T) {
	requests := make(chan *http.Request, 1)
	bodies := make(chan []byte, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		requests <- r.Clone(context.Background())
		bodies <- b
	}))
	defer s.Close()
	want := strings.Repeat("x", 3<<20)
	h := http.Header{"Content-Type": {"application/json"}, "authorization": {"Bearer k"}, "Accept-Encoding": {"gzip"}}
	rec, err := Do(context.Background(), Options{}, Request{URL: s.URL + "/v1/x?y=z", Header: h, Body: []byte(want)})
	if err != nil {
		t.Fatal(err)
	}
	got, body := <-requests, <-bodies
	if got.Method != "POST" || got.URL.RequestURI() != "/v1/x?y=z" || string(body) != want || got.ContentLength != int64(len(want)) {
		t.Errorf("%s %s, %d bytes", got.Method, got.URL, len(body))
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Authorization": "Bearer k", "Accept-Encoding": "identity"} {
		if got.Header.Get(k) != v {
			t.Errorf("%s: %q, want %q", k, got.Header.Get(k), v)
		}
	}
	if len(rec.Reads) != 0 || rec.Status != 200 || !rec.Clean {
		t.Errorf("an empty reply: %+v", rec)
	}
}

func TestBodiesInEveryFraming(t *testing.T) {
	const sse = "Content-Type: text/event-stream\r\n"
	for _, tc := range []struct {
		name   string
		pieces []string
		want   string // body
		phase  Phase
		err    string // part of the error; empty: none
	}{
		{"until close, HTTP/1.0", []string{"HTTP/1.0 200 OK\r\n" + sse + "\r\ndata: a\n\n", "data: b\n\n"}, "data: a\n\ndata: b\n\n", "", ""},
		{"counted", []string{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na", "bc"}, "abc", "", ""},
		{"counted, cut short", []string{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"}, "ab", PhaseBody, "3 bytes of the body missing"},
		{"chunks cut anywhere", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chun", "ked\r\n\r", "\n1\r\na\r\n2", "\r\nb", "c\r", "\n0;x=y\r\nTrailer: z\r\n\r", "\n"}, "abc", "", ""},
		{"chunks, no last one", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"}, "a", PhaseBody, "before the last chunk"},
		{"chunks, bad size", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\nzz\r\n"}, "a", PhaseBody, `"zz" is not a chunk size`},
		{"chunks, huge size", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"}, "", PhaseBody, "not a chunk size"},
		{"chunks, no end of chunk", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n"}, "a", PhaseBody, "where a chunk's end belongs"},
		{"interim responses are passed over", []string{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"}, "a", "", ""},
		{"no content", []string{"HTTP/1.1 204 No Content\r\n\r\n"}, "", "", ""},
		{"hangs up at once", nil, "", PhaseHeader, "without an answer"},
		{"hangs up in the header", []string{"HTTP/1.1 200 OK\r\nContent-"}, "", PhaseHeader, "within the response's header"},
		{"not HTTP", []string{"SSH-2.0-OpenSSH\r\n\r\n"}, "", PhaseHeader, "not an HTTP/1 response"},
		{"an endless header", []string{"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHead)}, "", PhaseHeader, "longer than"},
		{"error before the stream", []string{"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 7\r\n\r\nloading"}, "loading", PhaseStatus, "HTTP 503 Service Unavailable: loading"},
		{"a redirect is not followed", []string{"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"}, "", PhaseStatus, "HTTP 302 Found: (empty body)"},
		{"compressed although nobody asked", []string{"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\na"}, "a", PhaseStatus, "a proxy in between?"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec, e := do(t, raw(t, tc.pieces...))
			if rec == nil {
				t.Fatal("no recording")
			}
			if string(rec.Body()) != tc.want {
				t.Errorf("body %q, want %q", rec.Body(), tc.want)
			}
			if tc.err == "" {
				if e != nil || !rec.Clean || rec.Err != "" {
					t.Errorf("error %v, clean %v", e, rec.Clean)
				}
				return
			}
			if e == nil || e.Phase != tc.phase || !strings.Contains(e.Error(), tc.err) {
				t.Fatalf("error %v, want %s: ...%s", e, tc.phase, tc.err)
			}
			if rec.Phase != e.Phase || rec.Err != e.Err.Error() {
				t.Errorf("the recording says %s: %s", rec.Phase, rec.Err)
			}
			if rec.Clean != (e.Phase == PhaseStatus) {
				t.Errorf("clean %v after an error of phase %s", rec.Clean, e.Phase)
			}
		})
	}
}

func TestErrorsInTheStreamAreNotErrorsBeforeIt(t *testing.T) {
	s := serve(t, 0, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", "data: {\"error\":{\"message\":\"out of memory\"}}\n\n", "data: [DONE]\n\n")
	rec, e := do(t, s.URL)
	if e != nil {
		t.Fatalf("HTTP succeeded, but: %v", e)
	}
	frames, err := Frames(rec, SSE)
	if err != nil {
		t.Fatal(err)
	}
	if c := Decode(frames); len(c.Errors) != 1 || c.Errors[0] != "out of memory" || c.Joined != "a" {
		t.Errorf("%+v", c)
	}
}

func TestARefusalBeforeTheRequestIsRead(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
	}))
	defer s.Close()
	rec, err := Do(context.Background(), Options{}, Request{URL: s.URL, Body: make([]byte, 8<<20)})
	var e *Error
	// The kernel may drop the answer when the server closes with unread bytes;
	// then the broken pipe is all there is to tell.
	if !errors.As(err, &e) || (e.Phase != PhaseStatus && e.Phase != PhaseSend && e.Phase != PhaseHeader) || rec == nil {
		t.Fatalf("%v, %v", rec, err)
	}
	if e.Phase == PhaseStatus && e.Status != 413 {
		t.Errorf("status %d", e.Status)
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	_, err := Do(context.Background(), Options{}, Request{URL: s.URL})
	var e *Error
	if !errors.As(err, &e) || e.Phase != PhaseTLS || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown authority: %v", err)
	}
	pool := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	rec, err := Do(context.Background(), Options{TLS: &tls.Config{RootCAs: pool}}, Request{URL: s.URL})
	if err != nil || string(rec.Body()) != "ok" || rec.Reads[0].Kernel != -1 {
		t.Errorf("a known authority: %v, %v", rec, err)
	}
	_, err = Do(context.Background(), Options{}, Request{URL: strings.Replace(serve(t, 0).URL, "http:", "https:", 1)})
	if !errors.As(err, &e) || e.Phase != PhaseTLS {
		t.Errorf("no TLS on the other side: %v", err)
	}
}

func TestDialErrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for _, url := range []string{"http://" + l.Addr().String(), "ftp://127.0.0.1/", "http://", "http://%zz"} {
		rec, err := Do(context.Background(), Options{}, Request{URL: url})
		var e *Error
		if rec != nil || !errors.As(err, &e) || e.Phase != PhaseDial {
			t.Errorf("%s: %v, %v", url, rec, err)
		}
	}
}

func TestCancelEndsTheRequest(t *testing.T) {
	s := serve(t, 10*time.Second, "data: a\n\n")
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	rec, err := Do(ctx, Options{}, Request{URL: s.URL})
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 5*time.Second {
		t.Fatalf("after %v: %v", time.Since(begin), err)
	}
	if string(rec.Body()) != "data: a\n\n" || rec.Phase != PhaseBody || rec.Clean {
		t.Errorf("%+v", rec)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	s := serve(t, 0, strings.Repeat("x", 1<<20))
	rec, err := Do(context.Background(), Options{MaxBytes: 1 << 19}, Request{URL: s.URL})
	var e *Error
	if !errors.As(err, &e) || e.Phase != PhaseBody || !strings.Contains(err.Error(), "larger than 524288 bytes") || len(rec.Body()) > 1<<19 {
		t.Errorf("%d bytes kept, %v", len(rec.Body()), err)
	}
}

// Bytes alone do not bound a recording: each read costs too.
func TestReadsAreBounded(t *testing.T) {
	pieces := []string{"HTTP/1.0 200 OK\r\n\r\n"}
	for range 30 {
		pieces = append(pieces, "x")
	}
	rec, err := Do(context.Background(), Options{MaxBytes: 500}, Request{URL: raw(t, pieces...)})
	if err == nil || !strings.Contains(err.Error(), "larger than 500 bytes") || len(rec.Reads) > 500/readCost {
		t.Errorf("%d reads, %v", len(rec.Reads), err)
	}
}

func TestAConnectionCanBeUsedAgain(t *testing.T) {
	s := serve(t, 0, "data: a\n\n")
	c, err := Dial(context.Background(), Options{}, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 3 {
		rec, err := c.Do(context.Background(), Request{URL: s.URL + "/x"})
		if err != nil || rec.Reused != (i > 0) || (rec.DialNS == 0) != (i > 0) || string(rec.Body()) != "data: a\n\n" {
			t.Fatalf("request %d: %+v, %v", i, rec, err)
		}
	}
	if _, err := c.Do(context.Background(), Request{URL: "http://127.0.0.2/"}); err == nil {
		t.Error("a request to another server was sent here")
	}
	for name, answer := range map[string]string{
		"the server says that it closes": "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.0":                       "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
		"more than Content-Length says":  "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
		"more than the chunks":           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nab",
		"the body ends by closing":       "HTTP/1.1 200 OK\r\n\r\na",
	} {
		url := raw(t, answer)
		c, err := Dial(context.Background(), Options{}, url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Do(context.Background(), Request{URL: url}); err != nil || c.Reusable() {
			t.Errorf("%s: reusable %v, %v", name, c.Reusable(), err)
		}
		if _, err := c.Do(context.Background(), Request{URL: url}); err == nil {
			t.Errorf("%s: a closed connection was used", name)
		}
	}
}

// A request that failed may have reached the engine, so it is never sent again,
// not even on a connection that had gone stale.
func TestNothingIsSentTwice(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var connections, requests atomic.Int32
	done := make(chan struct{})
	go func() { // answers the first request of a connection, hangs up at the second
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			r := bufio.NewReader(c)
			for k := 0; ; k++ {
				req, err := http.ReadRequest(r)
				if err != nil {
					break
				}
				io.Copy(io.Discard, req.Body)
				requests.Add(1)
				if k > 0 {
					break
				}
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
			}
			c.Close()
		}
	}()
	url := "http://" + l.Addr().String()
	c, err := Dial(context.Background(), Options{}, url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Do(context.Background(), Request{URL: url}); err != nil {
		t.Fatal(err)
	}
	rec, err := c.Do(context.Background(), Request{URL: url})
	var e *Error
	if !errors.As(err, &e) || e.Phase != PhaseHeader || !rec.Reused {
		t.Errorf("the second request: %v, reused %v", err, rec.Reused)
	}
	l.Close()
	<-done
	if connections.Load() != 1 || requests.Load() != 2 {
		t.Errorf("%d requests over %d connections, want 2 over 1", requests.Load(), connections.Load())
	}
}

// The environment's proxy is read once a process, so this test runs a process.
func TestNoProxyForLoopback(t *testing.T) {
	const key = "ASSAY_TEST_PROXY_URL"
	if url := os.Getenv(key); url != "" {
		rec, err := Do(context.Background(), Options{}, Request{URL: url})
		if rec != nil {
			fmt.Printf("proxy=%s body=%s\n", rec.Proxy, rec.Body())
		}
		fmt.Printf("err=%v\n", err)
		return
	}
	s := serve(t, 0, "direct")
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodConnect:
			fmt.Fprintf(w, "proxied %s %s", r.Method, r.RequestURI)
		case r.Host == "refused.invalid:443":
			w.WriteHeader(http.StatusForbidden)
		default:
			tunnel(w, secure.Listener.Addr().String())
		}
	}))
	defer proxy.Close()
	for _, tc := range []struct{ name, proxy, url, want string }{
		{"loopback, proxy of garbage", "http://256.0.0.1:1", s.URL, "proxy= body=direct\nerr=<nil>"},
		{"localhost, proxy of garbage", "http://256.0.0.1:1", strings.Replace(s.URL, "127.0.0.1", "localhost", 1), "proxy= body=direct\nerr=<nil>"},
		{"elsewhere, through the proxy", proxy.URL, "http://assay.invalid:81/x", "body=proxied POST http://assay.invalid:81/x\nerr=<nil>"},
		{"elsewhere, TLS through the proxy", proxy.URL, "https://assay.invalid/", "err=tls: tls: failed to verify certificate"},
		{"elsewhere, CONNECT refused", proxy.URL, "https://refused.invalid/", "CONNECT refused.invalid:443: 403 Forbidden"},
		{"an unsupported kind", "socks5://127.0.0.1:1", "http://assay.invalid/", "only http:// proxies are supported"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestNoProxyForLoopback$")
			cmd.Env = append(os.Environ(), key+"="+tc.url, "HTTP_PROXY="+tc.proxy, "HTTPS_PROXY="+tc.proxy, "http_proxy="+tc.proxy, "https_proxy="+tc.proxy, "NO_PROXY=", "no_proxy=")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), tc.want) {
				t.Errorf("%v, %s; want %q", err, out, tc.want)
			}
		})
	}
}

// tunnel passes bytes between the connection behind w and addr.
func tunnel(w http.ResponseWriter, addr string) {
	out, err := net.Dial("tcp", addr)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer out.Close()
	in, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer in.Close()
	io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
	go io.Copy(out, in)
	io.Copy(in, out)
}
