// Package llamaserver is the adapter for llama.cpp's server. Its formats are
// shared by servers that took them over, ours among them.
package llamaserver

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"assay/internal/kit/target"
)

// Adapter is for llama-server.
type Adapter struct{ target.Base }

// Name is "llama-server".
func (Adapter) Name() string { return "llama-server" }

// Facts: the end token is counted. The basis of the decode rate changed from n
// to n-1 in August 2026, so it is found from the numbers.
func (Adapter) Facts() target.Facts {
	return target.Facts{
		About:           "llama.cpp's server",
		EndTokenCounted: new(true),
		ExactLength:     true,
		Exactly:         "ignore_eos",
		CacheOff:        "--no-cache-prompt, --cache-ram 0 and the like at the start; cache_prompt: false in each request",
		Counts:          []string{"usage", "timings", "log", "/metrics (with --metrics)"},
	}
}

// Recognise knows it by the owner of its model and by its metrics.
func (Adapter) Recognise(p *target.Probe) bool {
	return p.OwnedBy() == "llamacpp" || strings.Contains(p.Text("/metrics"), "\nllamacpp:")
}

// Identify reads /props and /v1/models.
func (Adapter) Identify(p *target.Probe) target.Identity { return Identify(p, "llama-server") }

// Command pins what else would follow from the machine: one slot, the context,
// no fitting to memory, and every cache of prompts off.
func (Adapter) Command(s target.Settings) (target.Command, error) {
	program := s.Program
	if len(program) == 0 {
		program = []string{"llama-server"}
	}
	argv := append([]string(nil), program...)
	argv = s.Flag(argv, s.Model, "-m", "--model", "-hf", "--hf-repo")
	argv = s.Flag(argv, "127.0.0.1", "--host")
	argv = s.Flag(argv, strconv.Itoa(s.Port), "--port")
	argv = s.Flag(argv, "1", "-np", "--parallel")
	argv = s.Flag(argv, strconv.Itoa(s.Context), "-c", "--ctx-size")
	if s.Threads != nil {
		argv = s.Flag(argv, strconv.Itoa(*s.Threads), "-t", "--threads")
		argv = s.Flag(argv, strconv.Itoa(*s.Threads), "-tb", "--threads-batch")
	}
	if s.GPULayers != nil {
		argv = s.Flag(argv, strconv.Itoa(*s.GPULayers), "-ngl", "--gpu-layers", "--n-gpu-layers")
	}
	argv = s.Flag(argv, "off", "-fit", "--fit")
	argv = s.Flag(argv, "", "--no-cache-prompt", "--cache-prompt")
	argv = s.Flag(argv, "0", "--cache-ram", "-cram")
	argv = s.Flag(argv, "", "--metrics")
	return target.Command{Argv: append(argv, s.Args...)}, nil
}

// Readiness: /health answers 503 while the model loads. The log names the address.
func (Adapter) Readiness() target.Readiness {
	return target.Readiness{Address: target.ListeningOn, Path: "/health"}
}

// Body turns the prompt cache off for the request and, where the length is to be
// exact, the end tokens.
func (Adapter) Body(a target.Ask, model string) map[string]any { return Body(a, model) }

// Body is the adapter's, for servers that take the same fields.
func Body(a target.Ask, model string) map[string]any {
	body := target.ChatBody(a, model)
	body["cache_prompt"] = false
	if a.IgnoreEOS {
		body["ignore_eos"] = true
	}
	return body
}

// TokenizeForms is its own form.
func (Adapter) TokenizeForms() []target.TokenizeForm {
	return []target.TokenizeForm{target.LlamaForm}
}

// Template: /apply-template is its own.
func (Adapter) Template() bool { return true }

// Meter is /metrics, which it has when started with --metrics.
func (Adapter) Meter() target.Meter { return target.MeterPrometheus }

// Metered reads its totals.
func (Adapter) Metered(before, after []byte) (target.Counters, error) {
	return target.MeteredBy(CounterNames("llamacpp:"), before, after)
}

// CounterNames are the names of its totals under a prefix.
func CounterNames(prefix string) target.CounterNames {
	return target.CounterNames{
		Prompt:           prefix + "prompt_tokens_total",
		Cached:           prefix + "prompt_tokens_cached_total",
		PromptSeconds:    prefix + "prompt_seconds_total",
		Predicted:        prefix + "tokens_predicted_total",
		PredictedSeconds: prefix + "tokens_predicted_seconds_total",
	}
}

