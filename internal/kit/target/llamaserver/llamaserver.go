// Package llamaserver is the adapter for llama.cpp's server. Its formats are
// shared by servers that took them over, ours among them.
package llamaserver

import (
	"regexp"
	"strconv"
	"strings"

	"assay/internal/kit/target"
)

// Adapter is for llama-server.
type Adapter struct{ target.Base }

// Name is "llama-server".
func (Adapter) Name() string { return "llama-server" }

// The names of some of its flags.
var (
	modelFlags   = []string{"-m", "--model"}
	fetchFlags   = []string{"-hf", "-hfr", "--hf-repo", "-mu", "--model-url", "-dr", "--docker-repo"}
	contextFlags = []string{"-c", "--ctx-size"}
)

// Facts: the end token is counted. The basis of the decode rate changed from n
// to n-1 in August 2026, so it is found from the numbers.
func (Adapter) Facts() target.Facts {
	return target.Facts{
		About:           "llama.cpp's server",
		EndTokenCounted: new(true),
		ExactLength:     true,
		Exactly:         "ignore_eos",
		CacheOff:        "--no-cache-prompt and --cache-ram 0 at the start; cache_prompt: false in each request",
		Counts:          []string{"usage", "timings", "log", "/metrics (with --metrics)"},
		ModelFlags:      modelFlags, FetchFlags: fetchFlags, ContextFlags: contextFlags,
		ListsFlags: true,
	}
}

// Recognise knows it by the owner of its model, by its metrics, and as a router
// by its role.
func (Adapter) Recognise(p *target.Probe) bool {
	var pr props
	return p.OwnedBy() == "llamacpp" || strings.Contains(p.Text("/metrics"), "\nllamacpp:") || p.Object("/props", &pr) == nil && pr.Role == "router"
}

// Command pins what else would follow from the machine: one slot, the context,
// no fitting to memory, and every cache of prompts off.
func (Adapter) Command(s target.Settings) (target.Command, error) {
	argv := Start(s, "llama-server")
	argv = s.Option(argv, "off", "-fit", "--fit")
	if !s.Has("--cache-prompt") {
		argv = s.Option(argv, "", "--no-cache-prompt")
	}
	argv = s.Option(argv, "0", "--cache-ram", "-cram")
	argv = s.Option(argv, "", "--metrics")
	return target.Command{Argv: append(argv, s.Args...)}, nil
}

// Start is the part of the command line that llama-server and what came from it
// have in common.
func Start(s target.Settings, program string) []string {
	argv := append([]string(nil), s.Program...)
	if len(argv) == 0 {
		argv = []string{program}
	}
	if s.Model != "" {
		argv = s.Flag(argv, s.Model, modelFlags...)
	}
	argv = s.Flag(argv, "127.0.0.1", "--host")
	argv = s.Flag(argv, strconv.Itoa(s.Port), "--port")
	argv = s.Flag(argv, "1", "-np", "--parallel")
	argv = s.Flag(argv, strconv.Itoa(s.Context), contextFlags...)
	if s.Threads != nil {
		argv = s.Flag(argv, strconv.Itoa(*s.Threads), "-t", "--threads")
		argv = s.Flag(argv, strconv.Itoa(*s.Threads), "-tb", "--threads-batch")
	}
	if s.GPULayers != nil {
		argv = s.Flag(argv, strconv.Itoa(*s.GPULayers), "-ngl", "--gpu-layers", "--n-gpu-layers")
	}
	return argv
}

// Refused is how it and what came from it say that they don't know a flag.
var Refused = regexp.MustCompile(`(?m)(?:error: (?:invalid|unknown) argument: |error while handling argument ")([^\s"]+)`)

// Readiness: /health answers 503 while the model loads. The log names the address.
func (Adapter) Readiness() target.Readiness {
	return target.Readiness{Address: target.ListeningOn, Path: "/health", Refused: Refused}
}

// Body turns the prompt cache off for the request, unless it is to be warm, and,
// where the length is to be exact, the end tokens.
func (Adapter) Body(a target.Ask, model string) map[string]any { return Body(a, model) }

// Body is the adapter's, for servers that take the same fields.
func Body(a target.Ask, model string) map[string]any {
	body := target.ChatBody(a, model)
	body["cache_prompt"] = a.WarmCache
	if a.IgnoreEOS {
		body["ignore_eos"] = true
	}
	target.Set(body, "top_k", a.TopK)
	target.Set(body, "min_p", a.MinP)
	target.Set(body, "repeat_penalty", a.RepeatPenalty)
	target.SetThinking(body, a)
	return body
}

// TokenizeForms is its own form.
func (Adapter) TokenizeForms() []target.TokenizeForm {
	return []target.TokenizeForm{target.LlamaForm}
}

// Template: /apply-template is its own.
func (Adapter) Template() bool { return true }

// InputTokens is its own, which older versions lack.
func (Adapter) InputTokens() string { return "/v1/chat/completions/input_tokens" }

// Meter is /metrics, which it has when started with --metrics.
func (Adapter) Meter() target.Meter { return target.MeterPrometheus }

// Metered reads its totals.
func (Adapter) Metered(before, after []byte) (target.Counters, error) {
	return target.MeteredBy(CounterNames(prefix, digits), before, after)
}

// The names of its totals begin with the prefix, and numbers are printed with so
// many significant digits.
const (
	prefix = "llamacpp:"
	digits = 6
)

// CounterNames are the names of its totals under a prefix.
func CounterNames(prefix string, digits int) target.CounterNames {
	return target.CounterNames{
		Prompt:           prefix + "prompt_tokens_total",
		Cached:           prefix + "prompt_tokens_cached_total",
		PromptSeconds:    prefix + "prompt_seconds_total",
		Predicted:        prefix + "tokens_predicted_total",
		PredictedSeconds: prefix + "tokens_predicted_seconds_total",
		Digits:           digits,
	}
}
