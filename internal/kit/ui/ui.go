// Package ui shows a report over HTTP while its rows are being written. The page
// is that of package page; a script of a few lines asks for it anew when the
// server says that there are more rows.
//
// It looks at the files of rows once a second and works a page out only when
// somebody asks for one, so that it takes little from what is being measured on
// the same machine. It serves nothing but the page: no file of the folder.
package ui

import (
	"bytes"
	"context"
	"crypto/subtle"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"assay/internal/kit/page"
)

// Config says what is shown, and to whom.
type Config struct {
	Dir     string        // folder of rows, or one that holds such folders; it need not be there yet
	Options page.Options  // Live and Query are set by the server
	Token   string        // what requests must carry as ?token=; empty: nothing
	Every   time.Duration // between looks at the files; 0: a second
}

// Server shows one folder.
type Server struct {
	config Config
	rows   *follower

	mu      sync.Mutex
	version int           // of the rows
	changed chan struct{} // closed when version grows

	pageMu  sync.Mutex // one page at a time is worked out
	made    int        // version of the page
	madeAt  time.Time
	took    time.Duration
	whole   []byte
	content []byte
}

//go:embed live.js
var script []byte

// New makes a server. Run runs it.
func New(c Config) *Server {
	if c.Every <= 0 {
		c.Every = time.Second
	}
	c.Options.Live = true
	if c.Token != "" {
		c.Options.Query = "?token=" + url.QueryEscape(c.Token)
	}
	return &Server{config: c, rows: newFollower(c.Dir, page.NewBuilder(c.Options)), changed: make(chan struct{}), made: -1}
}

// Run serves on l until ctx ends; it returns nil then. It closes l.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	h := &http.Server{
		Handler:           s.handler(isLoopback(l.Addr())),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // ends the streams of events
	}
	done := make(chan error, 1)
	go func() { done <- h.Serve(l) }()
	follow := make(chan struct{})
	go func() {
		defer close(follow)
		s.follow(ctx)
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		// ctx is over, and what is still being answered gets a moment.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if h.Shutdown(last) != nil {
			h.Close()
		}
		<-done
	}
	stop()
	<-follow
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

func isLoopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}

// follow looks for new rows until ctx ends.
func (s *Server) follow(ctx context.Context) {
	tick := time.NewTicker(s.config.Every)
	defer tick.Stop()
	for more := false; ; {
		if more = s.look() || more; more && s.due() {
			more = false
			s.mu.Lock()
			s.version++
			close(s.changed)
			s.changed = make(chan struct{})
			s.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look reads new rows and says whether there are any.
func (s *Server) look() bool {
	s.pageMu.Lock() // the builder is the page's too
	defer s.pageMu.Unlock()
	return s.rows.look()
}

// rest is how many times as long as a page took passes before the next is
// announced: a page of many rows must not keep a processor busy.
const rest = 9

func (s *Server) due() bool {
	s.pageMu.Lock()
	defer s.pageMu.Unlock()
	return time.Since(s.madeAt) >= rest*s.took
}

func (s *Server) now() (int, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, s.changed
}

// page gives the page of the rows so far, whole and its content alone.
func (s *Server) page(ctx context.Context) (whole, content []byte, err error) {
	s.pageMu.Lock()
	defer s.pageMu.Unlock()
	version, _ := s.now()
	if s.made == version {
		return s.whole, s.content, nil
	}
	began := time.Now()
	p, err := s.rows.builder.Page(ctx)
	if err != nil {
		return nil, nil, err
	}
	var w, c bytes.Buffer
	if err := errors.Join(p.WriteHTML(&w), p.WriteBody(&c)); err != nil {
		return nil, nil, err
	}
	s.made, s.whole, s.content = version, w.Bytes(), c.Bytes()
	s.madeAt, s.took = time.Now(), time.Since(began)
	return s.whole, s.content, nil
}

func (s *Server) handler(loopback bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		whole, _, err := s.page(r.Context())
		answer(w, "text/html; charset=utf-8", whole, err)
	})
	mux.HandleFunc("GET /content", func(w http.ResponseWriter, r *http.Request) {
		_, content, err := s.page(r.Context())
		answer(w, "text/html; charset=utf-8", content, err)
	})
	mux.HandleFunc("GET /live.js", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, "text/javascript; charset=utf-8", script, nil)
	})
	mux.HandleFunc("GET /events", s.events)
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	return s.guarded(mux, loopback)
}

func answer(w http.ResponseWriter, kind string, body []byte, err error) {
	if err != nil {
		http.Error(w, "the page could not be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(body) // a browser that went away needs no answer
}

// guarded lets in who may look. A page of another site can make a browser ask
// this server under that site's name (DNS rebinding), so on loopback the name
// must be one of loopback. Elsewhere who asks must know the token.
func (s *Server) guarded(next http.Handler, loopback bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case loopback && !loopbackName(r.Host):
			http.Error(w, fmt.Sprintf("%q is not a name of this machine: ask for localhost or 127.0.0.1", r.Host), http.StatusForbidden)
		case s.config.Token != "" && subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("token")), []byte(s.config.Token)) != 1:
			http.Error(w, "the address needs the token that assay ui printed", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func loopbackName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// events tells of every change, and every quarter of a minute that the server is
// still there.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	beat := time.NewTicker(15 * time.Second)
	defer beat.Stop()
	for {
		version, changed := s.now()
		if _, err := fmt.Fprintf(w, "event: rows\ndata: %d\n\n", version); err != nil || c.Flush() != nil {
			return
		}
		for waiting := true; waiting; {
			select {
			case <-r.Context().Done():
				return
			case <-changed:
				waiting = false
			case <-beat.C:
				if _, err := fmt.Fprint(w, ": here\n\n"); err != nil || c.Flush() != nil {
					return
				}
			}
		}
	}
}
