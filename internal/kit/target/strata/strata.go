// Package strata is the adapter for the engine Strata, 0.1.36 to 0.1.41. Its
// server is a Python program before the engine, started from a configuration file:
// HTTP/1.0, one request at a time, and a final frame with usage and timings that
// nobody has to ask for. The engine's own log is a file that the configuration
// names.
package strata

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"assay/internal/kit/target"
)

// Adapter is for Strata's server.
type Adapter struct{ target.Base }

// Name is "strata".
func (Adapter) Name() string { return "strata" }

// Facts: the end token is counted, and so are tokens that the server puts in
// itself. The rate divides all tokens by a time that begins with the first round.
func (Adapter) Facts() target.Facts {
	return target.Facts{
		About:           "Strata, a mixture-of-experts engine with tiers",
		EndTokenCounted: new(true),
		DecodeBasis:     "n",
		Exactly:         "no field is documented that bars the end token; a short row shows where the model ended by itself",
		CacheOff:        "--prompt-cache and the conversation cache are the configuration's; no field of a request is documented, so the nonce at the start keeps prefixes apart, and the reused tokens are read for each run",
		Counts:          []string{"usage", "timings", "log (the file that the configuration names)", "/metrics, the request's own entry"},
		ModelFlags:      []string{"--config"},
	}
}

// health is what the server says of itself in a few words.
type health struct {
	Status     string `json:"status"`
	Service    string `json:"service"`
	Model      string `json:"model"`
	MaxContext int    `json:"max_context"`
	Loaded     *bool  `json:"loaded"`
}

// Recognise reads the name that the server gives its service.
func (Adapter) Recognise(p *target.Probe) bool {
	var h health
	return p.Object("/health", &h) == nil && h.Service == "strata"
}

// Identify reads /health, and the engine's version from /metrics.
func (Adapter) Identify(p *target.Probe) target.Identity {
	id := target.Identity{Engine: "strata", Model: p.FirstModel(), Found: map[string]string{}, Why: map[string]string{
		"commit": "the server names a version and no commit",
		"format": "the server does not say how the weights are stored",
		"slots":  "one request at a time, unless the configuration has \"parallel\", which the server does not say",
	}}
	var h health
	if err := p.Object("/health", &h); err != nil {
		id.Why["context"] = err.Error()
	} else {
		if h.Model != "" {
			id.Model = h.Model
		}
		if id.Context = target.Positive(h.MaxContext); id.Context == nil {
			id.Why["context"] = "/health does not say it"
		}
	}
	var m struct {
		Engine struct {
			Version string `json:"version"`
			Engine  string `json:"engine"`
		} `json:"engine"`
	}
	if err := p.Object("/metrics", &m); err != nil {
		id.Why["version"] = err.Error()
		return id
	}
	id.Version = target.NonEmpty(m.Engine.Version)
	if id.Version == nil {
		id.Version = target.NonEmpty(m.Engine.Engine)
	}
	if id.Version == nil {
		id.Why["version"] = "/metrics does not say it"
	} else {
		id.Found["version"] = *id.Version
	}
	return id
}

// Command starts the server on a configuration file, which is the model of the
// settings. Everything else is in that file: what the settings pin is held against
// it, and never passed over in silence.
func (Adapter) Command(s target.Settings) (target.Command, error) {
	file := s.Model
	if v, ok := s.Value("--config"); ok {
		file = v
	}
	if file == "" {
		return target.Command{}, errors.New("it is started from a configuration file: name that as the model")
	}
	c, err := readConfig(file)
	if err != nil {
		return target.Command{}, err
	}
	if err := c.holds(file, s); err != nil {
		return target.Command{}, err
	}
	program := s.Program
	if len(program) == 0 {
		program = []string{"python3", "serve/server.py"}
	}
	argv := append([]string(nil), program...)
	argv = s.Flag(argv, "strata", "--engine")
	argv = s.Flag(argv, file, "--config")
	argv = s.Flag(argv, strconv.Itoa(s.Port), "--port")
	return target.Command{Argv: append(argv, s.Args...), Log: c.logFile(), Models: c.models()}, nil
}

// banner is what the server prints when it can be asked.
var banner = regexp.MustCompile(`ready: (https?://[^\s()]+)`)

// Readiness: the socket opens when the engine is ready, so a refused connection is
// a model that loads.
func (Adapter) Readiness() target.Readiness {
	return target.Readiness{Address: banner, Path: "/health", Ready: func(a target.Answer) (bool, string) {
		var h health
		if err := json.Unmarshal(a.Body, &h); err != nil {
			return false, fmt.Sprintf("status %d: %v", a.Status, err)
		}
		if h.Status != "ok" || h.Loaded != nil && !*h.Loaded {
			return false, "the engine is not loaded"
		}
		return a.Status == 200, fmt.Sprintf("status %d", a.Status)
	}}
}

// Body is OpenAI's. Sampling that OpenAI has no names for goes by llama-server's.
func (Adapter) Body(a target.Ask, model string) map[string]any {
	body := target.ChatBody(a, model)
	target.Set(body, "top_k", a.TopK)
	target.Set(body, "min_p", a.MinP)
	target.Set(body, "repeat_penalty", a.RepeatPenalty)
	target.SetThinking(body, a)
	return body
}

var threadsLine = regexp.MustCompile(`(?m)^.*strata generate: (\d+) expert-pool workers( \+ the host thread)?.*$`)

// ReadThreads reads the line that names the workers.
func (Adapter) ReadThreads(log []byte) (target.Threads, error) {
	all := threadsLine.FindAllSubmatch(log, -1)
	if len(all) == 0 {
		return target.Threads{}, errors.New("no line \"strata generate: N expert-pool workers\" came")
	}
	g := target.Groups(all[len(all)-1])
	return target.Threads{Workers: g.Int(1), HostThread: new(g.Text(2) != ""), Line: strings.TrimSpace(g.Text(0))}, nil
}
