package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Probe is what a server answered to the questions by which it is told.
type Probe struct {
	URL     string
	Answers map[string]Answer // by path; a path that gave no answer is absent
	Errs    map[string]error
}

// probePaths are asked in this order. None of them makes a server do work.
var probePaths = []string{"/v1/models", "/props", "/health", "/metrics", "/version", "/openapi.json"}

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

// text is the body of a good answer, or "".
func (p *Probe) text(path string) string {
	a, ok := p.Answers[path]
	if !ok || a.Status != http.StatusOK {
		return ""
	}
	return string(a.Body)
}

// object decodes a good answer into v, leaving it alone when there is none.
func (p *Probe) object(path string, v any) error {
	body := p.text(path)
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

// models is the part of /v1/models that is the same everywhere, and what
// llama-server adds.
type models struct {
	Data []struct {
		ID      string `json:"id"`
		OwnedBy string `json:"owned_by"`
		Meta    *struct {
			Ftype string `json:"ftype"`
			NCtx  int    `json:"n_ctx"`
		} `json:"meta"`
	} `json:"data"`
}

// props is the part of llama-server's /props that is used here. Our own server
// gives the same.
type props struct {
	BuildInfo  string `json:"build_info"`
	ModelPath  string `json:"model_path"`
	ModelAlias string `json:"model_alias"`
	ModelFtype string `json:"model_ftype"`
	TotalSlots int    `json:"total_slots"`
	Defaults   struct {
		NCtx int `json:"n_ctx"`
	} `json:"default_generation_settings"`
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

// health asks once whether the server is ready.
func (t *Target) health(ctx context.Context) error {
	a, err := t.ask(ctx, http.MethodGet, "/health", nil, quick)
	switch {
	case err != nil:
		return err
	case a.Status != http.StatusOK:
		return fmt.Errorf("GET /health: status %d: %s", a.Status, inWords(a.Body))
	}
	return nil
}

// errNoAnswer is what a probe says that was never sent.
var errNoAnswer = errors.New("it has not yet named an address")
