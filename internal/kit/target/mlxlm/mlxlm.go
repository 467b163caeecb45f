// Package mlxlm is the adapter for mlx_lm.server, the server of MLX's language
// models on Apple's machines.
package mlxlm

import (
	"errors"
	"regexp"
	"strconv"
	"time"

	"assay/internal/kit/target"
)

// Adapter is for mlx_lm.server.
type Adapter struct{ target.Base }

// Name is "mlx-lm".
func (Adapter) Name() string { return "mlx-lm" }

// Facts: it counts the end token, and tells no times.
func (Adapter) Facts() target.Facts {
	return target.Facts{
		About:           "mlx_lm.server, MLX's server (it can't be told from others: name it with --target)",
		EndTokenCounted: new(true),
		Exactly:         "no switch: a run may end before the tokens that were asked for",
		CacheOff:        "no switch for a request: the nonce at the start of the prompt keeps prefixes apart, and usage tells cached tokens",
		Counts:          []string{"usage"},
	}
}

// Identify knows no more than the model's name: the version is in the stream.
func (Adapter) Identify(p *target.Probe) target.Identity {
	id := target.Identity{Engine: "mlx-lm", Model: p.FirstModel(), Why: map[string]string{}}
	for _, name := range []string{"version", "commit", "format", "context", "slots"} {
		id.Why[name] = "no endpoint says it; the version stands in the row's mlx_lm block"
	}
	return id
}

// Command pins one sequence at a time.
func (Adapter) Command(s target.Settings) (target.Command, error) {
	program := s.Program
	if len(program) == 0 {
		program = []string{"mlx_lm.server"}
	}
	if s.Threads != nil || s.GPULayers != nil {
		return target.Command{}, errors.New("mlx_lm.server has no settings for threads or for layers on the GPU")
	}
	argv := append([]string(nil), program...)
	argv = s.Flag(argv, s.Model, "--model")
	argv = s.Flag(argv, "127.0.0.1", "--host")
	argv = s.Flag(argv, strconv.Itoa(s.Port), "--port")
	argv = s.Flag(argv, "1", "--decode-concurrency")
	argv = s.Flag(argv, "1", "--prompt-concurrency")
	return target.Command{Argv: append(argv, s.Args...)}, nil
}

// Readiness: /health is good before the model is loaded, so one token is asked for.
func (Adapter) Readiness() target.Readiness {
	return target.Readiness{
		Path: target.ChatPath, Method: "POST",
		Body:  `{"messages":[{"role":"user","content":"Hello"}],"max_tokens":1}`,
		Limit: 10 * time.Minute,
	}
}

// Body has the server's own names for what OpenAI's API lacks.
func (Adapter) Body(a target.Ask, model string) map[string]any {
	body := target.ChatBody(a, model)
	target.Set(body, "top_k", a.TopK)
	target.Set(body, "min_p", a.MinP)
	target.Set(body, "repetition_penalty", a.RepeatPenalty)
	target.SetThinking(body, a)
	return body
}

// Fields are mlx-lm's own part of a row, from the fingerprint of its frames.
type Fields struct {
	Fingerprint *string `json:"fingerprint"` // mlx_lm version - mlx version - platform - GPU
	Version     *string `json:"version"`     // of mlx_lm
	MLX         *string `json:"mlx"`         // version of MLX
}

var fingerprint = regexp.MustCompile(`^(\d+\.\d+[^-]*)-(\d+\.\d+[^-]*)-`)

// Block is from the fingerprint.
func (Adapter) Block(a *target.Account) *target.Block {
	f := &Fields{Fingerprint: target.NonEmpty(a.Stream.Fingerprint)}
	b := &target.Block{Name: "mlx_lm", Fields: f, Why: map[string]string{"fingerprint": "no frame has one", "version": "not in the fingerprint", "mlx": "not in the fingerprint"}}
	if m := fingerprint.FindStringSubmatch(a.Stream.Fingerprint); m != nil {
		f.Version, f.MLX = &m[1], &m[2]
	}
	return b
}
