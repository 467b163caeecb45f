// Package target knows the server that is measured: how to start it or attach
// to it, when it is ready, what it is, what it wants in a request, and where it
// counts tokens besides the stream: its log and its metrics.
//
// Two things differ between engines, and each has one home. An Adapter is what
// is known of one kind of engine: names, fields, formats, nothing that runs; each
// is a package below this one. A Target is one server, started or attached to,
// with the adapter that fits it.
//
// A started server runs in a process group of its own and dies with the kit,
// however the kit dies. A server that was only attached to is never stopped.
// The API key comes from the caller, goes into the Authorization header, and
// nowhere else.
package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"
)

// KeyVariable is the environment variable that holds a target's API key.
const KeyVariable = "ASSAY_TARGET_API_KEY"

// Target is a server that answers.
type Target struct {
	Adapter  Adapter
	URL      string   // of its root: without /v1, without a slash at the end
	Identity Identity // what it says of itself
	Process  *Process // nil when attached

	key      string
	log      string // path of its log; empty: none
	logStart int64  // where in it this start begins
	client   *http.Client

	// What was learnt of a server that little is known of: the fields that requests go
	// without, with the reason, and its own name for max_tokens.
	left      map[string]string
	limitName string
	settings  Settings
}

// Options are common to starting and attaching.
type Options struct {
	Adapters []Adapter // those that are known, the closest first (adapters.All)
	Adapter  string    // name of the adapter; "" or "auto": found by asking the server
	Key      string    // API key; empty: none
	Model    string    // name to ask for in requests; empty: the first that the server lists
	Log      string    // file that the server logs to; empty: its output, where it was started
	Version  string    // what the program that was started says to --version; empty: it was not asked
	Settings Settings  // for engines that are told with each request: context, threads, GPU layers
}

func (o *Options) auto() bool { return o.Adapter == "" || o.Adapter == "auto" }

// Attach finds out what answers at rawURL. It fails when nothing does.
func Attach(ctx context.Context, rawURL string, o Options) (*Target, error) {
	base, err := ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	t := &Target{URL: base, key: o.Key, log: o.Log, client: newClient(base)}
	if o.Log != "" {
		if _, err := os.Stat(o.Log); err != nil {
			return nil, fmt.Errorf("the target's log: %w", err)
		}
	}
	if err := t.meet(ctx, o); err != nil {
		return nil, err
	}
	return t, nil
}

// meet probes a server that is there and settles on an adapter.
func (t *Target) meet(ctx context.Context, o Options) error {
	p, err := t.probe(ctx)
	if err != nil {
		return err
	}
	if p.Version = o.Version; t.Process != nil {
		if p.Log, err = t.LogSince(t.logStart); err != nil {
			return err
		}
	}
	a, err := choose(o, p)
	if err != nil {
		return fmt.Errorf("%s: %w", t.URL, err)
	}
	if err := a.Objection(p, o.Model); err != nil {
		return fmt.Errorf("%s: %w", t.URL, err)
	}
	t.Adapter, t.settings = a, o.Settings
	model := cmp.Or(o.Model, p.FirstModel())
	if err := t.prepare(ctx, a, model); err != nil {
		return fmt.Errorf("%s: %w", t.URL, err)
	}
	if err := t.further(ctx, p, a.Further(model)); err != nil {
		return err
	}
	t.Identity = a.Identify(p)
	if o.Model != "" {
		t.Identity.Model = o.Model
	}
	if t.Identity.Model == "" {
		t.Identity.Model = "default"
	}
	if a.Facts().MayRefuse {
		return t.learn(ctx)
	}
	return nil
}

// ParseURL gives the root of a server from what a user may type: with or
// without /v1, with or without a slash at the end.
func ParseURL(raw string) (string, error) {
	const want = "(want http://127.0.0.1:8080)"
	u, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil:
		// The error of url.Parse repeats the whole URL, which may hold a password.
		return "", fmt.Errorf("the URL does not parse %s", want)
	case u.User != nil:
		return "", fmt.Errorf("the URL holds a user or password, which would reach the rows: put a key into %s %s", KeyVariable, want)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "", fmt.Errorf("%q is not the URL of a server %s", raw, want)
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("%q has a query or a fragment %s", raw, want)
	}
	path := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1")
	return u.Scheme + "://" + u.Host + strings.TrimRight(path, "/"), nil
}

// Loopback says whether a URL leads to this machine by the loopback device.
func Loopback(rawURL string) bool {
	u, err := url.Parse(rawURL)
	if err != nil {
		return false
	}
	host := u.Hostname()
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// newClient is for questions around the measurement, never for the measured
// request itself. Each question has its own connection, so none fails because
// the server closed an idle one.
func newClient(base string) *http.Client {
	tr := &http.Transport{
		DisableKeepAlives:  true,
		DisableCompression: true,
		DialContext:        (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}
	if !Loopback(base) {
		tr.Proxy = http.ProxyFromEnvironment
	}
	return &http.Client{
		Transport: tr,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // a key must not travel on to another host
		},
	}
}

// Header is what every request to the target carries.
func (t *Target) Header() http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	if t.key != "" {
		h.Set("Authorization", "Bearer "+t.key)
	}
	return h
}

// maxAnswer bounds what is read of an answer. /metrics and token lists are the
// longest: a list of a million tokens is under 8 MB.
const maxAnswer = 64 << 20

// Answer is the reply to one question.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// ask sends one request and reads the whole answer.
func (t *Target) ask(ctx context.Context, method, path string, body []byte, limit time.Duration) (Answer, error) {
	return t.askFor(ctx, method, path, body, limit, "")
}

// askFor is ask with an Accept header, if it is not empty.
func (t *Target) askFor(ctx context.Context, method, path string, body []byte, limit time.Duration, accept string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var rd io.Reader
	if body != nil {
		rd = strings.NewReader(string(body))
	}
	req, err := http.NewRequestWithContext(ctx, method, t.URL+path, rd)
	if err != nil {
		return Answer{}, err
	}
	req.Header = t.Header()
	if body == nil {
		req.Header.Del("Content-Type")
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return Answer{}, plain(method, path, limit, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(data) > maxAnswer {
		err = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	if err != nil {
		return Answer{}, plain(method, path, limit, err)
	}
	return Answer{resp.StatusCode, resp.Header, data}, nil
}

// plain names the question once and drops what net/http wraps around its errors.
func plain(method, path string, limit time.Duration, err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %v", limit)
		} else {
			err = ue.Err
		}
	}
	return fmt.Errorf("%s %s: %w", method, path, err)
}

// quick is how long a question may take that needs no work from the server.
const quick = 10 * time.Second
