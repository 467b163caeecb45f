package target

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Probe is what a server answered to the questions by which it is told.
type Probe struct {
	URL     string
	Answers map[string]Answer // by path; a path that gave no answer is absent
	Errs    map[string]error
	Log     []byte // of the start so far; nil: it was only attached to, or has none
	Version string // what its program says to --version; empty: it was not asked
}

// probePaths are asked in this order. None of them makes a server do work.
var probePaths = []string{"/v1/models", "/props", "/health", "/metrics", "/version", "/api/version", "/openapi.json", "/api/extra/version", "/api/extra/true_max_context_length", "/server_info", "/get_server_info", "/v1/model", "/api/v0/models"}

func (t *Target) probe(ctx context.Context) (*Probe, error) {
	p := &Probe{URL: t.URL, Answers: map[string]Answer{}, Errs: map[string]error{}}
	for _, path := range probePaths {
		a, err := t.ask(ctx, http.MethodGet, path, nil, quick)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			p.Errs[path] = err
			if path == probePaths[0] {
				return nil, fmt.Errorf("nothing answers at %s: %w", t.URL, err)
			}
			continue
		}
		p.Answers[path] = a
	}
	a := p.Answers["/v1/models"]
	switch a.Status {
	case http.StatusOK:
		return p, nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("%s asks for an API key (status %d): put it into the environment variable %s", t.URL, a.Status, KeyVariable)
	case http.StatusServiceUnavailable:
		return nil, fmt.Errorf("%s is not ready: %s", t.URL, inWords(a.Body))
	}
	return nil, fmt.Errorf("%s: GET /v1/models: status %d: %s: not an OpenAI server, or the URL has a path too many", t.URL, a.Status, inWords(a.Body))
}

// Text is the body of a good answer, or "".
func (p *Probe) Text(path string) string {
	a, ok := p.Answers[path]
	if !ok || a.Status != http.StatusOK {
		return ""
	}
	return string(a.Body)
}

// Object decodes a good answer into v, leaving it alone when there is none.
func (p *Probe) Object(path string, v any) error {
	body := p.Text(path)
	if body == "" {
		if err := p.Errs[path]; err != nil {
			return err
		}
		return fmt.Errorf("GET %s: status %d", path, p.Answers[path].Status)
	}
	if err := json.Unmarshal([]byte(body), v); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// inWords is an answer's error message where it has OpenAI's or a like form,
// else its beginning.
func inWords(body []byte) string {
	var e struct {
		Error   json.RawMessage `json:"error"`
		Detail  json.RawMessage `json:"detail"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(body, &e) == nil {
		var inner struct {
			Message string `json:"message"`
		}
		var s string
		switch {
		case json.Unmarshal(e.Error, &inner) == nil && inner.Message != "":
			return inner.Message
		case json.Unmarshal(e.Error, &s) == nil && s != "":
			return s
		case e.Message != "":
			return e.Message
		case len(e.Detail) > 0:
			return clip(string(e.Detail))
		}
	}
	if s := strings.TrimSpace(string(body)); s != "" {
		return clip(s)
	}
	return "(empty answer)"
}

func clip(s string) string {
	const limit = 300
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// listed is the part of /v1/models that is the same everywhere.
func (p *Probe) listed() (id, owner string) {
	var m struct {
		Data []struct {
			ID      string `json:"id"`
			OwnedBy string `json:"owned_by"`
		} `json:"data"`
	}
	if p.Object("/v1/models", &m) != nil || len(m.Data) == 0 {
		return "", ""
	}
	return m.Data[0].ID, m.Data[0].OwnedBy
}

// FirstModel is the first model that the server lists, or "".
func (p *Probe) FirstModel() string {
	id, _ := p.listed()
	return id
}

// OwnedBy is whom the server names as the owner of its first model, or "".
func (p *Probe) OwnedBy() string {
	_, owner := p.listed()
	return owner
}

// NonEmpty is nil for what a server leaves empty.
func NonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Positive is nil for a number that a server leaves out, or that can't be.
func Positive(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}
