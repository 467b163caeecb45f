// Package serve puts the engine behind HTTP: OpenAI's completion endpoints and
// llama-server's own, in the shapes that llama-server gives them, so that
// clients, and measuring tools, of either work unchanged.
//
// What differs from llama-server, on purpose: sampling settings that the engine
// does not have are refused rather than ignored, requests with an API key keep
// /metrics and /v1/models closed, and there are no CORS headers.
package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"assay/internal/engine"
)

// Config is what a Server is made with.
type Config struct {
	ModelPath string    // as the user named it; the model's id where Alias is empty
	Alias     string    // the model's id
	APIKey    string    // empty: everyone may ask
	Build     string    // of this program, for system_fingerprint and build_info
	Log       io.Writer // gets a line a request

	Ping  time.Duration // a stream in which nothing happens for so long gets a comment; 0 means 15 s
	Stall time.Duration // a client that takes nothing, or sends less than 64 KiB, for so long is given up; 0 means 30 s

	Bodies int64 // bytes of requests that are read and parsed at a time, at most; 0 means 65 MiB
}

// Server answers requests. Until SetEngine it answers 503.
type Server struct {
	config   Config
	mux      *http.ServeMux
	metrics  *metrics
	engine   atomic.Pointer[engine.Engine]
	requests atomic.Int64 // completion requests so far: their number in the log
	logMu    sync.Mutex
	grammars grammars
	bodies   bodies
}

// New returns a Server that has no engine yet.
func New(c Config) *Server {
	if c.Ping <= 0 {
		c.Ping = 15 * time.Second
	}
	if c.Stall <= 0 {
		c.Stall = 30 * time.Second
	}
	if c.Bodies <= 0 {
		c.Bodies = defaultBodies
	}
	s := &Server{config: c, mux: http.NewServeMux(), metrics: newMetrics(), bodies: bodies{limit: c.Bodies}}
	s.metrics.watchBodies(&s.bodies)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, &apiError{Message: "there is no " + r.URL.Path + " here", Type: typeNotFound, Code: http.StatusNotFound})
	})
	for path, h := range map[string]handler{
		"/v1/chat/completions": s.chatCompletions,
		"/chat/completions":    s.chatCompletions,
		"/v1/completions":      s.completions,
		"/completion":          s.native,
		"/completions":         s.native,
		"/tokenize":            s.tokenize,
		"/detokenize":          s.detokenize,
		"/apply-template":      s.applyTemplate,
	} {
		s.mux.HandleFunc(path, only(http.MethodPost, s.guard(s.ready(h))))
	}
	for path, h := range map[string]handler{
		"/v1/models":         s.models,
		"/models":            s.models,
		"/v1/models/{id...}": s.modelByID,
		"/models/{id...}":    s.modelByID,
		"/props":             s.props,
		"/slots":             s.slots,
		"/metrics":           s.serveMetrics,
	} {
		s.mux.HandleFunc(path, only(http.MethodGet, s.guard(s.ready(h))))
	}
	for _, path := range []string{"/health", "/v1/health"} {
		s.mux.HandleFunc(path, only(http.MethodGet, s.ready(s.health)))
	}
	return s
}

// SetEngine makes the server ready. The engine stays the caller's to close,
// after the last request has ended.
func (s *Server) SetEngine(e *engine.Engine) {
	s.metrics.serves(e.Options())
	s.metrics.watch(e)
	s.engine.Store(e)
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "assay")
	s.mux.ServeHTTP(w, r)
}

// handler answers a request once there is an engine.
type handler func(w http.ResponseWriter, r *http.Request, e *engine.Engine)

func (s *Server) ready(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e := s.engine.Load()
		if e == nil {
			writeError(w, errLoading)
			return
		}
		h(w, r, e)
	}
}

// only answers 405 to any other method. HEAD goes with GET.
func only(method string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method && (r.Method != http.MethodHead || method != http.MethodGet) {
			w.Header().Set("Allow", method)
			writeError(w, &apiError{
				Message: fmt.Sprintf("%s takes %s, not %s", r.URL.Path, method, r.Method),
				Type:    typeInvalid, Code: http.StatusMethodNotAllowed,
			})
			return
		}
		h(w, r)
	}
}

// guard lets requests through that carry the API key, as a bearer token or in
// X-Api-Key.
func (s *Server) guard(h http.HandlerFunc) http.HandlerFunc {
	if s.config.APIKey == "" {
		return h
	}
	want := sha256.Sum256([]byte(s.config.APIKey))
	return func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("X-Api-Key")
		if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
			key = token
		}
		// Hashes have one length, so the time tells nothing of the key's.
		got := sha256.Sum256([]byte(key))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeError(w, &apiError{Message: "the API key is missing or wrong", Type: typeAuth, Code: http.StatusUnauthorized})
			return
		}
		h(w, r)
	}
}

// modelID is the name that answers carry, whatever a request asked for.
func (s *Server) modelID() string {
	if s.config.Alias != "" {
		return s.config.Alias
	}
	return s.config.ModelPath
}

func (s *Server) logf(format string, args ...any) {
	s.logMu.Lock()
	defer s.logMu.Unlock()
	fmt.Fprintf(s.config.Log, "assay serve: "+format+"\n", args...)
}
