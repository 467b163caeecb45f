// Package ik is the adapter for the server of ik_llama.cpp, which came from
// llama.cpp and went its own way: it tells no build over HTTP, ends every stream
// with finish_reason "stop", and answers nothing while it loads.
package ik

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"assay/internal/kit/target"
	"assay/internal/kit/target/llamaserver"
)

// Adapter is for ik_llama.cpp's llama-server.
type Adapter struct{ target.Base }

// Name is "ik_llama.cpp".
func (Adapter) Name() string { return name }

const name = "ik_llama.cpp"

// Facts: the end token is counted, and the rate is of all tokens over the time
// since the first.
func (Adapter) Facts() target.Facts {
	f := llamaserver.Adapter{}.Facts()
	f.About = "ik_llama.cpp's server, which came from llama.cpp's"
	f.DecodeBasis, f.StopAtLimit = "n", true
	f.CacheOff = "--cache-ram 0 and --ctx-checkpoints 0 at the start; cache_prompt: false in each request"
	return f
}

// Recognise knows it by /version, which is a number of its API with a list of
// features, and by what /health says beside the status.
func (Adapter) Recognise(p *target.Probe) bool {
	var v struct {
		Version  *float64        `json:"version"`
		Features json.RawMessage `json:"features"`
	}
	if p.Object("/version", &v) == nil && v.Version != nil && len(v.Features) > 0 {
		return true
	}
	var h struct {
		Idle *int `json:"slots_idle"`
		Busy *int `json:"slots_processing"`
	}
	return p.Object("/health", &h) == nil && h.Idle != nil && h.Busy != nil
}

// Identify reads /props and /v1/models, and the build from what the program or its
// log says: /version is no version of the program.
func (Adapter) Identify(p *target.Probe) target.Identity {
	id := llamaserver.Identify(p, name)
	id.Version, id.Commit = nil, nil
	for _, text := range []string{p.Version, string(llamaserver.Text(p.Log))} {
		if m := build.FindStringSubmatch(text); m != nil {
			id.Version, id.Commit = new("b"+m[1]+"-"+m[2]), new(m[2])
			delete(id.Why, "version")
			delete(id.Why, "commit")
			return id
		}
	}
	why := "it tells no build over HTTP, and its start was not seen"
	if p.Log != nil {
		why = "it tells no build over HTTP, and neither --version nor its log says one"
	}
	id.Why["version"], id.Why["commit"] = why, why
	return id
}

// build is how --version and the log name the build: "version: 4123 (b8b6ed92)",
// "build: 4123 (b8b6ed92)", "build=4123 commit="b8b6ed92"".
var build = regexp.MustCompile(`(?:version: |build: |build=)(\d+) (?:\(|commit=")([0-9a-f]{7,40})\b`)

// Command pins slots and context, and turns the caches of prompts off. There is no
// flag against reuse within the slot: the requests turn that off.
func (Adapter) Command(s target.Settings) (target.Command, error) {
	argv := llamaserver.Start(s, "llama-server")
	argv = s.Option(argv, "0", "--cache-ram", "-cram")
	argv = s.Option(argv, "0", "--ctx-checkpoints", "-ctxcp")
	argv = s.Option(argv, "", "--metrics")
	return target.Command{Argv: append(argv, s.Args...)}, nil
}

// Readiness: while the model loads, the port takes connections and says nothing.
func (Adapter) Readiness() target.Readiness {
	return target.Readiness{
		Address: regexp.MustCompile(`(?:listening on (https?://[^\s"\\]+))`),
		Path:    "/health", Limit: time.Second, Refused: llamaserver.Refused, Ready: ready,
	}
}

// ready: a server without a free slot is ready too.
func ready(a target.Answer) (bool, string) {
	var h struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal(a.Body, &h); err != nil {
		return false, fmt.Sprintf("status %d, and no JSON: %v", a.Status, err)
	}
	switch h.Status {
	case "ok", "no slot available":
		return true, ""
	}
	return false, fmt.Sprintf("status %d: %q", a.Status, strings.ToValidUTF8(h.Status, "?"))
}

// Body is llama-server's.
func (Adapter) Body(a target.Ask, model string) map[string]any { return llamaserver.Body(a, model) }

// TokenizeForms is llama-server's form.
func (Adapter) TokenizeForms() []target.TokenizeForm {
	return []target.TokenizeForm{target.LlamaForm}
}

// Template: /apply-template is llama-server's.
func (Adapter) Template() bool { return true }

// Meter is /metrics, which it has when started with --metrics.
func (Adapter) Meter() target.Meter { return target.MeterPrometheus }

// form: times are cut to whole milliseconds.
var form = llamaserver.Form{Prefix: "llamacpp:", Digits: 6, SecondsMS: 1}

// Metered reads its totals. It has none of cached tokens.
func (Adapter) Metered(before, after []byte) (target.Counters, error) {
	return target.MeteredBy(llamaserver.CounterNames(form.Prefix, form.Digits), before, after)
}

// ReadLog reads the lines of one request, which begin at the left edge.
func (Adapter) ReadLog(segment []byte) (target.LogRecord, error) { return llamaserver.ReadLog(segment) }

// ReadThreads reads n_threads.
func (Adapter) ReadThreads(log []byte) (target.Threads, error) {
	return llamaserver.ReadThreads(log)
}
