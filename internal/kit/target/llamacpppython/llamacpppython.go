// Package llamacpppython is the adapter for the server of the llama-cpp-python
// package. Its streams hold no usage; what it counts is only in its log, which it
// writes unless started with --verbose false.
package llamacpppython

import (
	"encoding/json"
	"strconv"
	"strings"

	"assay/internal/kit/target"
	"assay/internal/kit/target/llamaserver"
	"assay/internal/kit/target/openai"
)

// Adapter is for llama_cpp.server.
type Adapter struct{ target.Base }

// Name is "llama-cpp-python".
func (Adapter) Name() string { return "llama-cpp-python" }

// Facts: the end token has no say in the log, which counts passes.
func (Adapter) Facts() target.Facts {
	return target.Facts{
		About:       "the server of the Python package llama-cpp-python",
		DecodeBasis: "n-1",
		ExactLength: true,
		Exactly:     "min_tokens bars the end token (the one, of a model that has several); it ignores ignore_eos",
		CacheOff:    "--cache is off unless asked for, but the last prompt stays in the context: the nonce at the start keeps prefixes apart",
		ModelFlags:  []string{"--model"}, FetchFlags: []string{"--hf_model_repo_id", "--config_file"}, ContextFlags: []string{"--n_ctx"},
		Counts: []string{"log (passes of one token, one less than tokens)", "the text, tokenised by the server"},
	}
}

// Recognise reads the title of its OpenAPI document.
func (Adapter) Recognise(p *target.Probe) bool {
	var doc struct {
		Info struct {
			Title string `json:"title"`
		} `json:"info"`
	}
	return json.Unmarshal([]byte(p.Text("/openapi.json")), &doc) == nil && strings.Contains(doc.Info.Title, "llama.cpp Python API")
}

// Identify reads the package's version from its OpenAPI document.
func (Adapter) Identify(p *target.Probe) target.Identity {
	id := openai.Adapter{}.Identify(p)
	id.Engine = "llama-cpp-python"
	var doc struct {
		Info struct {
			Version string `json:"version"`
		} `json:"info"`
	}
	if p.Object("/openapi.json", &doc) == nil && doc.Info.Version != "" {
		id.Version = &doc.Info.Version
		delete(id.Why, "version")
	}
	id.Why["commit"] = "the server names the version of its package, not of the llama.cpp within"
	return id
}

// Command is python3 -m llama_cpp.server. A program of one word is another python,
// such as that of a virtual environment.
func (Adapter) Command(s target.Settings) (target.Command, error) {
	argv := append([]string(nil), s.Program...)
	if len(argv) == 0 {
		argv = []string{"python3"}
	}
	if len(argv) == 1 {
		argv = append(argv, "-m", "llama_cpp.server")
	}
	if s.Model != "" {
		argv = s.Flag(argv, s.Model, "--model")
	}
	argv = s.Flag(argv, "127.0.0.1", "--host")
	argv = s.Flag(argv, strconv.Itoa(s.Port), "--port")
	argv = s.Flag(argv, strconv.Itoa(s.Context), "--n_ctx")
	if s.Threads != nil {
		argv = s.Flag(argv, strconv.Itoa(*s.Threads), "--n_threads")
		argv = s.Flag(argv, strconv.Itoa(*s.Threads), "--n_threads_batch")
	}
	if s.GPULayers != nil {
		argv = s.Flag(argv, strconv.Itoa(*s.GPULayers), "--n_gpu_layers")
	}
	return target.Command{Argv: append(argv, s.Args...)}, nil
}

// Readiness: the server opens its port when the model is loaded, and has no
// /health.
func (Adapter) Readiness() target.Readiness { return target.Readiness{Path: "/v1/models"} }

// Body bars the end token by the server's own name for it.
func (Adapter) Body(a target.Ask, model string) map[string]any {
	body := target.ChatBody(a, model)
	if a.IgnoreEOS {
		body["min_tokens"] = a.MaxTokens
	}
	target.Set(body, "top_k", a.TopK)
	target.Set(body, "min_p", a.MinP)
	target.Set(body, "repeat_penalty", a.RepeatPenalty)
	return body
}

// TokenizeForms is its own form.
func (Adapter) TokenizeForms() []target.TokenizeForm {
	return []target.TokenizeForm{target.PythonForm}
}

// ReadLog reads the lines that llama.cpp's library prints. It counts the passes
// of one token each; the first token came from the pass over the prompt.
func (Adapter) ReadLog(segment []byte) (target.LogRecord, error) {
	rec, err := llamaserver.ReadLog(segment)
	if err == nil {
		rec.Offset, rec.OffsetWhy = 1, "the log counts passes of one token (runs); the first token came from the prompt's"
	}
	return rec, err
}
