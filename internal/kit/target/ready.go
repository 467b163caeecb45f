package target

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// Readiness is how an engine tells that it can be asked. While its model loads,
// engines refuse connections, answer with an error, or accept and say nothing:
// all of that is loading. Only the end of the process is death.
type Readiness struct {
	// Address finds the server's URL in its log, as group 1, where http:// may be left
	// out; nil: only the one
	// that it was started with is tried, if there is one.
	Address *regexp.Regexp
	// Path is asked for until Ready says so.
	Path string
	// Method and Body of that question; empty: GET without a body.
	Method string
	Body   string
	// Ready judges the answer; nil: status 200 is ready. The text says what is
	// missing.
	Ready func(Answer) (bool, string)
	// Limit is how long one such question may take; 0: 10 s. An engine that
	// accepts and hangs while it loads needs a short one.
	Limit time.Duration
	// Refused finds in the log of an engine that ended a flag of its command line that
	// it does not take, as group 1; nil: that is not known.
	Refused *regexp.Regexp
}

// ListeningOn is how our server and llama-server name their address.
// It may stand in a line of JSON.
var ListeningOn = regexp.MustCompile(`listening on (https?://[^\s"\\]+)`)

// lastWords are the end of a log for an error message.
func lastWords(log []byte) string {
	if s := tail(log); s != "" {
		return "its last words:\n" + s
	}
	return "its log is empty"
}

// ready waits until the server says that it is, or has ended, or l.Wait is over.
func (t *Target) ready(ctx context.Context, l Launch, offset int64, how Readiness) error {
	ctx, cancel := context.WithTimeout(ctx, l.Wait)
	defer cancel()
	lastErr := errNoAnswer
	if l.URL != "" {
		t.setURL(l.URL)
	} else if how.Address == nil {
		how.Address = ListeningOn
	}
	for pause := 5 * time.Millisecond; ; pause = min(pause*2, 100*time.Millisecond) {
		log, err := readFrom(l.Log, offset)
		if err != nil {
			return err
		}
		if how.Address != nil {
			if m := how.Address.FindSubmatch(log); m != nil && (t.URL == "" || l.URL != "") {
				address := string(m[1])
				if !strings.Contains(address, "://") {
					address = "http://" + address
				}
				named, err := ParseURL(anyAddress.Replace(address))
				if err != nil {
					return fmt.Errorf("the target's log: %w", err)
				}
				if t.URL != named {
					t.setURL(named)
				}
			}
		}
		if t.URL != "" {
			err := t.health(ctx, how)
			if err == nil {
				return nil
			}
			if ctx.Err() == nil { // else the question was cut short, and tells nothing
				lastErr = err
			}
		}
		select {
		case <-t.Process.done:
			log, err := readFrom(l.Log, offset)
			return errors.Join(fmt.Errorf("the target ended before it was ready: %s%s; %s", t.Process.ending(), how.refused(log), lastWords(log)), err)
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return fmt.Errorf("the target was not ready within %v; the last look at it: %w; %s", l.Wait, lastErr, lastWords(log))
		case <-time.After(pause):
		}
	}
}

// refused names the flag that an engine did not take; empty: it was not that.
func (r *Readiness) refused(log []byte) string {
	if r.Refused == nil {
		return ""
	}
	m := r.Refused.FindSubmatch(log)
	if m == nil {
		return ""
	}
	return fmt.Sprintf(": this version of it does not take %s (leave it out, or see its --help for what there is instead)", m[1])
}

// anyAddress turns an address to listen on into one that can be asked.
var anyAddress = strings.NewReplacer("://0.0.0.0:", "://127.0.0.1:", "://[::]:", "://[::1]:")

func (t *Target) setURL(url string) {
	t.URL, t.client = url, newClient(url)
}

// health asks once whether the server is ready.
func (t *Target) health(ctx context.Context, how Readiness) error {
	method, limit := how.Method, how.Limit
	if method == "" {
		method = http.MethodGet
	}
	if limit == 0 {
		limit = quick
	}
	var body []byte
	if how.Body != "" {
		body = []byte(how.Body)
	}
	a, err := t.ask(ctx, method, how.Path, body, limit)
	if err != nil {
		return err
	}
	ready, missing := a.Status == http.StatusOK, ""
	if how.Ready != nil {
		ready, missing = how.Ready(a)
	}
	switch {
	case ready:
		return nil
	case missing != "":
		return fmt.Errorf("%s %s: %s", method, how.Path, missing)
	}
	return fmt.Errorf("%s %s: status %d: %s", method, how.Path, a.Status, inWords(a.Body))
}

// errNoAnswer is what a probe says that was never sent.
var errNoAnswer = errors.New("it has not yet named an address")

// readiness is how the named adapter's engine tells; where the adapter is to be
// found out, the way that most have.
func (o *Options) readiness() Readiness {
	if !o.auto() {
		if a, err := ByName(o.Adapters, o.Adapter); err == nil {
			return a.Readiness()
		}
	}
	return Readiness{Address: ListeningOn, Path: "/health"}
}