// Identify reads /props and /v1/models of a server that has them in llama-server's
// form.
func Identify(p *target.Probe, engine string) target.Identity {
	id := target.Identity{Engine: engine, Why: map[string]string{}}
	var m models
	if err := p.Object("/v1/models", &m); err == nil && len(m.Data) > 0 {
		id.Model = m.Data[0].ID
		if meta := m.Data[0].Meta; meta != nil {
			id.Format = target.NonEmpty(meta.Ftype)
			id.Context = target.Positive(meta.NCtx)
		}
	}
	var pr props
	if err := p.Object("/props", &pr); err != nil {
		id.Why["version"], id.Why["commit"], id.Why["slots"] = err.Error(), err.Error(), err.Error()
	} else {
		id.Slots = target.Positive(pr.TotalSlots)
		if f := target.NonEmpty(pr.ModelFtype); f != nil {
			id.Format = f
		}
		if c := target.Positive(pr.Defaults.NCtx); c != nil {
			id.Context = c
		}
		id.Version = target.NonEmpty(pr.BuildInfo)
		var err error
		if id.Commit, err = commitOf(pr.BuildInfo); err != nil {
			id.Why["commit"] = err.Error()
		}
	}
	for name, missing := range map[string]bool{"version": id.Version == nil, "slots": id.Slots == nil, "format": id.Format == nil, "context": id.Context == nil} {
		if missing && id.Why[name] == "" {
			id.Why[name] = "neither /props nor /v1/models says it"
		}
	}
	return id
}

// build is what /props calls build_info: a number and a commit. A checkout
// without history counts one commit, whose hash is its own and not upstream's.
var build = regexp.MustCompile(`(?:^|[^0-9a-z])b(\d+)-([0-9a-f]{7,40})$`)

func commitOf(info string) (*string, error) {
	m := build.FindStringSubmatch(info)
	switch {
	case info == "":
		return nil, errors.New("/props has no build_info")
	case m == nil:
		return nil, fmt.Errorf("build_info %q does not end in b<number>-<commit>", info)
	case m[1] == "0" || m[1] == "1":
		return nil, fmt.Errorf("build_info %q: built from a checkout without history, so the hash may not be upstream's", info)
	}
	return &m[2], nil
}

// The lines of one request, in any of the log's forms: the names and units have
// stayed, prefixes and spacing have not.
var (
	llamaPrompt = regexp.MustCompile(`prompt eval time =\s*` + target.Decimal + ` ms /\s*(\d+) tokens \(\s*` + target.Decimal + ` ms per token,\s*` + target.Decimal + ` tokens per second\)`)
	llamaEval   = regexp.MustCompile(`(?m)(?:^ *|[^t ] +)(eval time =\s*` + target.Decimal + ` ms /\s*(\d+) (?:tokens|runs) +\(\s*` + target.Decimal + ` ms per token,\s*` + target.Decimal + ` tokens per second\))`)
	llamaDraft  = regexp.MustCompile(`draft acceptance(?: rate)? =\s*` + target.Decimal + ` \(\s*(\d+) accepted /\s*(\d+) generated\)`)
)

// ReadLog reads the lines of one request.
func (Adapter) ReadLog(segment []byte) (target.LogRecord, error) { return ReadLog(segment) }

// ReadLog is the adapter's, for what else logs in the same form.
func ReadLog(segment []byte) (target.LogRecord, error) {
	prompt := llamaPrompt.FindAllSubmatch(segment, -1)
	if err := target.OnlyOne(len(prompt), "prompt eval time"); err != nil {
		return target.LogRecord{}, err
	}
	eval := llamaEval.FindAllSubmatch(segment, -1)
	if err := target.OnlyOne(len(eval), "eval time"); err != nil {
		return target.LogRecord{}, err
	}
	p, e := target.Groups(prompt[0]), target.Groups(eval[0])
	rec := target.LogRecord{
		Line:       p.Text(0) + " | " + e.Text(1),
		PromptMS:   p.Float(1),
		PromptN:    p.Int(2),
		PromptRate: p.Float(4),
		DecodeMS:   e.Float(2),
		Generated:  e.Int(3),
		DecodeRate: e.Float(5),
	}
	if d := llamaDraft.FindSubmatch(segment); d != nil {
		g := target.Groups(d)
		rec.DraftAccepted, rec.DraftN = g.Int(2), g.Int(3)
		rec.Line += " | " + g.Text(0)
	}
	return rec, nil
}

var llamaThreads = regexp.MustCompile(`(?m)^.*n_threads = (\d+).*$`)

// ReadThreads reads n_threads.
func (Adapter) ReadThreads(log []byte) (target.Threads, error) {
	m := llamaThreads.FindSubmatch(log)
	if m == nil {
		return target.Threads{}, errors.New("no n_threads in the log")
	}
	// The thread that calls is one of them.
	g := target.Groups(m)
	t := target.Threads{HostThread: new(true), Line: strings.TrimSpace(g.Text(0))}
	if n := g.Int(1); n != nil && *n > 0 {
		t.Workers = new(*n - 1)
	}
	return t, nil
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
