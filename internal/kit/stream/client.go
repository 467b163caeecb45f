package stream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Phase is how far a request had come when it failed.
type Phase string

// The phases, in order. Everything before PhaseBody failed before the stream.
const (
	PhaseDial   Phase = "dial"
	PhaseTLS    Phase = "tls"
	PhaseSend   Phase = "send"
	PhaseHeader Phase = "header" // no usable HTTP response
	PhaseStatus Phase = "status" // the response says that it is an error
	PhaseBody   Phase = "body"   // the response broke off, or was stopped
)

// Error is a request that failed.
type Error struct {
	Phase  Phase
	Status int // HTTP status, 0 when none came
	Err    error
}

func (e *Error) Error() string { return string(e.Phase) + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Request is what to send.
type Request struct {
	Method string // POST when empty
	URL    string
	Header http.Header
	Body   []byte
}

// Options are how to send it. The zero value is right for most.
type Options struct {
	TLS         *tls.Config   // nil: the system's roots
	DialTimeout time.Duration // for dialling and TLS together; 0: 10 s
	MaxBytes    int64         // most that a body may hold; 0: 64 MiB
	Reads       *atomic.Int64 // counts the reads of the body, for who looks on meanwhile; nil: nobody does
}

// readSize is the size of the buffer that a read of the socket fills: more than
// a server writes at once, so that a read ends where the arrived bytes do.
const readSize = 64 << 10

// readCost is charged against MaxBytes for each read beside its bytes, so that
// a server that sends single bytes can't grow a recording without bound.
const readCost = 64

// Do sends one request over a connection of its own; see Conn.Do.
func Do(ctx context.Context, o Options, req Request) (*Recording, error) {
	c, err := Dial(ctx, o, req.URL)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(ctx, req)
}

// Conn is one HTTP/1.1 connection.
//
// It is not net/http's client. That one reads the socket in a goroutine of its
// own and may fill one body read from several socket reads, so a stamp taken
// when the body read returns can be late. Here each stamp is taken when a read
// of the socket (under TLS: of the decrypted stream) returns, in the goroutine
// that then stores the bytes; HTTP's framing is taken off those bytes
// afterwards and a stamp never moves.
type Conn struct {
	o        Options
	conn     net.Conn
	scheme   string
	host     string
	proxy    *url.URL
	tunnel   bool // a proxy passes bytes through (CONNECT)
	dialNS   int64
	used     bool
	closed   bool
	received func() int64 // wall clock at which the kernel had the last read's bytes, ns; -1: not known
	buf      []byte
}

// Dial connects to the server of rawURL, through the environment's proxy unless
// the server is on this machine.
func Dial(ctx context.Context, o Options, rawURL string) (*Conn, error) {
	fail := func(p Phase, err error) (*Conn, error) { return nil, &Error{Phase: p, Err: err} }
	u, err := url.Parse(rawURL)
	if err != nil {
		return fail(PhaseDial, err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return fail(PhaseDial, fmt.Errorf("%q is not an http or https URL", u.Redacted()))
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = 10 * time.Second
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 20
	}
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	c := &Conn{o: o, scheme: u.Scheme, host: u.Host, buf: make([]byte, readSize)}
	if c.proxy, err = proxyFor(ctx, u); err != nil {
		return fail(PhaseDial, err)
	}
	begin := time.Now()
	peer := u
	if c.proxy != nil {
		peer = c.proxy
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address(peer))
	if err != nil {
		return fail(PhaseDial, err)
	}
	c.conn = raw
	if c.proxy != nil && u.Scheme == "https" {
		c.tunnel = true
		if err := connect(ctx, raw, c.proxy, address(u)); err != nil {
			raw.Close()
			return fail(PhaseDial, err)
		}
	}
	if u.Scheme == "https" {
		cfg := &tls.Config{}
		if o.TLS != nil {
			cfg = o.TLS.Clone()
		}
		if cfg.ServerName == "" {
			cfg.ServerName = u.Hostname()
		}
		cfg.NextProtos = []string{"http/1.1"}
		t := tls.Client(raw, cfg)
		if err := t.HandshakeContext(ctx); err != nil {
			raw.Close()
			return fail(PhaseTLS, err)
		}
		c.conn = t
	} else {
		c.conn, c.received = stampReceive(raw)
	}
	c.dialNS = time.Since(begin).Nanoseconds()
	return c, nil
}

// Close closes the connection.
func (c *Conn) Close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	return c.conn.Close()
}

// Reusable says whether the last response left the connection fit for another.
func (c *Conn) Reusable() bool { return !c.closed }

// Do sends req and reads the response to its end. Nothing is ever sent twice.
//
// The recording holds what was received even when the request fails; an error
// is an *Error and repeats what the recording's Phase and Err say. A status of
// 400 and above is an error of PhaseStatus, with its body in the recording.
// Cancelling ctx ends the request.
func (c *Conn) Do(ctx context.Context, req Request) (*Recording, error) {
	if c.closed {
		return nil, &Error{Phase: PhaseSend, Err: errors.New("the connection is closed")}
	}
	wire, err := c.serialise(req)
	if err != nil {
		return nil, &Error{Phase: PhaseSend, Err: err}
	}
	rec := &Recording{
		DialNS: c.dialNS, Reused: c.used, Remote: c.conn.RemoteAddr().String(),
		SentAt: -1, HeadersAt: -1, Reads: make([]Read, 0, 1024),
	}
	if c.proxy != nil {
		rec.Proxy = c.proxy.Host
	}
	if c.used {
		rec.DialNS = 0
	}
	c.used = true
	stop := context.AfterFunc(ctx, func() { c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	defer calmly()()
	if c.received != nil { // others wait in Go's poller, on no thread of their own
		defer promptly()()
	}

	x := &exchange{c: c, rec: rec, t0: time.Now()}
	rec.T0 = x.t0.UnixNano()
	_, sendErr := c.conn.Write(wire)
	rec.SentAt = x.now()
	// A server may refuse a request before it has read all of it, and its answer
	// says more than the broken pipe does.
	fail := x.read(req)
	if fail != nil && fail.Phase == PhaseHeader && sendErr != nil {
		fail = &Error{Phase: PhaseSend, Err: sendErr}
	}
	rec.EndAt = x.now()
	if fail == nil {
		rec.Clean = true
		if !x.keepAlive {
			c.Close()
		}
		return rec, nil
	}
	c.Close()
	if ctx.Err() != nil {
		fail.Err = fmt.Errorf("stopped: %w", context.Cause(ctx))
	}
	rec.Clean = fail.Phase == PhaseStatus && x.ended
	rec.Phase, rec.Err = fail.Phase, fail.Err.Error()
	return rec, fail
}

// serialise builds the whole request before t0.
func (c *Conn) serialise(req Request) ([]byte, error) {
	method := req.Method
	if method == "" {
		method = http.MethodPost
	}
	r, err := http.NewRequest(method, req.URL, bytes.NewReader(req.Body))
	if err != nil {
		return nil, err
	}
	if r.URL.Scheme != c.scheme || r.URL.Host != c.host {
		return nil, fmt.Errorf("the connection is to %s://%s, the request to %s://%s", c.scheme, c.host, r.URL.Scheme, r.URL.Host)
	}
	for k, v := range req.Header {
		r.Header[http.CanonicalHeaderKey(k)] = v
	}
	// A compressing proxy would clump the stream.
	r.Header.Set("Accept-Encoding", "identity")
	var wire bytes.Buffer
	if c.proxy != nil && !c.tunnel {
		if a := proxyAuthorization(c.proxy); a != "" {
			r.Header.Set("Proxy-Authorization", a)
		}
		err = r.WriteProxy(&wire)
	} else {
		err = r.Write(&wire)
	}
	return wire.Bytes(), err
}

// exchange reads one response.
type exchange struct {
	c         *Conn
	rec       *Recording
	t0        time.Time
	held      int64 // bytes counted against MaxBytes
	keepAlive bool
	ended     bool // the body came to its proper end
}

func (x *exchange) now() int64 { return time.Since(x.t0).Nanoseconds() }

// receive reads the socket once and stamps what came.
func (x *exchange) receive() (p []byte, at, kernel int64, err error) {
	n, err := x.c.conn.Read(x.c.buf)
	now := time.Now()
	at, kernel = now.Sub(x.t0).Nanoseconds(), -1
	if x.c.received != nil {
		if wall := x.c.received(); wall >= 0 {
			// The kernel stamps by the wall clock. The lag between its stamp and the
			// wall clock now is carried over, so a clock step before or after this
			// read does no harm.
			if lag := now.UnixNano() - wall; lag >= 0 && lag <= at {
				kernel = at - lag
			}
		}
	}
	return x.c.buf[:n], at, kernel, err
}

func (x *exchange) read(req Request) *Error {
	var head []byte
	for {
		p, at, kernel, err := x.receive()
		head = append(head, p...)
		resp, rest, perr := parseHead(head, req.Method)
		if perr != nil {
			return &Error{Phase: PhaseHeader, Err: perr}
		}
		if resp == nil {
			if err != nil {
				return &Error{Phase: PhaseHeader, Err: noResponse(head, err)}
			}
			continue
		}
		x.rec.HeadersAt = at
		x.rec.Proto, x.rec.Status, x.rec.Header = resp.proto, resp.status, resp.header
		x.keepAlive = resp.keepAlive
		fail := x.body(&resp.body, rest, at, kernel, err)
		if fail == nil {
			x.ended = true
		}
		return x.judge(fail)
	}
}

// judge puts what the status and header say before what became of the body.
func (x *exchange) judge(fail *Error) *Error {
	if x.rec.Status < 200 || x.rec.Status > 299 {
		err := fmt.Errorf("HTTP %d %s: %s", x.rec.Status, http.StatusText(x.rec.Status), excerpt(x.rec.Body()))
		return &Error{Phase: PhaseStatus, Status: x.rec.Status, Err: err}
	}
	if e := x.rec.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return &Error{Phase: PhaseStatus, Status: x.rec.Status, Err: fmt.Errorf("the body is compressed (Content-Encoding %q) although identity was asked for: a proxy in between?", e)}
	}
	if fail != nil {
		fail.Status = x.rec.Status
	}
	return fail
}

// body keeps p, the part of the body that came with the header, and then reads
// to the end.
func (x *exchange) body(b *body, p []byte, at, kernel int64, err error) *Error {
	for {
		out, done, berr := b.feed(p)
		if len(out) > 0 {
			if x.held += int64(len(out)) + readCost; x.held > x.c.o.MaxBytes {
				return &Error{Phase: PhaseBody, Err: fmt.Errorf("the response is larger than %d bytes: stopped reading", x.c.o.MaxBytes)}
			}
			x.rec.Reads = append(x.rec.Reads, Read{At: at, Kernel: kernel, Bytes: bytes.Clone(out)})
			if x.c.o.Reads != nil {
				x.c.o.Reads.Add(1)
			}
		}
		switch {
		case berr != nil:
			return &Error{Phase: PhaseBody, Err: berr}
		case done:
			// Bytes after the end belong to no request: the connection is not reused.
			x.keepAlive = x.keepAlive && !b.excess && err == nil
			return nil
		case err != nil:
			x.keepAlive = false
			if eerr := b.end(err); eerr != nil {
				return &Error{Phase: PhaseBody, Err: eerr}
			}
			return nil
		}
		p, at, kernel, err = x.receive()
	}
}

// excerpt is the beginning of a body, for an error's text.
func excerpt(body []byte) string {
	const most = 500
	s := strings.ToValidUTF8(string(body[:min(len(body), most)]), "")
	s = strings.TrimSpace(s)
	switch {
	case s == "":
		return "(empty body)"
	case len(body) > most:
		return s + "..."
	}
	return s
}
